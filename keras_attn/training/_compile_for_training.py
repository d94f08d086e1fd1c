import warnings
from typing import Any

import keras

from keras_attn._layer.argument_checks import accepts_numpy_numbers
from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn.training._clipped_adam import ClippedAdam, LearningRate
from keras_attn.training._loss_scale_optimizer import LossScaleOptimizer
from keras_attn.training._make_strategy import reject_gradient_accumulation
from keras_attn.training._sequence_crossentropy import SequenceCrossentropy
from keras_attn.training._token_metrics import Perplexity, TokenAccuracy, TokenCrossentropy

_WITH_ACTIVATION = (
    keras.layers.Activation,
    keras.layers.Conv1D,
    keras.layers.Dense,
    keras.layers.EinsumDense,
)


@accepts_numpy_numbers
def compile_for_training(
    model: keras.Model,
    learning_rate: LearningRate = 0.001,
    global_clipnorm: float | None = 1.0,
    label_smoothing: float = 0.1,
    ignore_class: int = 0,
    fused_loss: bool = True,
    **kwargs: Any,
) -> keras.Model:
    """Compiles a model with token logits for training.

    - Optimizer: `ClippedAdam`. If a layer has the policy `mixed_float16`, the optimizer is wrapped
      in a `LossScaleOptimizer`.
    - Loss: `SequenceCrossentropy`.
    - Metrics: `TokenAccuracy` and `Perplexity`. If no layer adds losses, there is also a
      `TokenCrossentropy` with the name `loss`. It replaces the `loss` of Keras in the logs, because
      Keras weights the loss of each batch by the number of sentences instead of tokens. `evaluate`
      without `return_dict=True` returns both losses, first the `loss` of Keras. The value of the
      `TokenCrossentropy` does not contain losses that layers add during training only, such as
      `coverage_loss`. The `TokenCrossentropy` is the only one of these metrics that uses
      `sample_weight`.
    - XLA: off on TensorFlow, because XLA would compile the training step again for each sequence
      length.

    The function warns if the model ends with a softmax or sigmoid, because the loss expects logits.

    If the model was built in the scope of a strategy, call this function in the same scope.

    Args:
        model: Built `keras.Model` that returns logits of shape `(batch, target, V)`.
        learning_rate: Float or `keras.optimizers.schedules.LearningRateSchedule`. Defaults to
            `0.001`.
        global_clipnorm: Positive float, maximum L2 norm of the gradient of all weights together, or
            `None` for no limit. Defaults to `1.0`.
        label_smoothing: Float in [0, 1), total probability of the wrong classes, see
            `SequenceCrossentropy`. Defaults to `0.1`.
        ignore_class: Int, label of padding. It may be outside of the vocabulary, such as -100. All
            other labels must be in [0, V), otherwise the loss and the weights become NaN. Defaults
            to `0`.
        fused_loss: Bool, whether a `TrainingModel` may compute the loss without storing all logits,
            see `SequenceCrossentropy`. Defaults to `True`.
        **kwargs: Further arguments of `ClippedAdam`, such as `beta_2`.

    Returns:
        The model.

    Raises:
        ValueError: If the model has several outputs; if it has weights in half precision, because
            such weights lose small updates; or if `gradient_accumulation_steps` is used with a
            `tf.distribute` strategy, because Keras does not support this combination.

    Example:

    >>> from keras_attn import TrainingModel, rnn_seq2seq
    >>> from keras_attn.training import compile_for_training
    >>> model = TrainingModel(*rnn_seq2seq(20, 30, units=8, embedding_dim=8))
    >>> model = compile_for_training(model, learning_rate=0.002, beta_2=0.98)
    >>> type(model.loss).__name__, type(model.optimizer).__name__
    ('SequenceCrossentropy', 'ClippedAdam')
    """
    _check_outputs(model)
    halves = [weight for weight in model.trainable_variables if weight.dtype.endswith("float16")]
    if halves:
        raise ValueError(
            f"Expected weights in float32. Received: {len(halves)} weights in half precision, such "
            f"as {halves[0].path!r} with dtype={halves[0].dtype!r}. Use the policy "
            f"'mixed_{halves[0].dtype}', which has weights in float32."
        )
    optimizer = ClippedAdam(learning_rate, global_clipnorm=global_clipnorm, **kwargs)
    # A functional model has the global policy, so check the policies of its layers.
    if any(part.dtype_policy.name == "mixed_float16" for part in flatten_layers([model])):
        optimizer = LossScaleOptimizer(optimizer)
    mean_loss = TokenCrossentropy(label_smoothing, ignore_class, name="loss")
    compile_model: Any = model.compile  # The annotations in Keras are incomplete.
    compile_model(
        optimizer,
        loss=SequenceCrossentropy(label_smoothing, ignore_class, fused=fused_loss),
        metrics=[TokenAccuracy(ignore_class), Perplexity(ignore_class)],
        weighted_metrics=None if model.losses else [mean_loss],
        jit_compile=False if keras.backend.backend() == "tensorflow" else "auto",
    )
    reject_gradient_accumulation(model)
    optimizer.build(model.trainable_variables)
    return model


def _check_outputs(model: keras.Model) -> None:
    """Raises a `ValueError` for several outputs, and warns of an output that is not logits."""
    outputs = getattr(model, "outputs", None) or []  # a subclassed model has no symbolic outputs
    if len(outputs) > 1:
        raise ValueError(
            "Expected a model with one output, the logits. Received: model with the outputs "
            f"{[output.name for output in outputs]}. Use model.compile with one loss per output."
        )
    for layer in _last_layers(model):
        activation = layer.activation if isinstance(layer, _WITH_ACTIVATION) else layer
        name = getattr(activation, "__name__", type(activation).__name__).lower()
        if name in ("softmax", "sigmoid"):
            warnings.warn(
                "Expected a model that returns logits, because the loss applies the softmax. "
                f"Received: model whose last layer {layer.name!r} applies a {name}. Remove it.",
                stacklevel=4,
            )


def _last_layers(model: keras.Model) -> list[Any]:
    """Returns the layer or operation of the only output, with the layers that it wraps."""
    if isinstance(model, keras.Sequential):
        layers = model.layers[-1:]
    else:  # A subclassed model does not tell which of its layers is the last.
        names = getattr(model, "output_names", ())
        layers = [layer for layer in getattr(model, "operations", ()) if layer.name in names]
    for layer in list(layers):
        if isinstance(layer, keras.Model):
            return _last_layers(layer)
        inner = (getattr(layer, name, None) for name in ("output_layer", "layer"))
        layers += [part for part in inner if isinstance(part, keras.layers.Layer)]
    return layers
