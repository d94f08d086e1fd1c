from collections.abc import Mapping
from typing import NoReturn, NotRequired, TypedDict, cast

import numpy as np

from keras_attn_runtime._array_types import Array, Floats, Integers
from keras_attn_runtime._errors import ModelFileError
from keras_attn_runtime._file_format import Settings

_RANKS = {
    **{"token_ids": 3, "lengths": 2, "scores": 2, "log_probs": 2},
    **{"alignments": 4, "token_log_probs": 3, "constraints_met": 3},  # optional outputs
    **{"top_token_ids": 4, "top_token_log_probs": 4},
}
_INTEGERS = dict.fromkeys(("token_ids", "lengths", "top_token_ids"), np.integer)
_TYPES = {**_INTEGERS, "constraints_met": np.bool_}


class SearchOutputs(TypedDict):
    """Arrays that a search returns for a batch, see `ExportedModel.run`."""

    token_ids: Integers
    lengths: Integers
    scores: Floats
    log_probs: Floats
    alignments: NotRequired[Floats]
    token_log_probs: NotRequired[Floats]
    constraints_met: NotRequired[Array]
    top_token_ids: NotRequired[Integers]
    top_token_log_probs: NotRequired[Floats]


def check_outputs(
    outputs: Mapping[str, object], hypotheses: tuple[int, int], settings: Settings
) -> SearchOutputs:
    """Raises an error if a search output has a wrong shape, dtype or value.

    Args:
        outputs: dict from output names to arrays, see `ExportedModel.run`.
        hypotheses: tuple of two ints, the numbers of sentences and of hypotheses of each sentence.
        settings: `Settings` in the file.

    Returns:
        `outputs`, unchanged.

    Raises:
        ModelFileError: if an output has a wrong rank, shape or dtype, if a token id is outside the
            target vocabulary, or if a length is negative or greater than the number of ids.
    """
    for name, value in outputs.items():
        kind = _TYPES.get(name, np.floating)
        if not isinstance(value, np.ndarray) or not np.issubdtype(value.dtype, kind):
            received = getattr(value, "dtype", type(value).__name__)
            _refuse(name, f"an array of {kind.__name__} type", f"dtype={received}")
        if value.ndim != _RANKS[name] or value.shape[:2] != hypotheses:
            _refuse(
                name,
                f"rank {_RANKS[name]} and shape (batch, num_hypotheses, ...) = "
                f"({hypotheses[0]}, {hypotheses[1]}, ...)",
                f"shape={value.shape}",
            )
    checked = cast(SearchOutputs, outputs)
    target_length = checked["token_ids"].shape[2]
    for name in ("alignments", "token_log_probs", "top_token_ids", "top_token_log_probs"):
        value = checked.get(name)
        if value is not None and value.shape[2] != target_length:
            _refuse(name, f"{target_length} positions on axis 2", f"shape={value.shape}")
    largest_id = settings.target.vocabulary_size - 1
    _check_range("token_ids", checked["token_ids"], largest_id)
    if "top_token_ids" in checked and "top_token_log_probs" in checked:
        top_token_ids, log_probs = checked["top_token_ids"], checked["top_token_log_probs"]
        if top_token_ids.shape != log_probs.shape:
            expected = f"the shape of 'top_token_ids', {top_token_ids.shape}"
            _refuse("top_token_log_probs", expected, f"shape={log_probs.shape}")
        _check_range("top_token_ids", top_token_ids, largest_id)
    _check_range("lengths", checked["lengths"], target_length)
    return checked


def check_partial(partial: Array, batch: int, settings: Settings) -> None:
    """Raises an error unless `partial` is an array `(batch, steps)` of target ids."""
    if not np.issubdtype(partial.dtype, np.integer):
        _refuse("partial", "an array of integer type", f"dtype={partial.dtype}")
    if partial.ndim != 2 or len(partial) != batch:
        _refuse("partial", f"shape (batch, steps) = ({batch}, ...)", f"shape={partial.shape}")
    _check_range("partial", partial, settings.target.vocabulary_size - 1)


def _check_range(name: str, values: Array, most: int) -> None:
    outside = (values < 0) | (values > most)
    if outside.any():
        _refuse(name, f"values in [0, {most}]", f"value={values[outside][0]}")


def _refuse(name: str, expected: str, received: str) -> NoReturn:
    raise ModelFileError(
        f"Expected the output {name!r} of the file to have {expected}. Received: {received}. The "
        "file is damaged; export it again."
    )
