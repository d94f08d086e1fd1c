"""Reads image files with Pillow, in the format that a model file's metadata define."""

import os
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from keras_attn_runtime._array_types import Array
from keras_attn_runtime._errors import ModelFileError
from keras_attn_runtime._file_format import Input

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

ORIENTATION, BITS_PER_SAMPLE = 0x112, 258
"""EXIF and TIFF tags."""

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
"""Dict from a model's channels to Pillow modes."""

EIGHT_BITS = tuple("1 L LA La P PA RGB RGBA RGBX RGBa CMYK HSV LAB YCbCr".split())
"""Pillow modes with at most 8 bits per channel."""

MOST_PIXELS = 80_000_000
"""Maximum number of pixels in an image. (A small file can contain billions of pixels.)"""


def read_image(path: str | os.PathLike[str], expected: Input) -> Array:
    """Reads an image file as a model input.

    The pixels equal `keras.utils.load_img(path, color_mode, target_size, interpolation)`: the image
    is converted to the model's channels, resized with `PIL.Image.Image.resize` if its size differs,
    and then scaled in float32: `scale * pixel + offset`. Like Keras, the function ignores the
    orientation in EXIF data, and reads only the first image in an animation. Both give a
    `UserWarning`. It also ignores transparency, unless the model reads "rgba".

    Args:
        path: string or path, a BMP, GIF, JPEG, PNG, PPM, TIFF or WebP file.
        expected: `Input`, such as `translator.settings.inputs["image"]`.

    Returns:
        Array `(height, width, channels)` with the input's dtype.

    Raises:
        ValueError: if the file is empty, damaged or not an image, has more than 8 bits per channel
            or too many pixels, or has a different size and the model does not allow resizing.
        ModelFileError: if the model file does not define how images are read.
        OSError: if the file does not exist or cannot be opened.
        ImportError: if Pillow is not installed.

    Example:

        translator = Translator("captions.onnx")
        image = read_image("photo.png", translator.settings.inputs["image"])
        translator.generate({"image": [image]})[0].text
    """
    array, ignored = load_image(path, expected)
    for part in ignored:
        warnings.warn(f"{os.fspath(path)}: {part}", stacklevel=2)
    return array


def load_image(path: str | os.PathLike[str], expected: Input) -> tuple[Array, list[str]]:
    """Reads an image file, see `read_image`.

    Returns:
        Tuple of the array, and a list of sentences about ignored parts of the file.
    """
    image_format = expected.image
    if image_format is None:
        raise ModelFileError(
            "Expected a file that defines how images are read. Received: an input of the kind "
            f"{expected.kind!r} without the entry 'image'. Export it with image_format=..., or "
            "read the images yourself and give arrays to `generate`."
        )
    image, ignored = _decode(path)
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
        np.asarray(values, "float32") for values in (image_format.scale, image_format.offset)
    )
    return (scale * pixels.astype("float32") + offset).astype(expected.dtype), ignored


def list_images(directory: str | os.PathLike[str]) -> tuple[list[Path], list[Path]]:
    """Lists the image files in a directory by their suffixes, sorted by name.

    Args:
        directory: string or path.

    Returns:
        Tuple of image paths, and of ignored entries: subdirectories, hidden images, and visible
        files with other suffixes. Other hidden files, such as `.DS_Store`, are in neither list.

    Raises:
        ValueError: if the directory contains no image files, or an entry with an image suffix is a
            link to a missing file, a pipe, a socket or a device.
        OSError: if the directory does not exist or cannot be read.
    """
    suffixes = [suffix for group in FORMATS.values() for suffix in group]
    entries = sorted(Path(directory).iterdir())
    visible = [path for path in entries if not path.name.startswith(".")]
    with_suffix = [path for path in visible if path.suffix.lower() in suffixes]
    images = [path for path in with_suffix if not path.is_dir()]
    hidden = [path for path in entries if path.name.startswith(".")]
    hidden_images = [path for path in hidden if path.suffix.lower() in suffixes]
    ignored = {*visible, *hidden_images} - {*images}
    if not images:
        raise ValueError(
            f"Expected a directory with image files ({', '.join(suffixes)}). Received: "
            f"{str(directory)!r} with {len(ignored)} other entries."
        )
    for path in images:
        if not path.is_file():
            kind = "a link to a missing file" if path.is_symlink() else "neither a file nor a link"
            raise ValueError(
                f"Expected image files. Received: {ascii(path.name)}, {kind}. Remove it, or "
                "restore the file."
            )
    return images, sorted(ignored)


