from typing import Any, cast

import keras
from keras import ops

from keras_attn import masks
from keras_attn._decoding_state import growing_buffer, kv_cache
from keras_attn._layer.argument_checks import check_same_batch, check_second_input
from keras_attn._types import Masks, StaticShape, Tensor, TensorDict
from keras_attn.attention.cache_view import CacheView
from keras_attn.decoders.transformer_token_decoder import TransformerTokenDecoder
from keras_attn.positions.position_range import position_range


@keras.saving.register_keras_serializable(package="keras_attn")
class TransformerDecoder(TransformerTokenDecoder):
    """A stack of Transformer blocks that predicts the next token.

    Introduced by [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section 3. Teacher
    forcing is one pass over all positions; a step attends to the cached keys and values of the
    positions before it.

    Args:
        block: the template of all blocks, for instance `TransformerDecoderBlock(8, 2048)`; each
            layer is a new one like it.
        embedding, head: see `TokenDecoder`.
        num_layers: int. Default 6.
        positions, position_bias, scale_embedding, dropout, seed: see `TransformerEncoder`.
        growing_cache: bool, whether the cache grows with each step, or has slots for `max_length`
            steps from the start. Default `None`: it grows where the backend can. Only a growing
            cache can be exported to ONNX.
        cache_block_size: int, the steps after which a search moves what is in a growing cache to a
            second one, which steps read but do not copy. For long outputs, on TensorFlow and in
            ONNX; ignored elsewhere. Default `None`: never, which is faster for sentences.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments: see `StepDecoder.call`; `encoder_state` is not used. With
        `return_attention_scores` the weights are returned too.

    Returns:
        float32 logits `(B, T, V)`, or a tuple of it and the weights `(B, T, S)` of the last block,
        the mean of its heads.

    Masking:
        Padding of the source gets weight 0. Target padding on the right cannot influence the
        positions before it.

    Raises:
        ValueError: for arguments out of range, or if the output cannot be tied to the embedding.
    """

    def check_block(self, block: Any) -> None:
        if not getattr(block, "cross_attention", False):
            raise ValueError(
                "A decoder needs cross-attention, to what an encoder has read. Received: block="
                f"{type(block).__name__} without it. Pass TransformerDecoderBlock(...), or make a "
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
        logits = self.project(self.stack.normalize(vectors), training)  # (B, T, V)
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
        beam_width: int = 1,
        alignments: bool = False,
        max_length: int | None = None,
    ) -> TensorDict:
        mask = memory["blocks"][-1]["mask"]  # (B, 1, S)
        batch = ops.shape(mask)[0]
        slots = (self.capacity(max_length, beam_width), self.growing_cache)
        own = kv_cache.own_slots(batch, beam_width)
        state = {
            "ancestor_bias": kv_cache.new_ancestor_bias(own, *slots),
            "shared": {
                "position": ops.zeros((), dtype="int32"),
                "own": own,
                "caches": [block.initial_state(batch, *slots) for block in self.stack.blocks],
            },
        }
        if self.cache_block_size is not None and growing_buffer.supports_growth(self.growing_cache):
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
        position, own = shared["position"], shared["own"]
        beams = own.shape[1]
        slot = position * beams
        ancestor_bias = kv_cache.extend_ancestor_bias(state["ancestor_bias"], own, slot, growing)
        archive = shared["archives"][0] if "archives" in shared else None
        slots = kv_cache.num_slots(shared["caches"][0], beams, growing, archive)
        key_positions = position_range(slots) // beams
        bias = self.stack.bias(position_range(1, position), key_positions)
        vectors = ops.squeeze(self.stack.embed(token_ids[:, None], position), axis=1)  # (B*K, D)
        view = CacheView(
            slot,
            start_index=position,
            key_positions=key_positions,
            ancestor_bias=kv_cache.reshape_ancestor_bias(ancestor_bias, own),
            growing=growing,
        )
        vectors, weights, shared = self.stack.step(vectors, shared, memory["blocks"], view, bias)
        new_state = {"ancestor_bias": ancestor_bias, "shared": {**shared, "position": position + 1}}
        if "alignments" in state:
            # (B, H, K, S) to (B*K, S)
            new_state["alignments"] = ops.reshape(
                ops.mean(weights, axis=1), ops.shape(state["alignments"])
            )
        return self.project(self.stack.normalize(vectors)), new_state  # (B*K, V)
