"""Image files become the arrays that Keras would read, or an error that names the reason."""

import sys

import keras
import numpy as np
import pytest
from keras_attn_runtime import ModelFileError, read_image
from keras_attn_runtime.file_format import Input
from keras_attn_runtime.image_files import list_images
from keras_attn_runtime.image_format import ImageFormat

Image = pytest.importorskip("PIL.Image")


def an_input(channels="rgb", scale=1.0, offset=0.0, resize=None, size=(5, 7), dtype="float32"):
    """An `Input` of images with 5 rows and 7 columns."""
    count = {"gray": 1, "rgba": 4}.get(channels, 3)
    scale, offset = (
        each if isinstance(each, tuple) else (each,) * count for each in (scale, offset)
    )
    image = ImageFormat(channels, scale, offset, resize)
    return Input("image", dtype, ("batch", *size, count), image)


def pixels(*shape):
    return np.random.default_rng(1).integers(0, 256, shape).astype("uint8")


@pytest.mark.parametrize("suffix", ["png", "bmp", "ppm", "tif", "PNG"])
def test_image_has_the_pixels_of_the_file(tmp_path, suffix):
    path, rows = tmp_path / f"image.{suffix}", pixels(5, 7, 3)
    Image.fromarray(rows).save(path)
    found = read_image(path, an_input())
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, rows)
    np.testing.assert_array_equal(read_image(str(path), an_input("bgr")), rows[..., ::-1])


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK"])
@pytest.mark.parametrize(
    ("channels", "color_mode"), [("gray", "grayscale"), ("rgb", "rgb"), ("rgba", "rgba")]
)
def test_modes_are_converted_as_by_keras(tmp_path, mode, channels, color_mode):
    path = tmp_path / "image.tif"
    Image.fromarray(pixels(5, 7, 4), "RGBA").convert("RGB").convert(mode).save(path)
    expected = keras.utils.img_to_array(keras.utils.load_img(path, color_mode=color_mode))
    np.testing.assert_array_equal(read_image(path, an_input(channels)), expected)


@pytest.mark.parametrize("resize", ["nearest", "bilinear", "bicubic"])
def test_size_is_changed_as_by_keras(tmp_path, resize):
    path = tmp_path / "image.png"
    Image.fromarray(pixels(20, 9, 3)).save(path)
    expected = keras.utils.load_img(path, target_size=(5, 7), interpolation=resize)
    found = read_image(path, an_input(resize=resize))
    np.testing.assert_array_equal(found, np.asarray(expected))


def test_pixels_are_scaled_by_channel(tmp_path):
    path, rows = tmp_path / "image.png", pixels(5, 7, 3)
    Image.fromarray(rows).save(path)
    scale, offset = (1 / 255, 0.5, 2.0), (0.0, -1.0, 3.0)
    found = read_image(path, an_input(scale=scale, offset=offset))
    np.testing.assert_allclose(found, rows * np.array(scale) + offset, rtol=1e-6)
    assert read_image(path, an_input(dtype="uint8")).dtype == np.uint8


def test_size_of_open_axes_is_that_of_the_file(tmp_path):
    path = tmp_path / "image.png"
    Image.fromarray(pixels(4, 9)).save(path)
    assert read_image(path, an_input("gray", size=("height", "width"))).shape == (4, 9, 1)
    with pytest.raises(ValueError, match="expected an image of width 9 and height 5. Received"):
        read_image(path, an_input("gray", size=(5, "width")))


def test_bad_files_are_refused(tmp_path, monkeypatch):
    def refused(name, match):
        with pytest.raises(ValueError, match=match):
            read_image(tmp_path / name, an_input())

    image = Image.fromarray(pixels(5, 7, 3))
    image.save(tmp_path / "good.png")
    (tmp_path / "empty.png").touch()
    refused("empty.png", "Received: an empty file")
    (tmp_path / "text.png").write_text("a red circle")
    refused("text.png", "format BMP, GIF, .* Received: a file of another format")
    (tmp_path / "script.png").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 5 5\n")
    refused("script.png", "a file of another format")  # Pillow alone would start Ghostscript
    content = (tmp_path / "good.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(content[: len(content) // 2])
    refused(
        "cut.png", "expected a complete image. Received: a file that cannot be decoded .*truncated"
    )
    (tmp_path / "bits.png").write_bytes(content[:40] + b"\0\0\0" + content[43:])
    refused("bits.png", "another format, or a damaged one")
    Image.fromarray(pixels(5, 7).astype("uint16") * 256).save(tmp_path / "deep.png")
    refused("deep.png", "at most 8 bits per channel. Received: mode='I;16'")
    image.resize((7, 6)).save(tmp_path / "tall.png")
    refused("tall.png", "width 7 and height 5. Received: width 7 and height 6. Resize it")
    monkeypatch.setattr("keras_attn_runtime.image_files.MOST_PIXELS", 34)
    refused("good.png", "1 to 34 pixels. Received: 7 x 5 pixels")
    with pytest.raises(FileNotFoundError):
        read_image(tmp_path / "missing.png", an_input())


def test_error_names_the_missing_package_or_setting(tmp_path, monkeypatch):
    with pytest.raises(ModelFileError, match="the entry 'image'. Export it with image_format"):
        read_image(tmp_path / "good.png", Input("image", "float32", ("batch", 5, 7, 3)))
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"keras-attn-runtime\[images\]"):
        read_image(tmp_path / "good.png", an_input())


def test_images_of_a_directory_are_sorted_by_name(tmp_path):
    for name in ("b.png", "a.JPG", "c.txt", ".hidden.png", "10.gif", "2.gif"):
        (tmp_path / name).touch()
    (tmp_path / "folder.png").mkdir()
    images, others = list_images(tmp_path)
    assert [path.name for path in images] == ["10.gif", "2.gif", "a.JPG", "b.png"]
    assert [path.name for path in others] == ["c.txt"]
    with pytest.raises(ValueError, match="image files .*folder.png' with 0 other files"):
        list_images(tmp_path / "folder.png")
    with pytest.raises(NotADirectoryError):
        list_images(tmp_path / "c.txt")
