from typing import Any, Self

import keras
from keras import ops

from keras_attn import _masks as masks
from keras_attn._layer.argument_checks import (
    check_layers,
    check_optional_token_ids,
    check_token_ids,
)
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.layer import Layer
from keras_attn._positions.position_range import position_range
from keras_attn._serialization.shared_layers import deserialize_shared, serialize_shared
from keras_attn._transformer.transformer_stack import TransformerStack
from keras_attn._types import Mask, StaticShape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class TransformerEncoder(Layer):
    """Encodes a sequence with a stack of Transformer blocks.

        x^0 = embedding(ids) + token_types(token_type_ids) + positions
        x^0 = norm(x^0)                             (with embedding_norm)
        x^l = block_l(x^{l-1})                      (l = 1 ... num_layers)

    The sum for x^0 omits token types and positions if the encoder lacks a layer for them. The
    encoder was introduced by [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section 3.
    If the blocks are pre-norm blocks, a normalization layer follows the last block.

    Args:
        block: Transformer block, the template for all blocks, for example
            `TransformerEncoderBlock(8, 2048)`. Each of the `num_layers` blocks is a new block with
            the template's configuration and the encoder's dtype.
        embedding: Layer that maps ids or images to vectors. Defaults to `None`: the inputs are
            vectors.
        num_layers: Positive int, number of blocks. Defaults to `6`.
        positions: Layer that is called with `(vectors, start_index)` and adds position encodings to
            the vectors, such as `SinusoidalPositions`. Defaults to `None`: no position encodings.
        position_bias: Layer that computes a bias for the attention scores in all blocks, such as
            `AlibiBias` or `RelativePositionBias`. Defaults to `None`: no bias.
        scale_embedding: Bool, whether embeddings are multiplied by the square root of the vector
            size. Defaults to `False`.
        dropout: Float in [0, 1), dropout rate after embedding. Defaults to `0.0`.
        pad_token_id: Int, id for padding on the right of sources. Before another token, it is an
            ordinary token. Defaults to `0`.
        start_token_id: Int, start token for sources, or `None` for no start token.
            `GenerationModel.generate` and exported files insert it before a text's tokens. The
            encoder itself does not insert it. Defaults to `None`.
        end_token_id: Int, end token for sources, or `None` for no end token.
            `GenerationModel.generate` and exported files append it to a text's tokens. Defaults to
            `2`.
        seed: Int, dropout seed. Defaults to `None`: a random seed.
        embedding_norm: Bool, whether the sum of embeddings and positions is normalized, as in BERT,
            BART and mBART, with the same normalization as in the blocks. Defaults to `False`.
        token_types: `keras.layers.Embedding` that maps token types to vectors, as in BERT ([Devlin
            et al., 2019](https://arxiv.org/abs/1810.04805), section 3). In a sentence pair, tokens
            in the first sentence have type 0, and tokens in the second have type 1. The
            `output_dim` of `token_types` must equal the vector size of `embedding`. Defaults to
            `None`: no token types.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Int tensor of ids of shape `(batch, source)`, or other inputs that the embedding
            accepts, such as images for a `PatchEmbedding`. Without an embedding, vectors of shape
            `(batch, source, features)`.
        mask: Boolean tensor of shape `(batch, source)`; `False` marks padding. Keras and its
            wrappers pass the implicit mask of `inputs`. Defaults to `None`: ids equal to
            `pad_token_id` at the end of a row, and negative ids, are padding; vectors and images
            are not padded.
        inputs_mask: Boolean tensor of shape `(batch, source)`, the implicit mask of `inputs`. Keras
            passes this argument if you pass `mask`. The encoder combines `mask` and `inputs_mask`.
        token_type_ids: Int tensor of shape `(batch, source)`, token types. This argument requires
            `token_types`. Defaults to `None`: all tokens have type 0.

    Returns:
        Dict with the keyword arguments of a decoder, as in `decoder(target_ids,
        **encoder(source_ids))`: `encoder_outputs` `(batch, source, features)` and the boolean
        `encoder_mask` `(batch, source)`.

    Masking:
        Masked positions cannot be attended to. Outputs at masked positions are undefined.

    Raises:
        ValueError: If an argument is out of range, `block`, `embedding`, `positions`,
            `position_bias` or `token_types` has the wrong type, `inputs` has the wrong rank, or
            `token_type_ids` are passed to an encoder without `token_types`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attn import TransformerEncoder, TransformerEncoderBlock
    >>> block = TransformerEncoderBlock(num_heads=2, intermediate_dim=16)
    >>> encoder = TransformerEncoder(block, keras.layers.Embedding(10, 8), num_layers=2)
    >>> encoded = encoder(np.array([[5, 6, 7, 2], [5, 2, 0, 0]]))
    >>> tuple(encoded["encoder_outputs"].shape)
    (2, 4, 8)
    """

    masks_only_trailing_padding = True
    """Bool. `True`: only padding on the right of a row is masked, so the padding id is an ordinary
    token before other tokens, and a negative id ends a row whose last token is the padding id. An
    encoder that masks the padding id everywhere lacks this attribute.
    """

    is_container = True

    def __init__(
        self,
        block: keras.layers.Layer,
        embedding: keras.layers.Layer | None = None,
        *,
        num_layers: int = 6,
        positions: keras.layers.Layer | None = None,
        position_bias: keras.layers.Layer | None = None,
        scale_embedding: bool = False,
        dropout: float = 0.0,
        pad_token_id: int = 0,
        start_token_id: int | None = None,
        end_token_id: int | None = 2,
        seed: int | None = None,
        embedding_norm: bool = False,
        token_types: keras.layers.Layer | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("autocast", False)  # half precision would round large ids
        super().__init__(**kwargs)
        self.supports_masking = True
        check_token_ids(pad_token_id=pad_token_id)
        check_optional_token_ids(start_token_id=start_token_id, end_token_id=end_token_id)
        check_layers(token_types=token_types)
        self.stack = TransformerStack(
            block,
            embedding,
            num_layers=num_layers,
            positions=positions,
            position_bias=position_bias,
            scale_embedding=scale_embedding,
            dropout=dropout,
            seed=seed,
            embedding_norm=embedding_norm,
            dtype=self.dtype_policy,
            name="stack",
        )
        self.embedding = embedding
        self.token_types = token_types
        self.pad_token_id = pad_token_id
        self.start_token_id = start_token_id
        self.end_token_id = end_token_id

    def build(self, inputs_shape: StaticShape) -> None:
        self.stack.build(inputs_shape)
        if self.token_types is not None:
            ensure_built(self.token_types, tuple(inputs_shape[:2]))

    def call(
        self,
        inputs: Tensor,
        mask: Mask | None = None,
        inputs_mask: Mask | None = None,
        token_type_ids: Tensor | None = None,
    ) -> dict[str, Any]:
        types = self._embed_types(inputs, token_type_ids)
        are_ids = len(inputs.shape) == 2  # not vectors or images
        embeddable = masks.embeddable_ids(inputs) if are_ids else inputs
        vectors = self.stack.embed(embeddable, added=types)  # (B, S, D)
        mask = masks.join(vectors, mask=mask, inputs_mask=inputs_mask)
        if mask is None and are_ids:
            mask = masks.padding_mask(inputs, self.pad_token_id)
        elif mask is None:
            mask = ops.ones_like(vectors[:, :, 0], dtype="bool")  # (B, S)
        positions = position_range(ops.shape(vectors)[1])
        bias = self.stack.bias(positions, positions)
        for block in self.stack.blocks:
            vectors = block(vectors, attention_mask=mask, position_bias=bias)
        return {"encoder_outputs": self.stack.normalize(vectors), "encoder_mask": mask}

    def _embed_types(self, inputs, token_type_ids):
        """Returns token type vectors `(B, S, D)`, or `None` without types."""
        if self.token_types is None:
            if token_type_ids is not None:
                raise ValueError(
                    "Expected no token_type_ids, because the encoder has no token_types. Received: "
                    f"token_type_ids of shape {tuple(token_type_ids.shape)}. Omit the argument, or "
                    "create the encoder with token_types=keras.layers.Embedding(2, features)."
                )
            return None
        if token_type_ids is None:
            token_type_ids = ops.zeros(ops.shape(inputs)[:2], dtype="int32")
        return self.token_types(token_type_ids)  # (B, S, D)

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
            "token_types": serialize_shared(self.token_types),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        config = {"token_types": None, **config}  # older files lack the key
        token_types = deserialize_shared(config["token_types"])
        arguments = TransformerStack.deserialize_arguments(config)
        return cls(**{**arguments, "token_types": token_types})
