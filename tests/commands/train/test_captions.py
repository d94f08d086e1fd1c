"""The program that trains captioning models: refused data, settings by the data, and whole runs."""

import json

import numpy as np
import pytest

pytest.importorskip("sentencepiece")
pytest.importorskip("tensorflow")

from keras_attn.training import RunDirectory
from keras_attn_commands.main import main
from keras_attn_commands.train import captions, scene_captions, scenes
from keras_attn_commands.train.captions_settings import CaptionSettings
from keras_attn_commands.train.settings import fill_settings

Image = pytest.importorskip("PIL.Image")
SMALL = "--size 48 --features 16 --units 16 --epochs 1 --batch-size 20".split()


def train(*arguments):
    return main(["train", "captions", *map(str, arguments)])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for split, count in (("train", 40), ("test", 3)):
        scene_captions.write_files(folder / split, scenes.generate(count, 1, split))
    return folder


@pytest.fixture
def small(tmp_path):
    """Directory of four tiny images with captions."""
    folder = tmp_path / "data" / "train"
    (folder / "images").mkdir(parents=True)
    for number in range(4):
        image = Image.fromarray(np.full((8, 8, 3), 60 * number, "uint8"))
        image.save(folder / "images" / f"{number}.png")
    (folder / "captions.en").write_text("black\ngray\nlight gray\nwhite\n")
    return tmp_path / "data"


