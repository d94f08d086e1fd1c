"""Training and validation steps on several devices that are equal to the steps on one device."""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import keras
from keras import ops

from keras_attn._backend.padded_batches import (
    first_rows,
    pad_batch,
    pad_dataset,
    unpack,
    without_padding,
)
from keras_attn._backend.private_names import BUILD_METHOD, build_symbolically, loss_tracker
from keras_attn._backend.replicas import (
    num_data_replicas,
    num_replicas,
    rows_of_worker,
    sum_over_replicas,
)
from keras_attn._types import Tensor, TensorDict
from keras_attn.training._dataset_batches import Batches
from keras_attn.training._global_loss import ReplicaRows, replaced_losses, replica_rows
from keras_attn.training._row_support import RowSupport, find_row_support
from keras_attn.training._step_batches import StepBatches

if TYPE_CHECKING:
    import tensorflow as tf


@contextlib.contextmanager
def replica_steps(
    model: keras.Model,
    batches: Batches,
    validation_batches: Batches | None,
) -> Iterator[tuple[Batches, Batches | None]]:
    """Context in which `model.fit` accepts batches that the replicas cannot divide evenly.

    The batches are padded with copies of the last row. On JAX, each step first removes these rows,
    so that every step is equal to one on one device. On TensorFlow, each replica removes them after
    the forward pass, and the losses and metrics are computed over the rows of all replicas. If a
    model cannot be trained in this way, batches that need padding raise a `ValueError`.

    Args:
        model: Compiled model.
        batches: See `keras_attn.training.fit`.
        validation_batches: Object with the same methods, or `None`.

    Yields:
        Tuple of objects with the same methods. On one device, these are the arguments.
    """
    replicas = num_data_replicas(model)
    if replicas == 1:
        yield batches, validation_batches
        return
    # On several devices, `fit` rejects the data of `DatasetBatches`.
    batches = cast(StepBatches, batches)
    validation_batches = cast(StepBatches | None, validation_batches)
    steps = {"train_step": model.train_step, "test_step": model.test_step}
    if keras.backend.backend() == "tensorflow":
        if model.steps_per_execution > 1:
            raise ValueError(
                "Expected steps_per_execution=1 under a strategy of TensorFlow, because several "
                "steps fail in Keras. Received: "
                f"steps_per_execution={model.steps_per_execution}. Compile the model without it."
            )
        example = next(iter(batches.dataset(0).take(1)))
        with model.distribute_strategy.scope():
            support = find_row_support(model, example)
        methods = {
            name: _step_of_replica(step, counts_rows=name in support.steps)
            for name, step in steps.items()
        }
        if support.steps:
            methods["compute_loss"] = _compute_loss(model, model.compute_loss)
            methods["compute_metrics"] = _compute_metrics(model, model.compute_metrics)
    else:
        build_symbolically(model, next(batches.stream(0)))
        support = RowSupport()
        methods = {name: _step_without_padding(step) for name, step in steps.items()}
    methods[BUILD_METHOD] = lambda *args, **kwargs: None  # the model is built, the batches marked
    padded = _PaddedBatches(batches, replicas, support.problems.get("train_step"))
    if validation_batches is not None:
        validation_batches = _PaddedBatches(
            validation_batches, replicas, support.problems.get("test_step")
        )
    with (
        _replaced_methods(model, methods),
        replaced_losses(model, support.losses),
        _clear_errors(),
    ):
        yield padded, validation_batches


class _PaddedBatches:
    """Batches that are padded to a multiple of the number of replicas and marked.

    Args:
        batches: Object with `steps_per_epoch`, `dataset` and `stream`.
        replicas: Int, number of replicas.
        problem: String, why a batch cannot be padded, or `None`.
    """

    def __init__(self, batches: StepBatches, replicas: int, problem: str | None) -> None:
        self.batches = batches
        self.steps_per_epoch = batches.steps_per_epoch
        self.replicas = replicas
        self.problem = problem

    def stream(self, start_step: int = 0) -> Iterator[object]:
        for batch in self.batches.stream(start_step):
            yield rows_of_worker(pad_batch(batch, self.replicas))

    def dataset(self, start_step: int = 0) -> "tf.data.Dataset":
        import tensorflow as tf

        def check(rows: "tf.Tensor") -> "tf.Operation | None":
            if self.problem is None:
                return None
            message = f"Expected batches of a multiple of {self.replicas} rows, because "
            message += f"{self.problem}. Received: a batch with this number of rows: "
            return tf.debugging.Assert(rows % self.replicas == 0, [message, rows])

        # Each worker gets rows of each batch. By default, TensorFlow may distribute files instead.
        options = tf.data.Options()
        policy = tf.data.experimental.AutoShardPolicy.DATA
        options.experimental_distribute.auto_shard_policy = policy
        dataset = self.batches.dataset(start_step).with_options(options)
        return pad_dataset(dataset, self.replicas, check)


