import dataclasses
from typing import Any

import numpy as np

from keras_attn.export.export_error import ExportError

TOLERANCES = {"float16": 0.01, "int8": 0.1, "int8-rows": 0.1, "int4": 0.3}
"""Largest mean difference allowed: 1, 10 or 30 % of the probability of each token."""

LEAST_EQUAL = 0.1
"""Share of the hypotheses that are drawn at random which must be the same, to be compared."""


@dataclasses.dataclass
class PrecisionReport:
    """How far a file of lower precision is from the float32 model.

    Attributes:
        precision: string, such as `"int8"`.
        sentences: int, number of sentences translated by both.
        best_equal: float, share of the sentences whose best hypothesis has the same ids.
        mean_difference: float, mean absolute difference of the best hypotheses' log probabilities
            per token, whatever the length penalty of the search; of hypotheses that are drawn at
            random only where the ids are the same, infinite if that is seldom.
    """

    precision: str
    sentences: int
    best_equal: float
    mean_difference: float

    def __str__(self) -> str:
        return (
            f"{self.precision} against float32, {self.sentences} sentences: the same best ids for "
            f"{self.best_equal:.1%}, mean difference of the log probability of a token "
            f"{self.mean_difference:.1e}"
        )

    def check(self) -> None:
        """Refuses a file that is too far from the float32 model.

        Raises:
            ExportError: with the figures.
        """
        tolerance = TOLERANCES[self.precision]
        if not self.mean_difference <= tolerance:
            raise ExportError(
                f"The model does not bear {self.precision}. Expected a mean difference up to "
                f"{tolerance}. Received: {self}. Export it with precision='float32'."
            )

    @classmethod
    def compare(
        cls, precision: Any, expected: Any, actual: Any, batches: Any, is_stochastic: Any = False
    ) -> Any:
        """Runs both on the same batches.

        Args:
            precision: string, the name of the precision of `actual`.
            expected, actual: callables that take named arrays and return a dictionary of arrays
                with `token_ids` `(batch, hypotheses, length)`, `lengths` and `log_probs` `(batch,
                hypotheses)`.
            batches: iterable of dictionaries of the named arrays.
            is_stochastic: bool, whether the hypotheses are drawn at random. Default False.

        Returns:
            A `PrecisionReport`.
        """
        equal, differences = [], []
        for batch in batches:
            ours, theirs = expected(**batch), actual(**batch)
            differences.extend(np.abs(_per_token(ours) - _per_token(theirs)).tolist())
            pairs = zip(_best(ours), _best(theirs), strict=True)
            equal.extend(np.array_equal(*pair) for pair in pairs)
        compared = np.array(differences)[equal] if is_stochastic else differences
        enough = len(compared) >= LEAST_EQUAL * len(equal)
        mean_difference = float(np.mean(compared)) if enough else float("inf")
        return cls(precision, len(equal), float(np.mean(equal)), mean_difference)


def _best(outputs):
    """The ids of the best hypotheses, without the end and padding."""
    best = zip(outputs["token_ids"][:, 0], outputs["lengths"][:, 0], strict=True)
    return [ids[:length] for ids, length in best]


def _per_token(outputs):
    """Log probability of the best hypotheses `(batch,)`, divided by their tokens."""
    return outputs["log_probs"][:, 0] / np.maximum(outputs["lengths"][:, 0], 1)
