"""Runs of the example, and what is in the files that they write."""

import json
import re

import compare_sentences
import numpy as np
import pytest

from tests.examples.scripts import EXAMPLES, python

SCRIPT = EXAMPLES / "compare_sentences.py"


@pytest.mark.slow
def test_learns_which_words_mean_the_same(tmp_path):
    output = python(tmp_path, SCRIPT, "--out", tmp_path).stdout
    accuracy, count = re.search(
        r"^accuracy: ([\d.]+) of (\d+) pairs", output, re.MULTILINE
    ).groups()
    assert float(accuracy) > 0.98 and count == "1000"  # chance is 0.5
    difference = re.search(r"compare.onnx. Compared with Keras: largest difference (\S+)\.", output)
    assert float(difference[1]) <= 1e-5
    _, _, data = (tmp_path / "attention.html").read_text().partition('id="examples">')
    examples = json.loads(data.partition("</script>")[0])
    assert len(examples) == 8
    for example in examples:
        ((_, weights),) = example["weights"]
        assert example["source"][0] == example["target"][0] == "(none)"
        assert np.shape(weights) == (len(example["target"]), len(example["source"]))
        np.testing.assert_allclose(np.sum(weights, axis=1), 1, atol=1e-2)


def test_a_wrong_translation_is_that_of_a_similar_sentence(tmp_path):
    rows = [
        (f"dog {number % 50} {number}", f"Hund {number % 50} {number}") for number in range(900)
    ]
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows) + "\n")
    splits = compare_sentences.read(tmp_path / "pairs.tsv", tmp_path / "data")
    for firsts, seconds, labels in splits:
        half = len(firsts) // 2
        assert firsts[:half] == firsts[half:] and labels.tolist() == [1] * half + [0] * half
        translations = dict(rows)
        for first, second, label in zip(firsts, seconds, labels, strict=True):
            assert (translations[first] == second) == label
    assert not set(splits[0][0]) & set(splits[1][0])
    shared = [a.split()[1] == b.split()[1] for a, b in zip(*splits[0][:2], strict=True)]
    assert np.mean(shared) > 0.9  # of 200 random sentences, four have the same number


@pytest.mark.parametrize("text", ["one\n", "", "a\tb\n" * 50])
def test_wrong_files_are_one_line(tmp_path, text):
    (tmp_path / "pairs.tsv").write_text(text)
    with pytest.raises(SystemExit, match="^Expected .*Received: .*"):
        compare_sentences.read(tmp_path / "pairs.tsv", tmp_path / "data")