@contextlib.contextmanager
def _clear_errors() -> Iterator[None]:
    """Raises a `ValueError` instead of the error of the assertion in `_PaddedBatches.dataset`."""
    try:
        yield
    except Exception as error:
        pattern = r"Expected batches of a multiple of (\d+) rows, because (.*?)\. Received:.*?(\d+)"
        match = re.search(pattern, str(error).replace("\\'", "'"), re.DOTALL)
        if match is None or isinstance(error, ValueError):
            raise
        replicas, rows = int(match[1]), int(match[3])
        below = rows // replicas * replicas
        raise ValueError(
            f"Expected batches of a multiple of {replicas} rows, because {match[2]}. Received: a "
            f"batch of {rows} rows on {replicas} devices. Use batches of "
            f"{f'{below} or ' if below else ''}{below + replicas} rows, or one device."
        ) from error


@contextlib.contextmanager
def _replaced_methods(
    model: keras.Model, methods: Mapping[str, Callable[..., object]]
) -> Iterator[None]:
    """Replaces methods of a model. Keras compiles the steps again before and after."""
    before = {name: vars(model)[name] for name in methods if name in vars(model)}
    for name, method in methods.items():
        setattr(model, name, method)
    model.train_function = model.test_function = None
    try:
        yield
    finally:
        for name in methods:
            delattr(model, name)
        for name, method in before.items():
            setattr(model, name, method)
        model.train_function = model.test_function = None


# JAX


def _step_without_padding(step: Callable[..., object]) -> Callable[..., object]:
    return lambda state, data: step(state, without_padding(data))


# TensorFlow


def _step_of_replica(step: Callable[..., object], counts_rows: bool) -> Callable[..., object]:
    """Returns a step of a replica, in which losses and metrics only receive the real rows."""

    def step_of_replica(data: object) -> object:
        data, is_real = unpack(data)
        if not counts_rows:  # all rows are real
            return step(data)
        inputs = data[0] if isinstance(data, tuple) else data
        first = next(leaf for leaf in keras.tree.flatten(inputs) if leaf is not None)
        padded = ops.shape(first)[0]
        rows = ReplicaRows(padded if is_real is None else ops.sum(is_real), padded)
        token = replica_rows.set(rows)
        try:
            return step(data)
        finally:
            replica_rows.reset(token)

    return step_of_replica


def _compute_loss(model: keras.Model, original: Callable[..., Any]) -> Callable[..., Tensor]:
    def compute_loss(
        x: object = None,
        y: object = None,
        y_pred: object = None,
        sample_weight: object = None,
        training: bool = True,
    ) -> Tensor:
        rows = replica_rows.get()
        if rows is None:
            return original(x, y, y_pred, sample_weight, training=training)
        fused = training and getattr(model, "is_loss_fused", False)
        num_rows = rows.real if fused else rows.at_least_one
        parts = first_rows((x, y, y_pred, sample_weight), num_rows)
        loss = original(*parts, training=training)
        # Keras adds the loss to the mean with the number of padded rows as weight.
        (num_real,) = sum_over_replicas([ops.cast(rows.real, "float32")])
        weight = num_real / num_replicas() - ops.cast(rows.padded, "float32")
        mean_loss = ops.stop_gradient(loss) * num_replicas()
        loss_tracker(model).update_state(mean_loss, sample_weight=weight)
        return loss

    return compute_loss


def _compute_metrics(
    model: keras.Model, original: Callable[..., TensorDict]
) -> Callable[..., TensorDict]:
    def compute_metrics(
        x: object, y: object, y_pred: object, sample_weight: object = None
    ) -> TensorDict:
        rows = replica_rows.get()
        if rows is None:
            return original(x, y, y_pred, sample_weight)
        variables = [variable for metric in model.metrics for variable in metric.variables]
        before = [ops.copy(variable) for variable in variables]
        original(*first_rows((x, y, y_pred, sample_weight), rows.at_least_one))
        for variable, value in zip(variables, before, strict=True):
            variable.assign(ops.where(rows.real > 0, variable, value))
        # Keras averages the results of the replicas in the logs of a batch.
        sums = [variable for variable in variables if variable.aggregation == "sum"]
        totals = sum_over_replicas([ops.copy(variable) for variable in sums])
        with keras.StatelessScope(state_mapping=list(zip(sums, totals, strict=True))):
            return model.get_metrics_result()

    return compute_metrics
