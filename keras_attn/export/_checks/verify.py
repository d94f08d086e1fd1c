import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from keras_attn._search.constraints import NO_TOKEN
from keras_attn._search.search import Search
from keras_attn.export._checks.parity_report import TIE, ParityReport
from keras_attn.export._checks.parity_sources import Sources, pad
from keras_attn.export._checks.token_budget import RESERVED, TokenBudget, usual_length
from keras_attn.export._checks.top_tokens import largest_top_token_difference
from keras_attn.export._export_error import ExportError
from keras_attn.export._trace.search_function import CONSTRAINT_IDS, CONSTRAINTS_IN_ORDER
from keras_attn.export._types import Arrays, Run
from keras_attn_checks.progress import report_count

BATCH_SIZES = (1, 7, 32)
"""Sizes of successive batches, repeated in this order."""


OTHER_VALUES: dict[str, Callable[[float], float]] = {
    "length_penalty": lambda value: value + 0.5,
    "beam_width": lambda value: (value + 1) // 2,
    "num_hypotheses": lambda value: value + 1,
    "min_length": lambda value: value + 3,
    "repetition_penalty": lambda value: 1.2 * value,
    "no_repeat_ngram_size": lambda value: value - 1,
    "patience": lambda value: 0.5 * value,
    "coverage_penalty": lambda value: 0.5 * value,
    "diversity_strength": lambda value: 2 * value,
    "temperature": lambda value: 1.5 * value,
    "top_k": lambda value: (value + 1) // 2 if value else 5,
    "top_p": lambda value: 0.8 * value,
    "min_p": lambda value: 0.5 * value + 0.05,
}
"""Dict from settings to functions that return another value."""

DRAWN_TOKENS = 4
"""Maximum length of sampled hypotheses when two precisions are compared."""


NUMBERS = ("scores", "log_probs", "alignments", "token_log_probs")
"""Outputs whose values are compared with a tolerance."""


