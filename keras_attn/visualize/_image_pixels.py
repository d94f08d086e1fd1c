"""Converts images in any common format to RGB pixels."""

from typing import Any

import numpy as np

TOLERANCE = 1e-3
"""Largest distance between a pixel and the range, as a fraction of the difference between white and
black. Within this distance, pixels are clipped to the range, because resizing an image causes
rounding errors."""

DARKEST = 16
"""If a float image's largest value is above 1 and below this number, white may be at 1 or at 255,
so the range is not inferred."""

COLOR_MODES = ("1", "L", "LA", "RGB", "RGBA", "I", "I;16", "F")
"""Pillow modes that `np.asarray` converts to gray or RGB values, some with opacity. Images in
other modes are converted to RGBA first."""


def image_pixels(image: Any, pixel_range: tuple[float, float] | None = None) -> np.ndarray:
    """Converts an image to RGB floats.

    Args:
        image: See `plot_attention_over_image`.
        pixel_range: See `plot_attention_over_image`.

    Returns:
        Float32 array with shape `(height, width, 3)`, in [0, 1].

    Raises:
        ValueError: If `image` is not an image, `pixel_range` is not a pair of increasing numbers,
            pixels are outside `pixel_range`, or `pixel_range` is `None` and cannot be inferred from
            the pixels.
    """
    pixels = _channels(_array(image))
    black, white = _range(pixels, pixel_range)
    tolerance = TOLERANCE * (white - black)
    # All comparisons with NaN are false, so NaN also raises the error.
    if not np.all((pixels >= black - tolerance) & (pixels <= white + tolerance)):
        raise ValueError(
            f"Expected pixels from {black:g} (black) to {white:g} (white). Received: image "
            f"{_description(pixels)}. Pass the values of black and white as pixel_range, or clip "
            "the pixels."
        )
    pixels = np.clip((pixels.astype("float32") - black) / (white - black), 0.0, 1.0)
    if pixels.shape[-1] in (2, 4):
        opacity = pixels[..., -1:]
        pixels = pixels[..., :-1] * opacity + (1.0 - opacity)  # over white, as on a page
    return np.broadcast_to(pixels, (*pixels.shape[:2], 3)).copy()


def _array(image):
    """Returns an array of numbers."""
    if getattr(image, "mode", COLOR_MODES[0]) not in COLOR_MODES and hasattr(image, "convert"):
        # In other modes, an array does not contain gray or RGB values. A palette image's array, for
        # example, contains palette indices.
        image = image.convert("RGBA")
    pixels = np.asarray(image)
    if pixels.dtype.name in ("bfloat16", "float16"):
        pixels = pixels.astype("float32")
    if pixels.dtype.kind not in "biuf":
        raise ValueError(
            f"Expected an image of numbers. Received: image with dtype {pixels.dtype}. Pass a "
            "Pillow image, or an array of integers or floats."
        )
    return pixels.astype("float32") if pixels.dtype.kind == "b" else pixels


def _channels(pixels):
    """Returns pixels with shape `(height, width, channels)`."""
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    if pixels.ndim != 3 or pixels.shape[-1] not in (1, 2, 3, 4) or pixels.size == 0:
        advice = (
            "Move the channels to the end: np.moveaxis(image, 0, -1)."
            if pixels.ndim == 3 and pixels.shape[0] in (1, 3, 4)
            else "Pass one image."
        )
        raise ValueError(
            "Expected an image of shape (height, width) or (height, width, channels) with 1 "
            "(gray), 2 (gray, opacity), 3 (RGB) or 4 (RGBA) channels. Received: image with shape "
            f"{pixels.shape}. {advice}"
        )
    return pixels


def _range(pixels, pixel_range):
    """Returns the values of black and white."""
    if pixel_range is not None:
        given = np.asarray(pixel_range, dtype="float64")
        if given.shape != (2,) or not np.isfinite(given).all() or not given[0] < given[1]:
            raise ValueError(
                "Expected pixel_range to be the values of black and white, such as (0, 255) or "
                f"(-1, 1). Received: pixel_range={pixel_range!r}."
            )
        return given.tolist()
    most = pixels.max()
    is_integer = pixels.dtype.kind in "iu"
    is_unclear = most == 1 if is_integer else 1 + TOLERANCE < most < DARKEST
    if is_unclear:
        advice = (
            "If 1 is white, pass pixel_range=(0, 1). If the image was made from floats in [0, 1], "
            "do not round them to integers."
            if is_integer
            else "Pass the values of black and white as pixel_range, such as (0, 255)."
        )
        raise ValueError(
            "Expected an image in which 255 is white, or floats in which 1 is white. Received: "
            f"image {_description(pixels)}, which is almost black if 255 is white. {advice}"
        )
    return (0.0, 255.0) if is_integer or most >= DARKEST else (0.0, 1.0)


def _description(pixels):
    return f"with dtype {pixels.dtype} from {pixels.min():g} to {pixels.max():g}"
