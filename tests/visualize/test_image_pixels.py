"""Every common format of an image results in the right colors, or in an error."""

import numpy as np
import pytest

from keras_attn.visualize._image_pixels import image_pixels

RGB = np.random.default_rng(0).integers(0, 256, (4, 5, 3), "uint8")
GRAY = RGB[..., 0]


def assert_pixels(found, expected, tolerance=1e-6):
    assert found.dtype == np.float32 and found.shape == (*expected.shape[:2], 3)
    np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), atol=tolerance)


@pytest.mark.parametrize(
    "image",
    [
        RGB,
        RGB.astype("int64"),
        RGB.tolist(),
        RGB.astype("float32"),
        RGB.astype("float64") / 255,
        (RGB / 255 * 1.0005).astype("float32"),  # resizing may exceed the range a little
    ],
    ids=["uint8", "int64", "list", "floats to 255", "floats to 1", "rounded floats"],
)
def test_colors_do_not_depend_on_the_type(image):
    assert_pixels(image_pixels(image), RGB / 255, 1e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    assert_pixels(image_pixels((RGB / 255).astype(dtype)), RGB / 255, 5e-3)
    assert_pixels(image_pixels(RGB.astype(dtype)), RGB / 255, 5e-3)


@pytest.mark.parametrize("convert", [np.asarray, np.float32, lambda image: image / 255])
@pytest.mark.parametrize("axes", [(), (1,)], ids=["(H, W)", "(H, W, 1)"])
def test_gray_images(convert, axes):
    image = convert(GRAY).reshape(*GRAY.shape, *axes)
    assert_pixels(image_pixels(image), GRAY[..., None] / 255)


def test_black_white_and_booleans():
    assert_pixels(image_pixels(np.zeros((2, 3, 3), "uint8")), np.zeros((2, 3, 3)))
    assert_pixels(image_pixels(np.zeros((2, 3))), np.zeros((2, 3, 1)))
    assert_pixels(image_pixels(np.ones((2, 3, 3))), np.ones((2, 3, 3)))
    assert_pixels(image_pixels(np.full((2, 3, 3), 255, "uint8")), np.ones((2, 3, 3)))
    assert_pixels(image_pixels(GRAY > 99), (GRAY > 99)[..., None])


@pytest.mark.parametrize("scale", [1, 255])
def test_transparent_pixels_are_shown_over_white(scale):
    opacity = np.array([[0.0, 0.5, 1.0]])
    image = np.dstack([np.full((1, 3, 3), 0.2), opacity]) * scale
    assert_pixels(image_pixels(image), np.array([[[1.0], [0.6], [0.2]]]))
    assert_pixels(image_pixels(image[..., 2:]), np.array([[[1.0], [0.6], [0.2]]]))


def test_range_of_the_caller():
    assert_pixels(image_pixels(RGB / 127.5 - 1, (-1, 1)), RGB / 255)
    assert_pixels(image_pixels(RGB.astype("uint16") * 257, (0, 65535)), RGB / 255)
    dark = np.full((2, 3, 3), 3.0)
    assert_pixels(image_pixels(dark, (0, 255)), dark / 255)
    mask = np.eye(3, dtype="uint8")
    assert_pixels(image_pixels(mask, (0, 1)), mask[..., None])


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "1", "CMYK"])
def test_pillow_images(mode):
    Image = pytest.importorskip("PIL.Image")
    image = Image.fromarray(np.kron(np.uint8([[0, 255], [255, 0]]), np.ones((4, 4), "uint8")))
    if mode == "P":
        image = image.convert("RGB").convert("P", palette=Image.Palette.ADAPTIVE, colors=2)
    expected = np.asarray(image.convert("RGB"))
    assert_pixels(image_pixels(image.convert(mode)), expected / 255, 0.02)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.full((2, 3, 3), 3.0), "float64 from 3 to 3, which is almost black"),
        (np.eye(3, dtype="uint8"), "uint8 from 0 to 1, which is almost black"),
        ((RGB / 255).astype("uint8") | np.uint8(1), "do not round them to integers"),
        (RGB / 127.5 - 1, r"from 0 \(black\) to 1 \(white\). Received: image with dtype float64"),
        (RGB / 255 * 1.5, "black and white as pixel_range"),
        (RGB.astype("float32") - 128, "Pass the values of black and white as pixel_range"),
        (RGB.astype("uint16") * 257, r"to 255 \(white\). Received: image with dtype uint16"),
        (np.where(RGB > 9, RGB, np.nan), "from nan to nan"),
        (np.where(RGB > 9, RGB, np.inf), "to inf"),
        (np.moveaxis(RGB, -1, 0), r"shape \(3, 4, 5\). Move the channels to the end"),
        (RGB[None], "shape .1, 4, 5, 3.. Pass one image"),
        (np.zeros((0, 4, 3)), "shape .0, 4, 3."),
        (np.full((3, 4), "x"), "image of numbers"),
        (RGB + 1j, "dtype complex128"),
    ],
)
def test_other_images_raise_an_error(image, message):
    with pytest.raises(ValueError, match=message):
        image_pixels(image)


@pytest.mark.parametrize("pixel_range", [(0,), (1, 1), (0, np.inf), (0, 1, 2)])
def test_wrong_range_raises_an_error(pixel_range):
    with pytest.raises(ValueError, match="Received: pixel_range="):
        image_pixels(RGB, pixel_range)
