from typing import Any, cast

import keras
from keras import ops

from keras_attn import _masks as masks
from keras_attn._attention.cache_view import CacheView
from keras_attn._decoders.transformer_token_decoder import TransformerTokenDecoder
from keras_attn._decoding_state import growing_buffer, kv_cache
from keras_attn._layer.argument_checks import check_same_batch, check_second_input
from keras_attn._positions.position_range import position_range
from keras_attn._types import Masks, StaticShape, Tensor, TensorDict


@keras.saving.register_keras_serializable(package="keras_attn")
class TransformerDecoder(TransformerTokenDecoder):
    """Transformer decoder with cross-attention to an encoder.

        p(y | source) = prod_t p(y[t] | y[0], ..., y[t - 1], source)

    The decoder was introduced in section 3 of [Vaswani et al.,
    2017](https://arxiv.org/abs/1706.03762). `call` processes all positions in one pass (teacher
    forcing). `step` processes one position and attends to cached keys and values from the previous
    positions.

    Args:
        block: `TransformerDecoderBlock`, the template for all blocks, for example
            `TransformerDecoderBlock(8, 2048)`. Each of the `num_layers` blocks is a new block with
            the template's configuration.
        embedding: Layer that maps ids `(batch, target)` to vectors.
        head: Layer that maps outputs to logits. Defaults to `None`: the embedding is also the
            output layer ([Press and Wolf, 2017](https://arxiv.org/abs/1608.05859)), and must be a
            `keras.layers.ReversibleEmbedding`.
        num_layers: Positive int, number of blocks. Defaults to `6`.
        positions: Layer that is called with `(vectors, start_index)` and adds position encodings to
            the vectors, such as `SinusoidalPositions`. Defaults to `None`: no position encodings.
        position_bias: Layer that computes a bias for all blocks' attention scores, such as
            `AlibiBias` or `RelativePositionBias`. Defaults to `None`: no bias.
        scale_embedding: Bool, whether embeddings are multiplied by the square root of the vector
            size. Defaults to `False`.
        dropout: Float in [0, 1), dropout rate for the embedded inputs. Defaults to `0.0`.
        growing_cache: Bool, whether the key-value cache grows with each step. If `False`, the cache
            is allocated for `max_length` steps at the start. Only a growing cache can be exported
            to ONNX. Defaults to `None`: the cache grows if the backend supports it.
        cache_block_size: Positive int. After every `cache_block_size` steps, a search moves a
            growing cache's content to a second cache. Each step copies the growing cache to extend
            it, but does not copy the second cache. The second cache therefore speeds up long
            outputs on TensorFlow and in ONNX. Other backends ignore this argument. Defaults to
            `None`: no second cache. For short outputs, such as a single sentence, `None` is faster.
        seed: Int, dropout seed. Defaults to `None`: a random seed.
        use_output_bias: Bool, whether a trainable bias is added to the logits. `True` requires
            `head=None`. Defaults to `False`.
        embedding_norm: Bool, whether the sum of embeddings and positions is normalized, as in BART
            and mBART. The normalization layer has the type that the blocks use. Defaults to
            `False`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        token_ids: Int32 tensor of shape `(batch, target)`, the target tokens, beginning with the
            start token.
        encoder_outputs: Tensor of shape `(batch, source, features)`.
        encoder_mask: Boolean tensor of shape `(batch, source)`; `True` marks positions that may be
            attended to. The decoder combines `encoder_mask` and `encoder_outputs_mask`. Defaults to
            `None`.
        encoder_state: Ignored.
        return_attention_scores: Bool, whether to also return the cross-attention weights.
            Defaults to `False`.
        training: Bool, whether dropout is active. Defaults to `False`.
        encoder_outputs_mask: Boolean tensor of shape `(batch, source)`, the implicit mask of
            `encoder_outputs`. Keras passes this argument.
        return_features: Bool, whether to return the output layer's inputs, `(batch, target,
            features)`, instead of the logits. Defaults to `False`.

    Returns:
        Float32 logits of shape `(batch, target, vocabulary)`: at each position, the logits of the
        next token. If `return_attention_scores=True`, a tuple of the logits and the attention
        weights `(batch, target, source)` from the last block, averaged over its heads.

    Masking:
        Masked source positions get a weight of exactly 0. Padding on the right of the target
        does not affect previous positions.

    Raises:
        ValueError: If an argument is out of range, `block` has no cross-attention,
            `encoder_outputs` is missing, or `head` is `None` and the embedding cannot be the output
            layer.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attn import TransformerDecoder, TransformerDecoderBlock
    >>> block = TransformerDecoderBlock(num_heads=2, intermediate_dim=16)
    >>> decoder = TransformerDecoder(block, keras.layers.ReversibleEmbedding(9, 8), num_layers=2)
    >>> encoder_outputs = np.ones((1, 3, 8), "float32")
    >>> tuple(decoder(np.array([[1, 5, 6, 7]]), encoder_outputs).shape)
    (1, 4, 9)
    """

    def check_block(self, block: Any) -> None:
        if not getattr(block, "cross_attention", False):
            raise ValueError(
                f"Expected a block with cross-attention. Received: block={type(block).__name__} "
                "without cross-attention. Pass TransformerDecoderBlock(...), or use "
                "CausalLanguageModel."
            )

    def build(
        self,
        token_ids_shape: StaticShape,
        encoder_outputs_shape: StaticShape | None = None,
        encoder_mask_shape: StaticShape | None = None,
        encoder_state_shape: StaticShape | None = None,
    ) -> None:
        check_second_input(self, "encoder_outputs", encoder_outputs_shape)
        self.stack.build(token_ids_shape, encoder_outputs_shape)
        self.build_head((None, None, self.stack.output_dim), self.stack.output_dim)

    def call(
        self,
        token_ids: Tensor,
        encoder_outputs: Any = None,
        encoder_mask: Masks | None = None,
        encoder_state: Any = None,
        return_attention_scores: bool = False,
        training: bool = False,
        encoder_outputs_mask: Masks | None = None,
        return_features: bool = False,
    ) -> Any:
        check_second_input(self, "encoder_outputs", encoder_outputs)
        check_same_batch(self, token_ids=token_ids, encoder_outputs=encoder_outputs)
        encoder_mask = masks.join(
            encoder_outputs, encoder_mask=encoder_mask, encoder_outputs_mask=encoder_outputs_mask
        )
        memory = self.prepare_memory(encoder_outputs, encoder_mask)
        vectors = self.stack.embed(token_ids)  # (B, T, D)
        positions = position_range(ops.shape(vectors)[1])
        bias, weights = self.stack.bias(positions, positions), cast(Any, None)
        for block, block_memory in zip(self.stack.blocks, memory["blocks"], strict=True):
            vectors, weights = block.rematerialized(
                block.run, vectors, block_memory, position_bias=bias
            )
        vectors = self.stack.normalize(vectors)
        logits = vectors if return_features else self.project(vectors)  # (B, T, V)
        if not return_attention_scores:
            return logits
        return logits, ops.mean(weights, axis=1)  # (B, T, V), (B, T, S)

    def prepare_memory(
        self, encoder_outputs: Any, encoder_mask: Masks | None = None, encoder_state: Any = None
    ) -> TensorDict:
        blocks = [
            block.prepare_memory(encoder_outputs, encoder_mask) for block in self.stack.blocks
        ]
        return {"blocks": blocks}

    def initial_state(
        self,
        memory: TensorDict,
        beam_width: int | Tensor = 1,
        alignments: bool = False,
        max_length: int | None = None,
    ) -> TensorDict:
        mask = memory["blocks"][-1]["mask"]  # (B, 1, S)
        batch = ops.shape(mask)[0]
        slots = (self.capacity(max_length, beam_width), self.growing_cache)
        of_beams = kv_cache.own_slots(batch, beam_width)
        state = {
            "ancestor_bias": kv_cache.new_ancestor_bias(of_beams, *slots),
            "shared": {
                "position": ops.zeros((), dtype="int32"),
                **of_beams,
                "caches": [block.initial_state(batch, *slots) for block in self.stack.blocks],
            },
        }
        if self.cache_block_size is not None and growing_buffer.grows_each_step(self.growing_cache):
            state["shared"]["archives"] = list(state["shared"]["caches"])
        if alignments:
            state["alignments"] = ops.zeros(
                (batch * beam_width, ops.shape(mask)[2]), dtype=self.compute_dtype
            )
        return state

    def max_tokens(self, memory: TensorDict) -> int | Tensor | None:
        return self.stack.max_length

    def step(
        self, token_ids: Tensor, state: TensorDict, memory: TensorDict
    ) -> tuple[Tensor, TensorDict]:
        shared, growing = state["shared"], self.growing_cache
        position, beams = shared["position"], kv_cache.num_beams(shared)
        slot = position * beams
        ancestor_bias = kv_cache.extend_ancestor_bias(state["ancestor_bias"], shared, slot, growing)
        archive = shared["archives"][0] if "archives" in shared else None
        slots = kv_cache.num_slots(shared["caches"][0], beams, growing, archive)
        key_positions = position_range(slots) // beams
        bias = self.stack.bias(position_range(1, position), key_positions)
        vectors = ops.squeeze(self.stack.embed(token_ids[:, None], position), axis=1)  # (B*K, D)
        view = CacheView(
            slot,
            start_index=position,
            key_positions=key_positions,
            ancestor_bias=kv_cache.reshape_ancestor_bias(ancestor_bias, shared),
            growing=growing,
            num_beams=beams,
        )
        vectors, weights, shared = self.stack.step(vectors, shared, memory["blocks"], view, bias)
        new_state = {"ancestor_bias": ancestor_bias, "shared": {**shared, "position": position + 1}}
        if "alignments" in state:
            # (B, H, K, S) to (B*K, S)
            new_state["alignments"] = ops.reshape(
                ops.mean(weights, axis=1), ops.shape(state["alignments"])
            )
        return self.project(self.stack.normalize(vectors)), new_state  # (B*K, V)
