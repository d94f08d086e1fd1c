"""Loop over search steps, implemented with the backend's while loop."""

from collections.abc import Callable

from keras import ops, tree

from keras_attn._backend.gather import (
    gather_leaves,
    gather_rows,
    keep_sentences,
    true_indices,
)
from keras_attn._backend.integers import sum_int32
from keras_attn._backend.litert_tracing import is_in_blocks
from keras_attn._backend.private_names import infers_shapes
from keras_attn._decoders.step_decoder import StepDecoder
from keras_attn._decoding_state import growing_buffer
from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn._search.histories import HISTORIES
from keras_attn._search.rules import STATES
from keras_attn._types import Tensor, TensorDict


def run_search(
    advance: Callable[..., TensorDict],
    decoder: StepDecoder,
    carry: TensorDict,
    memory: TensorDict,
    max_lengths: Tensor,
    num_open_hypotheses: int | Tensor,
) -> TensorDict:
    """Runs search steps until all batch entries are done.

    On backends where tensors can change their shape in a loop, there are two nested loops to save
    computation. The inner loop runs the steps until more than a quarter of the batch entries are
    done, or for `cache_block_size` steps. The outer loop then calls the decoder's `archive`, if
    `cache_block_size` is set, and removes the batch entries that are done. In a LiteRT file whose
    buffers grow in blocks, the outer loop only adds a block.

    Args:
        advance: Function `(carry, memory, max_lengths) -> carry`, one step.
        decoder: `StepDecoder`. The loop uses its `select`, `archive` and `cache_block_size`.
        carry: Nested dict with at least `step` (scalar int32), `done` (boolean `(batch,)`), `state`
            (see `StepDecoder`) and `hypotheses`. The tensors in `hypotheses` have the shape
            `(batch, n)`, or `(batch, n, steps, ...)` if they grow. All other tensors have the
            shape `(batch, ...)`, except scalars, `state`, and `rule_states`, which has a row for
            each open hypothesis.
        memory: Nested dict of tensors of shape `(batch, ...)`, see `StepDecoder`.
        max_lengths: Int32 tensor of shape `(batch,)`, maximum lengths.
        num_open_hypotheses: Int or scalar int32 tensor, number of open hypotheses per batch entry.

    Returns:
        Dict with the `hypotheses` of each batch entry after the step that finished the entry.
    """
    if infers_shapes() and all(layer.built for layer in flatten_layers([decoder])):
        # Speed: tracing a step takes half the time of building a model. No step changes the shapes.
        return carry["hypotheses"]
    if not growing_buffer.supports_growth():
        carry = _take_steps(
            advance, carry, memory, max_lengths, lambda carry: ops.any(_is_open(carry))
        )
        return carry["hypotheses"]
    if is_in_blocks():
        return _take_blocks(advance, decoder, carry, memory, max_lengths)

    def some_left(carry, memory, max_lengths, rows, results):
        # The carry contains only open entries, so test its size. A reduction of `done` would fail
        # in ONNX Runtime 1.31 with CUDA, which cannot reduce an empty axis.
        return ops.shape(max_lengths)[0] > 0

    def take_steps_and_drop(carry, memory, max_lengths, rows, results):
        # Take the batch size from `max_lengths`, whose shape does not change in the inner loop.
        batch = ops.shape(max_lengths)[0]
        first_step, every = carry["step"], decoder.cache_block_size
        # The inner loop must take at least one step, even if many entries are already done.
        few = ops.maximum(batch, 4 * _num_done(carry["done"]))

        def go_on(carry):
            few_done = 4 * _num_done(carry["done"]) <= few
            return few_done if every is None else few_done & (carry["step"] < first_step + every)

        carry = _take_steps(advance, carry, memory, max_lengths, go_on)
        if every is not None:
            carry = {**carry, "state": decoder.archive(carry["state"])}
        results = _update(results, carry["hypotheses"], rows)
        left = true_indices(_is_open(carry))
        return (*keep(carry, memory, max_lengths, rows, left), results)

    def keep(carry, memory, max_lengths, rows, left):
        return (
            _select(carry, left, num_open_hypotheses),
            decoder.select(memory, left),
            gather_rows(max_lengths, left),
            gather_rows(rows, left),
        )

    # Remove finished entries also before the loop, so that the batch sizes of `start` and of the
    # results are different symbolic sizes. The loop changes the batch size of `start`, but not of
    # the results. TensorFlow cannot change a static size, and OpenVINO 2026.4 assumes that sizes
    # that are equal before the loop remain equal.
    left = true_indices(_is_open(carry))
    rows = ops.arange(ops.shape(max_lengths)[0], dtype="int32")
    start = keep(carry, memory, max_lengths, rows, left)
    return ops.while_loop(some_left, take_steps_and_drop, (*start, carry["hypotheses"]))[-1]


def _take_steps(advance, carry, memory, max_lengths, condition):
    (carry,) = ops.while_loop(
        condition,
        lambda carry: (advance(carry, memory, max_lengths),),
        (carry,),
    )
    return carry


def _take_blocks(advance, decoder, carry, memory, max_lengths):
    """Runs search steps with buffers that grow in blocks.

    The shapes in the inner loop do not change: LiteRT allocates its tensors once for each block.
    """
    steps = growing_buffer.BLOCK_STEPS

    def some_open(carry):
        return ops.any(_is_open(carry))

    def take_block(carry):
        last_step = carry["step"] + steps
        carry = {**carry, "state": decoder.widen(carry["state"], steps)}
        for name in ("beams", "hypotheses"):
            if name in carry:
                carry[name] = _widen(carry[name], steps)
        return (
            _take_steps(
                advance,
                carry,
                memory,
                max_lengths,
                lambda carry: some_open(carry) & (carry["step"] < last_step),
            ),
        )

    (carry,) = ops.while_loop(some_open, take_block, (carry,))
    # Drop the columns of the last block that are not used.
    return {
        name: value[:, :, : carry["step"]] if name in HISTORIES else value
        for name, value in carry["hypotheses"].items()
    }


def _widen(values, steps):
    """Adds unused columns to the histories among hypothesis values."""
    return {
        name: growing_buffer.widen(value, steps) if name in HISTORIES else value
        for name, value in values.items()
    }


def _is_open(carry):
    return ops.logical_not(carry["done"])


def _num_done(done):
    return sum_int32(done)


def _select(carry, rows, num_open_hypotheses):
    """Selects the batch entries `rows` in a carry."""
    first = rows[:, None] * num_open_hypotheses
    beams = ops.reshape(first + ops.arange(num_open_hypotheses, dtype="int32"), (-1,))

    def keep(name, value):
        if name == "state":
            return keep_sentences(value, rows, beams)
        return gather_leaves(value, beams if name == STATES else rows)

    return {name: keep(name, value) for name, value in carry.items()}


def _update(results, hypotheses, rows):
    """Replaces some batch entries' rows in the results.

    TensorFlow cannot scatter into an empty tensor, such as alignments for an empty source.
    Therefore the function scatters row indices into a vector, and gathers the tensors' rows.

    Args:
        results: Dict of tensors of shape `(batch, n)` or `(batch, n, steps, ...)`.
        hypotheses: Dict of tensors of shape `(rows, n)` or `(rows, n, new_steps, ...)` with
            `new_steps >= steps`, the new rows. Old rows are padded with zeros to `new_steps`.
        rows: Int32 tensor of shape `(rows,)`, new row indices.

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
