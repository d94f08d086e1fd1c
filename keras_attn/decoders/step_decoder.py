from keras import ops, tree

from keras_attn._backend.gather import gather_leaves
from keras_attn._decoding_state import growing_buffer
from keras_attn._layer.layer import Layer


class StepDecoder(Layer):
    """Interface of decoders for training, search and export.

    For B batch entries, K beams, S source positions, T target positions and a vocabulary of V
    tokens:

    - The *memory* is constant over time. Its leaves have shape `(B, ...)` and are never repeated
      for beams.
    - The *state* changes with each step. Its leaves have shape `(B * K, ...)`, with the beams of a
      batch entry next to each other. `state["shared"]` holds what all beams of a batch entry share,
      with leaves `(B, ...)` or scalars: a search does not reorder it.

    Both are nested dicts of tensors. A decoder stores nothing on itself between calls, and creates
    all weights in `build`. A search uses only `(token_ids, state) -> (logits, state)`, so a new
    decoder works with every search and every export. An export needs the vocabulary size, from an
    attribute `vocabulary_size` or an `embedding` with `input_dim`. The search calls `build` with
    the shapes of all arguments of `call` that have one, in their order, and with `None` for missing
    arguments.

    A subclass overrides `call`, `prepare_memory`, `initial_state` and `step`. The other methods are
    optional.

    Args:
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        token_ids: Int32 tensor of shape `(batch, target)`, the target tokens, beginning with the
            start token.
        encoder_outputs: Tensor of shape `(batch, source, features)`.
        encoder_mask: Boolean tensor of shape `(batch, source)`; `True` marks positions that may be
            attended to. It is combined with `encoder_outputs_mask`. Defaults to `None`.

        encoder_state: Nested lists or dicts with leaves of shape `(batch, ...)`, the final state of
            the encoder. Defaults to `None`.

    Returns:
        Float32 logits of shape `(batch, target, vocabulary)`, for the token after each position.

    Example:

    A decoder whose logits depend on the previous token alone:

    >>> import numpy as np
    >>> from keras_attn import GreedyDecoder
    >>> class BigramDecoder(StepDecoder):
    ...     vocabulary_size = 4
    ...     def build(self, *shapes):
    ...         self.table = self.add_weight(shape=(4, 4), initializer="identity")
    ...     def call(self, token_ids, encoder_outputs, encoder_mask=None, encoder_state=None):
    ...         return ops.take(self.table, token_ids, axis=0)
    ...     def prepare_memory(self, encoder_outputs, encoder_mask=None, encoder_state=None):
    ...         return {"source": encoder_outputs}
    ...     def initial_state(self, memory, beam_width=1, alignments=False, max_length=None):
    ...         return {}
    ...     def step(self, token_ids, state, memory):
    ...         return ops.take(self.table, token_ids, axis=0), state
    >>> search = GreedyDecoder(BigramDecoder(), max_length=3, relative_max_length=None)
    >>> np.array(search(np.ones((1, 2, 5), "float32"))["token_ids"]).tolist()
    [[[1, 1, 1]]]
    """

    forbids_tokens = False
    """Bool, whether the decoder forbids tokens with logits at least 5e8 below the others, as
    constrained decoding does. If `True`, a beam search checks each step for hypotheses without an
    allowed token. Otherwise it checks only if its own rules can forbid all tokens."""

    is_container = True

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, token_ids, encoder_outputs, encoder_mask=None, encoder_state=None):
        """Teacher forcing: computes the logits of all positions, given the previous tokens.

        Args:
            token_ids: Int32 tensor of shape `(B, T)`, beginning with the start token.
            encoder_outputs: Tensor of shape `(B, S, features)`.
            encoder_mask: Boolean tensor of shape `(B, S)`; `True` marks positions that may be
                attended to. If `call` also has an argument `encoder_outputs_mask`, Keras passes the
                implicit mask of `encoder_outputs`, and the decoder combines the two. Defaults to
                `None`.
            encoder_state: Nested lists or dicts with leaves of shape `(B, ...)`, the final state of
                the encoder. Defaults to `None`.

        Returns:
            Float32 logits of shape `(B, T, V)`, for the token after each position.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `call`.")

    def compute_mask(self, inputs, previous_mask):
        return None  # the loss masks padding by its labels

    @property
    def can_exceed_max_length(self):
        """Bool, whether more steps than the `max_length` of `initial_state` are allowed."""
        return growing_buffer.supports_growth()

    def main(self, values):
        """Of several encoder outputs or masks, those of which a search takes the source's length.

        By default there is one.
        """
        return values

    def prepare_memory(self, encoder_outputs, encoder_mask=None, encoder_state=None):
        """Computes everything that is constant over time, once per batch.

        Args:
            encoder_outputs: Tensor of shape `(B, S, features)`.
            encoder_mask: Boolean tensor of shape `(B, S)`. Defaults to `None`.
            encoder_state: Nested lists or dicts with leaves of shape `(B, ...)`. Defaults to
                `None`.

        Returns:
            Nested dict with leaves of shape `(B, ...)`.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `prepare_memory`.")

    def initial_state(self, memory, beam_width=1, alignments=False, max_length=None):
        """Returns the state before the first token.

        Args:
            memory: Nested dict returned by `prepare_memory`.
            beam_width: Positive int, number of beams K. Defaults to `1`.
            alignments: Bool, whether each step stores its attention weights `(B * K, S)` in
                `state["alignments"]`. Defaults to `False`.
            max_length: Positive int, maximum number of steps. Only decoders whose state grows need
                it, on backends where tensors cannot grow in a loop. Defaults to `None`.

        Returns:
            Nested dict with leaves of shape `(B * K, ...)`, and of shape `(B, ...)` or scalars
            under the key `shared`.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `initial_state`.")

    def max_tokens(self, memory):
        """Returns the maximum number of steps.

        Args:
            memory: Nested dict returned by `prepare_memory`.

        Returns:
            Int, int32 tensor of shape `(B,)`, or `None` for no maximum.
        """
        return None

    def first_token_ids(self, memory, start_token_id):
        """Returns the input tokens of the first step of a search.

        The default is the start token. A decoder whose memory is the beginning of the sequence,
        such as a language model with a prompt, continues from there.

        Args:
            memory: Nested dict returned by `prepare_memory`, with at least one leaf.
            start_token_id: Int, id of the start token.

        Returns:
            Int32 tensor of shape `(B,)`.
        """
        batch = ops.shape(tree.flatten(memory)[0])[0]
        return ops.full((batch,), start_token_id, dtype="int32")

    def step(self, token_ids, state, memory):
        """Computes the logits of the next token.

        Args:
            token_ids: Int32 tensor of shape `(B * K,)`, the last token of each hypothesis.
            state: Nested dict returned by `initial_state` or by the previous step.
            memory: Nested dict returned by `prepare_memory`.

        Returns:
            Tuple of the float32 logits `(B * K, V)` and the new state.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `step`.")

    cache_block_size = None
    """Int, number of steps after which a search calls `archive`, or `None` for never."""

    def archive(self, state):
        """Moves what previous steps have collected to tensors that the next steps need not copy.

        It is only called on backends where tensors can grow in a loop, between two steps. A host
        that runs the loop itself never calls it.

        Args:
            state: Nested dict returned by the previous step.

        Returns:
            A state for which `step` returns the same results.
        """
        return state

    def select(self, memory, rows):
        """Selects batch entries of a memory.

        Args:
            memory: Nested dict returned by `prepare_memory`.
            rows: Int32 tensor of shape `(num_rows,)`, indices of the batch entries.

        Returns:
            Nested dict with leaves of shape `(num_rows, ...)`.
        """
        return gather_leaves(memory, rows)
