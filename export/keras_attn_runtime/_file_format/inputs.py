"""Inputs in an exported file, and how image files become inputs."""

from dataclasses import dataclass

from keras_attn_runtime._file_format.settings_reader import SettingsReader

CHANNELS = {"gray": 1, "rgb": 3, "bgr": 3, "rgba": 4}
"""Dict from channel orders to numbers of channels."""

FILTERS = ("nearest", "bilinear", "bicubic")


@dataclass(frozen=True)
class ImageFormat:
    """Describes how an image file becomes a model input: `scale * pixel + offset`.

    Attributes:
        channels: string, channel order on the last axis: "gray", "rgb", "bgr" or "rgba".
        scale, offset: tuples with one float per channel. Pixels are in {0, ..., 255}.
        resize: string, the filter for images with a different size: "nearest", "bilinear" or
            "bicubic". `None` if such images are rejected.
    """

    channels: str
    scale: tuple[float, ...]
    offset: tuple[float, ...]
    resize: str | None

    @property
    def num_channels(self) -> int:
        """Number of channels."""
        return CHANNELS[self.channels]


@dataclass(frozen=True)
class Input:
    """An input that a model's encoder reads.

    Attributes:
        kind: string, "ids", "image", "features", "audio" or "series".
        dtype: string, a NumPy dtype such as "int32".
        shape: tuple of ints and strings; a string names a dynamic axis.
        image: `ImageFormat` for reading image files as this input, or `None` if the file defines
            none.
    """

    kind: str
    dtype: str
    shape: tuple[int | str, ...]
    image: ImageFormat | None = None


def read_input(reader: SettingsReader) -> Input:
    """Reads one input's entry in the settings; raises `ModelFileError` if it is malformed."""
    shape = reader.get("shape", list)
    if not all(isinstance(size, (int, str)) and not isinstance(size, bool) for size in shape):
        reader.refuse("shape", "that is a list of numbers and names")
    image = None
    if reader.get("image", (dict, type(None)), None) is not None:
        image = _image_format(reader.part("image"))
        if len(shape) != 4 or shape[-1] != image.num_channels:
            reader.refuse("shape", f"with 4 axes, the last of size {image.num_channels}")
    return Input(reader.get("kind", str), reader.get("dtype", str), tuple(shape), image)


def _image_format(reader: SettingsReader) -> ImageFormat:
    channels = reader.get("channels", str, "rgb")
    if channels not in CHANNELS:
        reader.refuse("channels", f"in {list(CHANNELS)}")
    resize = reader.get("resize", (str, type(None)), None)
    if resize is not None and resize not in FILTERS:
        reader.refuse("resize", f"in {list(FILTERS)}, or null,")
    scale, offset = (
        reader.numbers(name, CHANNELS[channels], default)
        for name, default in (("scale", 1.0), ("offset", 0.0))
    )
    return ImageFormat(channels, scale, offset, resize)
