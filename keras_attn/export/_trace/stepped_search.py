from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import keras

from keras_attn._search.rules import STATES
from keras_attn._search.search import COUNTS, WORD_STARTS
from keras_attn._types import TensorDict
from keras_attn.export._trace.search_function import OUTPUTS, SearchFunction, named
from keras_attn.export._types import Axes

if TYPE_CHECKING:
    import tensorflow as tf

COUNT = "count"
"""Name of the value with the number of returned hypotheses, if a call can choose it."""

NEXT = "next/"
"""Prefix of the output names of a step. In ONNX, an output must not have the name of an input."""


class SteppedSearch:
    """A search as three functions, for a program (the host) that runs the loop itself.

    `start` takes the inputs of the encoder, such as `source_ids`, and all inputs of the search
    except those of `step`. It returns the *values* of the search: the
    carry of the search loop, the memory of the decoder and the maximum lengths. The values are a
    flat dict with names such as `beams/log_probs`.

    `step` takes the length penalty, the run-time settings except `beam_width` and `num_hypotheses`,
    and the values. It returns the values that change, with names such as `next/beams/log_probs`,
    and `partial`, the result of `Search.partial`. The host passes the changed values to the next
    step, until all elements of the value `done` are true. Then `finish` takes the values whose
    names begin with `hypotheses/`, and `count` if there is such a value, and returns the results.

    Args:
        function: `SearchFunction` to split into steps.
        signature: List of `tf.TensorSpec`, the inputs of `function`. `None` means
            `function.signature`. Defaults to `None`.

    Attributes:
        start_signature: List of `tf.TensorSpec`, the inputs of `start`.
        step_signature: List of `tf.TensorSpec`, the inputs of `step`.
        finish_signature: List of `tf.TensorSpec`, the inputs of `finish`.
        dimensions: Dict from each input and output name to the names or sizes of its axes.
    """

    def __init__(
        self, function: SearchFunction, signature: "Sequence[tf.TensorSpec] | None" = None
    ) -> None:
        import tensorflow as tf

        self._function = function
        count = len(function.inputs)
        signature = function.signature if signature is None else signature
        of_step = {"length_penalty", *function.runtime_settings} - {*COUNTS}
        settings = [spec for spec in signature[count:] if spec.name in of_step]
        self._num_settings = len(settings)
        self.start_signature = [
            *signature[:count],
            *(spec for spec in signature[count:] if spec.name not in of_step),
        ]
        traced = tf.function(self._prepare, input_signature=self.start_signature, autograph=False)
        self._structure = traced.get_concrete_function().structured_outputs
        specs = [
            tf.TensorSpec(value.shape, value.dtype, name=name)
            for name, value in _flat(self._structure).items()
        ]
        self.step_signature = [*settings, *specs]
        taken = {spec.name for spec in specs} & set(function.inputs)
        if taken:
            raise ValueError(
                f"Expected inputs with other names than the search values {sorted(taken)}. "
                f"Received: inputs={list(function.inputs)}. Create each with keras.Input(..., "
                "name=...) of another name."
            )
        self._has_count = COUNT in self._structure
        of_finish = ("hypotheses/", COUNT) if self._has_count else ("hypotheses/",)
        self.finish_signature = [spec for spec in specs if spec.name.startswith(of_finish)]
        self.dimensions = {**function.dimensions, "partial": ("batch", "steps")}
        for spec in specs:
            for name in (spec.name, NEXT + spec.name):
                self.dimensions[name] = _axes(name, spec.shape)

    def start(self, *inputs: "tf.Tensor") -> "dict[str, tf.Tensor]":
        """Returns the values before the first token, by name."""
        return _flat(self._prepare(*inputs))

    def step(self, *inputs: "tf.Tensor") -> "dict[str, tf.Tensor]":
        """Returns the values that the next token changes, with the prefix `NEXT`, and `partial`."""
        count = self._num_settings
        settings = named(self.step_signature[:count], inputs[:count])
        values = keras.tree.pack_sequence_as(self._structure, inputs[count:])
        given = _flat(values)
        memory, max_lengths = values.pop("memory"), values.pop("max_lengths")
        search = self._function.search
        chosen = search.call_settings(settings.pop("length_penalty"), settings)
        chosen[WORD_STARTS] = self._function.word_starts
        carry = search.advance(values, memory, max_lengths, chosen)
        following = {
            NEXT + name: value
            for name, value in _flat(carry).items()
            if value is not given[name]  # the host keeps the values that do not change
        }
        return {"partial": search.partial(carry), **following}

    def finish(self, *values: "tf.Tensor") -> "dict[str, tf.Tensor]":
        """Returns the results, see `SearchFunction`."""
        given = named(self.finish_signature, values)
        count = given.pop(COUNT, None)
        structure = self._structure["hypotheses"]
        hypotheses = keras.tree.pack_sequence_as(structure, list(given.values()))
        results = self._function.search.finish(hypotheses, count)
        return {name: results[name] for name in OUTPUTS if name in results}

    def _prepare(self, *values: "tf.Tensor") -> TensorDict:
        function = self._function
        count = len(function.inputs)
        encoded = function.encode_with_mask(*values[:count])
        given = named(self.start_signature[count:], values[count:])
        counts = {name: given.pop(name) for name in COUNTS if name in given}
        settings = function.search.call_settings(settings=counts)
        given = function.join_rule_inputs(given)
        carry, memory, max_lengths = function.search.prepare(**encoded, **given, settings=settings)
        return {**carry, "memory": memory, "max_lengths": max_lengths}


def _flat(structure: TensorDict) -> "dict[str, tf.Tensor]":
    return {
        "/".join(map(str, path)): leaf for path, leaf in keras.tree.flatten_with_path(structure)
    }


def _axes(name: str, shape: Iterable[int | None]) -> Axes:
    part = name.removeprefix(NEXT)
    is_of_beams = part.startswith(("state/", f"{STATES}/")) and not part.startswith("state/shared/")
    rows = "rows" if is_of_beams else "batch"
    return tuple(
        size if size is not None else f"{name}_{axis}" if axis else rows
        for axis, size in enumerate(shape)
    )
