"""Finds out whether a model can train on TensorFlow replicas with different numbers of rows."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn._backend.padded_batches import num_rows
from keras_attn._backend.private_names import (
    GradientClipping,
    build_symbolically,
    compiled_losses,
    compute_compiled_loss,
    loss_tracker,
    metrics_of_losses,
    nested_layers,
)
from keras_attn._types import Tensor
from keras_attn.training._global_loss import GlobalLoss, LossOfRealRows, replaced_losses
from keras_attn.training._nested_arrays import map_arrays

_NUM_ROWS = 4
"""Number of rows in the examples for losses and metrics."""


@dataclasses.dataclass(frozen=True)
class RowSupport:
    """What a model supports.

    Attributes:
        steps: Names of the steps that compute the losses and metrics of `compile`.
        losses: Tuple of losses that replace those of the compiled model, or an empty tuple.
        problems: Dict from step names to the reasons why replicas with different numbers of rows
            differ from one device.
    """

    steps: tuple[str, ...] = ()
    losses: tuple[Callable[..., Tensor], ...] = ()
    problems: dict[str, str] = dataclasses.field(default_factory=dict)


def find_row_support(model: keras.Model, batch: object) -> RowSupport:
    """Tries a model's layers, losses and metrics with a few rows.

    Args:
        model: Compiled model. Its variables and those of its metrics are created.
        batch: Tuple of inputs, labels and sample weights.

    Returns:
        `RowSupport`.
    """
    steps = ("train_step", "test_step")
    rows = np.arange(_NUM_ROWS) % int(num_rows(batch))
    data = keras.tree.map_structure(lambda array: ops.take(array, rows, axis=0), batch)
    build_symbolically(model, data)
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    for name in ("compute_loss", "compute_metrics"):
        if _overrides(model, name):
            return RowSupport(problems=dict.fromkeys(steps, f"the model overrides {name}"))
    try:
        y_pred, adds_losses = _forward(model, x)
    except Exception as error:  # code of the user, or a fixed batch size
        problem = f"the model fails with a batch of {_NUM_ROWS} rows ({error})"
        return RowSupport(problems=dict.fromkeys(steps, problem))
    if adds_losses:
        # Sums over replicas would switch between their threads, which share the list of losses.
        problem = "a layer adds losses of its inputs or outputs"
        return RowSupport(problems=dict.fromkeys(steps, problem))
    losses, problems = _global_losses(model, y, y_pred, sample_weight)
    problems += _metric_problems(model, y, y_pred, sample_weight)
    if model.run_eagerly and len(losses) > 1:  # Keras weighs the loss of each output by its rows
        problems.append("several losses and run_eagerly=True")
    in_training = [
        f"the layer {layer.name!r} normalizes over the rows of a batch"
        for layer in nested_layers(model)
        if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable
    ]
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    if not isinstance(optimizer, GradientClipping):
        in_training += [
            f"the optimizer clips the gradients of each replica alone ({name}), unlike the one of "
            "keras_attn.training.compile_for_training"
            for name in ("clipnorm", "clipvalue", "global_clipnorm")
            if getattr(optimizer, name, None) is not None
        ]
    reasons = {"train_step": [*problems, *in_training], "test_step": problems}
    for name in steps:
        if _overrides(model, name):
            reasons[name] = [f"the model overrides {name}"]
    return RowSupport(
        tuple(name for name in steps if not _overrides(model, name)),
        losses,
        {name: " and ".join(texts) for name, texts in reasons.items() if texts},
    )


def _overrides(model: keras.Model, name: str) -> bool:
    """Returns whether a method is overridden outside of Keras and this package."""
    module = getattr(type(model), name).__module__
    return name in vars(model) or not module.startswith(("keras.", "keras_attn."))


def _forward(model: keras.Model, x: object) -> tuple[object, bool]:
    """Returns the outputs for inputs, and whether layers add losses that depend on them."""
    takes_training = "training" in inspect.signature(model.call).parameters
    results: Any = model.stateless_call(
        [ops.convert_to_tensor(variable) for variable in model.trainable_variables],
        [ops.convert_to_tensor(variable) for variable in model.non_trainable_variables],
        x,
        return_losses=True,
        **{"training": True} if takes_training else {},
    )
    y_pred, _, losses = results
    num_regularizers = sum(weight.regularizer is not None for weight in model.trainable_weights)
    return y_pred, len(losses) > num_regularizers


def _global_losses(
    model: keras.Model, y: object, y_pred: object, sample_weight: object
) -> tuple[tuple[Callable[..., Tensor], ...], list[str]]:
    """Returns losses for all replicas, and the problems of those that stay as they are."""
    recorders = [_Recorder() for _ in compiled_losses(model)]
    if not recorders:
        return (), []
    with replaced_losses(model, recorders), keras.StatelessScope():
        compute_compiled_loss(model, y, y_pred, sample_weight)
    losses, problems = [], []
    for entry, recorder in zip(compiled_losses(model), recorders, strict=True):
        loss, problem = entry.loss, None
        reduce = type(loss).__call__
        if reduce is keras.losses.Loss.__call__:
            try:
                problem = GlobalLoss(loss).problem(*recorder.arguments)
            except Exception as error:  # code of the user
                problem = f"the loss {loss.name!r} fails with {_NUM_ROWS} rows ({error})"
            loss = GlobalLoss(loss) if problem is None else loss
        elif reduce.__module__.startswith("keras_attn."):
            loss = LossOfRealRows(loss)  # our losses are reduced over all replicas
        else:
            problem = f"the loss {loss.name!r} overrides __call__"
        losses.append(loss)
        problems += [] if problem is None else [problem]
    return tuple(losses), problems


class _Recorder:
    """Stores the labels and outputs that a loss receives."""

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: object = None) -> Tensor:
        self.arguments = y_true, y_pred
        return ops.zeros(())


def _metric_problems(
    model: keras.Model, y: object, y_pred: object, sample_weight: object
) -> list[str]:
    """Returns why metric states cannot be added up over replicas."""
    trackers = [loss_tracker(model), *metrics_of_losses(model)]
    tracker_ids = set(map(id, trackers))
    metrics = [metric for metric in model.metrics if id(metric) not in tracker_ids]
    groups = [metric for metric in metrics if hasattr(metric, "metrics")]  # of `compile`
    problems = [
        f"the metric {metric.name!r} is not a metric of `compile`"
        for metric in metrics
        if metric not in groups
    ]
    for group in groups:
        additive = _is_additive(group, (y, y_pred, sample_weight))
        problems += [
            f"the states of the metric {metric.name!r} cannot be added up over replicas"
            for metric in group.metrics
            if not all(additive[id(variable)] for variable in metric.variables)
        ]
    return problems


def _is_additive(metric: keras.metrics.Metric, arguments: tuple[object, ...]) -> dict[int, bool]:
    """Returns for the id of each metric variable whether its values are sums."""
    with keras.StatelessScope() as scope:
        metric.reset_state()
        values = [scope.get_current_value(variable) for variable in metric.variables]
    pairs = zip(values, metric.variables, strict=True)
    initial = [ops.zeros_like(variable) if value is None else value for value, variable in pairs]

    def state(rows: slice) -> list[np.ndarray]:
        part = map_arrays(arguments, lambda array: array[rows])
        values = metric.stateless_update_state(initial, *part)
        return [np.asarray(ops.convert_to_numpy(value), "float64") for value in values]

    parts = [state(rows) for rows in (slice(_NUM_ROWS), slice(1), slice(1, _NUM_ROWS))]
    return {
        id(variable): np.allclose(first + rest, all_rows, rtol=1e-4, equal_nan=True)
        for variable, all_rows, first, rest in zip(metric.variables, *parts, strict=True)
    }
