"""Images and captions of a directory: accepted names, refused files, and pixels as in Keras."""

import gzip

import keras
import numpy as np
import pytest

from keras_attn.training import read_captions, read_images

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "images").mkdir()
    for number in range(3):
        pixels = np.random.default_rng(number).integers(0, 256, (10, 12, 3), "uint8")
        Image.fromarray(pixels).save(tmp_path / "images" / f"{number}.png")
    write(tmp_path / "captions.en", "a red star\na blue circle\na cross\n")
    return tmp_path


def write(path, text):
    path.write_bytes(text.encode("utf-8"))


def test_languages_are_read_from_all_forms_of_names(folder):
    write(folder / "captions.de.txt", "\ufeffein Stern  \r\n ein Kreis\r\nein Kreuz")
    (folder / "captions.pt-BR.gz").write_bytes(gzip.compress(b"um\ndois\ntres\n"))
    write(folder / "captions.en~", "old\n")
    (folder / "images" / ".DS_Store").touch()
    (folder / "images" / "notes.txt").touch()
    (folder / "images" / "old.png").mkdir()
    files = read_captions(folder)
    assert [path.name for path in files.paths] == ["0.png", "1.png", "2.png"]
    assert files.captions == {
        "de": ["ein Stern", "ein Kreis", "ein Kreuz"],
        "en": ["a red star", "a blue circle", "a cross"],
        "pt-BR": ["um", "dois", "tres"],
    }
    assert sorted(path.name for path in files.ignored) == ["captions.en~", "notes.txt", "old.png"]
    assert files.num_blank == 0


def test_blank_captions_are_counted(folder):
    write(folder / "captions.en", "a red star\n \na cross\n")
    files = read_captions(folder)
    assert files.captions == {"en": ["a red star", "", "a cross"]} and files.num_blank == 1


@pytest.mark.parametrize(
    "name, text, message",
    [
        (
            "captions.en",
            "a\nb\n",
            "line for each of the 3 images.*Received: 2 lines in .*captions.en",
        ),
        ("captions.en", "a\nb\nc\n\n", "Received: 4 lines"),
        ("captions.de", "\n\n\n", "captions.de'?, with only blank lines"),
        ("captions.en.txt", "a\nb\nc\n", "one file of captions for 'en'.*captions.en and captions"),
        ("captions.txt", "a\nb\nc\n", "Expected the language .*captions.txt"),
    ],
)
def test_wrong_captions_are_refused(folder, name, text, message):
    write(folder / name, text)
    with pytest.raises(ValueError, match=message):
        read_captions(folder)


def test_other_encodings_and_missing_files_are_refused(folder):
    with pytest.raises(FileNotFoundError, match="Received: 0 images, 0 files of captions"):
        read_captions(folder / "nothing")
    (folder / "captions.en").write_bytes(b"a\xe9\nb\nc\n")
    with pytest.raises(ValueError, match="in UTF-8. Received: .*captions.en"):
        read_captions(folder)
    (folder / "captions.en").unlink()
    with pytest.raises(FileNotFoundError, match="Received: 3 images, 0 files of captions"):
        read_captions(folder)


@pytest.mark.parametrize("size", [(10, 12), (4, 6), (16, 16)])
def test_pixels_are_those_of_keras(folder, size, tmp_path):
    paths = read_captions(folder).paths
    Image.open(paths[1]).convert("LA").save(paths[1])
    images = read_images(paths, size)
    assert images.dtype == np.uint8
    for image, path in zip(images, paths, strict=True):
        expected = keras.utils.load_img(path, target_size=size, interpolation="bilinear")
        np.testing.assert_array_equal(image, np.asarray(expected))
    mapped = read_images(paths, size, cache=tmp_path / "images.npy")
    assert isinstance(mapped, np.memmap)
    np.testing.assert_array_equal(mapped, images)


def test_damaged_and_16_bit_images_are_refused(folder, tmp_path):
    path = folder / "images" / "1.png"
    content = path.read_bytes()
    Image.fromarray(np.arange(100, dtype="uint16").reshape(10, 10)).save(path)
    with pytest.raises(ValueError, match=r"1.png' \(mode 'I;16', with more than 8 bits"):
        read_images([path], (8, 8), cache=tmp_path / "images.npy")
    path.write_bytes(content[:60])
    with pytest.raises(ValueError, match="Expected a complete image.*1.png"):
        read_images([path], (8, 8), cache=tmp_path / "images.npy")
    assert not list(tmp_path.glob("images.npy*"))
    with pytest.raises(FileNotFoundError, match="missing.png"):
        read_images([folder / "missing.png"], (8, 8))
