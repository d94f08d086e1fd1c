from collections.abc import Callable, Mapping

import keras
import numpy as np
import numpy.typing as npt
from keras import tree

from keras_attn._backend.gather import reorder
from keras_attn._decoders.step_decoder import StepDecoder
from keras_attn._types import Tensor, TensorDict
from keras_attn.testing._arrays import (
    assert_close,
    assert_identical,
    fill_masked_with_noise,
    pad_source,
    randomize,
    require,
    requirement,
    to_numpy,
    to_tensors,
)

BEAMS = 3


def check_decoder(
    make_decoder: Callable[[], StepDecoder],
    encoded: Mapping[str, np.ndarray],
    token_ids: np.ndarray,
    sum_to_one: bool = True,
    equal_lengths: bool = False,
) -> None:
    """Checks that a decoder satisfies the contract of `StepDecoder`.

    - `call` and `step` return float32 logits. The memory has one row per batch entry, and the state
      has one row per beam. The structure and dtypes of the state do not change.
    - `step` returns the same logits as `call` at every position. The same holds for beams that
      share a memory, for batch entries that `select` returned, and after a search has reordered the
      state. The result of `step` only depends on its arguments, and `step` can be traced.
    - Padding of source and target, other sentences of the batch, and later tokens do not change the
      logits.
    - Alignments are 0 at masked source positions.
    - `call` can be traced with an unknown batch size and unknown lengths, as in training.

    Args:
        make_decoder: Function without arguments that returns a new `StepDecoder`.
        encoded: Dict of NumPy arrays, the keyword arguments of `prepare_memory`: `encoder_outputs`
            `(batch, source, features)`, boolean `encoder_mask` `(batch, source)` with some `False`,
            and optionally `encoder_state`. The batch size must be at least 2.
        token_ids: Int32 array of shape `(batch, time)` with at least three tokens, beginning with
            the start token, without padding.
        sum_to_one: Bool, whether the alignments of a step must sum to 1. If `False`, the sum must
            be at most 1. Defaults to `True`.
        equal_lengths: Bool, whether the decoder only supports sources or prompts of equal length,
            for example because its cache has one index for all rows. In this case, the function
            does not check masks, padding and unknown source lengths, and `encoder_mask` must be
            missing or `True` everywhere. Such a decoder should raise an error for batches with
            padding, because its results could be wrong. Defaults to `False`.

    Raises:
        ValueError: If `encoded` or `token_ids` is not sufficient for the checks.
        AssertionError: If a requirement is not satisfied. The message names the requirement.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attn import AttentionRNNCell, BahdanauAttention, RNNDecoder
    >>> from keras_attn.testing import check_decoder
    >>> def make_decoder():
    ...     cell = AttentionRNNCell(keras.layers.GRUCell(6), BahdanauAttention(5))
    ...     return RNNDecoder(cell, keras.layers.Embedding(7, 4), head=keras.layers.Dense(7))
    >>> encoded = {
    ...     "encoder_outputs": np.random.default_rng(0).normal(size=(2, 5, 4)).astype("float32"),
    ...     "encoder_mask": np.arange(5) < np.array([[3], [5]]),
    ... }
    >>> check_decoder(make_decoder, encoded, np.array([[1, 4, 5], [1, 6, 3]], "int32"))
    """
    mask = encoded.get("encoder_mask")
    if equal_lengths:
        if mask is not None and not mask.all():
            raise ValueError(
                "Expected an encoder_mask that is True everywhere with equal_lengths=True. "
                f"Received: encoder_mask={mask.tolist()}. Omit the mask."
            )
        if min(token_ids.shape) < 2 or token_ids.shape[1] < 3:
            raise ValueError(
                "Expected at least two sentences and three tokens. Received: token_ids with shape "
                f"{token_ids.shape}. Pass larger arrays."
            )
    elif mask is None or mask.all() or len(mask) < 2 or token_ids.shape[1] < 3:
        received = None if mask is None else mask.tolist()
        raise ValueError(
            "Expected at least two sentences, three tokens and a masked source position. Received: "
            f"encoder_mask={received}, token_ids with shape {token_ids.shape}. Pass larger arrays."
        )
    decoder = make_decoder()
    decoder(token_ids, **encoded)
    randomize(decoder)
    logits = to_numpy(decoder(token_ids, **encoded))
    require(
        logits.dtype == "float32" and logits.shape[:2] == token_ids.shape and logits.ndim == 3,
        "Expected `call` to return float32 logits (batch, time, vocabulary). Received: "
        f"{logits.dtype} {logits.shape}.",
    )
    _check_call(decoder, encoded, token_ids, logits)
    if not equal_lengths:
        _check_padding(decoder, encoded, token_ids, logits)
    _check_steps(decoder, encoded, token_ids, logits)
    _check_select(decoder, encoded, token_ids, logits)
    _check_beams(decoder, encoded, token_ids, sum_to_one)
    _check_reordering(decoder, encoded, token_ids)
    _check_tracing(decoder, encoded, token_ids)
    _check_unknown_shapes(decoder, encoded, token_ids, equal_lengths)


