"""Chooses how `fit` reads the data of a training."""

from collections.abc import Iterator
from typing import Any, NoReturn, TypeGuard

import keras
import numpy as np

from keras_attn._backend.replicas import num_data_replicas
from keras_attn._backend.workers import gather_from_workers
from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn.training._array_batches import ArrayBatches
from keras_attn.training._dataset_batches import Batches, DatasetBatches
from keras_attn.training._nested_arrays import as_arrays, checksum_of_batch, is_dense
from keras_attn.training._step_batches import OnMismatch, Shuffle, StepBatches, step_method

_KINDS = (
    "arrays, a keras.utils.PyDataset, or an object with the attribute steps_per_epoch and the "
    "method {method}(start_step), such as keras_attn.text.LengthBucketedBatches"
)


def is_step_object(data: object) -> TypeGuard[StepBatches]:
    """Returns whether data has `steps_per_epoch` and `dataset` (on TensorFlow) or `stream`."""
    return getattr(data, "steps_per_epoch", None) is not None and callable(
        getattr(data, step_method(), None)
    )


def check_data(
    x: object,
    y: object,
    sample_weight: object,
    class_weight: object,
    batch_size: object,
    steps_per_epoch: object,
    validation_split: float,
) -> None:
    """Raises a `ValueError` if arguments of `fit` do not fit to the kind of `x`."""
    if class_weight is not None and not isinstance(class_weight, dict):
        raise ValueError(
            "Expected class_weight to be a dict from classes to weights. Received: "
            f"class_weight={class_weight!r}. Pass {{0: 1.0, 1: 2.0}}."
        )
    if x is None:
        raise ValueError(
            f"Expected x to be {_KINDS.format(method=step_method())}. Received: x=None."
        )
    if is_dense((x, y, sample_weight)):
        return
    kind = type(x).__name__
    is_array_like = isinstance(x, (dict, list, tuple)) or hasattr(x, "shape")
    arguments = {} if is_array_like else {"y": y, "sample_weight": sample_weight}
    if is_step_object(x):
        check_positive_integer("x.steps_per_epoch", x.steps_per_epoch)
        arguments |= {"class_weight": class_weight, "batch_size": batch_size}
        if steps_per_epoch != x.steps_per_epoch:
            arguments["steps_per_epoch"] = steps_per_epoch
    for name, value in arguments.items():
        if value is not None:
            raise ValueError(
                f"Expected {name}=None with x of type {kind}, which contains complete batches. "
                f"Received: {name} of type {type(value).__name__}. Let x return batches "
                "(inputs, labels, sample_weight) instead."
            )
    if validation_split and not is_array_like:
        raise ValueError(
            f"Expected arrays with validation_split. Received: validation_split={validation_split}"
            f", x of type {kind}. Pass validation_data."
        )


def resumable_data(
    model: keras.Model,
    x: object,
    y: object,
    sample_weight: object,
    *,
    batch_size: int | None,
    shuffle: Shuffle,
    class_weight: dict[int, float] | None,
    steps_per_epoch: int | None,
    on_mismatch: OnMismatch,
    must_resume: bool,
) -> Batches | None:
    """Returns an object that reads the batches of a training from any step, or `None`.

    Args:
        model, x, y, sample_weight, batch_size, shuffle, class_weight, steps_per_epoch, on_mismatch:
            See `keras_attn.training.fit`.
        must_resume: Bool, whether to reject data that cannot be read again.

    Returns:
        `x` itself, if it has `steps_per_epoch` and `dataset` or `stream`; `ArrayBatches`;
        `DatasetBatches`; or `None` for data of another kind, which only Keras can read.
    """
    if is_step_object(x):
        return x
    has_replicas = num_data_replicas(model) > 1
    generator = np.random.RandomState()  # a copy: the caller's next random numbers do not change
    generator.set_state(np.random.get_state())
    seed = gather_from_workers(model, int(generator.randint(2**31 - 1)))[0]
    if isinstance(x, keras.utils.PyDataset) and not has_replicas:
        dataset = DatasetBatches(x, shuffle, class_weight, steps_per_epoch, seed, on_mismatch)
        dataset.check_repeatable()
        return dataset
    if isinstance(x, keras.utils.PyDataset) and must_resume:
        _reject_replicas("x", x)
    data = x, y, sample_weight
    if is_dense(data):
        arrays = as_arrays(data)
        return ArrayBatches(arrays, batch_size, shuffle, class_weight, steps_per_epoch, seed)
    if must_resume:
        for name, part in zip(("x", "y", "sample_weight"), data, strict=True):
            if not is_dense(part):
                _reject_unrepeatable(name, part)
    return None


