from dataclasses import dataclass


@dataclass(frozen=True)
class TensorValue:
    """An input or output of a model file.

    Attributes:
        name: string.
        dtype: string, such as "float32".
        shape: tuple of ints, and of strings or `None` for dynamic axes; `None` if the rank is
            unknown.
        optional: bool, whether a caller may leave an input out.
    """

    name: str
    dtype: str
    shape: tuple | None
    optional: bool = False

    def __str__(self):
        if self.shape is None:
            axes = "unknown rank"
        else:
            axes = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.name}: {self.dtype} ({axes})" + (", optional" if self.optional else "")
