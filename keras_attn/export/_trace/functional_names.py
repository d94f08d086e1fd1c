"""Names of the inputs and outputs of a functional model in its exported file."""

from collections.abc import Collection, Iterable, Mapping
from itertools import count

import keras

from keras_attn.export._types import Axes


def input_names(model: keras.Model) -> list[str]:
    """Returns the names of a functional model's inputs, in the order of `model.inputs`."""
    if isinstance(model.input, dict):
        return _paths(model.input, "inputs")
    return [value.name for value in model.inputs]


def output_names(model: keras.Model, input_names: Collection[str]) -> list[str]:
    """Returns the names of a functional model's outputs, in the order of `model.outputs`.

    All names differ from each other and from the names of the inputs, as ONNX requires.
    """
    if isinstance(model.output, dict):
        names = _paths(model.output, "outputs")
        shared = [name for name in names if name in input_names]
        if shared:
            raise ValueError(
                "Expected outputs named differently from the inputs. Received: inputs="
                f"{list(input_names)}, outputs={names}, with {shared} in both. Rename these keys "
                "in the dictionary of outputs, for instance keras.Model(model.input, "
                f"{{{shared[0] + '_output'!r}: ...}})."
            )
        return names
    names = []
    for name in model.output_names:
        different = (f"{name}_{number}" if number else name for number in count())
        taken = (*names, *input_names)
        names.append(next(candidate for candidate in different if candidate not in taken))
    return names


def axis_names(name: str, shape: Iterable[int | None], first: str = "batch") -> Axes:
    """Returns a tuple with the size of each axis, or a name if the size is unknown.

    Args:
        name: String, name of the tensor.
        shape: Tuple of ints and `None`.
        first: String, name of the first axis if its size is unknown. Other axes of unknown size are
            named after the tensor and the axis, such as `"image_1"`. Defaults to `"batch"`.
    """
    return tuple(
        size if size is not None else first if axis == 0 else f"{name}_{axis}"
        for axis, size in enumerate(shape)
    )


def _paths(structure: Mapping[str, object], what: str) -> list[str]:
    """Returns a unique name such as `outer/inner` for each tensor in a nested dict.

    The dict contains the inputs or the outputs of a model.
    """
    paths = [path for path, _ in keras.tree.flatten_with_path(structure)]
    names = ["/".join(map(str, path)) for path in paths]
    same = [path for path, name in zip(paths, names, strict=True) if names.count(name) > 1]
    if same:
        raise ValueError(
            f"Expected keys of the {what} that result in unique names, such as 'outer/inner'. "
            f"Received: the keys {same}, which result in the same name. Rename a key in the "
            f"dictionary of {what}."
        )
    if "" in names:
        raise ValueError(
            "Expected keys that are not empty, because an ONNX file needs a name for each of the "
            f"{what}. Received: the keys {paths}. Rename the empty key."
        )
    return names
