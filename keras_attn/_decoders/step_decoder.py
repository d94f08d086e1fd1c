from typing import TYPE_CHECKING, Any

import keras
from keras import ops, tree

from keras_attn._backend.gather import gather_leaves
from keras_attn._backend.scan import supports_jit
from keras_attn._decoders.log_probs import log_softmax_of_infinite
from keras_attn._decoders.unroll import unroll
from keras_attn._decoding_state import growing_buffer
from keras_attn._layer.argument_checks import check_same_batch, check_second_input
from keras_attn._layer.layer import Layer
from keras_attn._masks import join
from keras_attn._output_layers.projection import compute_logits
from keras_attn._types import Mask, Masks, StaticShape, Tensor, TensorDict


class StepDecoder(Layer):
    """Base class for all decoders, with the methods that training, searches and exports call.

    A decoder overrides three methods:

    - `prepare_memory` computes the *memory*, all values that are constant over time;
    - `initial_state` creates the *state*, all values that change with each step;
    - `step` reads one token per hypothesis and returns logits and the new state.

    `call` returns the logits at all positions at once (teacher forcing). By default, it calls
    `step` in a loop. A decoder that can compute all positions in parallel, such as a Transformer,
    overrides `call` too. A recurrent decoder with a large vocabulary trains about twice as fast if
    it overrides `advance` instead of `step`.

    With B batch entries, K beams, S source positions, T target positions and a vocabulary of V
    tokens, memory and state are nested dicts of tensors:

    - the tensors of the memory have the shape `(B, ...)` and are not repeated for the beams;
    - the tensors of the state have the shape `(B * K, ...)`, with the beams of a batch entry in
      consecutive rows. `state["shared"]` contains values that all beams of a batch entry share:
      tensors of shape `(B, ...)` or scalars. A search does not reorder them.

    `step` must not change the structure, ranks and dtypes of the state. A decoder must not store
    tensors in its attributes between calls. A decoder creates all weights in `build`; the default
    implementation runs `call` with symbolic inputs, which builds all sublayers that are called as
    layers. If you call methods of an attention instead, such as `attend_step`, build it in `build`,
    as in the second example. `keras_attn.testing.check_decoder` checks these rules.

    A decoder can override further methods and attributes, which have defaults:

    - `build`, called with the shapes of `call` arguments, if the default implementation does not
      work, for example because the source is not a sequence of float vectors;
    - `select`, if the memory contains tensors whose first axis is not the batch axis;
    - `first_token_ids`, if the memory contains the beginning of the sequence, such as a prompt;
    - `max_tokens`, if the number of positions is limited, and `max_prompt_length`, if this limits
      prompts;
    - `can_exceed_max_length`, to set to `False` if the state has a fixed size on every backend;
    - `forbids_tokens`, to set to `True` if the decoder can make all tokens in a step impossible;
    - `compute_log_probs`, if searches must not normalize the logits;
    - `primary_source`, if there are several encoder outputs;
    - `cache_block_size` and `archive`, to speed up long outputs of a decoder with a growing state;
    - `advance` with the attributes `embedding` and `output_layer`, instead of `step`, to train
      faster, and to support losses that are fused with the output layer;
    - `output_bias`, to add a bias to the outputs of `output_layer`;
    - `reads_prompts`, to set to `True` for a language model, which needs no encoder;
    - `vocabulary_size`, the number of tokens V. Exports require this attribute, unless the decoder
      has an attribute `embedding` with an `input_dim`.

    Args:
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        token_ids: Int32 tensor of shape `(batch, target)`, the target tokens, beginning with the
            start token.
        encoder_outputs: Tensor of shape `(batch, source, features)`.
        encoder_mask: Boolean tensor of shape `(batch, source)`; `True` marks positions that may be
            attended to. Defaults to `None`: all positions.
        encoder_state: Nested lists or dicts of tensors of shape `(batch, ...)`, the final state of
            the encoder. Defaults to `None`.
        training: Bool, whether dropout in sublayers is active. Defaults to `False`.
        encoder_outputs_mask: Boolean tensor of shape `(batch, source)`, the implicit mask of
            `encoder_outputs`. Keras passes this argument.
        return_features: Bool, whether to return the output layer's inputs, `(batch, target,
            features)`, instead of the logits. Requires `advance`. Defaults to `False`.

    Returns:
        Float32 logits of shape `(batch, target, vocabulary)`: at each position, the logits of the
        next token.

    Raises:
        ValueError: If `encoder_outputs` and `encoder_state` are missing, or `return_features=True`
            and the decoder does not override `advance`.

    Example:

    >>> import numpy as np
    >>> import keras
    >>> from keras import ops
    >>> from keras_attn import BahdanauAttention, GreedyDecoder, StepDecoder
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
    >>> encoder_outputs = np.ones((2, 3, 4), "float32")
    >>> tuple(BigramDecoder()(np.array([[1, 5], [1, 6]]), encoder_outputs).shape)
    (2, 2, 7)
    >>> search = GreedyDecoder(BigramDecoder(), max_length=5)
    >>> tuple(search(encoder_outputs)["lengths"].shape)
    (2, 1)

    A recurrent decoder with attention builds the attention with the shapes of query and source, and
    calls `attend_step`, which also accepts several beams. The attention can have a state, so it is
    a part of the decoder's state:

    >>> class AttentionDecoder(StepDecoder):
    ...     def __init__(self, vocabulary_size, units, **kwargs):
    ...         super().__init__(**kwargs)
    ...         self.units = units
    ...         self.embedding = keras.layers.Embedding(vocabulary_size, units)
    ...         self.cell = keras.layers.GRUCell(units)
    ...         self.attention = BahdanauAttention(units)
    ...         self.output_layer = keras.layers.Dense(vocabulary_size)
    ...
    ...     def build(self, token_ids_shape, encoder_outputs_shape, *other_shapes):
    ...         self.attention.build((None, 1, self.units), encoder_outputs_shape)
    ...         super().build(token_ids_shape, encoder_outputs_shape, *other_shapes)
    ...
    ...     def prepare_memory(self, encoder_outputs, encoder_mask=None, encoder_state=None):
    ...         return self.attention.prepare_memory(encoder_outputs, attention_mask=encoder_mask)
    ...
    ...     def initial_state(self, memory, beam_width=1, alignments=False, max_length=None):
    ...         rows = ops.shape(memory["mask"])[0] * beam_width
    ...         state = {
    ...             "hidden": ops.zeros((rows, self.units), dtype=self.compute_dtype),
    ...             "attention": self.attention.initial_state(memory, rows, max_length),
    ...         }
    ...         if alignments:
    ...             positions = self.attention.num_positions(memory)
    ...             state["alignments"] = ops.zeros((rows, positions), dtype=self.compute_dtype)
    ...         return state
    ...
    ...     def advance(self, vectors, state, memory):
    ...         context, weights, attention = self.attention.attend_step(
    ...             state["hidden"], memory, state["attention"]
    ...         )
    ...         inputs = ops.concatenate([vectors, context], axis=-1)
    ...         hidden, _ = self.cell(inputs, [state["hidden"]])
    ...         new_state = {"hidden": hidden, "attention": attention}
    ...         if "alignments" in state:
    ...             new_state["alignments"] = weights
    ...         return hidden, new_state
    >>> search = GreedyDecoder(
    ...     AttentionDecoder(7, 8), min_length=5, max_length=5, return_alignments=True
    ... )
    >>> tuple(search(encoder_outputs)["alignments"].shape)  # (batch, hypotheses, steps, source)
    (2, 1, 5, 3)
    """

    embedding: Any
    """Layer that maps token ids to vectors, the inputs of `advance`. Defaults to `None`."""

    output_layer: Any
    """Layer that maps features to logits. A loss can be fused with this layer if the decoder
    overrides `advance`, or if its own `call(..., return_features=True)` returns the features.
    Defaults to `None`."""

    output_bias = None
    """Variable `(V,)` that is added to the outputs of `output_layer`, or `None`."""

    reads_prompts = False
    """Bool, whether the decoder is a language model. For a language model, `encoder_outputs` are
    prompt ids, and are optional in `call`.
    """

    is_container = True

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        for name in ("embedding", "output_layer"):
            # On PyTorch, a class attribute would hide a layer with the same name.
            if not hasattr(type(self), name):
                setattr(self, name, None)
        if type(self).call is StepDecoder.call:
            self.supports_jit = supports_jit()

    def prepare_memory(
        self, encoder_outputs: Any, encoder_mask: Masks | None = None, encoder_state: Any = None
    ) -> TensorDict:
        """Computes all values that are constant over time, once for each batch entry.

        Args:
            encoder_outputs: See the call arguments.
            encoder_mask: See the call arguments.
            encoder_state: See the call arguments.

        Returns:
            Nested dict of tensors of shape `(B, ...)`.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `prepare_memory`.")

    def initial_state(
        self,
        memory: TensorDict,
        beam_width: int | Tensor = 1,
        alignments: bool = False,
        max_length: int | None = None,
    ) -> TensorDict:
        """Creates the state before the first token.

        Args:
            memory: Result of `prepare_memory`.
            beam_width: Int or scalar int32 tensor, number K of beams.
            alignments: Bool, whether each step stores its attention weights `(B * K, S)` in
                `state["alignments"]`. A decoder without attention ignores this argument. Defaults
                to `False`.
            max_length: Int, maximum number of steps, or a scalar int32 tensor in `call`. Decoders
                with a growing state require `max_length` on backends where tensors cannot grow in a
                loop. Unless `can_exceed_max_length` is true, the results of further steps are
                undefined.

        Returns:
            Nested dict of tensors of shape `(B * K, ...)`. Tensors in `shared` have the shape `(B,
            ...)` or are scalars.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `initial_state`.")

    def step(
        self, token_ids: Tensor, state: TensorDict, memory: TensorDict
    ) -> tuple[Tensor, TensorDict]:
        """Computes the next token's logits.

        The default implementation calls `embedding`, `advance` and `output_layer`.

        Args:
            token_ids: Int32 tensor of shape `(B * K,)`, the last token of each hypothesis.
            state: Result of `initial_state` or of the previous step.
            memory: Result of `prepare_memory`.

        Returns:
            Tuple of float32 logits `(B * K, V)` and the new state.
        """
        if not self._has_advance:
            raise NotImplementedError(f"{type(self).__name__} must override `step` or `advance`.")
        features, state = self.advance(self.embedding(token_ids), state, memory)
        return self.project(features), state

    def advance(
        self, vectors: Tensor, state: TensorDict, memory: TensorDict
    ) -> tuple[Tensor, TensorDict]:
        """Computes a step without the embedding and the output layer.

        A decoder with the attributes `embedding` and `output_layer` can override this method
        instead of `step`. Training is then faster: `call` embeds all tokens and computes all logits
        at once.

        Args:
            vectors: Tensor of shape `(B * K, E)`, the embedded tokens.
            state: Result of `initial_state` or of the previous step.
            memory: Result of `prepare_memory`.

        Returns:
            Tuple of features `(B * K, F)`, the inputs of `output_layer`, and the new state.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `advance`.")

    def project(self, features: Tensor) -> Tensor:
        """Maps features `(..., F)` to float32 logits `(..., V)` with `output_layer`."""
        return compute_logits(features, self.output_layer, self.output_bias)

    @property
    def _has_advance(self):
        return type(self).advance is not StepDecoder.advance

    @property
    def can_return_features(self) -> bool:
        """Bool, whether `call` can return the inputs of `output_layer` for a fused loss."""
        return type(self).call is not StepDecoder.call or self._has_advance

    def call(  # pyright: ignore[reportRedeclaration] - see below
        self,
        token_ids: Tensor,
        encoder_outputs: Any = None,
        encoder_mask: Masks | None = None,
        encoder_state: Any = None,
        training: bool = False,
        encoder_outputs_mask: Masks | None = None,
        return_features: bool = False,
    ) -> Any:
        """Computes the logits at all positions with teacher forcing.

        The default implementation calls `step` or `advance` in a loop over the positions. Sublayers
        in the loop receive `training`.

        Args:
            token_ids: Int32 tensor of shape `(B, T)`, beginning with the start token.
            encoder_outputs: Tensor of shape `(B, S, features)`. A language model without prompts
                gets `None`.
            encoder_mask: Boolean tensor of shape `(B, S)`; `True` marks positions that may be
                attended to.
            encoder_state: Nested tensors of shape `(B, ...)`, the final state of the encoder, or
                `None`.
            training: Bool, whether dropout is active. Keras passes this argument.
            encoder_outputs_mask: Boolean tensor of shape `(B, S)`, the implicit mask of
                `encoder_outputs`. Keras passes this argument to a `call` that has it, and `call`
                must combine the two masks.
            return_features: Bool, whether to return the inputs of `output_layer` instead of the
                logits. Requires `advance`.

        Returns:
            Float32 logits of shape `(B, T, V)`: at each position, the logits of the next token. If
            `return_features=True`, features `(B, T, F)`.
        """
        if return_features and not self._has_advance:
            raise ValueError(
                "Expected return_features=False for a decoder without the method `advance`. "
                f"Received: return_features={return_features} for {type(self).__name__}. Override "
                "`advance` instead of `step`."
            )
        if encoder_outputs is None and self.reads_prompts:
            encoder_outputs = token_ids[:, :0]
        if encoder_state is None:
            check_second_input(self, "encoder_outputs", encoder_outputs)
        check_same_batch(self, token_ids=token_ids, encoder_outputs=encoder_outputs)
        encoder_mask = join(
            encoder_outputs, encoder_mask=encoder_mask, encoder_outputs_mask=encoder_outputs_mask
        )
        memory = self.prepare_memory(encoder_outputs, encoder_mask, encoder_state)
        state = self.initial_state(memory, max_length=ops.shape(token_ids)[1])
        if not self._has_advance:
            return unroll(self, self.step, token_ids, state, memory)
        features = unroll(self, self.advance, self.embedding(token_ids), state, memory)
        return features if return_features else self.project(features)

    if TYPE_CHECKING:
        # A decoder may override `call` with these arguments only, or with others after them.
        def call(
            self,
            token_ids: Tensor,
            encoder_outputs: Any,
            encoder_mask: Masks | None = None,
            encoder_state: Any = None,
        ) -> Any: ...

    def build(
        self,
        token_ids_shape: StaticShape,
        encoder_outputs_shape: StaticShape | None = None,
        encoder_mask_shape: StaticShape | None = None,
        encoder_state_shape: StaticShape | None = None,
    ) -> None:
        """Creates all weights. The default implementation runs `call` on symbolic inputs.

        Args:
            token_ids_shape: Tuple, `(B, T)`.
            encoder_outputs_shape: Nested shapes of float tensors, or `None`.
            encoder_mask_shape: Tuple, `(B, S)`, or `None`.
            encoder_state_shape: Nested shapes of float tensors, or `None`.
        """

        def symbolic(shapes, dtype):
            # Without the batch size, which a search does not know for `token_ids`.
            return tree.map_shape_structure(
                lambda shape: keras.KerasTensor((None, *shape[1:]), dtype), shapes
            )

        inputs = [symbolic(token_ids_shape, "int32")]
        for shapes, dtype in (
            (encoder_outputs_shape, self.compute_dtype),
            (encoder_mask_shape, "bool"),
            (encoder_state_shape, self.compute_dtype),
        ):
            inputs.append(None if shapes is None else symbolic(shapes, dtype))
        self.compute_output_spec(*inputs)

    def select(self, memory: TensorDict, rows: Tensor) -> TensorDict:
        """Selects the batch entries with the indices `rows`, an int32 vector, from a memory."""
        return gather_leaves(memory, rows)

    def first_token_ids(self, memory: TensorDict, start_token_id: int) -> Tensor:
        """Returns the tokens for a search's first step, by default the start token.

        Args:
            memory: Result of `prepare_memory` with at least one tensor.
            start_token_id: Int, start token id.

        Returns:
            Int32 tensor of shape `(B,)`.
        """
        batch = ops.shape(tree.flatten(memory)[0])[0]
        return ops.full((batch,), start_token_id, dtype="int32")

    def max_tokens(self, memory: TensorDict) -> int | Tensor | None:
        """Returns the maximum number of steps: int, int32 `(B,)`, or `None` for no maximum.

        Args:
            memory: Result of `prepare_memory`.
        """
        return None

    @property
    def max_prompt_length(self) -> int | None:
        """Int, maximum number of tokens in a prompt, or `None` for no maximum."""
        return None

    @property
    def can_exceed_max_length(self) -> bool:
        """Bool, whether a search may run more steps than the argument `max_length` of
        `initial_state`. By default, this is true on backends where tensors can grow in a loop.
        """
        return growing_buffer.supports_growth()

    forbids_tokens = False
    """Bool, whether the decoder can make all tokens of a step impossible, for example because it
    only generates valid JSON. A token is impossible if its logit is at least 5e8 below the step's
    largest logit, or minus infinity. The largest logit can belong to a token that the search
    suppresses, such as padding. A step without possible tokens is a dead end. A logit of infinity
    makes all other tokens in the step impossible. If `forbids_tokens` is `False`, a beam search
    only checks for dead ends if its own arguments, such as `no_repeat_ngram_size`, can cause them,
    and each step needs a finite logit.
    """

    def compute_log_probs(self, logits: Tensor) -> Tensor:
        """Converts logits to log probabilities, which a search adds up.

        The default implementation is a log softmax. A decoder whose logits are scores that must not
        be normalized, such as `FusedDecoder`, overrides this method and returns the scores. A
        search with a `repetition_penalty` first changes the logits and then calls this method.

        Args:
            logits: Float32 tensor of shape `(..., V)`, returned by `step` or `call`.

        Returns:
            Float32 tensor of shape `(..., V)`. A token is impossible if its value is below -5e8. If
            `forbids_tokens` is `True`, all values must be finite.
        """
        if self.forbids_tokens:
            return log_softmax_of_infinite(logits)
        return ops.log_softmax(logits)

    def primary_source(self, values: Any) -> Any:
        """Returns the encoder output or mask whose length limits a search.

        Args:
            values: Encoder outputs, masks or shapes. The default implementation expects a single
                value and returns it.
        """
        return values

    can_widen = False
    """Bool, whether `widen` adds unused columns to all buffers in the state that grow at each step.
    It is also `True` for a decoder whose state does not grow.
    """

    def widen(self, state: TensorDict, steps: int) -> TensorDict:
        """Adds unused columns for the next steps to a state's growing buffers.

        Only a search that is exported to LiteRT calls this method, and only if `can_widen` is
        `True`. The buffers must be those of `keras_attn._decoding_state.growing_buffer`.

        Args:
            state: Result of `initial_state` or of the last step.
            steps: Int, number of steps until the next call.

        Returns:
            A new state.
        """
        return state

    cache_block_size: int | None = None
    """Int, number of steps between two calls of `archive` in a search. `None`: no calls."""

    def archive(self, state: TensorDict) -> TensorDict:
        """Moves growing buffers' content to an archive, which the next steps do not copy.

        A search calls this method only if its loop is part of a graph and the backend's tensors can
        grow.

        Returns:
            A new state. `step` must return the same logits for the new state as for `state`.
        """
        return state

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Mask | None:
        return None  # losses find padding by its label