def check_rows(state: TensorDict, batch: int, beam_width: int) -> None:
    """Checks that state tensors have a row per beam (in `shared`: a row per batch entry)."""
    own_state = {name: leaf for name, leaf in state.items() if name != "shared"}
    rows = {tuple(leaf.shape)[:1] for leaf in tree.flatten(own_state)}
    require(
        rows <= {(batch * beam_width,)},
        "Expected the leaves of a state, except for those in `shared`, to have a row for each beam "
        f"of each sentence, {batch * beam_width} rows. Received: {sorted(rows)}.",
    )
    rows = {leaf.shape[0] for leaf in tree.flatten(state.get("shared", {})) if len(leaf.shape)}
    require(
        rows <= {batch},
        "Expected the leaves in `shared` of a state to be scalars or to have a row for each "
        f"sentence, {batch} rows. Received: {sorted(rows)}.",
    )


def _check_call(
    decoder: StepDecoder,
    encoded: Mapping[str, np.ndarray],
    token_ids: np.ndarray,
    logits: np.ndarray,
) -> None:
    """Checks that other sentences and later tokens do not change the logits of `call`."""
    # Replace the tokens from the third position on: earlier logits must not change.
    other = np.where(np.arange(token_ids.shape[1]) >= 2, token_ids[::-1, ::-1], token_ids)
    assert_close(
        to_numpy(decoder(other, **encoded))[:, :2],
        logits[:, :2],
        message="Expected `call` to return logits that do not depend on later tokens.",
    )
    order = np.roll(np.arange(len(token_ids)), 1)
    assert_close(
        to_numpy(decoder(token_ids[order], **_rows_of(encoded, order))),
        logits[order],
        message="Expected logits of a sentence that do not depend on its place in the batch.",
    )
    assert_close(
        to_numpy(decoder(token_ids[:1], **_rows_of(encoded, [0]))),
        logits[:1],
        message="Expected logits of a sentence that do not depend on other sentences in the batch.",
    )


def _check_padding(
    decoder: StepDecoder,
    encoded: Mapping[str, np.ndarray],
    token_ids: np.ndarray,
    logits: np.ndarray,
) -> None:
    """Checks that padding and masked positions do not change the logits of `call`."""
    noise = fill_masked_with_noise(encoded["encoder_outputs"], encoded["encoder_mask"])
    assert_identical(
        to_numpy(decoder(token_ids, **{**encoded, "encoder_outputs": noise})),
        logits,
        "Expected logits that do not depend on source positions where encoder_mask is False.",
    )
    longer = np.pad(token_ids, [(0, 0), (0, 2)])
    assert_close(
        to_numpy(decoder(longer, **pad_source(encoded, 3)))[:, : token_ids.shape[1]],
        logits,
        message="Expected logits that do not depend on padding of the source or the target.",
    )


def _check_steps(
    decoder: StepDecoder,
    encoded: Mapping[str, np.ndarray],
    token_ids: np.ndarray,
    logits: np.ndarray,
) -> None:
    batch, time = token_ids.shape
    memory = decoder.prepare_memory(**to_tensors(encoded))
    rows = {tuple(leaf.shape)[:1] for leaf in tree.flatten(memory)}
    require(
        rows <= {(batch,)},
        "Expected the leaves of the memory from `prepare_memory` to have a row for each sentence, "
        f"{batch} rows. Received: {sorted(rows)}.",
    )
    state = decoder.initial_state(memory, max_length=time)
    for t, tokens in enumerate(token_ids.T):
        message = f"Expected `step` {t} to return the logits of `call`."
        step_logits, new_state = _take_step(decoder, tokens, state, memory, message)
        assert_close(step_logits, logits[:, t], message=message)
        message = (
            "Expected `step` to return the same logits for the same arguments, and the decoder to "
            "store nothing between calls."
        )
        again, _ = _take_step(decoder, tokens, state, memory, message)
        assert_close(again, step_logits, message=message)
        _check_same_kind(new_state, state)
        state = new_state


