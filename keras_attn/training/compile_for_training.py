from typing import Any

import keras

from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn.training.clipped_adam import ClippedAdam
from keras_attn.training.loss_scale_optimizer import LossScaleOptimizer
from keras_attn.training.perplexity import Perplexity
from keras_attn.training.sequence_crossentropy import SequenceCrossentropy
from keras_attn.training.strategy import refuse_gradient_accumulation
from keras_attn.training.token_accuracy import TokenAccuracy
from keras_attn.training.token_crossentropy import TokenCrossentropy


def compile_for_training(
    model: keras.Model,
    learning_rate: Any = 0.001,
    global_clipnorm: float | None = 1.0,
    label_smoothing: float = 0.1,
    ignore_class: int = 0,
    fused_loss: bool = True,
    **kwargs: Any,
) -> keras.Model:
    """Compiles a model that maps to token logits, with what sequence models need.

    The optimizer is `ClippedAdam`, with layers of `mixed_float16` inside of a `LossScaleOptimizer`;
    the loss `SequenceCrossentropy`, the metrics `TokenAccuracy`, `Perplexity` and, unless the model
    has losses of its own, a `TokenCrossentropy` named `loss`: in the logs it takes the place of
    Keras' `loss`, which weighs batches by sentences (without `return_dict=True`, `evaluate` gives
    both, Keras' first). It leaves out losses that are added in
    training only, such as `coverage_loss`. Of these metrics that one alone takes account of a
    `sample_weight`, as the mean weighed by it. The step is not compiled by XLA on TensorFlow,
    because that would compile anew for every length of a batch.

    Call it in the scope of the strategy that the model was built in.

    Args:
        model: built `keras.Model` from any inputs to logits `(batch, target_length, V)`.
        learning_rate: float or schedule. Default 0.001.
        global_clipnorm: optional float > 0, most L2 norm of the whole gradient. Default 1.
        label_smoothing: float in `[0, 1)`. Default 0.1.
        ignore_class: int, label of padding, which may be outside of the classes, such as -100. All
            others must be in `[0, V)`, or loss and weights become NaN. Default 0.
        fused_loss: bool, whether a `TrainingModel` computes the loss without the logits where it
            can, see `SequenceCrossentropy`. Defaults to `True`.
        **kwargs: more arguments of `ClippedAdam`, such as `beta_2`.

    Returns:
        The model.

    Raises:
        ValueError: weights of half precision, which small updates leave as they were, or
            `gradient_accumulation_steps` under a `tf.distribute` strategy, which Keras cannot do.
    """
    halves = [each for each in model.trainable_variables if each.dtype.endswith("float16")]
    if halves:
        raise ValueError(
            "Expected weights in float32. Received: "
            f"{len(halves)} weights of half precision, such as {halves[0].path!r} in "
            f"{halves[0].dtype}. Use the policy 'mixed_{halves[0].dtype}', which computes in half "
            "precision and keeps the weights in float32."
        )
    optimizer = ClippedAdam(learning_rate, global_clipnorm=global_clipnorm, **kwargs)
    # The policy of a functional model is the global one, whatever that of its layers.
    if any(part.dtype_policy.name == "mixed_float16" for part in flatten_layers([model])):
        optimizer = LossScaleOptimizer(optimizer)
    mean_loss = TokenCrossentropy(label_smoothing, ignore_class, name="loss")
    compile_model: Any = model.compile  # Keras' annotations of its arguments are incomplete.
    compile_model(
        optimizer,
        loss=SequenceCrossentropy(label_smoothing, ignore_class, fused=fused_loss),
        metrics=[TokenAccuracy(ignore_class), Perplexity(ignore_class)],
        weighted_metrics=None if model.losses else [mean_loss],
        jit_compile=False if keras.backend.backend() == "tensorflow" else "auto",
    )
    refuse_gradient_accumulation(model)
    optimizer.build(model.trainable_variables)
    return model
