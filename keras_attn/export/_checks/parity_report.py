import dataclasses

from keras_attn.export._checks.cuda_report import CudaReport
from keras_attn.export._checks.precision_report import PrecisionReport
from keras_attn.export._export_error import ExportError
from keras_attn.export._report import ExportReport

TOLERANCE = 1e-4
"""Maximum difference of a score, a log probability or an attention weight, for logits up to
`USUAL_LOGIT`."""

USUAL_LOGIT = 10.0
"""Largest absolute value of a logit up to which the tolerance is an absolute difference. For larger
logits, it grows in proportion. A logit is a sum of products in float32, and its rounding error is
relative to the terms of this sum, not to the log probability: at a logit of 130, neighbouring
float32 numbers are 1.5e-5 apart. The tolerance of 1e-4 at a logit of 10 is 84 times the relative
distance of these numbers (2^-23), because the errors of the features, which all layers compute, are
added to the error of the sum."""

LOW_EQUAL, LOW_EQUAL_OF_PRECISION = 0.99, 0.8
"""Minimum fractions of equal hypotheses. Below them, the text of a report starts with a warning.
`LOW_EQUAL` is for the comparison with Keras, `LOW_EQUAL_OF_PRECISION` for the comparison of a lower
precision with float32. Trained models have higher fractions than these."""

TIE = 1e-3
"""Maximum difference of the scores of two hypotheses that count as tied. If two prefixes have equal
scores within the resolution of float32, rounding errors decide which one is continued."""