def _take_step(
    decoder: StepDecoder, tokens: np.ndarray, state: TensorDict, memory: TensorDict, message: str
) -> tuple[np.ndarray, TensorDict]:
    """Runs a step, and checks that it returns float32 logits with one row per hypothesis."""
    with requirement(message):
        results = decoder.step(tokens, state, memory)
    require(
        isinstance(results, tuple | list) and len(results) == 2,
        f"Expected `step` to return a tuple of logits and state. Received: {type(results)}.",
    )
    logits = to_numpy(results[0])
    require(
        logits.dtype == "float32" and logits.ndim == 2 and len(logits) == len(tokens),
        "Expected `step` to return float32 logits (batch * beams, vocabulary). Received: "
        f"{logits.dtype} {logits.shape} for {len(tokens)} tokens.",
    )
    return logits, results[1]


def _check_same_kind(new_state: TensorDict, state: TensorDict) -> None:
    """Checks that structure, ranks and dtypes of the state do not change, as loops require."""
    message = "Expected `step` to return a state with the same structure as its argument `state`."
    with requirement(message):
        tree.assert_same_structure(new_state, state)
    for new, old in zip(tree.flatten(new_state), tree.flatten(state), strict=True):
        kinds = [(str(np.dtype(to_numpy(leaf).dtype)), len(leaf.shape)) for leaf in (new, old)]
        require(
            kinds[0] == kinds[1],
            "Expected `step` to return a state with the same dtypes and ranks as its argument "
            f"`state`. Received: dtype and rank {kinds[0]}, instead of {kinds[1]}.",
        )


def _check_select(
    decoder: StepDecoder,
    encoded: Mapping[str, np.ndarray],
    token_ids: np.ndarray,
    logits: np.ndarray,
) -> None:
    batch, time = token_ids.shape
    rows = np.array([batch - 1, 0], "int32")
    memory = decoder.select(decoder.prepare_memory(**to_tensors(encoded)), rows)
    state = decoder.initial_state(memory, max_length=time)
    message = "Expected `select` to return the memory of the chosen sentences in their order."
    for t, tokens in enumerate(token_ids[rows].T):
        step_logits, state = _take_step(decoder, tokens, state, memory, message)
        assert_close(step_logits, logits[rows, t], message=message)


def _check_beams(
    decoder: StepDecoder, encoded: Mapping[str, np.ndarray], token_ids: np.ndarray, sum_to_one: bool
) -> None:
    """Checks that beams that share a memory get the same results as separate batch entries."""
    batch, time = token_ids.shape
    beams = np.stack([np.roll(token_ids, k, axis=1) for k in range(BEAMS)], axis=1)
    beams[:, :, 0] = token_ids[:, :1]
    beams = beams.reshape(batch * BEAMS, time)
    repeated = _rows_of(encoded, np.repeat(np.arange(batch), BEAMS))
    logits = to_numpy(decoder(beams, **repeated))
    memory = decoder.prepare_memory(**to_tensors(encoded))
    state = decoder.initial_state(memory, BEAMS, alignments=True, max_length=time)
    check_rows(state, batch, BEAMS)
    for t, tokens in enumerate(beams.T):
        message = (
            f"Expected `step` {t} with {BEAMS} beams of each sentence to return the "
            "logits of `call` for each beam as a separate batch entry."
        )
        step_logits, state = _take_step(decoder, tokens, state, memory, message)
        assert_close(step_logits, logits[:, t], message=message)
        if "alignments" in state:
            weights = to_numpy(state["alignments"])
            mask = repeated.get("encoder_mask")
            mask = np.ones(weights.shape, "bool") if mask is None else mask
            _check_alignments(weights, mask, sum_to_one)


