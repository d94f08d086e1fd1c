"""Image files become the arrays that Keras would read, or an error that names the reason."""

import os
import struct
import sys
import zlib

import keras
import numpy as np
import pytest
from keras_attn_runtime import ModelFileError, read_image
from keras_attn_runtime._file_format import Input
from keras_attn_runtime._file_format.inputs import ImageFormat
from keras_attn_runtime._inputs.image_files import list_images

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
    refused("empty.png", "Received: a file of 0 bytes")
    (tmp_path / "text.png").write_text("a red circle")
    refused("text.png", "format BMP, GIF, .* Received: a file that starts with b.a red ci")
    (tmp_path / "script.png").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 5 5\n")
    refused("script.png", "starts with b.%!PS-Ado")  # Pillow alone would start Ghostscript
    content = (tmp_path / "good.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(content[: len(content) // 2])
    refused("cut.png", "expected a complete image. Received: .*truncated")
    (tmp_path / "bits.png").write_bytes(content[:40] + b"\0\0\0" + content[43:])
    refused("bits.png", "starts with b.*PNG")
    Image.fromarray(pixels(5, 7).astype("uint16") * 256).save(tmp_path / "deep.png")
    refused("deep.png", "at most 8 bits per channel. Received: 16 bits")
    image.resize((7, 6)).save(tmp_path / "tall.png")
    refused("tall.png", "width 7 and height 5. Received: width 7 and height 6. Resize it")
    monkeypatch.setattr("keras_attn_runtime._inputs.image_files.MOST_PIXELS", 34)
    refused("good.png", "1 to 34 pixels. Received: 7 x 5 pixels")
    with pytest.raises(FileNotFoundError):
        read_image(tmp_path / "missing.png", an_input())


def test_error_names_the_missing_package_or_setting(tmp_path, monkeypatch):
    with pytest.raises(ModelFileError, match="the entry 'image'. Export it with image_format"):
        read_image(tmp_path / "good.png", Input("image", "float32", ("batch", 5, 7, 3)))
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"./export\[images\]"):
        read_image(tmp_path / "good.png", an_input())


def a_png(depth, color_type, channels):
    """A PNG file of 7 x 5 pixels, with bytes of 100."""

    def chunk(name, content):
        checksum = struct.pack(">I", zlib.crc32(name + content))
        return struct.pack(">I", len(content)) + name + content + checksum

    row = b"\0" + bytes([100]) * (7 * channels * depth // 8)
    header = struct.pack(">IIBBBBB", 7, 5, depth, color_type, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(row * 5)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def a_tiff(depth):
    """An uncompressed TIFF file of 7 x 5 RGB pixels, with bytes of 100."""
    size = 7 * 5 * 3 * depth // 8
    tags = {256: 7, 257: 5, 258: 122, 259: 1, 262: 2, 273: 128, 277: 3, 278: 5, 279: size}
    entries = [struct.pack("<HHII", tag, 3, 3 if tag == 258 else 1, tags[tag]) for tag in tags]
    directory = struct.pack("<H", len(tags)) + b"".join(entries) + bytes(4)
    return b"II*\0\x08\0\0\0" + directory + struct.pack("<HHH", *[depth] * 3) + bytes([100]) * size


@pytest.mark.parametrize(
    "name, content",
    [
        ("rgb.png", a_png(16, 2, 3)),
        ("gray.png", a_png(16, 0, 1)),
        ("gray_alpha.png", a_png(16, 4, 2)),
        ("rgba.png", a_png(16, 6, 4)),
        ("rgb.tif", a_tiff(16)),
        ("rgb.ppm", b"P6 7 5 65535\n" + bytes(7 * 5 * 6)),
        ("gray.pgm", b"P5 7 5 1023\n" + bytes(7 * 5 * 2)),
        ("text.ppm", b"P3 7 5 256\n" + b"1 " * (7 * 5 * 3)),
    ],
)
def test_images_of_more_than_8_bits_are_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match="at most 8 bits per channel. Received: (16|10|9) bits"):
        read_image(tmp_path / name, an_input("gray"))


def test_images_of_8_bits_are_read(tmp_path):
    contents = {
        "rgb.png": a_png(8, 2, 3),
        "gray_alpha.png": a_png(8, 4, 2),
        "rgb.tif": a_tiff(8),
        "rgb.ppm": b"P6 7 5 255\n" + bytes([100]) * (7 * 5 * 3),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        assert (read_image(tmp_path / name, an_input()) == 100).all()


def test_ignored_orientation_and_images_give_a_warning(tmp_path):
    image, exif = Image.fromarray(pixels(5, 7)), Image.Exif()
    exif[0x112] = 8
    image.save(tmp_path / "a.jpg", exif=exif)
    image.save(tmp_path / "a.gif", save_all=True, append_images=[image.rotate(180)])
    for name, message in (("a.jpg", "EXIF orientation 8"), ("a.gif", "only the first is read")):
        with pytest.warns(UserWarning, match=f"{name}: .*{message}"):
            read_image(tmp_path / name, an_input())


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_images_that_are_no_files_are_refused(tmp_path, kind):
    (tmp_path / "a.png").touch()
    if kind == "link":
        (tmp_path / "b.png").symlink_to(tmp_path / "missing.png")
    else:
        os.mkfifo(tmp_path / "b.png")
    with pytest.raises(ValueError, match="Received: 'b.png', (a link to a|neither a file)"):
        list_images(tmp_path)


def test_images_of_a_directory_are_sorted_by_name(tmp_path):
    for name in ("b.png", "a.JPG", "c.txt", ".hidden.png", ".DS_Store", "10.gif", "2.gif"):
        (tmp_path / name).touch()
    (tmp_path / "folder.png").mkdir()
    images, others = list_images(tmp_path)
    assert [path.name for path in images] == ["10.gif", "2.gif", "a.JPG", "b.png"]
    assert [path.name for path in others] == [".hidden.png", "c.txt", "folder.png"]
    with pytest.raises(ValueError, match="image files .*folder.png' with 0 other entries"):
        list_images(tmp_path / "folder.png")
    with pytest.raises(NotADirectoryError):
        list_images(tmp_path / "c.txt")
