import dataclasses
from collections.abc import Sequence
from typing import Self

import numpy as np

from keras_attn.export._export_error import ExportError
from keras_attn.export._types import Arrays, Run
from keras_attn_checks.export_options import OnnxPrecision
from keras_attn_checks.message import Argument, Message
from keras_attn_checks.progress import report_count

TOLERANCES = {"float16": 0.01, "int8": 0.1, "int8-rows": 0.1, "int4": 0.3}
"""Maximum mean difference of the log probability per token. A difference of 0.01, 0.1 or 0.3
changes the probability of a token by about 1, 10 or 30 %."""

ROUNDED = "float16"
"""The precision whose tolerance bounds rounding errors and therefore grows with the logits, as in
`ParityReport`. The tolerances of all others bound the loss of quality."""

LEAST_EQUAL = 0.1
"""Minimum fraction of sampled hypotheses with equal ids. Below it, log probabilities cannot be
compared."""


@dataclasses.dataclass
class PrecisionReport:
    """Difference between a file of lower precision and the float32 model.

    Attributes:
        precision: String, such as `"int8"`.
        sentences: Int, number of sentences.
        best_equal: Float, fraction of the sentences whose best hypotheses have the same ids.
        mean_difference: Float, mean absolute difference of the log probabilities per token of the
            best hypotheses, independent of the length penalty of the search. With random
            sampling, only sentences with equal ids are compared, and the difference is infinite if
            these are less than 10 % of the sentences.
        scale: Float, factor of the tolerance of `"float16"` for large logits, see
            `ParityReport.scale`. Defaults to `1.0`.
    """

    precision: OnnxPrecision
    sentences: int
    best_equal: float
    mean_difference: float
    scale: float = 1.0

    def __str__(self) -> str:
        return (
            f"{self.precision} against float32, {self.sentences} sentences: the same best ids for "
            f"{self.best_equal:.1%}, mean difference of the log probability of a token "
            f"{self.mean_difference:.1e}"
        )

    def check(self) -> None:
        """Raises an error if the file differs too much from the float32 model.

        Raises:
            ExportError: If the mean difference is too large. The message contains the figures.
        """
        tolerance = TOLERANCES[self.precision]
        if self.precision == ROUNDED:
            tolerance *= self.scale
        if not self.mean_difference <= tolerance:
            raise ExportError(
                Message(
                    f"{self.precision} changes the outputs of the model too much. Expected a mean "
                    f"difference up to {tolerance:.2g}. Received: {self}. Export the model with ",
                    Argument("precision", "float32"),
                    ".",
                )
            )

    @classmethod
    def compare(
        cls,
        precision: OnnxPrecision,
        expected: Run,
        runs: Sequence[Run],
        batches: Sequence[Arrays],
        is_stochastic: bool = False,
        scale: float = 1.0,
    ) -> list[Self]:
        """Runs files on the same batches and compares the results with the float32 model.

        Args:
            precision: String, precision of `runs`.
            expected: Function that runs the float32 model. It takes arrays as keyword arguments and
                returns a dict of arrays with `token_ids` `(batch, hypotheses, length)`, `lengths`
                and `log_probs` `(batch, hypotheses)`.
            runs: List of functions like `expected` that run files of lower precision.
            batches: List of dicts of these keyword arguments.
            is_stochastic: Bool, whether hypotheses are sampled at random. Defaults to `False`.
            scale: Float, see the attribute. Defaults to `1.0`.

        Returns:
            List with a `PrecisionReport` for each of `runs`.
        """
        equal: list[list[bool]] = [[] for _ in runs]
        differences: list[list[float]] = [[] for _ in runs]
        for number, batch in enumerate(batches):
            ours = expected(**batch)
            for run, same, different in zip(runs, equal, differences, strict=True):
                theirs = run(**batch)
                different.extend(np.abs(_per_token(ours) - _per_token(theirs)).tolist())
                pairs = zip(_best(ours), _best(theirs), strict=True)
                same.extend(np.array_equal(*pair) for pair in pairs)
            report_count(number + 1, len(batches))
        return [
            cls(precision, len(same), float(np.mean(same)), _mean(same, diff, is_stochastic), scale)
            for same, diff in zip(equal, differences, strict=True)
        ]


def _mean(equal: list[bool], differences: list[float], is_stochastic: bool) -> float:
    """Returns the mean of the differences that can be compared; infinity if these are too few."""
    compared = np.array(differences)[equal] if is_stochastic else differences
    enough = len(compared) >= LEAST_EQUAL * len(equal)
    return float(np.mean(compared)) if enough else float("inf")


def _best(outputs: Arrays) -> list[np.ndarray]:
    """Returns the ids of the best hypotheses, without end and padding."""
    best = zip(outputs["token_ids"][:, 0], outputs["lengths"][:, 0], strict=True)
    return [ids[:length] for ids, length in best]


def _per_token(outputs: Arrays) -> np.ndarray:
    """Returns the log probability per token of the best hypotheses, of shape `(batch,)`."""
    return outputs["log_probs"][:, 0] / np.maximum(outputs["lengths"][:, 0], 1)
