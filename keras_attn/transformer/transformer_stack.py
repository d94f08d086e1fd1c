import dataclasses

import keras
from keras import ops

from keras_attn._drop_ins.dropout import Dropout
from keras_attn._layer.argument_checks import check_dropout, check_layers, check_positive_integer
from keras_attn._layer.build_embedding import build_embedding
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.layer import Layer
from keras_attn._serialization.deserialize_shared import deserialize_shared
from keras_attn._serialization.layer_template import LayerTemplate, check_template_dtype, with_dtype
from keras_attn._serialization.serialize_shared import serialize_shared


def check_block(block):
    """Raises a `ValueError` unless a stack can copy the block: for a class, a number or `None`."""
    needed = ("normalize_first", "new_norm", "seed")
    if not isinstance(block, keras.layers.Layer) or not all(hasattr(block, x) for x in needed):
        kind = f"the class {block.__name__}" if isinstance(block, type) else repr(block)
        raise ValueError(
            "Expected a Transformer block as the template of all blocks. "
            f"Received: block={kind}. Pass a layer, such as "
            "TransformerEncoderBlock(num_heads=8, intermediate_dim=2048), and num_layers."
        )


class TransformerStack(Layer):
    """What Transformer encoders and decoders are made of: embedding, positions, blocks, last norm.

    Args:
        block: the template of all blocks; each layer is a new one like it.
        embedding: layer that turns ids into vectors; `None` for inputs that are vectors already.
        num_layers: int.
        positions: layer `(vectors, start_index) -> vectors` that adds positions, such as
            `SinusoidalPositions`; or `None`.
        position_bias: layer whose result all blocks add to their scores, such as `AlibiBias`; or
            `None`.
        scale_embedding: bool, whether embeddings are multiplied by the square root of their size.
        dropout: float in [0, 1), on the embedded inputs.
        seed: int, seed of the dropout.
        **kwargs: arguments of `keras.layers.Layer`.

    Raises:
        ValueError: for arguments out of range.
    """

    is_container = True

    def __init__(
        self,
        block,
        embedding,
        num_layers,
        positions,
        position_bias,
        scale_embedding,
        dropout,
        seed,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive_integer("num_layers", num_layers)
        check_dropout("dropout", dropout)
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
                # With one seed, all blocks and the input would drop the same features.
                seed=None if block.seed is None else block.seed + 1 + index,
            )
            for index in range(num_layers)
        ]
        for name, layer in (("positions", positions), ("position_bias", position_bias)):
            if layer is not None and not isinstance(layer, keras.layers.Layer):
                raise ValueError(
                    f"{name} must be a layer, such as SinusoidalPositions(), or None. "
                    f"Received: {name}={layer!r}."
                )
        heads = [getattr(each, "num_heads", None) for each in (position_bias, block)]
        if None not in heads and heads[0] != heads[1]:
            raise ValueError(
                "position_bias must have as many heads as the block. Received: "
                f"{heads[0]} of the bias, {heads[1]} of the block."
            )
        self.input_dropout = Dropout(dropout, seed=seed, dtype=self.dtype_policy)
        # The output of a pre-norm block is a sum that nothing has normalized.
        self.final_norm = self.blocks[0].new_norm("final_norm") if block.normalize_first else None

    def build(self, inputs_shape, *memory_shapes):
        """Builds all parts; `memory_shapes` are the other arguments of the blocks' `build`."""
        shape = build_embedding(self.embedding, inputs_shape)
        if self.positions is not None:
            ensure_built(self.positions, shape)
        if self.position_bias is not None:
            ensure_built(self.position_bias, (1, shape[1]), (1, shape[1]))
        for block in self.blocks:
            ensure_built(block, shape, *memory_shapes)
        if self.final_norm is not None:
            ensure_built(self.final_norm, shape)
        self.output_dim = shape[-1]

    @property
    def max_length(self):
        """int, number of positions, where each has a learned vector; else `None`."""
        return getattr(self.positions, "max_length", None)

    def embed(self, inputs, start_index=0):
        """Vectors `(batch, time, features)` for the first block."""
        vectors = inputs if self.embedding is None else self.embedding(inputs)
        vectors = ops.cast(vectors, self.compute_dtype)
        if getattr(self.embedding, "supports_masking", True):
            # Without the implicit mask, which only the first block would see. Encoders pass their
            # mask to each block. Decoders have none: a start token may be 0, and steps know nothing
            # of padding.
            vectors = ops.copy(vectors)
        if self.scale_embedding:
            vectors = vectors * vectors.shape[-1] ** 0.5
        if self.positions is not None:
            vectors = self.positions(vectors, start_index=start_index)
            vectors = ops.cast(vectors, self.compute_dtype)
        return self.input_dropout(vectors)

    def bias(self, query_positions, key_positions):
        """What the blocks add to their scores, or `None`.

        The blockwise form asks the layer itself, for a part of the scores at a time.
        """
        if self.position_bias is None or self.blocks[0].flash_attention:
            return self.position_bias
        return self.position_bias(query_positions, key_positions)

    def step(self, vectors, shared, memories, view, position_bias=None):
        """New positions, given those in caches.

        Args:
            vectors: as from `embed`, or one for each beam.
            shared: dict with `caches` and, if there are any, `archives`, one of each for each
                block; see `keras_attn._decoding_state.kv_cache`.
            memories: what each block attends to.
            view: a `CacheView` of the caches, which all have the same slots. The stack sets its
                `archive`.
            position_bias: as from `bias`.

        Returns:
            Tuple of the outputs of the last block, the weights of its cross-attention, and the dict
            with the new caches.
        """
        archives = shared.get("archives", [None] * self.num_layers)
        caches = []
        for block, cache, archive, memory in zip(
            self.blocks, shared["caches"], archives, memories, strict=True
        ):
            own_view = dataclasses.replace(view, archive=archive)
            vectors, weights, cache = block.step(vectors, cache, memory, own_view, position_bias)
            caches.append(cache)
        return vectors, weights, {**shared, "caches": caches}

    def normalize(self, outputs):
        """Outputs of the stack from those of its last block."""
        return outputs if self.final_norm is None else self.final_norm(outputs)

    def serialize_arguments(self):
        """The arguments of the stack, serialized: what an encoder or decoder adds to its config."""
        return {
            "block": self.block_template.config(),
            "embedding": serialize_shared(self.embedding),
            "num_layers": self.num_layers,
            "positions": serialize_shared(self.positions),
            "position_bias": serialize_shared(self.position_bias),
            "scale_embedding": self.scale_embedding,
            "dropout": self.dropout,
            "seed": self.seed,
        }

    @staticmethod
    def deserialize_arguments(config):
        """The config of an encoder or decoder, with layers in place of their configs."""
        layers = {
            name: deserialize_shared(config[name])
            for name in ("embedding", "positions", "position_bias")
        }
        block = with_dtype(config["block"], config["dtype"])
        layers["block"] = keras.saving.deserialize_keras_object(block)
        return {**config, **layers}
