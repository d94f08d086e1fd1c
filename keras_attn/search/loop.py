"""The loop around the steps of a search: the only file that wraps the backend's while loop."""

from collections.abc import Callable

from keras import ops, tree

from keras_attn._backend.gather import gather_leaves, gather_rows, keep_sentences
from keras_attn._backend.integers import sum_int32
from keras_attn._decoding_state import growing_buffer
from keras_attn._types import Tensor, TensorDict
from keras_attn.decoders.step_decoder import StepDecoder


def run_search(
    advance: Callable[..., TensorDict],
    decoder: StepDecoder,
    carry: TensorDict,
    memory: TensorDict,
    max_lengths: Tensor,
    num_open_hypotheses: int,
) -> TensorDict:
    """Advances all sentences until each is done.

    Where tensors can change their shape in a loop, sentences that are done are dropped as soon as
    they are more than a quarter of those that are left, so that what has ended is not paid for:
    an inner loop takes the steps, an outer one drops. The outer one also has the decoder put away
    what it has collected, after as many steps as that asks for.

    Args:
        advance: function `(carry, memory, max_lengths) -> carry` of one step.
        decoder: the `StepDecoder`, for its `select`, `archive` and `cache_block_size`.
        carry: nested dict with at least `step` (int32 scalar), `done` (boolean `(batch,)`), `state`
            (as in `StepDecoder`) and `hypotheses` (leaves `(batch, n)`, or `(batch, n,
            steps, ...)` if they grow); all other leaves are `(batch, ...)`.
        memory: nested dict, leaves `(batch, ...)`.
        max_lengths: int32 `(batch,)`.
        num_open_hypotheses: int, hypotheses of a sentence that are open at once.

    Returns:
        `hypotheses` of all sentences as they were when each was done.
    """
    if not growing_buffer.supports_growth():
        carry = _take_steps(
            advance, carry, memory, max_lengths, lambda carry: _any_open(carry["done"])
        )
        return carry["hypotheses"]

    def some_left(carry, memory, max_lengths, rows, results):
        return _any_open(carry["done"])

    def take_steps_and_drop(carry, memory, max_lengths, rows, results):
        batch = ops.shape(max_lengths)[0]  # a constant of the inner loop, unlike that of the carry
        first_step, every = carry["step"], decoder.cache_block_size
        # Of a batch not dropped from yet, more may be done; a step is taken all the same.
        few = ops.maximum(batch, 4 * _num_done(carry["done"]))

        def go_on(carry):
            few_done = 4 * _num_done(carry["done"]) <= few
            return few_done if every is None else few_done & (carry["step"] < first_step + every)

        carry = _take_steps(advance, carry, memory, max_lengths, go_on)
        if every is not None:
            carry = {**carry, "state": decoder.archive(carry["state"])}
        results = _update(results, carry["hypotheses"], rows)
        (left,) = ops.nonzero(ops.logical_not(carry["done"]))
        return (*keep(carry, memory, max_lengths, rows, ops.cast(left, "int32")), results)

    def keep(carry, memory, max_lengths, rows, left):
        return (
            _select(carry, left, num_open_hypotheses),
            decoder.select(memory, left),
            gather_rows(max_lengths, left),
            gather_rows(rows, left),
        )

    batch = ops.shape(max_lengths)[0]
    start = (carry, memory, max_lengths, ops.arange(batch, dtype="int32"))
    if isinstance(batch, int):
        # A batch of known size could not shrink in the loop: its size must look unknown.
        (everyone,) = ops.nonzero(ops.ones((batch,), dtype="bool"))
        start = keep(*start, ops.cast(everyone, "int32"))
    return ops.while_loop(some_left, take_steps_and_drop, (*start, carry["hypotheses"]))[-1]


def _take_steps(advance, carry, memory, max_lengths, condition):
    (carry,) = ops.while_loop(
        condition,
        lambda carry: (advance(carry, memory, max_lengths),),
        (carry,),
    )
    return carry


def _any_open(done):
    return ops.any(ops.logical_not(done))


def _num_done(done):
    return sum_int32(done)


def _select(carry, rows, num_open_hypotheses):
    """Keeps some sentences of a carry."""
    first = rows[:, None] * num_open_hypotheses
    beams = ops.reshape(first + ops.arange(num_open_hypotheses, dtype="int32"), (-1,))
    return {
        name: keep_sentences(value, rows, beams) if name == "state" else gather_leaves(value, rows)
        for name, value in carry.items()
    }


def _update(results, hypotheses, rows):
    """Replaces rows of the results.

    Rows are numbers in a scattered vector, and the tensors are gathered: TensorFlow refuses to
    scatter into a tensor without elements, such as the alignments of an empty source.

    Args:
        results: dict of tensors `(batch, n)` or `(batch, n, steps, ...)`.
        hypotheses: dict of tensors `(rows, n)` or `(rows, n, steps or more, ...)`, the new rows.
            Older rows are filled with zeros.
        rows: int32 vector, the places of the new rows.

    Returns:
        The new results.
    """
    batch = ops.shape(results["num_tokens"])[0]
    new_rows = batch + ops.arange(ops.shape(rows)[0], dtype="int32")
    chosen = ops.arange(batch, dtype="int32")
    chosen = ops.scatter_update(chosen, rows[:, None], new_rows)  # (B,)

    def replace(old, new):
        if len(old.shape) > 2:
            shape, columns = ops.shape(old), ops.shape(new)[2]
            missing = ops.zeros((*shape[:2], columns - shape[2], *shape[3:]), dtype=old.dtype)
            old = ops.concatenate([old, missing], axis=2)
        return gather_rows(ops.concatenate([old, new], axis=0), chosen)

    return tree.map_structure(replace, results, hypotheses)
