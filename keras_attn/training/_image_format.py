import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

CHANNELS = {"gray": 1, "rgb": 3, "bgr": 3, "rgba": 4}
"""Number of channels for each value of `ImageFormat.channels`."""

FILTERS = ("nearest", "bilinear", "bicubic")


@dataclasses.dataclass(frozen=True)
class ImageFormat:
    """Describes how a model reads image files.

        input = scale * pixel + offset,    pixel in {0, ..., 255}

    The export functions write the format to the metadata of the file, so that `keras-attn-runtime`
    can read image files for the model. `keras_attn_runtime.read_image` returns the same pixels as
    `keras.utils.load_img(path, color_mode, target_size, interpolation)`.

    Args:
        channels: String, the order of the channels on the last axis: `"gray"`, `"rgb"`, `"bgr"` or
            `"rgba"`. Defaults to `"rgb"`.
        scale: Float, or a sequence of floats, one per channel. Defaults to `1.0`.
        offset: Float, or a sequence of floats, one per channel. Defaults to `0.0`.
        resize: String, the filter that resizes images of a different size to the input shape of the
            model: `"nearest"`, `"bilinear"` or `"bicubic"`. The aspect ratio is not preserved.
            Defaults to `None`: images of a different size are rejected.

    Raises:
        ValueError: If `channels` or `resize` is unknown, or `scale` or `offset` is not finite or
            has the wrong length.

    Example:

    >>> from keras_attn.training import ImageFormat
    >>> ImageFormat(scale=1 / 127.5, offset=-1.0, resize="bilinear")  # pixels in [-1, 1]
    ImageFormat(channels='rgb', scale=0.00784313725490196, offset=-1.0, resize='bilinear')
    """

    channels: Literal["gray", "rgb", "bgr", "rgba"] = "rgb"
    scale: float | Sequence[float] = 1.0
    offset: float | Sequence[float] = 0.0
    resize: Literal["nearest", "bilinear", "bicubic"] | None = None

    def __post_init__(self) -> None:
        if self.channels not in CHANNELS:
            raise ValueError(
                f"Expected channels to be one of {list(CHANNELS)}. "
                f"Received: channels={self.channels!r}."
            )
        if self.resize is not None and self.resize not in FILTERS:
            raise ValueError(
                f"Expected resize to be None or one of {list(FILTERS)}. "
                f"Received: resize={self.resize!r}."
            )
        for name in ("scale", "offset"):
            object.__setattr__(self, name, self._numbers(name, getattr(self, name)))

    @property
    def num_channels(self) -> int:
        """Number of channels."""
        return CHANNELS[self.channels]

    @classmethod
    def from_entries(cls, entries: Mapping[str, Any]) -> "ImageFormat":
        """Returns the format with the given values; ignores unknown names."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: entries[name] for name in names if name in entries})

    def entries(self) -> dict[str, object]:
        """Returns a dict of the values that JSON can represent."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in vars(self).items()
        }

    def _numbers(self, name: str, value: Any) -> float | tuple[float, ...]:
        """Returns a float, or a tuple with a float for each channel."""
        is_sequence = isinstance(value, (list, tuple))
        try:
            numbers = [float(number) for number in (value if is_sequence else [value])]
        except (TypeError, ValueError):
            numbers = []
        # The difference of an infinite number or NaN to itself is NaN.
        is_finite = all(number - number == 0 for number in numbers)
        if len(numbers) != (self.num_channels if is_sequence else 1) or not is_finite:
            raise ValueError(
                f"Expected {name} to be a finite float, or a sequence of {self.num_channels} "
                f"finite floats for channels={self.channels!r}. Received: {name}={value!r}."
            )
        return tuple(numbers) if is_sequence else numbers[0]