@pytest.mark.slow
def test_a_training_writes_a_run_that_the_runtime_runs(data, tmp_path, capfd):
    runtime = pytest.importorskip("keras_attn_runtime._commands.main")
    run, file = tmp_path / "run", tmp_path / "captions.onnx"
    assert train("--data", data, "--run-dir", run, "--dry-run", *SMALL) == 0
    assert "Nothing was trained." in capfd.readouterr().out.splitlines()[-1]
    assert not (run / "model.keras").exists()
    assert train("--data", data, "--run-dir", run, *SMALL) == 0
    output = capfd.readouterr().out
    assert "train: captions of 38 images (de 38, en 38)" in output
    assert f"Wrote {run / 'attention-de.png'}\n" in output
    assert f"  keras-attn export onnx {run} captions.onnx --accept-target-prefix\n" in output
    report = json.loads((run / "results.json").read_text())
    assert list(report["captions"]) == ["de", "en"] and report["arguments"]["units"] == 16
    assert report["captions"]["en"]["sentences"] == 3
    model = RunDirectory(run).load_model("generation")
    images = np.stack([scenes.draw(scene) for scene in scenes.generate(3, 1, "test")])
    tokenizer = RunDirectory(run).target_tokenizer
    images = images.astype("float32")
    expected = model.generate(images, None, tokenizer, target_prefix="de:")
    assert main(["export", "onnx", str(run), str(file), "--accept-target-prefix"]) == 0
    arguments = ["--images", str(data / "test" / "images"), "--target-prefix", "de:"]
    capfd.readouterr()
    assert runtime.main(["translate", str(file), *arguments]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines == [f"{number:04}.png\t{text}" for number, text in enumerate(expected)]
    model = (run / "model.keras").read_bytes()
    assert train("--data", data, "--run-dir", run, *SMALL) == 0
    assert "epoch 1 of 1" not in capfd.readouterr().out
    assert train("--data", data, "--run-dir", run, *SMALL, "--units", 8) == 1
    assert "units = 16 (now 8)" in capfd.readouterr().err
    assert (run / "model.keras").read_bytes() == model


@pytest.mark.parametrize(
    ("encoder", "decoder"), [("cnn", "rnn"), ("patches", "rnn"), ("cnn", "transformer")]
)
def test_models_attend_to_the_grid(encoder, decoder):
    settings = CaptionSettings(size=16, halvings=2, features=8, units=8, layers=1, heads=2)
    settings.encoder, settings.decoder = encoder, decoder
    settings.dropout, settings.coverage = 0.1, 0.1
    model, decoder = captions.make_model(settings, 20)
    outputs = model(np.zeros((2, 16, 16, 3), "float32"))
    assert tuple(outputs["encoder_outputs"].shape) == (2, 16, 8)
    _, weights = decoder(np.array([[1, 5], [1, 6]]), **outputs, return_attention_scores=True)
    assert np.shape(weights)[0] == 2 and np.shape(weights)[-1] == 16


def damage(folder, name):
    if name == "image":
        (folder / "images" / "2.png").write_bytes(b"\x89PNG")
    elif name == "16 bit":
        gray = np.arange(64, dtype="uint16").reshape(8, 8)
        Image.fromarray(gray).save(folder / "images" / "2.png")
    elif name == "missing image":
        (folder / "images" / "2.png").unlink()
    elif name == "latin":
        (folder / "captions.en").write_bytes(b"\xe9\nb\nc\nd\n")
    elif name == "empty":
        (folder / "captions.en").write_text("")
    elif name == "no captions":
        (folder / "captions.en").unlink()


@pytest.mark.parametrize(
    "damaged, options, message",
    [
        ("image", (), "Expected a complete image with 8 bits per channel. Received: "),
        ("16 bit", (), "2.png' (mode 'I;16', with more than 8 bits"),
        ("missing image", (), "for each of the 3 images"),
        ("latin", (), "Expected text in UTF-8. Received: "),
        ("empty", (), "Received: 0 lines in "),
        ("no captions", (), "Received: 4 images, 0 files of captions"),
        ("", ("--size", 50, "--halvings", 2), "multiple of 4. Received: --size 50, --halvings 2."),
        ("", ("--heads", 5), "Received: --features 16, --heads 5."),
    ],
    ids=range(8),
)
def test_an_earlier_run_is_kept_if_the_data_are_refused(
    small, tmp_path, damaged, options, message, capsys
):
    run = tmp_path / "run"
    run.mkdir()
    for name in ("model.keras", "settings.toml"):
        (run / name).touch()
    damage(small / "train", damaged)
    arguments = ["--data", small, "--run-dir", run, *SMALL, "--vocabulary-size", 30, *options]
    assert train(*arguments, "--overwrite") == 1
    error = [line for line in capsys.readouterr().err.splitlines() if "Warning" not in line]
    assert len(error) == 1 and message in error[0]
    assert sorted(path.name for path in run.iterdir()) == ["model.keras", "settings.toml"]


def test_what_is_left_out_is_printed(small, capsys):
    (small / "train" / "captions.en").write_text("black \n\nlight gray\nwhite\n")
    (small / "train" / "captions.en~").write_text("old\n")
    (small / "test" / "images").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(small / "test" / "images" / "0.png")
    (small / "test" / "captions.de").write_text("schwarz\n")
    warnings = []
    splits = captions.read_splits(CaptionSettings(data=small), warnings.append)
    assert "1 captions in" in warnings[0] and "captions.en~" in warnings[1]
    assert warnings[2].startswith("de, en: a language only of train or only of test")
    assert splits["train"].captions == {"en": ["black", "", "light gray"]}
    assert splits["valid"].captions == {"en": ["white"]}
    assert splits["valid"].paths[0].name == "3.png"
    assert "test: captions of 1 images (de 1)" in capsys.readouterr().out


@pytest.mark.parametrize("count", [3, 6000, 600_000])
@pytest.mark.parametrize("size, halvings", [(48, 3), (96, 4), (224, 5), (8, 1)])
def test_every_setting_is_chosen(count, size, halvings):
    settings = CaptionSettings(data="x", size=size)
    fill_settings(settings, captions.defaults(settings, {"en": ["a star"] * count}))
    captions.check_sizes(settings)
    assert None not in vars(settings).values()
    assert settings.halvings == halvings and 1 <= settings.batch_size <= 64
    assert 3 <= settings.epochs <= 40
