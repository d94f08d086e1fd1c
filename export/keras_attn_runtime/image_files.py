"""Reads image files with Pillow, in the format that the metadata of a model file define."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from keras_attn_runtime.array_types import Array
from keras_attn_runtime.errors import ModelFileError
from keras_attn_runtime.file_format import Input

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = {
    "BMP": (".bmp",),
    "GIF": (".gif",),
    "JPEG": (".jpg", ".jpeg"),
    "PNG": (".png",),
    "PPM": (".ppm", ".pgm", ".pnm"),
    "TIFF": (".tif", ".tiff"),
    "WEBP": (".webp",),
}
"""Supported formats and their file suffixes. For some other formats, such as EPS, Pillow would run
another program."""

MODES = {"gray": "L", "rgb": "RGB", "bgr": "RGB", "rgba": "RGBA"}
"""Maps the channels of a model to a mode of Pillow."""

EIGHT_BITS = tuple("1 L LA La P PA RGB RGBA RGBX RGBa CMYK HSV LAB YCbCr".split())
"""Modes of Pillow with at most 8 bits per channel."""

MOST_PIXELS = 80_000_000
"""Maximum number of pixels of an image. (A small file can contain billions of pixels.)"""


def read_image(path: str | os.PathLike[str], expected: Input) -> Array:
    """Reads an image file as an input of a model.

    The pixels are those of `keras.utils.load_img(path, color_mode, target_size, interpolation)`:
    the image is converted to the channels of the model, resized with `PIL.Image.Image.resize` if
    its size differs, and then scaled in float32: `scale * pixel + offset`. Like Keras, the function
    ignores the orientation in EXIF data. The function also ignores transparency, unless the model
    reads "rgba". Of an animation, only the first image is read.

    Args:
        path: string or path of a BMP, GIF, JPEG, PNG, PPM, TIFF or WebP file.
        expected: `Input`, such as `translator.settings.inputs["image"]`.

    Returns:
        Array `(height, width, channels)` with the dtype of the input.

    Raises:
        ValueError: if the file is empty, damaged or not an image, has more than 8 bits per channel
            or too many pixels, or has another size and the model does not allow resizing.
        ModelFileError: if the model file does not define how images are read.
        OSError: if the file does not exist or cannot be opened.
        ImportError: if Pillow is not installed.

    Example:

        translator = Translator("captions.onnx")
        image = read_image("photo.png", translator.settings.inputs["image"])
        translator.generate({"image": [image]})[0].text
    """
    image_format = expected.image
    if image_format is None:
        raise ModelFileError(
            "Expected a file that defines how images are read. Received: an input of the kind "
            f"{expected.kind!r} without the entry 'image'. Export it with image_format=..., or "
            "read the images yourself and give arrays to `generate`."
        )
    image = _decode(path)
    mode = MODES[image_format.channels]
    if image.mode != mode:
        image = image.convert(mode)
    height, width, _ = expected.shape[1:]
    size = (
        width if isinstance(width, int) else image.width,
        height if isinstance(height, int) else image.height,
    )
    if size != image.size:
        image = _resize(image, size, image_format.resize)
    pixels = np.asarray(image)
    pixels = pixels.reshape(*pixels.shape[:2], -1)  # (height, width, channels)
    if image_format.channels == "bgr":
        pixels = pixels[..., ::-1]
    scale, offset = (
        np.asarray(each, "float32") for each in (image_format.scale, image_format.offset)
    )
    return (scale * pixels.astype("float32") + offset).astype(expected.dtype)


def list_images(directory: str | os.PathLike[str]) -> tuple[list[Path], list[Path]]:
    """Lists the image files of a directory by their suffixes, sorted by name.

    Args:
        directory: string or path. Subdirectories and hidden files are ignored.

    Returns:
        Tuple of the paths of image files and of other files.

    Raises:
        ValueError: if the directory has no image files.
        OSError: if the directory does not exist or cannot be read.
    """
    suffixes = [suffix for each in FORMATS.values() for suffix in each]
    entries = sorted(Path(directory).iterdir())
    files = [path for path in entries if not path.name.startswith(".") and path.is_file()]
    images = [path for path in files if path.suffix.lower() in suffixes]
    if not images:
        raise ValueError(
            f"Expected a directory with image files ({', '.join(suffixes)}). Received: "
            f"{str(directory)!r} with {len(files)} other files."
        )
    return images, [path for path in files if path.suffix.lower() not in suffixes]


def _decode(path: str | os.PathLike[str]) -> "Image":
    """Returns the decoded image of a file."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise ImportError(
            "Image files need Pillow: `pip install keras-attn-runtime[images]`."
        ) from error
    Image.init()  # imports the decoders of this build of Pillow
    with open(path, "rb") as file:
        if not file.read(1):
            raise ValueError("expected an image. Received: an empty file.")
        file.seek(0)
        with _decoder_errors():
            try:
                image = Image.open(file, formats=[each for each in FORMATS if each in Image.OPEN])
            except UnidentifiedImageError:
                image = None
        if image is None:
            raise ValueError(
                f"expected an image of the format {', '.join(FORMATS)}. Received: a file of "
                "another format, or a damaged one."
            )
        if image.mode not in EIGHT_BITS:
            raise ValueError(
                "expected an image of at most 8 bits per channel. Received: "
                f"mode={image.mode!r}. Convert it."
            )
        if not 0 < image.width * image.height <= MOST_PIXELS:
            raise ValueError(
                f"expected 1 to {MOST_PIXELS:,} pixels. Received: {image.width} x "
                f"{image.height} pixels. Resize it."
            )
        with _decoder_errors():
            image.load()
    return image


@contextmanager
def _decoder_errors() -> Generator[None, None, None]:
    """Converts the exceptions of Pillow's decoders, which have no common base class."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"expected a complete image. Received: a file that cannot be decoded ({reason})."
        ) from error


def _resize(image: "Image", size: tuple[int, int], resize: str | None) -> "Image":
    if resize is None:
        raise ValueError(
            f"expected an image of width {size[0]} and height {size[1]}. Received: width "
            f"{image.width} and height {image.height}. Resize it, or export the model with "
            "ImageFormat(resize=...)."
        )
    from PIL.Image import Resampling

    return image.resize(size, Resampling[resize.upper()])
