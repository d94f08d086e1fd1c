from dataclasses import dataclass

CHANNELS = {"gray": 1, "rgb": 3, "bgr": 3, "rgba": 4}
"""Maps the name of a channel order to the number of channels."""

FILTERS = ("nearest", "bilinear", "bicubic")


@dataclass(frozen=True)
class ImageFormat:
    """Describes how an image file becomes an input of a model: `scale * pixel + offset`.

    Attributes:
        channels: string, order of the channels on the last axis: "gray", "rgb", "bgr" or "rgba".
        scale, offset: tuples of one float for each channel. Pixels are in {0, ..., 255}.
        resize: string, the filter that resizes images of another size: "nearest", "bilinear" or
            "bicubic". `None` if images of another size are refused.
    """

    channels: str
    scale: tuple[float, ...]
    offset: tuple[float, ...]
    resize: str | None

    @property
    def num_channels(self) -> int:
        """Number of channels."""
        return CHANNELS[self.channels]
