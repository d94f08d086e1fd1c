"""`keras-attn-runtime translate --images`, in this process."""

import json

import numpy as np
import pytest
from keras_attn_runtime._commands.main import main

from tests.runtime.fake_model import write_image_model

Image = pytest.importorskip("PIL.Image")
IMAGE = {"kind": "image", "dtype": "float32", "shape": ["batch", 1, 3, 1]}


@pytest.fixture(scope="module")
def model(tokenizer_model, tmp_path_factory):
    """A file whose results are the pixels of images of 1 x 3 pixels, as token ids."""
    path = tmp_path_factory.mktemp("captions") / "captions.onnx"
    image = {**IMAGE, "image": {"channels": "gray", "resize": "nearest"}}
    return write_image_model(path, tokenizer_model, image)


@pytest.fixture
def images(tmp_path):
    """A directory with images of the pixels 20, 21, 22 and 30, 31, 32, and another file."""
    for name, first in (("b.png", 20), ("a.png", 30)):
        row = np.arange(first, first + 3, dtype="uint8")[None]
        Image.fromarray(row).save(tmp_path / name)
    (tmp_path / "captions.txt").write_text("not an image")
    return tmp_path


def run(capfd, *arguments):
    status = main(["translate", *map(str, arguments)])
    output, messages = capfd.readouterr()
    return status, output, messages


def test_results_are_named_after_files(model, images, capfd):
    status, output, messages = run(capfd, model, "--images", images, "--format", "jsonl")
    lines = [json.loads(line) for line in output.splitlines()]
    assert [(line["file"], line["token_ids"]) for line in lines] == [
        ("a.png", [30, 31, 32]),
        ("b.png", [20, 21, 22]),
    ]
    ignored = (
        "warning: ignored 1 directories, hidden files and files without the suffix of an image"
    )
    assert (status, messages) == (0, f"{ignored}: 'captions.txt'\n")
    status, output, _ = run(capfd, model, "--images", images, "--target-prefix", "a", "--window", 1)
    lines = [line.split("\t") for line in output.splitlines()]
    assert status == 0 and [name for name, _ in lines] == ["a.png", "b.png"]
    assert all(text.startswith("a") for _, text in lines)


def test_bad_image_ends_the_command_after_the_images_before_it(model, images, capfd):
    (images / "aa.png").write_bytes((images / "a.png").read_bytes()[:45])
    status, output, messages = run(capfd, model, "--images", images)
    assert status == 1 and [line[:6] for line in output.splitlines()] == ["a.png\t"]
    assert "error: aa.png: expected a complete image. Received: " in messages


def test_what_is_ignored_is_named(model, images, capfd):
    exif = Image.Exif()
    exif[0x112] = 6
    image = Image.fromarray(np.arange(3, dtype="uint8")[None])
    image.save(images / "phone.jpg", exif=exif)
    image.save(images / "some.gif", save_all=True, append_images=[image.rotate(180)])
    (images / "folder.png").mkdir()
    (images / ".hidden.png").touch()
    status, output, messages = run(capfd, model, "--images", images)
    assert status == 0 and len(output.splitlines()) == 4
    listed, *others = messages.splitlines()
    assert listed.endswith("image: '.hidden.png', 'captions.txt', 'folder.png'")
    assert sorted(line.split(", ")[0] for line in others) == [
        "warning: phone.jpg: the EXIF orientation 6 is ignored. If the training images were "
        "rotated to be upright",
        "warning: some.gif: the file has several images",
    ]
    (images / "gone.png").symlink_to("missing.png")
    status, output, messages = run(capfd, model, "--images", images)
    assert (status, output) == (1, "") and "'gone.png', a link to a missing file" in messages


def test_directories_and_models_without_images_are_refused(
    model, model_path, images, tokenizer_model, tmp_path, capfd
):
    (tmp_path / "none").mkdir()
    status, output, messages = run(capfd, model, "--images", tmp_path / "none")
    assert (status, output) == (1, "") and "Expected a directory with image files" in messages
    status, _, messages = run(capfd, model, "--images", tmp_path / "missing")
    assert status == 1 and "missing" in messages
    status, _, messages = run(capfd, model_path, "--images", images)
    assert status == 1 and "Received: inputs={'source_ids': 'ids'}" in messages
    path = write_image_model(tmp_path / "arrays.onnx", tokenizer_model, IMAGE)
    status, _, messages = run(capfd, path, "--images", images)
    assert status == 1 and "Export it with image_format" in messages
    (images / "new\nline.png").touch()
    status, output, messages = run(capfd, model, "--images", images)
    assert (status, output) == (1, "") and r"Received: 'new\nline.png'. Rename the file" in messages


def test_info_shows_how_images_are_read(model, capfd):
    assert main(["info", str(model)]) == 0
    text = capfd.readouterr().out
    assert "channels: gray" in text and "resize: nearest" in text