def _decode(path: str | os.PathLike[str]) -> "tuple[Image, list[str]]":
    """Returns a file's decoded image, and sentences about ignored parts of the file."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise ImportError(
            "Image files need Pillow: `pip install './export[images]'` in a checkout."
        ) from error
    Image.init()  # imports the decoders in this Pillow build
    with open(path, "rb") as file:
        first_bytes = file.read(8)
        if not first_bytes:
            raise ValueError("expected an image. Received: a file of 0 bytes.")
        file.seek(0)
        with _decoder_errors():
            try:
                image = Image.open(file, formats=[name for name in FORMATS if name in Image.OPEN])
            except UnidentifiedImageError:
                image = None
        if image is None:
            raise ValueError(
                f"expected an image of the format {', '.join(FORMATS)}. Received: a file "
                f"that starts with {first_bytes!r}."
            )
        bits = _bits_per_channel(image)
        if image.mode not in EIGHT_BITS or bits > 8:
            received = f"{bits} bits" if bits > 8 else f"mode={image.mode!r}"
            raise ValueError(
                f"expected an image of at most 8 bits per channel. Received: {received}. Convert "
                "it."
            )
        if not 0 < image.width * image.height <= MOST_PIXELS:
            raise ValueError(
                f"expected 1 to {MOST_PIXELS:,} pixels. Received: {image.width} x "
                f"{image.height} pixels. Resize it."
            )
        with _decoder_errors():
            # Before the image is loaded, because the next image's size could differ.
            is_animated = getattr(image, "is_animated", False)
            image.seek(0)
            image.load()
    return image, _ignored(image, is_animated)


def _bits_per_channel(image: "ImageFile") -> int:
    """Returns the bits per channel in the file. Pillow converts 16 bits to 8, except for gray.

    Args:
        image: image that is not loaded yet.
    """
    from PIL.TiffImagePlugin import TiffImageFile

    if isinstance(image, TiffImageFile):
        return max(image.tag_v2.get(BITS_PER_SAMPLE, (1,)))
    args = image.tile[0].args if image.tile else ""
    if image.format == "PNG":
        return 16 if str(args).endswith(";16B") else 8
    if image.format == "PPM" and isinstance(args, tuple):
        return max(int(argument).bit_length() for argument in args[1:])
    return 8


def _ignored(image: "ImageFile", is_animated: bool) -> list[str]:
    """Returns sentences about ignored parts of a loaded image file."""
    ignored: list[str] = []
    if is_animated:
        ignored.append("the file has several images, of which only the first is read.")
    # Pillow removes the tag where it rotates the image itself: in TIFF files.
    orientation = image.getexif().get(ORIENTATION, 1)
    if orientation != 1:
        ignored.append(
            f"the EXIF orientation {orientation} is ignored. If the training images were rotated "
            "to be upright, rotate this one too."
        )
    return ignored


@contextmanager
def _decoder_errors() -> Generator[None, None, None]:
    """Converts exceptions from Pillow's decoders, which share no base class."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"expected a complete image. Received: {reason}.") from error


def _resize(image: "Image", size: tuple[int, int], resize: str | None) -> "Image":
    if resize is None:
        raise ValueError(
            f"expected an image of width {size[0]} and height {size[1]}. Received: width "
            f"{image.width} and height {image.height}. Resize it, or export the model with "
            "ImageFormat(resize=...)."
        )
    from PIL.Image import Resampling

    return image.resize(size, Resampling[resize.upper()])
