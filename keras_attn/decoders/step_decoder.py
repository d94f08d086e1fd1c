from typing import Any

import keras
from keras import ops, tree

from keras_attn._backend.gather import gather_leaves
from keras_attn._decoding_state import growing_buffer
from keras_attn._layer.layer import Layer
from keras_attn._types import Mask, Masks, StaticShape, Tensor, TensorDict


class StepDecoder(Layer):
    """Base class and contract of decoders: the methods that training, searches and exports call.

    A decoder overrides four methods:

    - `prepare_memory` computes what is constant over time, the *memory*;
    - `initial_state` creates what changes with time, the *state*;
    - `step` takes one token of each hypothesis and returns logits and the new state;
    - `call` is teacher forcing: it returns the logits of all positions at once.

    With B batch entries, K beams, S source positions, T target positions and a vocabulary of V
    tokens, memory and state are nested dicts of tensors:

    - leaves of the memory have shape `(B, ...)` and are never repeated for beams;
    - leaves of the state have shape `(B * K, ...)`, with the beams of a batch entry next to each
      other. `state["shared"]` holds what all beams of a batch entry share, with leaves `(B, ...)`
      or scalars, which a search does not reorder.

    A step keeps the structure, ranks and dtypes of the state. A decoder stores nothing on itself
    between calls, and creates all weights in `build`, whose default calls `call` with symbolic
    inputs. `keras_attn.testing.check_decoder` checks all of this.

    Optional capabilities, each with a default:

    - `build` with the shapes of the arguments of `call`, for a decoder that the default cannot
      build, for instance because its source is not a sequence of floats;
    - `select`, for a memory with leaves that do not begin with the batch axis;
    - `first_token_ids`, for a memory that is the beginning of the sequence, such as a prompt;
    - `max_tokens`, for a limited number of positions;
    - `can_exceed_max_length`, `False` for a state of a fixed size on TensorFlow too;
    - `forbids_tokens`, `True` if all tokens of a step may be impossible;
    - `primary_source`, for several encoder outputs;
    - `cache_block_size` and `archive`, for long outputs with a growing state;
    - `output_layer`, and `call(..., return_features=True)`, for a loss that is fused with it;
    - `reads_prompts`, True for a language model, which needs no encoder;
    - a `vocabulary_size`, or an `embedding` with `input_dim`, which an export reads.

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

    >>> import numpy as np
    >>> from keras_attn import GreedyDecoder
    >>> class BigramDecoder(StepDecoder):
    ...     def __init__(self, **kwargs):
    ...         super().__init__(**kwargs)
    ...         self.table = keras.layers.Embedding(7, 7)
    ...
    ...     def prepare_memory(self, encoder_outputs, encoder_mask=None, encoder_state=None):
    ...         return {"mean": ops.mean(encoder_outputs, axis=1)}
    ...
    ...     def initial_state(self, memory, beam_width=1, alignments=False, max_length=None):
    ...         return {}
    ...
    ...     def step(self, token_ids, state, memory):
    ...         return self.table(token_ids), state
    ...
    ...     def call(self, token_ids, encoder_outputs, encoder_mask=None, encoder_state=None):
    ...         return self.table(token_ids)
    >>> search = GreedyDecoder(BigramDecoder(), max_length=5)
    >>> tuple(search(np.ones((2, 3, 4), "float32"))["lengths"].shape)
    (2, 1)
    """

    output_layer = None
    """Layer that maps the last features of `call` to logits, if `call` has the argument
    `return_features`, which returns these features. A loss can then be fused with the layer. `None`
    for other decoders."""

    reads_prompts = False
    """Bool, whether the decoder is a language model: `encoder_outputs` are the ids of prompts, and
    `call` works without them."""

    is_container = True

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def prepare_memory(
        self, encoder_outputs: Any, encoder_mask: Masks | None = None, encoder_state: Any = None
    ) -> TensorDict:
        """Computes everything that is constant over time, once for each batch entry.

        Args:
            encoder_outputs: See the call arguments.
            encoder_mask: See the call arguments.
            encoder_state: See the call arguments.

        Returns:
            Nested dict with leaves of shape `(B, ...)`.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `prepare_memory`.")

    def initial_state(
        self,
        memory: TensorDict,
        beam_width: int = 1,
        alignments: bool = False,
        max_length: int | None = None,
    ) -> TensorDict:
        """Creates the state before the first token.

        Args:
            memory: Result of `prepare_memory`.
            beam_width: Int, K.
            alignments: Bool, whether each step stores its attention weights `(B * K, S)` in
                `state["alignments"]`. A decoder without attention ignores it. Defaults to `False`.
            max_length: Int, maximum number of steps. Only decoders with a growing state need it, on
                backends whose tensors cannot grow in a loop. The results of further steps are
                undefined.

        Returns:
            Nested dict with leaves of shape `(B * K, ...)`; those in `shared` have shape `(B, ...)`
            or are scalars.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `initial_state`.")

    def step(
        self, token_ids: Tensor, state: TensorDict, memory: TensorDict
    ) -> tuple[Tensor, TensorDict]:
        """Computes the logits of the next token.

        Args:
            token_ids: Int32 tensor of shape `(B * K,)`, the last token of each hypothesis.
            state: Result of `initial_state` or of the previous step.
            memory: Result of `prepare_memory`.

        Returns:
            Tuple of float32 logits `(B * K, V)` and the new state.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `step`.")

    def call(
        self,
        token_ids: Tensor,
        encoder_outputs: Any,
        encoder_mask: Masks | None = None,
        encoder_state: Any = None,
    ) -> Any:
        """Computes the logits of all positions, each given the previous target tokens (teacher
        forcing).

        Args:
            token_ids: Int32 tensor of shape `(B, T)`, beginning with the start token.
            encoder_outputs: Tensor of shape `(B, S, features)`.
            encoder_mask: Boolean tensor of shape `(B, S)`; `True` marks positions that may be
                attended to. If `call` also has an argument `encoder_outputs_mask`, Keras passes the
                implicit mask of `encoder_outputs` to it, and `call` must combine the two.
            encoder_state: Nested final state of the encoder, with leaves of shape `(B, ...)`, or
                `None`.

        Returns:
            Float32 logits of shape `(B, T, V)` of the next tokens.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `call`.")

    def build(
        self,
        token_ids_shape: StaticShape,
        encoder_outputs_shape: StaticShape | None = None,
        encoder_mask_shape: StaticShape | None = None,
        encoder_state_shape: StaticShape | None = None,
    ) -> None:
        """Creates all weights. The default calls `call` with symbolic inputs.

        Args:
            token_ids_shape: Tuple, `(B, T)`.
            encoder_outputs_shape: Tuple, shape of a float tensor.
            encoder_mask_shape: Tuple, `(B, S)`, or `None`.
            encoder_state_shape: Nested shapes of float tensors, or `None`.
        """

        def symbolic(shapes, dtype):
            return tree.map_shape_structure(lambda shape: keras.KerasTensor(shape, dtype), shapes)

        inputs = [symbolic(token_ids_shape, "int32")]
        for shapes, dtype in (
            (encoder_outputs_shape, self.compute_dtype),
            (encoder_mask_shape, "bool"),
            (encoder_state_shape, self.compute_dtype),
        ):
            inputs.append(None if shapes is None else symbolic(shapes, dtype))
        self.compute_output_spec(*inputs)

    def select(self, memory: TensorDict, rows: Tensor) -> TensorDict:
        """Selects batch entries of a memory. `rows` is an int32 vector of their indices."""
        return gather_leaves(memory, rows)

    def first_token_ids(self, memory: TensorDict, start_token_id: int) -> Tensor:
        """Returns the tokens of the first step of a search, by default the start token.

        Args:
            memory: Result of `prepare_memory`, with at least one leaf.
            start_token_id: Int, id of the start token.

        Returns:
            Int32 tensor of shape `(B,)`.
        """
        batch = ops.shape(tree.flatten(memory)[0])[0]
        return ops.full((batch,), start_token_id, dtype="int32")

    def max_tokens(self, memory: TensorDict) -> int | Tensor | None:
        """Returns the maximum number of steps: int, int32 `(B,)`, or by default `None`, no maximum.

        Args:
            memory: Result of `prepare_memory`.
        """
        return None

    @property
    def can_exceed_max_length(self) -> bool:
        """Bool, whether a search may take more steps than the `max_length` of `initial_state`."""
        return growing_buffer.supports_growth()

    forbids_tokens = False
    """Bool, whether the decoder can make all tokens of a step impossible, with logits that are at
    least 5e8 below others, such as a decoder that generates only valid JSON. If `False`, a beam
    search looks for such dead ends only if its own rules can cause them."""

    def primary_source(self, values: Any) -> Any:
        """Returns the encoder output or mask whose length limits a search.

        Args:
            values: Encoder outputs, masks or their shapes. By default there is only one.
        """
        return values

    cache_block_size: int | None = None
    """Int, number of steps after which a search calls `archive`, or `None` for never."""

    def archive(self, state: TensorDict) -> TensorDict:
        """Moves the content of growing buffers to an archive that the next steps need not copy.

        It is only called between the steps of a loop in which tensors can grow, not by a host that
        runs the loop itself.

        Returns:
            A state for which `step` returns the same results.
        """
        return state

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Mask | None:
        return None  # the loss finds padding by its label
