from typing import Any, Self

import keras
from keras import ops

from keras_attn import masks
from keras_attn._layer.argument_checks import check_optional_token_ids
from keras_attn._layer.layer import Layer
from keras_attn._types import Mask, StaticShape, Tensor
from keras_attn.positions.position_range import position_range
from keras_attn.transformer.transformer_stack import TransformerStack


@keras.saving.register_keras_serializable(package="keras_attn")
class TransformerEncoder(Layer):
    """Encodes a sequence with a stack of Transformer blocks.

        x^0 = embedding(ids) + positions            (with embedding_norm: norm of the sum)
        x^l = block_l(x^{l-1})                      (l = 1 ... num_layers)

    The encoder was introduced by [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section
    3. If the blocks are pre-norm blocks, a normalization layer follows the last block.

    Args:
        block: Transformer block, the template of all blocks, for example
            `TransformerEncoderBlock(8, 2048)`. Each of the `num_layers` blocks is a new block with
            the same configuration and the dtype of the encoder.
        embedding: Layer that maps ids or images to vectors. Defaults to `None`: the inputs are
            vectors.
        num_layers: Positive int, number of blocks. Defaults to `6`.
        positions: Layer that is called with `(vectors, start_index)` and adds positions to the
            vectors, such as `SinusoidalPositions`. Defaults to `None`: no such layer.
        position_bias: Layer that computes a bias for the attention scores of all blocks, such as
            `AlibiBias` or `RelativePositionBias`. Defaults to `None`.
        scale_embedding: Bool, whether embeddings are multiplied by the square root of their size.
            Defaults to `False`.
        dropout: Float in [0, 1), dropout rate of the embedded inputs. Defaults to `0.0`.
        pad_token_id: Int, id of padding. Defaults to `0`.
        start_token_id: Int, start token of the sources, or `None` for no start token.
            `GenerationModel.generate` and exported files add it to texts. The encoder itself does
            not add it. Defaults to `None`.
        end_token_id: Int, end token of the sources, or `None` for no end token. It is added to
            texts like the start token. Defaults to `2`.
        seed: Int, seed of the dropout. Defaults to `None`: a random seed.
        embedding_norm: Bool, whether the sum of embeddings and positions is normalized, as in BERT,
            BART and mBART. The normalization is of the same type as in the block. Defaults to
            `False`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Int tensor of ids of shape `(batch, source)`, or other inputs that the embedding
            accepts, such as images for a `PatchEmbedding`. Without an embedding, vectors of shape
            `(batch, source, features)`.
        mask: Boolean tensor of shape `(batch, source)`; `False` marks padding. Keras and its
            wrappers pass the implicit mask of `inputs`. Defaults to `None`: ids equal to
            `pad_token_id` are padding; vectors and images have no padding.
        inputs_mask: Boolean tensor of shape `(batch, source)`, the implicit mask of `inputs`. Keras
            passes this argument if you pass `mask`. Both masks are combined.

    Returns:
        Dict with the keyword arguments of a decoder, as in `decoder(target_ids,
        **encoder(source_ids))`: `encoder_outputs` `(batch, source, features)` and the boolean
        `encoder_mask` `(batch, source)`.

    Masking:
        Masked positions cannot be attended to. Outputs at masked positions are undefined.

    Raises:
        ValueError: If an argument is out of range, `block`, `embedding`, `positions` or
            `position_bias` has the wrong type, or `inputs` has the wrong rank.

    Example:

    >>> import numpy as np
    >>> from keras_attn import TransformerEncoderBlock
    >>> block = TransformerEncoderBlock(num_heads=2, intermediate_dim=16)
    >>> encoder = TransformerEncoder(block, keras.layers.Embedding(10, 8), num_layers=2)
    >>> encoded = encoder(np.array([[5, 6, 7, 2], [5, 2, 0, 0]]))
    >>> tuple(encoded["encoder_outputs"].shape)
    (2, 4, 8)
    """

    is_container = True

    def __init__(
        self,
        block: keras.layers.Layer,
        embedding: keras.layers.Layer | None = None,
        num_layers: int = 6,
        positions: keras.layers.Layer | None = None,
        position_bias: keras.layers.Layer | None = None,
        scale_embedding: bool = False,
        dropout: float = 0.0,
        pad_token_id: int = 0,
        start_token_id: int | None = None,
        end_token_id: int = 2,
        seed: int | None = None,
        embedding_norm: bool = False,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("autocast", False)  # float ids would be rounded
        super().__init__(**kwargs)
        self.supports_masking = True
        check_optional_token_ids(start_token_id=start_token_id, end_token_id=end_token_id)
        parts = (block, embedding, num_layers, positions, position_bias, scale_embedding)
        self.stack = TransformerStack(
            *(*parts, dropout, seed, embedding_norm), dtype=self.dtype_policy, name="stack"
        )
        self.embedding = embedding
        self.pad_token_id = pad_token_id
        self.start_token_id = start_token_id
        self.end_token_id = end_token_id

    def build(self, inputs_shape: StaticShape) -> None:
        self.stack.build(inputs_shape)

    def call(
        self, inputs: Tensor, mask: Mask | None = None, inputs_mask: Mask | None = None
    ) -> dict[str, Any]:
        vectors = self.stack.embed(inputs)  # (B, S, D)
        mask = masks.join(vectors, mask=mask, inputs_mask=inputs_mask)
        if mask is None and len(inputs.shape) == 2:  # ids, not images
            mask = masks.padding_mask(inputs, self.pad_token_id)
        elif mask is None:
            mask = ops.ones_like(vectors[:, :, 0], dtype="bool")  # (B, S)
        positions = position_range(ops.shape(vectors)[1])
        bias = self.stack.bias(positions, positions)
        for block in self.stack.blocks:
            vectors = block(vectors, attention_mask=mask, position_bias=bias)
        return {"encoder_outputs": self.stack.normalize(vectors), "encoder_mask": mask}

    @property
    def max_source_length(self) -> int | Tensor | None:
        """Int, maximum source length for learned positions, otherwise `None`."""
        return self.stack.max_length

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return None  # the mask is one of the outputs

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            **self.stack.serialize_arguments(),
            "pad_token_id": self.pad_token_id,
            "start_token_id": self.start_token_id,
            "end_token_id": self.end_token_id,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        return cls(**TransformerStack.deserialize_arguments(config))