def translated_batches(
    run: Run,
    sources: Sources,
    search: Search,
    budget: TokenBudget,
    prefixes: list[list[int]] | None = None,
    settings: Mapping[str, str] | None = None,
    constraints: np.ndarray | None = None,
    others: Arrays | None = None,
) -> Iterator[tuple[Arrays, Arrays]]:
    """Runs a search in Keras or in an exported file on batches of sources.

    The batches have several sizes. All batches but the last have an equal share of the budget, and
    the usual length as `max_length`, or less if their share is smaller. Sources that the caller
    chose always have the usual length. Every second batch has a `max_length` that cuts some
    hypotheses, and every third batch has other settings than the search, such as a larger
    `length_penalty`. The last batch
    is a single source with the `max_length` of the search, or less if the rest of the budget is
    smaller.

    Args:
        run: Function that runs the search. Its keyword arguments are NumPy arrays: the inputs of
            the encoder, such as `source_ids`, then `max_length` and `length_penalty`, `prefix_ids`
            if there are prefixes, and `seeds` if the search samples. It returns a dict of arrays:
            `token_ids`, `lengths`, `scores`, `log_probs`, and optionally `alignments`,
            `token_log_probs`, `top_token_ids` and `top_token_log_probs`.
        sources: `IdSources` or `ArraySources`.
        search: `Search` with the settings.
        budget: `TokenBudget`.
        prefixes: List of lists of target ids, one for each source, or `None`.
        settings: Dict from the run-time settings of the file to their dtypes. Defaults to `None`:
            no run-time settings.
        constraints: Int32 array of phrases, one row for each source. Every second batch has them in
            order. Defaults to `None`: no constraints.
        others: Dict from further inputs to arrays with a row for each source, or scalars. Defaults
            to `None`: no further inputs.

    Returns:
        Iterator of pairs (inputs, outputs), two dicts of arrays.
    """
    batches = list(_batches(len(sources)))
    reserved = RESERVED * budget.tokens
    left, longest = budget.tokens - reserved, 1
    for number, rows in enumerate(batches):
        inputs = _of_rows(rows, number, sources, search, prefixes)
        if constraints is not None:
            inputs[CONSTRAINT_IDS] = _padded_phrases(constraints[rows], number)
            inputs[CONSTRAINTS_IN_ORDER] = np.array(number % 2 == 1)
        inputs |= {
            name: values[rows] if values.ndim else values for name, values in (others or {}).items()
        }
        size, source_length = rows.stop - rows.start, sources.length(rows)
        is_last = number == len(batches) - 1
        share = left + reserved if is_last else left / (len(batches) - 1 - number)
        steps = budget.steps(size, share, source_length)
        limit = min(search.max_length, steps)
        if not is_last:
            is_given = rows.start < sources.num_given
            limit = min(search.max_length if is_given else limit, usual_length(source_length))
            if number % 2 == 1:
                limit = min(limit, max(1, longest // 2))
        inputs |= {
            "max_length": np.array(limit, "int32"),
            **{
                name: _setting(search, name, dtype, is_other=number % 3 == 2)
                for name, dtype in {"length_penalty": "float32", **(settings or {})}.items()
            },
        }
        outputs = run(**inputs)
        steps = outputs["token_ids"].shape[2]
        left = max(0, left - size * source_length - steps * budget.rows(size))
        longest = max(longest, int(outputs["lengths"].max()))
        yield inputs, outputs


def compare_translations(
    expected: Iterable[tuple[Arrays, Arrays]],
    actual: Run,
    search: Search,
    largest_logit: float = 0.0,
    total: int = 0,
) -> ParityReport:
    """Runs a second implementation of a search on the same inputs and compares the outputs.

    Args:
        expected: Iterable of pairs (inputs, outputs) of the first implementation, the result of
            `translated_batches`.
        actual: Function that runs the second implementation, like `run` of `translated_batches`.
        search: `Search` with the settings.
        largest_logit: Float, largest absolute value of a logit, see `ParityReport`. Defaults to
            `0.0`.
        total: Int, number of sources, for messages about the progress. Defaults to `0`: unknown.

    Returns:
        A `ParityReport`. This function accepts different values; `ParityReport.check` raises an
        error if they differ too much.

    Raises:
        ExportError: If the outputs of the two implementations have different names.
    """
    report = ParityReport(is_stochastic=search.is_stochastic, largest_logit=largest_logit)
    equal, tied, tie = [], [], TIE * report.scale
    for inputs, ours in expected:
        theirs = actual(**inputs)
        if set(ours) != set(theirs):
            raise ExportError(f"Expected the outputs {set(ours)}. Received: {set(theirs)}.")
        ids, other_ids = _same_length(ours["token_ids"], theirs["token_ids"], search.pad_token_id)
        is_equal = np.all(ids == other_ids, axis=-1) & (ours["lengths"] == theirs["lengths"])
        if "constraints_met" in ours:
            is_equal &= np.all(ours["constraints_met"] == theirs["constraints_met"], axis=-1)
        equal.append(is_equal)  # (B, N)
        tied.append(is_equal | (np.abs(ours["scores"] - theirs["scores"]) <= tie))
        report.sentences += len(ids)
        report.batch_sizes.add(len(ids))
        report.tokens += int(ours["lengths"].sum())
        report.longest = max(report.longest, int(ours["lengths"].max()))
        is_open = ~np.any(np.isin(ids, search.end_token_ids), axis=-1)
        is_cut = is_open & (ours["lengths"] == inputs["max_length"])
        report.cut += int(is_cut.any(axis=1).sum())
        differences = [_largest_difference(name, ours, theirs, is_equal) for name in NUMBERS]
        differences.append(largest_top_token_difference(ours, theirs, is_equal))
        report.largest_difference = max(report.largest_difference, *differences)
        report_count(report.sentences, total)
    report.longest_agrees = bool(tied[-1][:, 0].all())
    report.best_equal, report.all_equal = _shares(equal)
    report.each_equal = _share(np.concatenate([values.ravel() for values in equal]))
    report.best_tied, report.all_tied = _shares(tied)
    return report


def precision_batches(batches: Iterable[Arrays], search: Search) -> Iterator[Arrays]:
    """Yields the inputs for the comparison of two precisions.

    With random sampling, the maximum length is at most `DRAWN_TOKENS`: after the first different
    token, the further tokens of two samples cannot be compared.

    Args:
        batches: Iterable of dicts of arrays, the inputs of the comparison with Keras.
        search: `Search` with the settings.
    """
    for inputs in batches:
        if search.is_stochastic:
            limit = min(int(inputs["max_length"]), DRAWN_TOKENS)
            inputs = {**inputs, "max_length": np.array(limit, "int32")}
        yield inputs


def _padded_phrases(constraints: np.ndarray, number: int) -> np.ndarray:
    """Returns phrases, in every third batch with padding on each axis, so that sizes differ."""
    more = (0, int(number % 3 == 2))
    return np.pad(constraints, ((0, 0), more, more, more), constant_values=NO_TOKEN)


def _setting(search: Search, name: str, dtype: str, is_other: bool) -> np.ndarray:
    """Returns the value of a setting in a batch: that of the search, or another one."""
    value = search.setting_value(name)
    return np.array(OTHER_VALUES[name](value) if is_other else value, dtype)


def _share(values: "np.ndarray | np.bool") -> float:
    return float(np.mean(values))


def _shares(batches: Iterable[np.ndarray]) -> tuple[float, float]:
    """Returns two shares of sources: the best hypothesis agrees, and all hypotheses agree.

    The batches `(B, N)` may have different numbers N of hypotheses.
    """
    first = np.concatenate([values[:, 0] for values in batches])
    return _share(first), _share(np.concatenate([values.all(axis=1) for values in batches]))


def _batches(count: int) -> Iterator[slice]:
    """Yields slices that divide `count` sentences into batches of different sizes.

    The last batch is the last sentence alone.
    """
    begin = 0
    for size in itertools.cycle(BATCH_SIZES):
        end = min(begin + size, count - 1)
        if begin >= end:
            break
        yield slice(begin, end)
        begin = end
    yield slice(begin, count)


def _of_rows(
    rows: slice, number: int, sources: Sources, search: Search, prefixes: list[list[int]] | None
) -> Arrays:
    """Returns the inputs that have one row for each source, for a slice of the sources."""
    inputs = sources.batch(rows, number)
    if prefixes is not None:
        inputs["prefix_ids"] = pad(prefixes[rows], search.pad_token_id)
    if search.is_stochastic:
        inputs["seeds"] = np.arange(len(sources), dtype="int32")[rows]
    return inputs


def _same_length(first: np.ndarray, second: np.ndarray, pad_token_id: int) -> list[np.ndarray]:
    length = max(first.shape[-1], second.shape[-1])
    return [
        np.pad(ids, ((0, 0), (0, 0), (0, length - ids.shape[-1])), constant_values=pad_token_id)
        for ids in (first, second)
    ]


def _largest_difference(name: str, first: Arrays, second: Arrays, where: np.ndarray) -> float:
    """Returns the largest difference of an output; `where` `(B, N)` selects the hypotheses."""
    if name not in first or not where.any():
        return 0.0
    first_value, second_value = first[name], second[name]
    if name in ("alignments", "token_log_probs"):
        # The number of steps may differ if other hypotheses of the batch have different lengths.
        length = min(first_value.shape[2], second_value.shape[2])
        first_value, second_value = first_value[:, :, :length], second_value[:, :, :length]
    difference = np.abs(first_value - second_value)
    if name == "log_probs":
        # The value is a sum over all tokens. Near -500, float32 numbers are 3e-5 apart.
        difference = difference / (1 + first["lengths"])
    if name in ("scores", "token_log_probs"):
        # Scores are sums over tokens too. The log probability of a forbidden token is -1e9.
        difference = difference / np.maximum(1, np.abs(first_value))
    largest = float(difference[where].max(initial=0))
    # A comparison with NaN is never true, so `max` would hide NaN.
    return float("inf") if np.isnan(largest) else largest
