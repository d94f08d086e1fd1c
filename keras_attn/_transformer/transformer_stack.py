import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_attn._attention.cache_view import CacheView
from keras_attn._drop_ins.dropout import Dropout
from keras_attn._layer.argument_checks import (
    check_dropout,
    check_layers,
    check_positive_integer,
    check_seed,
)
from keras_attn._layer.build_embedding import build_embedding
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.layer import Layer
from keras_attn._serialization.layer_template import LayerTemplate, check_template_dtype, with_dtype
from keras_attn._serialization.shared_layers import deserialize_shared, serialize_shared
from keras_attn._types import PositionBias, StaticShape, Tensor, TensorDict


def check_block(block: object) -> None:
    """Raises a `ValueError` if a block cannot be a stack's template."""
    needed = ("normalize_first", "new_norm", "seed")
    if not isinstance(block, keras.layers.Layer) or not all(hasattr(block, x) for x in needed):
        kind = f"the class {block.__name__}" if isinstance(block, type) else repr(block)
        raise ValueError(
            "Expected a Transformer block as the template of all blocks. "
            f"Received: block={kind}. Pass a layer, such as "
            "TransformerEncoderBlock(num_heads=8, intermediate_dim=2048), and num_layers."
        )


class TransformerStack(Layer):
    """Stack of an embedding, positions, Transformer blocks and a final normalization.

    Args:
        block: Transformer block, the template for all blocks. Each of the `num_layers` blocks is a
            new block with the same configuration.
        embedding: Layer that maps ids to vectors, or `None` if the inputs are vectors.
        num_layers: Positive int, number of blocks.
        positions: Layer that is called with `(vectors, start_index)` and adds positions to the
            vectors, such as `SinusoidalPositions`, or `None`.
        position_bias: Layer that computes a bias for the attention scores in all blocks, such as
            `AlibiBias`, or `None`.
        scale_embedding: Bool, whether embeddings are multiplied by the square root of their size.
        dropout: Float in [0, 1), dropout rate after embedding.
        seed: Int or `None`, dropout seed.
        embedding_norm: Bool, whether the sum of embeddings and positions is normalized, with the
            same normalization as in the block. Defaults to `False`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Raises:
        ValueError: If an argument is out of range or has the wrong type.
    """

    is_container = True

    def __init__(
        self,
        block: Any,
        embedding: Any,
        *,
        num_layers: int,
        positions: Any,
        position_bias: Any,
        scale_embedding: bool,
        dropout: float,
        seed: int | None,
        embedding_norm: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive_integer("num_layers", num_layers)
        check_dropout("dropout", dropout)
        check_seed(seed)
        check_block(block)
        check_layers(embedding=embedding)
        check_template_dtype(self, "block", block)
        self.block_template = LayerTemplate(block)
        self.embedding = embedding
        self.num_layers = num_layers
        self.positions = positions
        self.position_bias = position_bias
        self.scale_embedding = scale_embedding
        self.dropout = dropout
        self.seed = seed
        self.blocks = [
            self.block_template.new_layer(
                name=f"block_{index}",
                dtype=self.dtype_policy,
                # Use a different seed for each block and for the input, so that their dropout masks
                # are independent.
                seed=None if block.seed is None else block.seed + 1 + index,
            )
            for index in range(num_layers)
        ]
        for name, layer in (("positions", positions), ("position_bias", position_bias)):
            if layer is not None and not isinstance(layer, keras.layers.Layer):
                raise ValueError(
                    f"Expected {name} to be a layer, such as SinusoidalPositions(), or None. "
                    f"Received: {name}={layer!r}."
                )
        heads = [getattr(layer, "num_heads", None) for layer in (position_bias, block)]
        if None not in heads and heads[0] != heads[1]:
            raise ValueError(
                "Expected position_bias with the number of heads of the block. Received: "
                f"position_bias with num_heads={heads[0]}, block with num_heads={heads[1]}."
            )
        self.input_dropout = Dropout(dropout, seed=seed, dtype=self.dtype_policy)
        self.embedding_norm = self.blocks[0].new_norm("embedding_norm") if embedding_norm else None
        # The output of a pre-norm block is not normalized.
        self.final_norm = self.blocks[0].new_norm("final_norm") if block.normalize_first else None

    def build(self, inputs_shape: StaticShape, *memory_shapes: Any) -> None:
        """Builds all layers.

        Args:
            inputs_shape: Tuple, input shape.
            *memory_shapes: Further arguments for the blocks' `build` method.
        """
        shape = build_embedding(self.embedding, inputs_shape)
        if self.positions is not None:
            ensure_built(self.positions, shape)
        if self.embedding_norm is not None:
            ensure_built(self.embedding_norm, shape)
        if self.position_bias is not None:
            ensure_built(self.position_bias, (1, shape[1]), (1, shape[1]))
        for block in self.blocks:
            ensure_built(block, shape, *memory_shapes)
        if self.final_norm is not None:
            ensure_built(self.final_norm, shape)
        self.output_dim = shape[-1]

    @property
    def max_length(self) -> int | None:
        """Int, maximum length for learned positions, otherwise `None`."""
        return getattr(self.positions, "max_length", None)

    def embed(
        self, inputs: Tensor, start_index: int | Tensor = 0, added: Tensor | None = None
    ) -> Tensor:
        """Returns the first block's input vectors `(batch, time, features)`.

        Args:
            inputs: Ids `(batch, time)`, or vectors without an embedding.
            start_index: Position of the first time step. Defaults to `0`.
            added: Vectors `(batch, time, features)` to add to the embeddings. Defaults to `None`.
        """
        vectors = inputs if self.embedding is None else self.embedding(inputs)
        vectors = ops.cast(vectors, self.compute_dtype)
        if getattr(self.embedding, "supports_masking", True):
            # Copy the vectors to remove the implicit mask: Keras would pass it only to the first
            # block. Encoders pass their mask to each block explicitly. Decoders need no mask,
            # because steps are not padded. An implicit mask would even be wrong if the start token
            # has the id 0.
            vectors = ops.copy(vectors)
        if self.scale_embedding:
            vectors = vectors * vectors.shape[-1] ** 0.5
        if added is not None:
            vectors = vectors + ops.cast(added, self.compute_dtype)
        if self.positions is not None:
            vectors = self.positions(vectors, start_index=start_index)
            vectors = ops.cast(vectors, self.compute_dtype)
        if self.embedding_norm is not None:
            vectors = self.embedding_norm(vectors)
        return self.input_dropout(vectors)

    def bias(self, query_positions: Tensor, key_positions: Tensor) -> Tensor | None:
        """Returns the bias for attention scores, or `None`.

        With `flash_attention=True`, the method returns the layer `position_bias` itself, which the
        attention calls.
        """
        if self.position_bias is None or self.blocks[0].flash_attention:
            return self.position_bias
        return self.position_bias(query_positions, key_positions)

    def step(
        self,
        vectors: Tensor,
        shared: TensorDict,
        memories: Sequence[TensorDict | None],
        view: CacheView,
        position_bias: PositionBias | None = None,
    ) -> tuple[Tensor, Any, TensorDict]:
        """Processes new positions with caches for previous positions.

        Args:
            vectors: Vectors returned by `embed`, or one vector per beam.
            shared: Dict with a list `caches` and optionally a list `archives`, with one item per
                block, see `keras_attn._decoding_state.kv_cache`.
            memories: Sequence with each block's memory.
            view: `CacheView` for all blocks' caches, which use the same slots. This method sets its
                attribute `archive` for each block.
            position_bias: Bias returned by `bias`. Defaults to `None`.

        Returns:
            Tuple of the last block's outputs and cross-attention weights, and `shared` with the new
            caches.
        """
        archives = shared.get("archives", [None] * self.num_layers)
        caches, weights = [], None
        for block, cache, archive, memory in zip(
            self.blocks, shared["caches"], archives, memories, strict=True
        ):
            own_view = dataclasses.replace(view, archive=archive)
            vectors, weights, cache = block.step(vectors, cache, memory, own_view, position_bias)
            caches.append(cache)
        return vectors, weights, {**shared, "caches": caches}

    def normalize(self, outputs: Tensor) -> Tensor:
        """Applies the final normalization to the last block's outputs."""
        return outputs if self.final_norm is None else self.final_norm(outputs)

    def serialize_arguments(self) -> dict[str, Any]:
        """Returns serialized arguments for an encoder or decoder configuration."""
        return {
            "block": self.block_template.config(),
            "embedding": serialize_shared(self.embedding),
            "num_layers": self.num_layers,
            "positions": serialize_shared(self.positions),
            "position_bias": serialize_shared(self.position_bias),
            "scale_embedding": self.scale_embedding,
            "dropout": self.dropout,
            "seed": self.seed,
            "embedding_norm": self.embedding_norm is not None,
        }

    @staticmethod
    def deserialize_arguments(config: dict[str, Any]) -> dict[str, Any]:
        """Deserializes the layers in an encoder or decoder configuration."""
        layers = {
            name: deserialize_shared(config[name])
            for name in ("embedding", "positions", "position_bias")
        }
        block = with_dtype(config["block"], config["dtype"])
        layers["block"] = keras.saving.deserialize_keras_object(block)
        return {**config, **layers}
