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
    """Reads a sequence with a stack of Transformer blocks.

    Introduced by [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section 3.

    Args:
        block: the template of all blocks, for instance `TransformerEncoderBlock(8, 2048)`; each
            layer is a new one like it in the dtype of the encoder.
        embedding: layer that turns ids, or images, into vectors. `None` for sequences of vectors of
            the block's size. Default `None`.
        num_layers: int. Default 6.
        positions: layer `(vectors, start_index) -> vectors`, such as `SinusoidalPositions`.
            Default `None`.
        position_bias: layer whose result all blocks add to their scores, such as `AlibiBias` or
            `RelativePositionBias`. Default `None`.
        scale_embedding: bool, whether embeddings are multiplied by the square root of their size.
            Default `False`.
        dropout: float in [0, 1), on the embedded inputs. Default 0.
        pad_token_id: int, the id of padding. Default 0.
        start_token_id: int, the id before each source, or `None` if there is none. Exported files
            add it to texts; the encoder itself adds nothing. Default `None`.
        end_token_id: int, the id after each source, as above. Default 2.
        seed: int, seed of the dropout. Default `None`.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: ids `(batch, source)`, or vectors `(batch, source, features)` without an embedding;
            or whatever else the embedding reads, such as the images of a `PatchEmbedding`.
        mask: boolean `(batch, source)`, True = real; also the implicit mask of `inputs`, passed by
            Keras or a wrapper. By default all ids but padding, or all vectors.
        inputs_mask: boolean `(batch, source)`, the implicit mask of `inputs`, passed by Keras if
            `mask` is given. The two are joined.

    Returns:
        Dict that a decoder takes as keyword arguments, `decoder(target_ids,
        **encoder(source_ids))`: `encoder_outputs` `(batch, source, features)` and boolean
        `encoder_mask` `(batch, source)`.

    Masking:
        Padding cannot be attended to; outputs at padding have no meaning.

    Raises:
        ValueError: for arguments out of range.

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
        block,
        embedding=None,
        num_layers=6,
        positions=None,
        position_bias=None,
        scale_embedding=False,
        dropout=0.0,
        pad_token_id=0,
        start_token_id=None,
        end_token_id=2,
        seed=None,
        **kwargs,
    ):
        kwargs.setdefault("autocast", False)  # ids given as floats would be rounded
        super().__init__(**kwargs)
        self.supports_masking = True
        check_optional_token_ids(start_token_id=start_token_id, end_token_id=end_token_id)
        parts = (block, embedding, num_layers, positions, position_bias, scale_embedding)
        self.stack = TransformerStack(*parts, dropout, seed, dtype=self.dtype_policy, name="stack")
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
        if mask is None and len(inputs.shape) == 2:  # ids; an embedding may also read images
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
        """int, most positions of a source, where positions are learned; else `None`."""
        return self.stack.max_length

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return None  # the mask is one of the outputs

    def get_config(self):
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
