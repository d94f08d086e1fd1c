from typing import Any

import keras
from keras import ops

from keras_attn import _masks as masks
from keras_attn._attention.cache_view import CacheView
from keras_attn._backend.gather import repeat_rows
from keras_attn._backend.integers import sum_int32
from keras_attn._decoders.transformer_token_decoder import TransformerTokenDecoder
from keras_attn._decoding_state import growing_buffer, kv_cache
from keras_attn._layer.argument_checks import check_same_batch
from keras_attn._positions.position_range import position_range
from keras_attn._types import Masks, StaticShape, Tensor, TensorDict


@keras.saving.register_keras_serializable(package="keras_attn")
class CausalLanguageModel(TransformerTokenDecoder):
    """Causal language model: a stack of Transformer blocks without an encoder.

        p(y) = prod_t p(y[t] | y[0], ..., y[t - 1])

    The architecture was introduced in section 4.2.3 of [Liu et al.,
    2018](https://arxiv.org/abs/1801.10198), and in [Radford et al.,
    2018](https://openai.com/index/language-unsupervised) (GPT).

    The model is a `StepDecoder` whose `encoder_outputs` are prompt ids. The blocks process the
    prompt in one pass and store its keys and values in the caches. The first step of a search reads
    the last token of the prompt, or the start token if the prompt is empty. Every search can
    therefore continue prompts:

        GenerationModel(None, BeamDecoder(model, relative_max_length=None))(prompt_ids)

    Args:
        block: `TransformerDecoderBlock` with `cross_attention=False`, the template for all blocks.
            Each of the `num_layers` blocks is a new block with the template's configuration.
        embedding: Layer that maps ids `(batch, time)` to vectors.
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
        token_ids: Int32 tensor of shape `(batch, time)`.
        encoder_outputs: Int32 tensor of shape `(batch, prompt)`, prompt ids with padding on the
            right. With prompts, the first token of `token_ids` must be the last token of the prompt
            (see `first_token_ids`), and the attention weights at all positions need memory, even if
            the blocks have `flash_attention=True`. Defaults to `None`: no prompts.
        encoder_mask: Boolean tensor of shape `(batch, prompt)`, `False` at padding. Defaults to
            `None`: the prompts have no padding.
        encoder_state: Ignored.
        training: Bool, whether dropout is active. Defaults to `False`.
        encoder_outputs_mask: Boolean tensor of shape `(batch, prompt)`, the implicit mask of
            `encoder_outputs`. Keras passes this argument. The decoder combines `encoder_mask` and
            `encoder_outputs_mask`.
        return_features: Bool, whether to return the output layer's inputs, `(batch, time,
            features)`, instead of the logits. Defaults to `False`.

    Returns:
        Float32 logits of shape `(batch, time, vocabulary)`: at each position, the logits of the
        next token.

    Masking:
        Padding on the right of `token_ids` does not affect previous positions. Padding in a prompt
        does not affect the results.

    Raises:
        ValueError: If an argument is out of range, `block` has cross-attention, or `head` is `None`
            and the embedding cannot be the output layer.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attn import (
    ...     CausalLanguageModel, GenerationModel, GreedyDecoder, TransformerDecoderBlock,
    ... )
    >>> block = TransformerDecoderBlock(num_heads=2, intermediate_dim=16, cross_attention=False)
    >>> model = CausalLanguageModel(block, keras.layers.ReversibleEmbedding(9, 8), num_layers=2)
    >>> tuple(model(np.array([[1, 5, 6, 7]])).shape)
    (1, 4, 9)
    >>> search = GreedyDecoder(model, max_length=3, relative_max_length=None)
    >>> found = GenerationModel(None, search)(np.array([[1, 5, 6], [1, 5, 0]]))
    >>> tuple(found["lengths"].shape)
    (2, 1)
    """

    reads_prompts = True

    @property
    def max_prompt_length(self) -> int | None:
        return self.stack.max_length

    def check_block(self, block: Any) -> None:
        if getattr(block, "cross_attention", True):
            raise ValueError(
                "Expected a block without cross-attention. Received: block="
                f"{type(block).__name__} with cross_attention=True. Pass "
                "TransformerDecoderBlock(..., cross_attention=False)."
            )

    def build(
        self,
        token_ids_shape: StaticShape,
        encoder_outputs_shape: StaticShape | None = None,
        encoder_mask_shape: StaticShape | None = None,
        encoder_state_shape: StaticShape | None = None,
    ) -> None:
        self.stack.build(token_ids_shape)
        self.build_head((None, None, self.stack.output_dim), self.stack.output_dim)

    def call(
        self,
        token_ids: Tensor,
        encoder_outputs: Any = None,
        encoder_mask: Masks | None = None,
        encoder_state: Any = None,
        training: bool = False,
        encoder_outputs_mask: Masks | None = None,
        return_features: bool = False,
    ) -> Any:
        if encoder_outputs is not None:
            check_same_batch(self, token_ids=token_ids, encoder_outputs=encoder_outputs)
            encoder_mask = masks.join(
                encoder_outputs,
                encoder_mask=encoder_mask,
                encoder_outputs_mask=encoder_outputs_mask,
            )
            memory = self.prepare_memory(encoder_outputs, encoder_mask)
            shared = _after_prompt(memory, memory["caches"])
            vectors, _ = self._extend(token_ids, shared, memory, growing=True)
            return vectors if return_features else self.project(vectors)  # (B, T, V)
        vectors = self.stack.embed(token_ids)  # (B, T, D)
        positions = position_range(ops.shape(vectors)[1])
        bias = self.stack.bias(positions, positions)
        for block in self.stack.blocks:
            vectors = block(vectors, position_bias=bias)
        vectors = self.stack.normalize(vectors)
        return vectors if return_features else self.project(vectors)  # (B, T, V)

    def prepare_memory(
        self, encoder_outputs: Any, encoder_mask: Masks | None = None, encoder_state: Any = None
    ) -> TensorDict:
        # Outside of a loop, a cache can grow on every backend.
        batch = ops.shape(encoder_outputs)[0]
        empty = [block.initial_state(batch, 0, growing=True) for block in self.stack.blocks]
        if encoder_outputs.shape[1] == 0:  # no prompts, as in a `FusedDecoder`
            zeros = ops.zeros((batch,), dtype="int32")
            return {"caches": empty, "lengths": zeros, "last_token_ids": zeros}
        if encoder_mask is None:
            encoder_mask = ops.ones_like(encoder_outputs, dtype="bool")
        encoder_mask = masks.boolean(encoder_mask, "encoder_mask")
        encoder_mask = masks.broadcast_batch(encoder_mask, encoder_outputs)
        lengths = sum_int32(encoder_mask, axis=1)  # (B,)
        vectors = self.stack.embed(encoder_outputs)  # (B, P, D)
        positions = position_range(ops.shape(vectors)[1])
        bias = self.stack.bias(positions, positions)
        _, _, shared = self.stack.step(
            vectors, {"caches": empty}, [{}] * len(empty), CacheView(0, growing=True), bias
        )
        return {
            "caches": shared["caches"],
            "lengths": lengths,
            "last_token_ids": _last_token_ids(encoder_outputs, lengths),
        }

    def initial_state(
        self,
        memory: TensorDict,
        beam_width: int | Tensor = 1,
        alignments: bool = False,
        max_length: int | None = None,
    ) -> TensorDict:
        batch = ops.shape(memory["lengths"])[0]
        slots = (self.capacity(max_length, beam_width), self.growing_cache)
        of_beams = kv_cache.own_slots(batch, beam_width)
        empty = [block.initial_state(batch, *slots) for block in self.stack.blocks]
        # Concatenate even an empty cache: a loop that adds slots needs a dynamic number of slots.
        joined = [
            kv_cache.join(prompt, cache)
            for prompt, cache in zip(memory["caches"], empty, strict=True)
        ]
        shared = {**_after_prompt(memory, joined), **of_beams}
        if self.cache_block_size is not None and growing_buffer.grows_each_step(self.growing_cache):
            shared |= {"archives": joined, "caches": empty}
        prompt_slots = _prompt_slots(memory)
        used = _key_positions(shared["position"], prompt_slots, prompt_slots, prompt_slots) >= 0
        ancestor_bias = kv_cache.new_ancestor_bias(of_beams, *slots, used)
        return {"ancestor_bias": ancestor_bias, "shared": shared}

    def max_tokens(self, memory: TensorDict) -> int | Tensor | None:
        if self.stack.max_length is None:
            return None
        # The first step processes the last token of the prompt again.
        return self.stack.max_length - ops.maximum(memory["lengths"] - 1, 0)  # (B,)

    def first_token_ids(self, memory: TensorDict, start_token_id: int) -> Tensor:
        return ops.where(memory["lengths"] > 0, memory["last_token_ids"], start_token_id)

    def step(
        self, token_ids: Tensor, state: TensorDict, memory: TensorDict
    ) -> tuple[Tensor, TensorDict]:
        shared, growing = state["shared"], self.growing_cache
        ancestor_bias = kv_cache.extend_ancestor_bias(
            state["ancestor_bias"], shared, shared["slot"], growing
        )
        scores = kv_cache.reshape_ancestor_bias(ancestor_bias, shared)
        vectors, shared = self._extend(token_ids, shared, memory, growing, scores)
        return self.project(vectors), {"ancestor_bias": ancestor_bias, "shared": shared}  # (B*K, V)

    def _extend(self, token_ids, shared, memory, growing, ancestor_bias=None):
        """Computes the outputs for new tokens and adds them to the caches.

        Args:
            token_ids: Int32 tensor of shape `(B, T)`, or `(B*K,)` with `ancestor_bias`.
            shared: Dict with `position`, `slot` and `caches`.
            memory: Dict returned by `prepare_memory`.
            growing: Bool or `None`, whether the cache grows.
            ancestor_bias: Float tensor, bias that restricts each beam to its own previous tokens.
                Defaults to `None`: one beam.

        Returns:
            Tuple of the vectors, `(B, T, D)` or `(B*K, D)`, and the new `shared`.
        """
        position, slot = shared["position"], shared["slot"]
        if ancestor_bias is None:
            beams, time = 1, ops.shape(token_ids)[1]
            vectors = self.stack.embed(token_ids, position)  # (B, T, D)
        else:
            beams, time = kv_cache.num_beams(shared), 1
            rows = repeat_rows(position, beams)  # (B*K,)
            vectors = ops.squeeze(self.stack.embed(token_ids[:, None], rows), axis=1)  # (B*K, D)
        archive = shared["archives"][0] if "archives" in shared else None
        slots = kv_cache.num_slots(shared["caches"][0], time * beams, growing, archive)
        key_positions = _key_positions(position, slot, slots, _prompt_slots(memory), beams)
        bias = self.stack.bias(position_range(time, position), key_positions)
        view = CacheView(
            slot,
            start_index=position,
            key_positions=key_positions,
            ancestor_bias=ancestor_bias,
            growing=growing,
            num_beams=beams,
        )
        memories = [{}] * len(self.stack.blocks)
        vectors, _, shared = self.stack.step(vectors, shared, memories, view, bias)
        vectors = self.stack.normalize(vectors)  # (B, T, D) or (B*K, D)
        return vectors, {**shared, "position": position + time, "slot": slot + time * beams}