def validation_arguments(
    model: keras.Model,
    data: object,
    *,
    batch_size: int | None,
    steps: int | None,
    on_mismatch: OnMismatch,
    must_resume: bool,
    is_padded: bool,
) -> tuple[Batches | None, dict[str, Any]]:
    """Returns an object that reads validation batches, or `None`, and arguments of `model.fit`.

    Args:
        model: `keras.Model`.
        data: Argument `validation_data` of `fit`.
        batch_size: Positive int or `None`.
        steps: Argument `validation_steps` of `fit`.
        on_mismatch: See `fit`.
        must_resume: Bool, whether to reject data that cannot be read again.
        is_padded: Bool, whether the batches are padded to the number of replicas.
    """
    if data is None:
        return None, {}
    arguments = {"validation_steps": steps, "validation_batch_size": batch_size}
    if is_step_object(data):
        check_positive_integer("validation_data.steps_per_epoch", data.steps_per_epoch)
        num_steps = min(steps or data.steps_per_epoch, data.steps_per_epoch)
        return data, {"validation_steps": num_steps}
    is_array_like = isinstance(data, tuple | list) or is_dense(data)
    parts = keras.utils.unpack_x_y_sample_weight(data) if is_array_like else ()
    if is_padded and is_array_like and is_dense(parts):
        per_evaluation = steps if batch_size is None else None
        batches = ArrayBatches(as_arrays(parts), batch_size, steps_per_epoch=per_evaluation)
        return batches, {"validation_steps": min(steps or np.inf, batches.steps_per_epoch)}
    if is_padded:
        _reject_replicas("validation_data", data)
    if isinstance(data, keras.utils.PyDataset) and must_resume:
        endless_steps = steps if data.num_batches is None else None
        dataset = DatasetBatches(data, steps_per_epoch=endless_steps, on_mismatch=on_mismatch)
        dataset.check_repeatable()
        return dataset, arguments
    if must_resume and not is_array_like:
        _check_repeatable("validation_data", data)
    return None, {**arguments, "validation_data": data}


def _reject_replicas(name: str, data: object) -> NoReturn:
    raise ValueError(
        f"Expected {name} to be arrays or an object with steps_per_epoch and {step_method()}"
        f"(start_step) for a training on several devices. Received: {name} of type "
        f"{type(data).__name__}. Pass one of these."
    )


def _reject_unrepeatable(name: str, data: object) -> None:
    """Raises a `ValueError` that names the kinds of data from which a training can resume."""
    kind = type(data).__name__
    if isinstance(data, (dict, list, tuple)):
        first = next(leaf for leaf in keras.tree.flatten(data) if not is_dense(leaf))
        kind += f" that contains {type(first).__name__}"
    raise ValueError(
        f"Expected {name} to be {_KINDS.format(method=step_method())}, because a training with a "
        f"directory must read it again when it resumes. Received: {name} of type {kind}. Pass one "
        "of these (np.asarray converts numbers, and methods such as toarray convert sparse "
        "arrays), or directory=None."
    )


def _check_repeatable(name: str, data: Any) -> None:
    """Raises a `ValueError` if data that only Keras reads cannot be read twice."""
    if isinstance(data, Iterator):
        _reject_unrepeatable(name, data)
    first, second = (checksum_of_batch(next(iter(data))) for _ in range(2))
    if first != second:
        raise ValueError(
            f"Expected {name} to return the same batches in each epoch, because a training with a "
            f"directory reads it again when it resumes. Received: {name} of type "
            f"{type(data).__name__}, whose first batch differs when it is read again. Do not "
            "shuffle it."
        )
