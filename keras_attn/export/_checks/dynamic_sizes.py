"""Samples with other sizes, for a second comparison of an exported file with Keras."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import keras
import numpy as np

from keras_attn_checks.export_options import DynamicSizes

Results = TypeVar("Results")

Axis: TypeAlias = tuple[int, int]
"""Number of an input, and axis."""

Group: TypeAlias = tuple[Axis, ...]
"""Axes that change together."""


def batches_of_other_sizes(
    function: Callable[..., Results],
    inputs: Mapping[str, keras.KerasTensor],
    arrays: Sequence[np.ndarray],
    dynamic_sizes: DynamicSizes | None = None,
) -> tuple[list[tuple[list[np.ndarray], Results]], dict[tuple[tuple[str, int], ...], str]]:
    """Resizes a sample along the dynamic axes of a model's inputs.

    A conversion may treat a size of the sample as a constant, which a comparison with the same
    sizes cannot detect. Therefore all dynamic axes get sizes that do not occur in the sample. The
    batch axes of all inputs get the same new size. Other axes that have equal sizes in the sample
    get equal new sizes. If Keras fails with the new sizes, the axes are changed separately, to
    larger and to smaller sizes. If Keras fails with all sizes of an axis, the axis is fixed.

    Args:
        function: Function that runs Keras. Its arguments are the tensors of `inputs`, in this
            order.
        inputs: Dict from the names of inputs to their symbolic tensors.
        arrays: List of arrays, the sample.
        dynamic_sizes: Dict from the names of inputs to the shapes after resizing. In a shape,
            `None` means the size in the sample. If no dict is given, the function chooses the
            sizes. Defaults to `None`.

    Returns:
        Tuple `(batches, fixed)`. `batches` is a list of pairs (list of arrays, results of
        `function`). `fixed` is a dict from each group of fixed axes to the reason. A group is a
        tuple of pairs (name of an input, axis) that have the same size.

    Raises:
        ValueError: If `dynamic_sizes` does not fit the inputs, or Keras fails with the sizes of
            `dynamic_sizes`.
    """
    if dynamic_sizes is not None:
        batch = resized(arrays, _given_sizes(dynamic_sizes, inputs, arrays))
        try:
            return [(batch, function(*batch))], {}
        except Exception as error:
            raise ValueError(
                "Expected sizes at which Keras runs the model. Received: "
                f"dynamic_sizes={dynamic_sizes}, for which it raises {_short(error)}"
            ) from error
    groups = _axes_that_change_together(inputs, arrays)
    taken = {size for array in arrays for size in array.shape}
    choices = []
    for group in groups:
        choices.append(_candidates(_size(arrays, group), taken))
        taken.add(choices[-1][0])

    def run(sizes: Mapping[Group, int]) -> tuple[list[np.ndarray], Results] | Exception:
        """Returns the batch with these sizes and the results of Keras, or the error."""
        axes = {axis: size for group, size in sizes.items() for axis in group}
        batch = resized(arrays, axes)
        try:
            return batch, function(*batch)
        except Exception as error:  # the type depends on the operator that does not support a size
            return error

    def first_that_runs(
        group: Group, candidates: Iterable[int]
    ) -> tuple[dict[Group, int], list[tuple[list[np.ndarray], Results]], Exception | None]:
        """Returns the first size without error and its results, or the first error."""
        error = None
        for size in candidates:
            result = run({group: size})
            if not isinstance(result, Exception):
                return {group: size}, [result], None
            error = error or result
        return {}, [], error

    if not groups:
        return [], {}
    result = run({group: sizes[0] for group, sizes in zip(groups, choices, strict=True)})
    if not isinstance(result, Exception):
        return [result], {}
    sizes, results = {}, []
    failed: dict[Group, tuple[list[int], Exception | None]] = {}
    for group, candidates in zip(groups, choices, strict=True):
        working, batches, error = first_that_runs(group, candidates)
        sizes |= working
        results += batches
        if not working:
            failed[group] = candidates, error
    rows = groups[0]
    for group in [group for group in failed if group != rows]:
        # An axis may need the size of the batch axis, as in a matrix `(nodes, nodes)`.
        if rows in failed and _size(arrays, group) == _size(arrays, rows):
            working, batches, _ = first_that_runs((*rows, *group), failed[rows][0])
            sizes |= working
            results += batches
            if working:
                del failed[rows], failed[group]
    fixed = {}
    names = list(inputs)
    for group, (candidates, error) in failed.items():
        tried = ", ".join(map(str, candidates))
        axes = tuple((names[number], axis) for number, axis in group)
        fixed[axes] = f"Keras fails at the sizes {tried} ({_short(error)})"
    together = run(sizes) if len(sizes) > 1 else None
    if together is not None and not isinstance(together, Exception):
        results = [together]
    return results, fixed


def resized(arrays: Sequence[np.ndarray], sizes: Mapping[Axis, int]) -> list[np.ndarray]:
    """Resizes some axes of arrays.

    An axis grows by repeating entries in place (a, a, b, b) and shrinks by dropping entries evenly,
    so padding stays at its end, and all values occur in `arrays`.

    Args:
        arrays: List of arrays.
        sizes: Dict from pairs (index in `arrays`, axis) to sizes.

    Returns:
        List of arrays.
    """
    arrays = list(arrays)
    for (number, axis), size in sizes.items():
        old = arrays[number].shape[axis]
        arrays[number] = np.take(arrays[number], np.arange(size) * old // size, axis)
    return arrays


def describe_axes(axes: Iterable[tuple[str, int]]) -> str:
    """Formats pairs (name of an input, axis) for a message."""
    return ", ".join(f"axis {axis} of {name!r}" for name, axis in axes)


def _axes_that_change_together(
    inputs: Mapping[str, keras.KerasTensor], arrays: Sequence[np.ndarray]
) -> tuple[Group, ...]:
    """Returns groups of axes, the batch axes first. A group is a tuple of (input number, axis)."""
    rows, groups = [], {}
    for number, (value, array) in enumerate(zip(inputs.values(), arrays, strict=True)):
        for axis, size in enumerate(value.shape):
            if size is None:
                same = groups.setdefault(array.shape[axis], []) if axis else rows
                same.append((number, axis))
    return tuple(tuple(group) for group in (rows, *groups.values()) if group)


def _candidates(size: int, taken: set[int]) -> list[int]:
    """Returns sizes to try instead of `size`. The first is not in `taken`."""
    larger = next(other for other in range(size + 1, size + len(taken) + 2) if other not in taken)
    # Twice the size for an axis that must be divisible, smaller sizes for an axis with a limit.
    sizes = [larger, 2 * size, size - 1, size // 2]
    return [value for value in dict.fromkeys(sizes) if value > 0 and value != size]


def _size(arrays: Sequence[np.ndarray], group: Group) -> int:
    number, axis = group[0]
    return arrays[number].shape[axis]


def _given_sizes(
    dynamic_sizes: DynamicSizes,
    inputs: Mapping[str, keras.KerasTensor],
    arrays: Sequence[np.ndarray],
) -> dict[Axis, int]:
    unknown = [name for name in dynamic_sizes if name not in inputs]
    if unknown:
        raise ValueError(
            f"Expected dynamic_sizes for the inputs {list(inputs)}. Received: {unknown}."
        )
    sizes, rows = {}, set()
    for number, (name, value) in enumerate(inputs.items()):
        shape = tuple(dynamic_sizes.get(name, [None] * len(value.shape)))
        fits = len(shape) == len(value.shape) and all(
            given is None or (given > 0 and size in (None, given))
            for given, size in zip(shape, value.shape, strict=False)
        )
        if not fits:
            raise ValueError(
                f"Expected a shape {tuple(value.shape)} of the input {name!r}. "
                f"Received: dynamic_sizes[{name!r}]={dynamic_sizes[name]}."
            )
        sizes |= {(number, axis): size for axis, size in enumerate(shape) if size is not None}
        if value.shape[0] is None and shape[0] is not None:
            rows.add(shape[0])
    if len(rows) > 1:
        raise ValueError(
            f"Expected the same number of rows for all inputs. Received: {dynamic_sizes=}."
        )
    for number, value in enumerate(inputs.values()):
        if rows and value.shape[0] is None:
            sizes[number, 0] = next(iter(rows))
    return sizes


def _short(error: Exception | None) -> str:
    """Returns the type of an error and its first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:200] if lines else ''}"
