import keras
from keras import ops

from keras_attn import masks
from keras_attn._backend.integers import sum_int32
from keras_attn._decoding_state import growing_buffer, kv_cache
from keras_attn._layer.argument_checks import check_same_batch
from keras_attn.attention.cache_view import CacheView
from keras_attn.decoders.transformer_token_decoder import TransformerTokenDecoder
from keras_attn.positions.position_range import position_range


@keras.saving.register_keras_serializable(package="keras_attn")
class CausalLanguageModel(TransformerTokenDecoder):
    """A stack of Transformer blocks that predicts each token from those before it.

        p(y) = prod_t p(y[t] | y[0], ..., y[t - 1])

    A decoder without an encoder, introduced by
    [Liu et al., 2018](https://arxiv.org/abs/1801.10198), section 4.2.3, and by
    [Radford et al., 2018](https://openai.com/index/language-unsupervised) (GPT).

    As a `StepDecoder` its memory is the prompt: the ids take the place of the outputs of an
    encoder. The blocks process the prompt in one pass, whose keys and values are the first entries
    of the caches. The first step of a search gets the last token of the prompt, or the start token
    where the prompt is empty. So every search generates text:

        GenerationModel(None, BeamDecoder(model, relative_max_length=None))(prompt_ids)

    Args:
        block: the template of all blocks, a `TransformerDecoderBlock` with `cross_attention=False`;
            each layer is a new one like it.
        embedding, head: see `TokenDecoder`.
        num_layers, positions, position_bias, scale_embedding, dropout, seed: see
            `TransformerEncoder`.
        growing_cache, cache_block_size: see `TransformerDecoder`. Prompts are put away at once.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        token_ids: int32 `(batch, time)`.
        encoder_outputs: int32 `(batch, prompt)`, prompts padded on the right. Default `None`: none.
            With prompts, `token_ids` begins with the last token of the prompt (see
            `first_token_ids`) and goes on behind it; then all attention weights are held at once,
            also with `flash_attention`.
        encoder_mask: boolean `(batch, prompt)`, False at the padding. Default: no padding.
        encoder_outputs_mask: the implicit mask of `encoder_outputs`, passed by Keras, which is
            joined with `encoder_mask`.
        encoder_state: not used.

    Returns:
        float32 logits `(batch, time, vocabulary)` of the tokens that follow.

    Masking:
        Padding on the right cannot influence the positions before it, nor that of a prompt any
        position.

    Raises:
        ValueError: for arguments out of range, blocks with cross-attention, or if the output cannot
            be tied to the embedding.

    Example:

    >>> import numpy as np
    >>> from keras_attn import GenerationModel, GreedyDecoder, TransformerDecoderBlock
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

    def check_block(self, block):
        if getattr(block, "cross_attention", True):
            raise ValueError(
                "A language model has no memory to attend to. Received: block="
                f"{type(block).__name__} with cross-attention. Pass "
                "TransformerDecoderBlock(..., cross_attention=False)."
            )

    def build(
        self,
        token_ids_shape,
        encoder_outputs_shape=None,
        encoder_mask_shape=None,
        encoder_state_shape=None,
    ):
        self.stack.build(token_ids_shape)
        self.build_head((None, None, self.stack.output_dim), self.stack.output_dim)

    def call(
        self,
        token_ids,
        encoder_outputs=None,
        encoder_mask=None,
        encoder_state=None,
        training=False,
        encoder_outputs_mask=None,
    ):
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
            return self.project(vectors, training)  # (B, T, V)
        vectors = self.stack.embed(token_ids)  # (B, T, D)
        positions = position_range(ops.shape(vectors)[1])
        bias = self.stack.bias(positions, positions)
        for block in self.stack.blocks:
            vectors = block(vectors, position_bias=bias)
        return self.project(self.stack.normalize(vectors), training)  # (B, T, V)

    def prepare_memory(self, encoder_outputs, encoder_mask=None, encoder_state=None):
        if encoder_mask is None:
            encoder_mask = ops.ones_like(encoder_outputs, dtype="bool")
        encoder_mask = masks.boolean(encoder_mask, "encoder_mask")
        encoder_mask = masks.broadcast_batch(encoder_mask, encoder_outputs)
        lengths = sum_int32(encoder_mask, axis=1)  # (B,)
        vectors = self.stack.embed(encoder_outputs)  # (B, P, D)
        positions = position_range(ops.shape(vectors)[1])
        bias = self.stack.bias(positions, positions)
        # Outside of a loop a cache can grow with every backend.
        empty = [
            block.initial_state(ops.shape(vectors)[0], 0, growing=True)
            for block in self.stack.blocks
        ]
        _, _, shared = self.stack.step(
            vectors, {"caches": empty}, [{}] * len(empty), CacheView(0, growing=True), bias
        )
        return {
            "caches": shared["caches"],
            "lengths": lengths,
            "last_token_ids": _last_token_ids(encoder_outputs, lengths),
        }

    def initial_state(self, memory, beam_width=1, alignments=False, max_length=None):
        batch = ops.shape(memory["lengths"])[0]
        slots = (self.capacity(max_length, beam_width), self.growing_cache)
        own = kv_cache.own_slots(batch, beam_width)
        empty = [block.initial_state(batch, *slots) for block in self.stack.blocks]
        # Behind what is there, if only to hide the number of slots from a loop that changes it.
        joined = [
            kv_cache.join(prompt, cache)
            for prompt, cache in zip(memory["caches"], empty, strict=True)
        ]
        shared = {**_after_prompt(memory, joined), "own": own}
        if self.cache_block_size is not None and growing_buffer.supports_growth(self.growing_cache):
            shared |= {"archives": joined, "caches": empty}
        prompt_slots = _prompt_slots(memory)
        used = _key_positions(shared["position"], prompt_slots, prompt_slots, prompt_slots) >= 0
        return {"ancestor_bias": kv_cache.new_ancestor_bias(own, *slots, used), "shared": shared}

    def max_tokens(self, memory):
        if self.stack.max_length is None:
            return None
        # The last token of a prompt is read again, by the first step.
        return self.stack.max_length - ops.maximum(memory["lengths"] - 1, 0)  # (B,)

    def first_token_ids(self, memory, start_token_id):
        return ops.where(memory["lengths"] > 0, memory["last_token_ids"], start_token_id)

    def step(self, token_ids, state, memory):
        shared, growing = state["shared"], self.growing_cache
        own = shared["own"]
        ancestor_bias = kv_cache.extend_ancestor_bias(
            state["ancestor_bias"], own, shared["slot"], growing
        )
        scores = kv_cache.reshape_ancestor_bias(ancestor_bias, own)
        vectors, shared = self._extend(token_ids, shared, memory, growing, scores)
        return self.project(vectors), {"ancestor_bias": ancestor_bias, "shared": shared}  # (B*K, V)

    def _extend(self, token_ids, shared, memory, growing, ancestor_bias=None):
        """Outputs of new tokens `(B, T)`, or one of each beam `(B*K,)`, and what is then shared."""
        position, slot = shared["position"], shared["slot"]
        if ancestor_bias is None:
            beams, time = 1, ops.shape(token_ids)[1]
            vectors = self.stack.embed(token_ids, position)  # (B, T, D)
        else:
            beams, time = ancestor_bias.shape[2], 1
            each = ops.repeat(position, beams, axis=0)  # (B*K,)
            vectors = ops.squeeze(self.stack.embed(token_ids[:, None], each), axis=1)  # (B*K, D)
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
        )
        memories = [{}] * len(self.stack.blocks)
        vectors, _, shared = self.stack.step(vectors, shared, memories, view, bias)
        vectors = self.stack.normalize(vectors)  # (B, T, D) or (B*K, D)
        return vectors, {**shared, "position": position + time, "slot": slot + time * beams}


def _prompt_slots(memory):
    return ops.shape(memory["caches"][0]["keys"])[2]


def _last_token_ids(prompt_ids, lengths):
    """The last token of each prompt, int32 `(B,)`; 0 for empty ones."""
    is_last = position_range(ops.shape(prompt_ids)[1], 1) == lengths[:, None]  # (B, P)
    return sum_int32(ops.where(is_last, ops.cast(prompt_ids, "int32"), 0), axis=1)


def _after_prompt(memory, caches):
    """What the beams of a sentence share before the first new token."""
    return {
        # The last token of a prompt is not read yet: it is the token of the first step.
        "position": ops.maximum(memory["lengths"] - 1, 0),  # (B,)
        "slot": ops.convert_to_tensor(_prompt_slots(memory), "int32"),
        "caches": caches,
    }


def _key_positions(position, slot, slots, prompt_slots, beams=1):
    """The position in each slot: those of the prompt, padding and all, come before the new ones.

    Args:
        position: int32 `(B,)`, of the next token.
        slot: int32 scalar, where it goes.
        slots: int, number of slots.
        prompt_slots: int, number of slots of the prompt.
        beams: int, slots of each new position.

    Returns:
        int32 `(B, slots)`; -1 for padding and for the last token of the prompt, which comes again
        as the first of the new ones.
    """
    columns = position_range(slots)  # (1, C)
    first = (position - (slot - prompt_slots) // beams)[:, None]  # (B, 1), of the first new token
    of_prompt = ops.where(columns < first, columns, -1)
    of_new = first + (columns - prompt_slots) // beams
    return ops.where(columns < prompt_slots, of_prompt, of_new)
