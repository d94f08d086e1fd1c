from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class TensorValue:
    """An input or output of a model file.

    Attributes:
        name: string.
        dtype: string, such as "float32".
        shape: tuple with one item for each axis: an int, or a string or `None` for a dynamic axis.
            `None` if the rank is unknown.
        optional: bool, whether the input is optional.
    """

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None
    optional: bool = False

    def __str__(self) -> str:
        if self.shape is None:
            axes = "unknown rank"
        else:
            axes = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.name}: {self.dtype} ({axes})" + (", optional" if self.optional else "")


Signatures: TypeAlias = dict[str, tuple[list[TensorValue], list[TensorValue]]]
"""Dict from each signature's name to its inputs and outputs."""
