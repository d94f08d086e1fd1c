from dataclasses import dataclass, field

from keras_attn_runtime._array_types import Floats


@dataclass(frozen=True)
class Classification:
    """The label of one text.

    A text without tokens, such as a blank line, has no label: `label` and `probability` are `None`.

    Attributes:
        label: string, the most probable label.
        probability: float, its probability.
        probabilities: dict from all labels to their probabilities.
        pieces: list of strings, the pieces that the model read, with the start and end token.
        attention: float32 array `(pieces,)`, the attention weights of `pieces`, or `(heads,
            pieces)` if the file returns several rows. None if the file returns no attention
            weights.
        truncated: bool, whether the text was longer than `max_source_length` tokens or
            `max_source_characters` and was cut.
    """

    label: str | None
    probability: float | None
    probabilities: dict[str, float]
    pieces: list[str] = field(repr=False)
    attention: Floats | None = field(repr=False, compare=False)
    truncated: bool
