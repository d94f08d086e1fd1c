import contextvars
from typing import Any

import keras
from keras import ops, tree

from keras_attn._backend.private_names import loss_weights
from keras_attn._backend.replicas import num_replicas
from keras_attn._models.model_of_parts import ModelOfParts
from keras_attn._output_layers.projection import can_fuse_projection, compute_logits
from keras_attn._types import Tensor

_trained_model: contextvars.ContextVar["FusedLossModel | None"] = contextvars.ContextVar(
    "trained_model", default=None
)
"""Model whose `train_step` currently runs in this thread."""


class FusedLossModel(ModelOfParts):
    """Base class for models that can train without storing the logits of all tokens.

    With a large vocabulary, logits need more memory than all other tensors in a training step.
    `keras_attn.training.SequenceCrossentropy(fused=True)` computes the loss and its gradient
    without these logits, from the output layer's inputs (features) and kernel, in chunks of tokens:

        train_step        call -> features --+-> loss.from_features -> loss
                                             |      |
                          output layer ------+      +-> statistics -> metrics

        everything else   call -> features -> output layer -> logits -> loss, metrics

    `compute_loss` passes the features and the output layer to the loss. The loss returns
    statistics, which `compute_loss` passes to the metrics. In a step with a fused loss, the model
    output has no gradient. If a metric needs logits, `compute_loss` computes them for the metric.

    The loss is fused in `fit`, `train_on_batch` and `train_step` on TensorFlow. The loss is not
    fused if the model is compiled with `run_eagerly` or `loss_weights`, if the output layer
    computes more than a matrix product and a bias, or if the dtype is float16.

    A subclass implements `compute_features` and `output_layer`, and sets `output_bias` if it adds a
    bias to the logits.
    """

    output_bias: Any = None
    """Variable `(V,)` that is added to the outputs of the output layer, or `None`."""

    def compute_features(self, inputs: dict[str, Tensor]) -> Tensor:
        """Computes the output layer's inputs in a training step.

        Args:
            inputs: Dict from input names to tensors.

        Returns:
            Float tensor of shape `(batch, time, features)`.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `compute_features`.")

    @property
    def output_layer(self) -> keras.layers.Layer | None:
        """The layer that maps the features to logits, or `None` if it is unknown."""
        raise NotImplementedError(f"{type(self).__name__} must override `output_layer`.")

    @property
    def is_loss_fused(self) -> bool:
        """Bool, whether training steps compute the loss without storing all logits."""
        return (
            self.compiled
            and getattr(self.loss, "is_fused", False)
            and loss_weights(self) is None
            and keras.backend.backend() == "tensorflow"
            and not self.run_eagerly
            and can_fuse_projection(self.output_layer)
        )

    def train_step(self, *args: object) -> dict[str, object]:
        token = _trained_model.set(self)
        try:
            return super().train_step(*args)
        finally:
            _trained_model.reset(token)

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        if not (training and _trained_model.get() is self and self.is_loss_fused):
            return super().call(inputs, training, mask)
        inputs = self.structured(inputs)
        if not isinstance(inputs, dict):
            inputs = {self.inputs[0].name: tree.flatten(inputs)[0]}
        inputs = {
            spec.name: ops.convert_to_tensor(inputs[spec.name], spec.dtype) for spec in self.inputs
        }
        return {"features": self.compute_features(inputs)}

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        if not isinstance(y_pred, dict):
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        features, layer, bias = y_pred["features"], self.output_layer, self.output_bias
        (labels,) = tree.flatten(y)
        weights = None if sample_weight is None else tree.flatten(sample_weight)[0]
        loss, statistics = self.loss.from_features(labels, features, layer, bias, weights)
        for group in self.metrics:
            if not hasattr(group, "metrics"):
                continue  # not a metric of `compile`, so Keras updates it elsewhere
            if not group.built:  # Keras builds metrics with logits
                shape = (*features.shape[:-1], statistics.num_classes)
                group.build(y, keras.KerasTensor(shape, dtype="float32"))
            predictions = statistics
            if not all(self.loss.has_statistics_for(metric) for metric in group.metrics):
                predictions = compute_logits(ops.stop_gradient(features), layer, bias)  # logits
            group.update_state(y, predictions, sample_weight)
        # As in Keras, divide the losses of layers by the number of replicas.
        losses = [ops.sum(ops.cast(item, "float32")) / num_replicas() for item in self.losses]
        return sum(losses, loss)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        if isinstance(y_pred, dict):
            return self.get_metrics_result()  # `compute_loss` has updated the metrics
        return super().compute_metrics(x, y, y_pred, sample_weight)
