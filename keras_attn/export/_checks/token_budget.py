import dataclasses
import math

WORK = 1.5e12
"""Number of products of a weight and a token that a comparison computes. A translator of 74 million
weights (opus-mt) computes 20,000 tokens, which takes about half a minute on two cores."""

LEAST, MOST = 4_000, 400_000
"""Smallest and largest number of tokens, for models of any size."""

LEAST_ROWS = 32
"""Number of hypotheses below which a step does not get faster, because it reads all weights."""

LEAST_STEPS = 2
"""Smallest maximum length of a hypothesis."""

RESERVED = 0.25
"""Fraction of the tokens for the last source, which is decoded alone up to `max_length`."""

USUAL_FACTOR, USUAL_MARGIN = 2, 10
"""A usual hypothesis has at most `2 * source_length + 10` tokens. Only the last source of a
comparison is decoded further: hypotheses of random sources often have no end."""

USUAL_SOURCE = 16
"""Length of a source without tokens, such as an image, for the usual length of its hypotheses."""


@dataclasses.dataclass(frozen=True)
class TokenBudget:
    """Number of tokens that the comparison of an export with Keras computes.

    The budget counts the tokens of the sources, and in each step of the search one token for each
    open hypothesis. It bounds the time of a comparison, whatever the beam width and the
    `max_length` of the search are. The budget depends only on the model and not on a clock, so
    two exports of a model compare the same hypotheses.

    Args:
        num_weights: Int, number of weights of the model.
        num_open_hypotheses: Int, number of open hypotheses of a source, such as the beam width.
        batch_size: Int, number of sources in each call of the exported file, or `None` if the file
            reads batches of any size. Defaults to `None`.
    """

    num_weights: int
    num_open_hypotheses: int
    batch_size: int | None = None

    @property
    def tokens(self) -> int:
        """Int, number of tokens."""
        return int(min(max(WORK / max(self.num_weights, 1), LEAST), MOST))

    def rows(self, num_sources: int) -> int:
        """Returns the number of tokens that a step counts for a batch of sources."""
        if self.batch_size is None:
            return max(num_sources * self.num_open_hypotheses, LEAST_ROWS)
        calls = math.ceil(num_sources / self.batch_size)
        return calls * max(self.batch_size * self.num_open_hypotheses, LEAST_ROWS)

    def steps(self, num_sources: int, tokens: float, source_length: int = 0) -> int:
        """Returns the number of steps that some tokens of the budget allow for a batch.

        Args:
            num_sources: Int, number of sources in the batch.
            tokens: Float, number of tokens for the batch.
            source_length: Int, number of tokens of the longest source. Defaults to `0`.

        Returns:
            Int of at least `LEAST_STEPS`.
        """
        left = tokens - num_sources * source_length
        return max(LEAST_STEPS, int(left // self.rows(num_sources)))


def usual_length(source_length: int) -> int:
    """Returns the number of tokens that most hypotheses for a source do not exceed."""
    return USUAL_FACTOR * source_length + USUAL_MARGIN
