import numpy as np

from keras_attn_runtime.errors import ModelFileError

_RANKS = {"token_ids": 3, "lengths": 2, "scores": 2, "log_probs": 2}
_RANKS |= {"alignments": 4, "token_log_probs": 3}  # where the file has them
_INTEGERS = ("token_ids", "lengths")


def check_outputs(outputs, batch, settings):
    """Refuses outputs that no search of an exported file gives.

    Args:
        outputs: dict of arrays by output name, see `ExportedModel.run`.
        batch: int, sentences in the batch.
        settings: `Settings` of the file.

    Raises:
        ModelFileError: if an output has another rank, shape or dtype, if a token id is outside of
            the target vocabulary, or if a length is negative or greater than the number of ids.
    """
    hypotheses = (batch, settings.num_hypotheses)
    for name, value in outputs.items():
        kind = np.integer if name in _INTEGERS else np.floating
        if not isinstance(value, np.ndarray) or not np.issubdtype(value.dtype, kind):
            received = getattr(value, "dtype", type(value).__name__)
            _refuse(name, f"an array of {kind.__name__} type", f"dtype={received}")
        if value.ndim != _RANKS[name] or value.shape[:2] != hypotheses:
            _refuse(
                name,
                f"rank {_RANKS[name]} and shape (batch, num_hypotheses, ...) = "
                f"({batch}, {settings.num_hypotheses}, ...)",
                f"shape={value.shape}",
            )
    target_length = outputs["token_ids"].shape[2]
    for name in ("alignments", "token_log_probs"):
        if name in outputs and outputs[name].shape[2] != target_length:
            _refuse(name, f"{target_length} positions on axis 2", f"shape={outputs[name].shape}")
    _check_range("token_ids", outputs["token_ids"], settings.target.vocabulary_size - 1)
    _check_range("lengths", outputs["lengths"], target_length)


def check_partial(partial, batch, settings):
    """Refuses what is no `(batch, steps)` array of target ids; see `check_outputs`."""
    if not np.issubdtype(partial.dtype, np.integer):
        _refuse("partial", "an array of integer type", f"dtype={partial.dtype}")
    if partial.ndim != 2 or len(partial) != batch:
        _refuse("partial", f"shape (batch, steps) = ({batch}, ...)", f"shape={partial.shape}")
    _check_range("partial", partial, settings.target.vocabulary_size - 1)


def _check_range(name, values, most):
    outside = (values < 0) | (values > most)
    if outside.any():
        _refuse(name, f"values in [0, {most}]", f"value={values[outside][0]}")


def _refuse(name, expected, received):
    raise ModelFileError(
        f"Expected the output {name!r} of the file to have {expected}. Received: {received}. The "
        "file is damaged; export it again."
    )
