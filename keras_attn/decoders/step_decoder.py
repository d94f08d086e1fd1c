from typing import Any

from keras import ops, tree

from keras_attn._backend.gather import gather_leaves
from keras_attn._decoding_state import growing_buffer
from keras_attn._layer.layer import Layer
from keras_attn._types import Mask, Masks, Tensor, TensorDict


class StepDecoder(Layer):
    """The contract between a decoder and everything that drives it: training, search, export.

    With B sentences, K beams, S source positions, T target positions and a vocabulary of V:

    - the *memory* is all that is constant over time; leaves `(B, ...)`, never repeated for beams;
    - the *state* is all that changes with time; leaves `(B * K, ...)`, the beams of a sentence side
      by side. What changes with time but belongs to no beam alone is in `state["shared"]`, leaves
      `(B, ...)` or scalars: it stays when a search goes on with other beams.

    Both are nested dicts of tensors. Nothing is kept on the decoder between calls, and all weights
    are created in `build`. A search sees only `(token_ids, state) -> (logits, state)`, so that a
    new decoder gets every search and every export for free; an export also wants to know the number
    of ids, from a `vocabulary_size` or an `embedding` with `input_dim`. The search calls `build`
    with the shapes of all arguments of `call` that have one, in their order, `None` where there is
    none.
    """

    forbids_tokens = False
    """bool, whether all tokens that a search allows may be impossible, with logits that are 5e8 or
    more below others, such as those of a decoder that writes valid JSON only. Without it a beam
    search does not find such dead ends, unless its own rules can lead to them."""

    is_container = True

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(
        self,
        token_ids: Tensor,
        encoder_outputs: Any,
        encoder_mask: Masks | None = None,
        encoder_state: Any = None,
    ) -> Any:
        """Teacher forcing: the logits of every position, given the tokens before it.

        Args:
            token_ids: int32 `(B, T)`, start token first.
            encoder_outputs: `(B, S, features)`.
            encoder_mask: boolean `(B, S)`, True = may be attended. A `call` that has an argument
                `encoder_outputs_mask`, too, gets the implicit mask of `encoder_outputs` there, and
                joins the two.
            encoder_state: last state of the encoder, nested, leaves `(B, ...)`, or `None`.

        Returns:
            float32 logits `(B, T, V)` of the tokens that follow.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `call`.")

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Mask | None:
        return None  # the loss knows padding by its label

    @property
    def can_exceed_max_length(self) -> bool:
        """Whether a search may take more steps than the `max_length` given to `initial_state`."""
        return growing_buffer.supports_growth()

    def main(self, values: Any) -> Any:
        """Of several encoder outputs or masks, those of which a search takes the source's length.

        By default there is one.
        """
        return values

    def prepare_memory(
        self, encoder_outputs: Any, encoder_mask: Masks | None = None, encoder_state: Any = None
    ) -> TensorDict:
        """Computes, once per sentence, all that is constant over time.

        Returns:
            Nested dict with leaves `(B, ...)`.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `prepare_memory`.")

    def initial_state(
        self,
        memory: TensorDict,
        beam_width: int = 1,
        alignments: bool = False,
        max_length: int | None = None,
    ) -> TensorDict:
        """The state before the first token.

        Args:
            memory: as from `prepare_memory`.
            beam_width: int, K.
            alignments: bool, whether each step leaves its attention weights `(B * K, S)` in
                `state["alignments"]`.
            max_length: int, most steps that will follow. Only needed where tensors cannot grow in
                a loop, by decoders whose state does. More steps than that have no meaning.

        Returns:
            Nested dict with leaves `(B * K, ...)`, those under `shared` `(B, ...)` or scalars.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `initial_state`.")

    def max_tokens(self, memory: TensorDict) -> int | Tensor | None:
        """Most steps that can follow: int, int32 `(B,)`, or by default `None` for any number.

        Args:
            memory: as from `prepare_memory`.
        """
        return None

    def first_token_ids(self, memory: TensorDict, start_token_id: int) -> Tensor:
        """The tokens that the first step of a search is given.

        By default the start token. A decoder whose memory is the beginning of the sequence goes on
        from there instead.

        Args:
            memory: as from `prepare_memory`, with at least one leaf.
            start_token_id: int.

        Returns:
            int32 `(B,)`.
        """
        batch = ops.shape(tree.flatten(memory)[0])[0]
        return ops.full((batch,), start_token_id, dtype="int32")

    def step(
        self, token_ids: Tensor, state: TensorDict, memory: TensorDict
    ) -> tuple[Tensor, TensorDict]:
        """One position.

        Args:
            token_ids: int32 `(B * K,)`, the last token of each hypothesis.
            state: as from `initial_state` or the step before.
            memory: as from `prepare_memory`.

        Returns:
            Tuple of float32 logits `(B * K, V)` and the new state.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `step`.")

    cache_block_size: int | None = None
    """int, the steps after which a search is to call `archive`, or `None` for never."""

    def archive(self, state: TensorDict) -> TensorDict:
        """Puts away what the steps so far have collected, where the next ones need not copy it.

        Only called where tensors can grow in a loop, between its steps; not by a host that runs the
        loop itself.

        Returns:
            A state with which `step` gives the same.
        """
        return state

    def select(self, memory: TensorDict, rows: Tensor) -> TensorDict:
        """Keeps the sentences `rows`, an int32 vector, of a memory."""
        return gather_leaves(memory, rows)
