"""Finds out whether a model can train on TensorFlow replicas with different numbers of rows."""

import dataclasses
import inspect
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
from keras_attn.training.global_loss import GlobalLoss, LossOfRealRows, replaced_losses

_NUM_ROWS = 4
"""Number of rows with which losses and metrics are tried."""


@dataclasses.dataclass(frozen=True)
class RowSupport:
    """What a model supports.

    Attributes:
        steps: Tuple of the names of the steps that compute the losses and metrics of `compile`.
        losses: Tuple of losses that replace those of the compiled model, or an empty tuple.
        problems: Dict from the name of a step to the reason why replicas with different numbers of
            rows do not compute the same as one device.
    """

    steps: tuple[str, ...] = ()
    losses: tuple[Any, ...] = ()
    problems: dict[str, str] = dataclasses.field(default_factory=dict)


def find_row_support(model: keras.Model, batch: Any) -> RowSupport:
    """Tries the layers, losses and metrics of a model with a few rows.

    Args:
        model: Compiled model. Its variables and those of its metrics are created.
        batch: Tuple of inputs, labels and sample weights.

    Returns:
        `RowSupport`.
    """
    steps = ("train_step", "test_step")
    rows = np.arange(_NUM_ROWS) % int(num_rows(batch))
    data = keras.tree.map_structure(lambda each: ops.take(each, rows, axis=0), batch)
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
    losses, problems = _global_losses(model, y, y_pred, sample_weight)
    problems += _metric_problems(model, y, y_pred, sample_weight)
    if model.run_eagerly and len(losses) > 1:  # Keras weighs the loss of each output by its rows
        problems.append("several losses and run_eagerly=True")
    if adds_losses:
        problems.append("a layer adds losses of its inputs or outputs")
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
    found = {"train_step": [*problems, *in_training], "test_step": problems}
    for name in steps:
        if _overrides(model, name):
            found[name] = [f"the model overrides {name}"]
    return RowSupport(
        tuple(name for name in steps if not _overrides(model, name)),
        losses,
        {name: " and ".join(reasons) for name, reasons in found.items() if reasons},
    )


def _overrides(model, name):
    """Returns whether a method of `keras.Model` is overridden outside of Keras and this package."""
    module = getattr(type(model), name).__module__
    return name in vars(model) or not module.startswith(("keras.", "keras_attn."))


def _forward(model, x):
    """Returns the outputs for inputs, and whether layers add losses that depend on them."""
    takes_training = "training" in inspect.signature(model.call).parameters
    y_pred, _, losses = model.stateless_call(
        [ops.convert_to_tensor(each) for each in model.trainable_variables],
        [ops.convert_to_tensor(each) for each in model.non_trainable_variables],
        x,
        return_losses=True,
        **{"training": True} if takes_training else {},
    )
    return y_pred, len(losses) > sum(
        each.regularizer is not None for each in model.trainable_weights
    )


def _global_losses(model, y, y_pred, sample_weight):
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

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        self.arguments = y_true, y_pred
        return ops.zeros(())


def _metric_problems(model, y, y_pred, sample_weight):
    """Returns the problems of metrics whose states cannot be added up over replicas."""
    trackers = [loss_tracker(model), *metrics_of_losses(model)]
    metrics = [each for each in model.metrics if not any(each is other for other in trackers)]
    groups = [each for each in metrics if hasattr(each, "metrics")]  # of `compile`
    problems = [
        f"the metric {each.name!r} is not a metric of `compile`"
        for each in metrics
        if each not in groups
    ]
    for group in groups:
        additive = _is_additive(group, (y, y_pred, sample_weight))
        problems += [
            f"the states of the metric {metric.name!r} cannot be added up over replicas"
            for metric in group.metrics
            if not all(additive[id(variable)] for variable in metric.variables)
        ]
    return problems


def _is_additive(metric, arguments):
    """Returns a dict from the id of each variable of a metric to whether its values are sums."""
    with keras.StatelessScope() as scope:
        metric.reset_state()
        initial = [scope.get_current_value(each) for each in metric.variables]
    pairs = zip(initial, metric.variables, strict=True)
    initial = [ops.zeros_like(variable) if value is None else value for value, variable in pairs]

    def state(rows):
        part = keras.tree.map_structure(
            lambda each: None if each is None else each[rows], arguments
        )
        values = metric.stateless_update_state(initial, *part)
        return [np.asarray(ops.convert_to_numpy(each), "float64") for each in values]

    parts = [state(rows) for rows in (slice(_NUM_ROWS), slice(1), slice(1, _NUM_ROWS))]
    return {
        id(variable): np.allclose(first + others, all_rows, rtol=1e-4, equal_nan=True)
        for variable, all_rows, first, others in zip(metric.variables, *parts, strict=True)
    }
