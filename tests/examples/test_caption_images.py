"""A short run of the example, and its exported file in the runtime."""

import json
from types import SimpleNamespace

import caption_images
import numpy as np
import pytest
import scene_captions
import scenes
from caption_data import describe_scenes

from tests.examples.scripts import EXAMPLES, python

pytest.importorskip("onnxruntime")


class Speaker:
    """A translator that returns given texts."""

    def __init__(self, **texts):
        self.texts = texts

    def generate(self, inputs, target_prefix):
        texts = self.texts[target_prefix[:2]]
        assert len(inputs["image"]) == len(texts)
        return [SimpleNamespace(text=f"{target_prefix} {text}") for text in texts]


def test_evaluation_counts_true_and_exact_captions():
    several = scenes.generate(4, seed=5)
    english, german = describe_scenes(several).captions.values()
    reference = english[0].split(" is ")[0]
    speaker = Speaker(en=[*english[:3], f"{reference} is"], de=[german[1], *german[1:]])
    assert caption_images.evaluate(speaker, describe_scenes(several), several) == {
        "en": {"exact": 0.75, "true": 0.75},
        "de": {"exact": 0.75, "true": 0.75},
    }
    assert caption_images.evaluate(speaker, describe_scenes(several)) == {
        "en": {"exact": 0.75},
        "de": {"exact": 0.75},
    }


@pytest.mark.parametrize(
    "options, message",
    [
        (["--side", "96"], "of the images of --data"),
        (["--side", "50"], "multiple of 8. Received: 50"),
    ],
)
def test_wrong_side_stops_the_example(monkeypatch, capsys, options, message):
    monkeypatch.setattr("sys.argv", ["caption_images.py", *options])
    with pytest.raises(SystemExit):
        caption_images.parse_arguments()
    assert message in capsys.readouterr().err


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Folder of a run of one epoch on files."""
    pytest.importorskip("PIL")
    folder = tmp_path_factory.mktemp("captions")
    for split, count in (("train", 40), ("test", 3)):
        scene_captions.write_files(folder / split, scenes.generate(count, 1, split))
    options = ("--epochs", 1, "--batch-size", 20, "--data", folder, "--run-dir", folder / "run")
    python(folder, EXAMPLES / "caption_images.py", *options)
    return folder


@pytest.mark.slow
def test_run_directory_contains_a_model_that_the_runtime_runs(run, capfd):
    from keras_attn_runtime._commands.main import main

    from keras_attn.training import RunDirectory

    report = json.loads((run / "run/results.json").read_text())
    assert list(report["captions"]) == ["de", "en"] and report["parity"]["best_equal"] == 1
    directory = RunDirectory(run / "run")
    model, tokenizer = directory.load_model("generation"), directory.target_tokenizer
    images = describe_scenes(scenes.generate(3, 1, "test")).images.astype("float32")
    prefix = np.array(tokenizer.encode(["de:"] * 3), "int32")
    results = model.search(**model.encoder(images), prefix_ids=prefix)
    ids, lengths = np.array(results["token_ids"])[:, 0], np.array(results["lengths"])[:, 0]
    expected = tokenizer.decode(
        [row[:length].tolist() for row, length in zip(ids, lengths, strict=True)]
    )
    arguments = ["--images", str(run / "test/images"), "--target-prefix", "de:"]
    assert main(["translate", str(run / "run/captions.onnx"), *arguments]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines == [f"{number:04}.png\t{text}" for number, text in enumerate(expected)]
    assert (run / "run/attention-de.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("encoder", "decoder"), [("cnn", "rnn"), ("patches", "rnn"), ("cnn", "transformer")]
)
def test_models_attend_to_the_same_grid(encoder, decoder):
    import keras

    args = SimpleNamespace(encoder=encoder, decoder=decoder)
    image = keras.Input((16, 24, 3), name="image")
    model, decoder = caption_images.make_model(args, image, 20)
    outputs = model(np.zeros((2, 16, 24, 3), "float32"))
    assert tuple(outputs["encoder_outputs"].shape) == (2, 6, 96)
    _, weights = decoder(np.array([[1, 5], [1, 6]]), **outputs, return_attention_scores=True)
    assert np.shape(weights)[0] == 2 and np.shape(weights)[-1] == 6