def _check_alignments(weights: np.ndarray, mask: np.ndarray, sum_to_one: bool) -> None:
    require(
        weights.shape == mask.shape,
        'Expected `state["alignments"]` of shape (batch * beams, source). Received: '
        f"{weights.shape}, instead of {mask.shape}.",
    )
    require(
        not weights[~mask].any(),
        'Expected `state["alignments"]` of 0 where encoder_mask is False.',
    )
    sums = weights.sum(axis=1)
    assert_close(
        sums if sum_to_one else np.ceil(sums),
        mask.any(axis=1),
        message=f'Expected `state["alignments"]` that sum to {"" if sum_to_one else "at most "}1.',
    )


def _check_reordering(
    decoder: StepDecoder, encoded: Mapping[str, np.ndarray], token_ids: np.ndarray
) -> None:
    """Checks that each beam continues the history of its parent after the state is reordered."""
    batch, start = len(token_ids), token_ids[0, 0]
    repeated = _rows_of(encoded, np.repeat(np.arange(batch), BEAMS))
    generator = np.random.default_rng(0)
    memory = decoder.prepare_memory(**to_tensors(encoded))
    state = decoder.initial_state(memory, BEAMS, max_length=3)
    before = np.full((batch * BEAMS, 0), start, "int32")
    tokens = np.full(batch * BEAMS, start, "int32")
    for _ in range(3):
        before = np.concatenate([before, tokens[:, None]], axis=1)
        message = (
            "Expected `step` to return the logits of `call` after the state was reordered: all "
            "values of a beam must be in its row of the state."
        )
        logits, state = _take_step(decoder, tokens, state, memory, message)
        assert_close(logits, to_numpy(decoder(before, **repeated))[:, -1], message=message)
        parents = generator.integers(0, BEAMS, (batch, BEAMS))
        rows = (parents + np.arange(batch)[:, None] * BEAMS).reshape(-1).astype("int32")
        state, before = decoder.archive(reorder(state, rows)), before[rows]
        tokens = generator.choice(token_ids[:, 1:].reshape(-1), batch * BEAMS)


def _check_tracing(
    decoder: StepDecoder, encoded: Mapping[str, np.ndarray], token_ids: np.ndarray
) -> None:
    """Checks that a step can run with symbolic tensors, because searches and exports trace it."""
    memory = decoder.prepare_memory(**to_tensors(encoded))
    state = decoder.initial_state(memory, max_length=token_ids.shape[1])
    symbolic = tree.map_structure(_symbolic, (token_ids[:, 0], state, memory))
    with requirement("Expected a `step` that can be traced, without values of its arguments."):
        _Step(decoder).compute_output_spec(*symbolic)


def _check_unknown_shapes(
    decoder: StepDecoder,
    encoded: Mapping[str, np.ndarray],
    token_ids: np.ndarray,
    equal_lengths: bool,
) -> None:
    """Checks that `call` can run with an unknown batch size and unknown lengths."""
    sources = () if equal_lengths else ("encoder_outputs", "encoder_mask")
    symbolic = {
        name: tree.map_structure(
            lambda leaf, axes=2 if name in sources else 1: _symbolic(leaf, axes), value
        )
        for name, value in encoded.items()
    }
    message = (
        "Expected a `call` that can be traced with an unknown batch size and unknown lengths, as "
        "in training. Use the default `call` of StepDecoder instead of a Python loop."
    )
    with requirement(message):
        decoder(_symbolic(token_ids, 2), **symbolic)


class _Step(keras.Operation):
    def __init__(self, decoder: StepDecoder) -> None:
        super().__init__()
        self.decoder = decoder

    def call(
        self, token_ids: Tensor, state: TensorDict, memory: TensorDict
    ) -> tuple[Tensor, TensorDict]:
        return self.decoder.step(token_ids, state, memory)


def _symbolic(leaf: Tensor | np.ndarray, unknown_axes: int = 0) -> keras.KerasTensor:
    """Returns a symbolic tensor whose first axes have unknown sizes."""
    shape = (*[None] * unknown_axes, *leaf.shape[unknown_axes:])
    return keras.KerasTensor(shape, dtype=keras.backend.standardize_dtype(leaf.dtype))


def _rows_of(encoded: Mapping[str, np.ndarray], rows: npt.ArrayLike) -> dict[str, np.ndarray]:
    return tree.map_structure(lambda leaf: leaf[rows], encoded)
