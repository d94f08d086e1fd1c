"""Runs of the tagging example, with generated dates and with files of words and tags."""

import json
import random

import numpy as np
import pytest

from tests.examples.scripts import EXAMPLES, predict, python

pytestmark = pytest.mark.slow
SCRIPT = EXAMPLES / "tag_dates.py"
KINDS = {"D": ["the", "a", "no"], "N": ["dog", "cat", "man", "house"], "V": ["sees", "hears"]}


def write_sentences(folder, split, count, kinds="DNVDN"):
    rng = random.Random(split)
    words = [[rng.choice(KINDS[kind]) for kind in kinds] for _ in range(count)]
    (folder / f"{split}.words").write_text("".join(f"{' '.join(line)}\n" for line in words))
    (folder / f"{split}.tags").write_text(f"{' '.join(kinds)}\n" * count)


def test_tag_dates_learns_and_its_onnx_file_equals_the_saved_model(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    few = SCRIPT.read_text("utf-8").replace(
        "TRAIN, TEST, EPOCHS = 6000, 2000, 8", "TRAIN, TEST, EPOCHS = 1500, 2000, 4"
    )
    (tmp_path / "few_dates.py").write_text(few, "utf-8")
    output = python(tmp_path, "few_dates.py", "--out", "out").stdout
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["accuracy"] > 0.95 and results["sequences"] == 2000
    text, tags = output.splitlines()[-3:-1]
    assert len(text) == len(tags) and set(tags) <= set("DMOWY")
    names = json.loads((tmp_path / "out" / "words.json").read_text("utf-8"))
    ids = np.array([[names.index(letter) for letter in text]], "int32")
    session = onnxruntime.InferenceSession(tmp_path / "out" / "tagger.onnx")
    for padding in (0, 3):
        padded = np.pad(ids, ((0, 0), (0, padding)))
        (logits,) = session.run(None, {"ids": padded})
        saved = predict(tmp_path / "out" / "model.keras", padded)["tags"]
        np.testing.assert_allclose(logits[:, : len(text)], saved[:, : len(text)], atol=1e-4)
        tag_names = json.loads((tmp_path / "out" / "tags.json").read_text())
        assert "".join(tag_names[i] for i in logits[0, : len(text)].argmax(-1)) == tags


def test_tag_dates_tags_words_of_files(tmp_path):
    write_sentences(tmp_path, "train", 300)
    write_sentences(tmp_path, "test", 20)
    for side in ("words", "tags"):  # blank lines are left out
        (tmp_path / f"test.{side}").write_text((tmp_path / f"test.{side}").read_text() + "\n \n")
    output = python(tmp_path, SCRIPT, "--data", ".", "--out", "out").stdout
    assert output.splitlines()[-2] == "D N V D N"
    assert json.loads((tmp_path / "out" / "results.json").read_text())["sequences"] == 20


def test_tag_dates_refuses_lines_with_missing_tags(tmp_path):
    write_sentences(tmp_path, "train", 3)
    (tmp_path / "train.tags").write_text("D N V D N\nD N V\nD N V D N\n")
    error = python(tmp_path, SCRIPT, "--data", ".", status=1).stderr
    assert error.splitlines()[-1].startswith(
        "Expected a tag for each word. Received: 5 words and 3 tags in line 2"
    )