@dataclasses.dataclass
class ParityReport(ExportReport):
    """Agreement of an exported model with Keras, measured on sentences.

    The exporters of searches in `keras_attn.export` return a `ParityReport`. `str(report)` is a
    summary. If few ids are equal, the summary starts with a warning, even if the report passes
    `check`. Each argument is stored as an attribute of the same name.

    Args:
        is_stochastic: Bool, whether hypotheses are sampled at random. Scores of different samples
            cannot be compared. Defaults to `False`.
        sentences: Int, number of sentences. Defaults to `0`.
        batch_sizes: Set of the batch sizes. Defaults to an empty set.
        tokens: Int, number of the compared target tokens, in all hypotheses. Defaults to `0`.
        longest: Int, number of tokens of the longest hypothesis. Defaults to `0`.
        cut: Int, number of sentences with a hypothesis that ends at `max_length` without an end
            token. Defaults to `0`.
        best_equal: Float in [0, 1], fraction of the sentences whose best hypotheses have the same
            ids. Defaults to `1.0`.
        all_equal: Float in [0, 1], fraction of the sentences with the same hypotheses in the same
            order. Defaults to `1.0`.
        each_equal: Float in [0, 1], fraction of the hypotheses with the same ids. Defaults to
            `1.0`.
        best_tied: Float in [0, 1], like `best_equal`, but hypotheses with different ids also count
            if their scores differ by at most 1e-3. Defaults to `1.0`.
        all_tied: Float in [0, 1], like `all_equal`, but hypotheses with different ids also count if
            their scores differ by at most 1e-3. Defaults to `1.0`.
        longest_agrees: Bool, whether the best hypotheses of the last batch, which has the largest
            `max_length`, are equal or tied. Defaults to `True`.
        largest_difference: Float, largest difference between two hypotheses with equal ids. The
            compared values are scores and log probabilities of tokens (with relative differences
            for values below -1), log probabilities of hypotheses divided by the number of tokens,
            and alignments. Logarithms are natural. Defaults to `0.0`.
        largest_logit: Float, largest absolute value of a logit in the first steps of some
            sentences. Above 10, the tolerance grows in proportion, because rounding errors of
            float32 are relative. Defaults to `0.0`.
        precision: `PrecisionReport` of a file with lower precision. The other arguments then
            compare the float32 model with Keras. Defaults to `None`.
        cuda: `CudaReport` of an ONNX file. Defaults to `None`.

    Example:

    >>> from keras_attn.export import ParityReport
    >>> report = ParityReport(sentences=200, batch_sizes={1, 7, 64}, best_equal=0.995)
    >>> report.check()  # raises an ExportError if the models disagree
    >>> f"{report.best_equal:.1%} of {report.sentences} sentences"
    '99.5% of 200 sentences'
    """

    is_stochastic: bool = False
    sentences: int = 0
    batch_sizes: set[int] = dataclasses.field(default_factory=set)
    tokens: int = 0
    longest: int = 0
    cut: int = 0
    best_equal: float = 1.0
    all_equal: float = 1.0
    each_equal: float = 1.0
    best_tied: float = 1.0
    all_tied: float = 1.0
    longest_agrees: bool = True
    largest_logit: float = 0.0
    precision: PrecisionReport | None = None
    cuda: CudaReport | None = None

    def __str__(self) -> str:
        warning = self.warning()
        return f"{warning}. Details: {self._figures()}" if warning else self._figures()

    def summary(self) -> str:
        text, warning = f"Compared with Keras on {self._figures()}.", self.warning()
        return f"{warning}. {text}" if warning else text

    def _figures(self) -> str:
        *smaller, largest = map(str, sorted(self.batch_sizes) or [0])
        sizes = f"{', '.join(smaller)} and {largest}" if smaller else largest
        weights = "" if self.precision is None else ", with float32 weights"
        return (
            f"{self.sentences} sentences ({self.cut} cut by max_length) in batches of {sizes}"
            f"{weights} ({self.tokens} tokens, at most {self.longest} in a hypothesis): "
            f"the same best ids for {self.best_equal:.1%} ({self.best_tied:.1%} with ties), all "
            f"hypotheses in the same order for {self.all_equal:.1%} ({self.all_tied:.1%}), "
            f"largest difference of a score {self.largest_difference:.1e}"
            + "".join(f"; {part}" for part in (self.precision, self.cuda) if part is not None)
        )

    @property
    def scale(self) -> float:
        """Float, factor of the tolerance: at least 1, see `largest_logit`."""
        return max(1.0, self.largest_logit / USUAL_LOGIT)

    def entries(self) -> dict[str, float | str]:
        """Returns the figures for the metadata of a file as a dict that JSON can represent."""
        names = ("sentences", "best_equal", "all_equal", "largest_difference")
        entries = {name: getattr(self, name) for name in names}
        if self.precision is not None:
            entries |= {
                "precision": self.precision.precision,
                "best_equal_to_float32": self.precision.best_equal,
            }
        return entries

    def warning(self) -> str:
        """Returns a warning if few hypotheses are equal, otherwise an empty string."""
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
        if not low:
            return ""
        return (
            f"WARNING, LOW AGREEMENT: {'; '.join(low)}. Most of the compared sources are random; "
            "score your own test set before you use the file (keras-attn evaluate)"
        )

    def check(self, tolerance: float = TOLERANCE) -> None:
        """Raises an error if the exported model disagrees with Keras.

        95 % of the best hypotheses must have equal ids. 99.5 % of the best hypotheses must be equal
        or tied, and those of the last batch, which has the longest hypotheses. For 99 % of the
        sentences, all hypotheses must be equal or tied. Models with random weights have many ties,
        trained models have few. If hypotheses are sampled, 95 % of them must have equal ids,
        because rounding errors can change a sampled token if the random number is close to the
        boundary between two tokens.

        Args:
            tolerance: Float, maximum difference of a score, a log probability or an attention
                weight, for logits up to 10. For larger logits, the maximum difference is
                `tolerance * largest_logit / 10`. Defaults to `1e-4`.

        Raises:
            ExportError: If the models disagree. The message contains the figures.
        """
        if self.is_stochastic:
            agrees, expected = self.each_equal >= 0.95, "the same ids for 95.0% of all hypotheses"
        else:
            agrees = self.best_equal >= 0.95 and self.best_tied >= 0.995 and self.all_tied >= 0.99
            agrees = agrees and self.longest_agrees
            expected = (
                "the same best ids for 95.0% (99.5% with ties, and for the longest sentence), all "
                "hypotheses for 99.0% with ties"
            )
        tolerance = tolerance * self.scale
        if not (agrees and self.largest_difference <= tolerance):
            logits = f" at logits up to {self.largest_logit:.0f}" if self.scale > 1 else ""
            raise ExportError(
                f"The exported model disagrees with Keras. Expected {expected} and differences up "
                f"to {tolerance:.1g}{logits}. Received: {self}, {self.each_equal:.1%} of all "
                "hypotheses. If only the difference is too large and your task allows it, pass a "
                "larger tolerance."
            )
