import dataclasses
from typing import Any

from keras_attn.export.checks.cuda_report import CudaReport
from keras_attn.export.checks.precision_report import PrecisionReport
from keras_attn.export.export_error import ExportError

TOLERANCE = 1e-4
"""Largest difference allowed of a score, a log probability or an attention weight."""

LOW_EQUAL, LOW_EQUAL_OF_PRECISION = 0.99, 0.8
"""Shares of equal ids below which the text of a report starts with a warning: of a file and Keras,
and of a file of lower precision and the float32 model. Trained models have higher ones."""

TIE = 1e-3
"""Scores of two hypotheses that may change places: where their prefixes tied within float32
resolution, the order of a sum decided which one was searched further."""


@dataclasses.dataclass
class ParityReport:
    """How well an exported model agrees with Keras.

    Attributes:
        is_stochastic: bool, whether hypotheses are drawn at random. Two that part have no scores in
            common.
        sentences: int, number of sentences translated by both.
        batch_sizes: set of the batch sizes used.
        cut: int, sentences of which a hypothesis was ended by `max_length`.
        best_equal: float, share of the sentences whose best hypothesis has the same ids.
        all_equal: float, share of the sentences with the same hypotheses in the same order.
        each_equal: float, share of the hypotheses with the same ids.
        best_tied, all_tied: floats, the same shares, where hypotheses of other ids count too if
            their scores differ by at most 1e-3.
        largest_difference: float, of scores and the log probabilities of tokens (natural log,
            relative to those below -1), log probabilities of hypotheses for each token (natural
            log) and alignments, over the hypotheses whose ids are equal.
        precision: `PrecisionReport` of a file of lower precision, whose float32 form is what all
            else is about; otherwise `None`.
        cuda: `CudaReport` of the file, if it is an ONNX file; otherwise `None`.

    The text of a report starts with a warning if few ids are equal, although it passed `check`.
    """

    is_stochastic: bool = False
    sentences: int = 0
    batch_sizes: set = dataclasses.field(default_factory=set)
    cut: int = 0
    best_equal: float = 1.0
    all_equal: float = 1.0
    each_equal: float = 1.0
    best_tied: float = 1.0
    all_tied: float = 1.0
    largest_difference: float = 0.0
    precision: PrecisionReport | None = None
    cuda: CudaReport | None = None

    def __str__(self) -> str:
        sizes = ", ".join(str(size) for size in sorted(self.batch_sizes))
        return self._low_agreement() + (
            f"{self.sentences} sentences in batches of {sizes}, {self.cut} cut by max_length: "
            f"the same best ids for {self.best_equal:.1%} ({self.best_tied:.1%} with ties), all "
            f"hypotheses in the same order for {self.all_equal:.1%} ({self.all_tied:.1%}), "
            f"largest difference of a score {self.largest_difference:.1e}"
            + "".join(f"; {part}" for part in (self.precision, self.cuda) if part is not None)
        )

    def entries(self) -> Any:
        """The figures for the metadata of a file: a dictionary that JSON can hold."""
        names = ("sentences", "best_equal", "all_equal", "largest_difference")
        entries = {name: getattr(self, name) for name in names}
        if self.precision is not None:
            entries |= {
                "precision": self.precision.precision,
                "best_equal_to_float32": self.precision.best_equal,
            }
        return entries

    def _low_agreement(self):
        """A warning that the text of a report starts with, or nothing."""
        low = []
        if self.is_stochastic and self.each_equal < LOW_EQUAL:
            low.append(f"{1 - self.each_equal:.1%} of the hypotheses differ from Keras")
        if not self.is_stochastic and self.best_equal < LOW_EQUAL:
            low.append(
                f"{1 - self.best_equal:.1%} of the best hypotheses differ from those of Keras"
            )
        if self.precision is not None and self.precision.best_equal < LOW_EQUAL_OF_PRECISION:
            share = 1 - self.precision.best_equal
            low.append(f"{self.precision.precision} changes {share:.1%} of the best hypotheses")
        return f"WARNING, LOW AGREEMENT: {'; '.join(low)}. Details: " if low else ""

    def check(self) -> None:
        """Refuses an export that disagrees.

        A trained model has few ties, one with random weights has many. So 95 % of the best ids
        must be equal, 99.5 % (best) and 99 % (all hypotheses) equal or tied. Hypotheses that are
        drawn part where a random number lies between two tokens within float32 resolution: of all
        these 95 % must be equal.

        Raises:
            ExportError: with the figures.
        """
        if self.is_stochastic:
            agrees, expected = self.each_equal >= 0.95, "the same ids for 95.0% of all hypotheses"
        else:
            agrees = self.best_equal >= 0.95 and self.best_tied >= 0.995 and self.all_tied >= 0.99
            expected = (
                "the same best ids for 95.0% (99.5% with ties), all hypotheses for 99.0% with ties"
            )
        if not (agrees and self.largest_difference <= TOLERANCE):
            raise ExportError(
                f"The exported model disagrees with Keras. Expected {expected} and differences up "
                f"to {TOLERANCE:.0e}. Received: {self}, {self.each_equal:.1%} of all hypotheses."
            )
