from typing import Any

import keras
from keras import ops

from keras_attn._backend.dynamic_shapes import has_placeholder_sizes
from keras_attn._backend.gather import gather_rows
from keras_attn._layer.argument_checks import check_positive_integer, check_sequence_shape
from keras_attn._layer.layer import Layer
from keras_attn._positions.position_range import check_offset, position_range
from keras_attn._serialization.plain_function import plain_function
from keras_attn._types import InitializerLike, StaticShape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class LearnedPositions(Layer):
    """Adds a learned position embedding.

        y[t] = x[t] + E[t + offset]

    Learned positions were introduced by [Gehring et al., 2017](https://arxiv.org/abs/1705.03122),
    section 3.1. BERT and GPT use them.

    Args:
        max_length: Positive int, number of positions.
        embeddings_initializer: Initializer for E. Defaults to `"uniform"`.
        offset: Int >= 0, number of rows in E before the first position. In Hugging Face's
            transformers, BART, mBART and OPT use 2. Defaults to `0`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(batch, time, features)`.
        start_index: Int, scalar int32 tensor or int32 tensor of shape `(batch,)`, position of the
            first time step. Defaults to `0`.

    Returns:
        `inputs` plus the embeddings, `(batch, time, features)`.

    Masking:
        The output keeps the implicit mask of `inputs`.

    Raises:
        ValueError: If `max_length` is not a positive integer, `offset` is not an integer of at
            least 0, the rank of `inputs` is not 3, or a position is outside the range from 0 to
            `max_length - 1`. Positions that are only known at run time are clipped to this range
            without an error.

    Example:

    >>> import numpy as np
    >>> from keras import ops
    >>> from keras_attn import LearnedPositions
    >>> layer = LearnedPositions(10, embeddings_initializer="ones")
    >>> ops.convert_to_numpy(layer(np.zeros((1, 2, 3), "float32"))).tolist()
    [[[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]]
    """

    def __init__(
        self,
        max_length: int,
        embeddings_initializer: InitializerLike = "uniform",
        *,
        offset: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive_integer("max_length", max_length)
        check_offset(offset)
        self.max_length = max_length
        self.offset = offset
        self.embeddings_initializer = plain_function(keras.initializers.get(embeddings_initializer))
        self.supports_masking = True

    def build(self, inputs_shape: StaticShape) -> None:
        check_sequence_shape("inputs", inputs_shape)
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.max_length + self.offset, inputs_shape[-1]),
            initializer=self.embeddings_initializer,
        )

    def call(self, inputs: Tensor, start_index: int | Tensor = 0) -> Tensor:
        length = ops.shape(inputs)[1]
        if self._are_known(length, start_index):
            first = start_index + self.offset
            return inputs + self.embeddings[first : first + length]  # (B, T, D)
        positions = ops.clip(position_range(length, start_index), 0, self.max_length - 1)
        if self.offset:
            positions = positions + self.offset
        return inputs + gather_rows(self.embeddings, positions)  # (B, T, D)

    def compute_output_shape(self, inputs_shape: StaticShape) -> tuple[int | None, ...]:
        return inputs_shape

    def compute_output_spec(
        self, inputs: Tensor, start_index: int | Tensor = 0
    ) -> keras.KerasTensor:
        self._are_known(inputs.shape[1], start_index)
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "max_length": self.max_length,
            "offset": self.offset,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
        }

    def _are_known(self, length, start_index):
        """Returns whether the positions are Python ints, and checks their range."""
        if not isinstance(length, int) or not isinstance(start_index, int):
            return False
        if has_placeholder_sizes():
            return False
        if start_index < 0 or start_index + length > self.max_length:
            raise ValueError(
                f"Expected positions from 0 to max_length - 1 = {self.max_length - 1}. "
                f"Received: start_index={start_index} and {length} time steps. Increase "
                "max_length or shorten the sequences."
            )
        return True