def _prompt_slots(memory):
    return ops.shape(memory["caches"][0]["keys"])[2]


def _last_token_ids(prompt_ids, lengths):
    """Returns each prompt's last token, int32 `(B,)`. It is 0 for empty prompts."""
    is_last = position_range(ops.shape(prompt_ids)[1], 1) == lengths[:, None]  # (B, P)
    return sum_int32(ops.where(is_last, ops.cast(prompt_ids, "int32"), 0), axis=1)


def _after_prompt(memory, caches):
    """Returns the shared state before the first new token."""
    return {
        # The last token of the prompt is the input of the first step.
        "position": ops.maximum(memory["lengths"] - 1, 0),  # (B,)
        "slot": ops.convert_to_tensor(_prompt_slots(memory), "int32"),
        "caches": caches,
    }


def _key_positions(
    position: Tensor,
    slot: Any,
    slots: Any,
    prompt_slots: Any,
    beams: int | Tensor = 1,
) -> Tensor:
    """Returns the token position in each cache slot.

    The cache contains the prompt's slots, including padding, followed by slots for new tokens.

    Args:
        position: Int32 tensor of shape `(B,)`, the next token's position.
        slot: Scalar int32 tensor, the next token's slot.
        slots: Int, number of slots.
        prompt_slots: Int, number of slots for the prompt.
        beams: Int or scalar int32 tensor, number of slots per new position. Defaults to `1`.

    Returns:
        Int32 tensor of shape `(B, slots)`. It is -1 for padding, and for the prompt's last token,
        because the first step processes the last token again and stores it in a new slot.
    """
    columns = position_range(slots)  # (1, C)
    first = (position - (slot - prompt_slots) // beams)[:, None]  # (B, 1), first new token
    of_prompt = ops.where(columns < first, columns, -1)
    of_new = first + (columns - prompt_slots) // beams
    return ops.where(columns < prompt_slots, of_prompt, of_new)
