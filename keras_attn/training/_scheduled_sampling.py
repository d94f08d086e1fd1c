from collections.abc import Callable
from typing import Any, Self

import keras
from keras import ops

from keras_attn._decoders.step_decoder import StepDecoder
from keras_attn._layer.argument_checks import check_positive_integer, check_seed, check_token_ids
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.layer import Layer
from keras_attn._masks import join
from keras_attn._random.draw_index import draw_index
from keras_attn._serialization.shared_layers import deserialize_shared, serialize_shared
from keras_attn._types import Mask, StaticShape, Tensor
from keras_attn_checks.number_types import is_number


@keras.saving.register_keras_serializable(package="keras_attn")
class ScheduledSampling(Layer):
    """Trains a decoder with some target tokens replaced by its own predictions.

        x^0 = y
        z^i_t ~ p(. | x^{i-1}_{<t}, source)
        x^i_t = z^i_t with probability e, otherwise y_t        (i = 1 .. num_passes)
        logits = decoder(x^{num_passes})

    Here y are the target tokens, x^i are the decoder inputs after i sampling passes, z^i are the
    tokens that pass i samples, and e is `probability`. With teacher forcing alone, a decoder does
    not learn to continue after its own errors. Scheduled sampling was introduced by [Bengio et al.,
    2015](https://arxiv.org/abs/1506.03099). This layer implements the parallel form of [Duckworth
    et al., 2019](https://arxiv.org/abs/1906.04331). It needs no loop over time steps and supports
    every decoder: each pass i runs the decoder once, without gradient and dropout. Outside of
    training, the layer returns the decoder's output.

    Use this layer in place of the decoder for training, and pass the decoder itself to the search:

    ```python
    trainer = TrainingModel(encoder, ScheduledSampling(decoder, 0.25))
    translator = GenerationModel(encoder, BeamDecoder(decoder))
    ```

    Args:
        decoder: `StepDecoder` of token ids.
        probability: Float in [0, 1], the replacement probability e. Or a function that takes the
            number of previous training steps (int32 scalar) and returns e, such as a
            `keras.optimizers.schedules.LearningRateSchedule`: `PolynomialDecay(0.0, 10_000, 0.25)`
            increases linearly from 0 to 0.25 in 10,000 steps. Its result is clipped to [0, 1].
        num_passes: Positive int, number of sampling passes. The second pass runs the decoder on the
            tokens from the first pass. Defaults to `1`.
        pad_token_id: Int, padding id. Padding is not replaced and never replaces a token. Defaults
            to `0`.
        seed: Int, random seed. Defaults to `None`: a random seed.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        token_ids: Int32 tensor of shape `(batch, target)`, the target tokens, beginning with the
            start token.
        encoder_outputs: Tensor of shape `(batch, source, features)`, or any other value that the
            decoder accepts. Defaults to `None`, for language models.
        encoder_mask: Boolean tensor of shape `(batch, source)`; `True` marks positions that may be
            attended to. It is combined with `encoder_outputs_mask`. Defaults to `None`.
        encoder_state: Nested lists of tensors, the final state of the encoder. Defaults to `None`.
        query_features: Tensor of shape `(batch, features)`, see the decoder's class. Defaults to
            `None`.
        training: Bool, whether to replace tokens and apply dropout. Defaults to `False`.
        encoder_outputs_mask: Boolean tensor of shape `(batch, source)`, the implicit Keras mask for
            `encoder_outputs`. Keras passes this argument.
        return_features: Bool, whether to return the output layer's inputs instead of logits. Not
            all decoders support this argument. Defaults to `False`.

    Returns:
        Float32 logits of shape `(batch, target, vocabulary)`.

    Raises:
        ValueError: If an argument is out of range.

    Example:

    >>> import numpy as np
    >>> from keras_attn import rnn_seq2seq
    >>> from keras_attn.training import ScheduledSampling
    >>> encoder, decoder = rnn_seq2seq(20, 30, units=8, embedding_dim=8)
    >>> sampling = ScheduledSampling(decoder, 0.5, seed=1)
    >>> encoded = encoder(np.array([[5, 6, 7, 2]]))
    >>> tuple(sampling(np.array([[1, 8, 9]]), **encoded, training=True).shape)
    (1, 3, 30)
    """

    is_container = True

    def __init__(
        self,
        decoder: StepDecoder,
        probability: float | Callable[[Tensor], float | Tensor],
        *,
        num_passes: int = 1,
        pad_token_id: int = 0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("autocast", False)  # the decoder casts its inputs
        super().__init__(**kwargs)
        is_share = is_number(probability) and 0 <= probability <= 1
        if not is_share and not callable(probability):
            raise ValueError(
                "Expected probability to be in [0, 1], or a function of the step. Received: "
                f"probability={probability!r}. Pass a float or a LearningRateSchedule."
            )
        check_positive_integer("num_passes", num_passes)
        check_token_ids(pad_token_id=pad_token_id)
        check_seed(seed)
        self.decoder = decoder
        self.probability = float(probability) if is_number(probability) else probability
        self.num_passes = num_passes
        self.pad_token_id = pad_token_id
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.supports_masking = True

    @property
    def reads_prompts(self) -> bool:
        return self.decoder.reads_prompts

    @property
    def output_layer(self) -> keras.layers.Layer | None:
        return self.decoder.output_layer

    @property
    def output_bias(self) -> Tensor | None:
        return self.decoder.output_bias

    def build(
        self,
        token_ids_shape: StaticShape,
        encoder_outputs_shape: StaticShape | None = None,
        encoder_mask_shape: StaticShape | None = None,
        encoder_state_shape: StaticShape | None = None,
        query_features_shape: StaticShape | None = None,
    ) -> None:
        shapes = [encoder_outputs_shape, encoder_mask_shape, encoder_state_shape]
        if query_features_shape is not None:
            shapes.append(query_features_shape)
        ensure_built(self.decoder, token_ids_shape, *shapes)
        self.num_steps = self.add_weight(
            shape=(),
            initializer="zeros",
            dtype="int32",
            trainable=False,
            aggregation="only_first_replica",
            name="num_steps",
        )

    def call(
        self,
        token_ids: Tensor,
        encoder_outputs: Tensor | None = None,
        encoder_mask: Mask | None = None,
        encoder_state: Any = None,
        query_features: Tensor | None = None,
        training: bool = False,
        encoder_outputs_mask: Mask | None = None,
        return_features: bool = False,
    ) -> Tensor:
        encoder_mask = join(
            encoder_outputs, encoder_mask=encoder_mask, encoder_outputs_mask=encoder_outputs_mask
        )
        arguments = {
            "encoder_outputs": encoder_outputs,
            "encoder_mask": encoder_mask,
            "encoder_state": encoder_state,
            "query_features": query_features,
        }
        arguments = {name: value for name, value in arguments.items() if value is not None}
        if training:
            probability = self.probability
            if callable(probability):
                probability = ops.clip(ops.cast(probability(self.num_steps), "float32"), 0.0, 1.0)
            self.num_steps.assign_add(1)
            inputs = token_ids
            for _ in range(self.num_passes):
                logits = self.decoder(inputs, **arguments, training=False)  # (B, T, V)
                inputs = self._mix(token_ids, ops.stop_gradient(logits), probability)  # (B, T)
            token_ids = inputs
        if return_features:
            arguments["return_features"] = True
        return self.decoder(token_ids, **arguments, training=training)

    def _mix(self, token_ids: Tensor, logits: Tensor, probability: float | Tensor) -> Tensor:
        """Replaces random tokens by tokens that are sampled from the previous position's logits.

        Args:
            token_ids: Int tensor of shape `(B, T)`, the target tokens.
            logits: Tensor of shape `(B, T, V)`.
            probability: Float or scalar tensor, probability of a replacement.

        Returns:
            Int32 tensor of shape `(B, T)`.
        """
        shape = ops.shape(token_ids)
        probs = ops.reshape(ops.softmax(logits, axis=-1), (-1, logits.shape[-1]))  # (B*T, V)
        uniforms = keras.random.uniform((ops.shape(probs)[0], 3), seed=self.seed_generator)
        drawn = ops.reshape(draw_index(probs, uniforms[:, :2]), shape)  # (B, T)
        is_drawn = ops.reshape(uniforms[:, 2] < probability, shape)
        token_ids = ops.cast(token_ids, "int32")
        samples, targets = drawn[:, :-1], token_ids[:, 1:]  # (B, T-1)
        is_token = (targets != self.pad_token_id) & (samples != self.pad_token_id)
        replaced = is_drawn[:, :-1] & is_token
        return ops.concatenate([token_ids[:, :1], ops.where(replaced, samples, targets)], axis=1)

    def compute_mask(self, inputs: object, previous_mask: object) -> Mask | None:
        return None  # the outputs of the decoder have no mask either

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "decoder": serialize_shared(self.decoder),
            "probability": keras.saving.serialize_keras_object(self.probability),
            "num_passes": self.num_passes,
            "pad_token_id": self.pad_token_id,
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        parts = {name: deserialize_shared(config[name]) for name in ("decoder", "probability")}
        return cls(**{**config, **parts})
