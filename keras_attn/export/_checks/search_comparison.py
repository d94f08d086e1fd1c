import functools
import math
from collections.abc import Iterable, Iterator, Sequence

import keras
import numpy as np

from keras_attn.export._checks.parity_report import TOLERANCE, ParityReport
from keras_attn.export._checks.parity_sentences import (
    FEW_SENTENCES,
    FEW_TOKENS,
    SENTENCES,
    parity_constraints,
    parity_prefixes,
    parity_rule_inputs,
    parity_token_bias,
)
from keras_attn.export._checks.parity_sources import parity_sources
from keras_attn.export._checks.precision_report import PrecisionReport
from keras_attn.export._checks.token_budget import (
    RESERVED,
    USUAL_SOURCE,
    TokenBudget,
    usual_length,
)
from keras_attn.export._checks.verify import (
    compare_translations,
    precision_batches,
    translated_batches,
)
from keras_attn.export._trace.search_function import SearchFunction
from keras_attn.export._types import Arrays, ExportTokenizer, ParityInputs, Run
from keras_attn_checks.export_options import OnnxPrecision, Sentences
from keras_attn_checks.progress import report_phase

STEPS, SOURCES = 4, 4
"""Numbers of steps and of sources for which the logits are computed."""

IMPOSSIBLE = 5e3
"""Absolute value from which a logit is not a prediction but makes a token impossible."""


class SearchComparison:
    """Comparison of an exported search with Keras.

    A `TokenBudget` limits its time.

    Args:
        function: `SearchFunction`.
        source_tokenizer: Tokenizer of the source texts. Defaults to `None`.
        sentences: List of texts or of lists of ids, see `parity_sentences`. Defaults to `None`.
        parity_inputs: Arrays for a model that does not read ids. Defaults to `None`.
        batch_size: Int, batch size of the file, or `None` if it reads batches of any size. Defaults
            to `None`.

    Attributes:
        budget: `TokenBudget`.
        sources: `IdSources` or `ArraySources`.
        prefixes: List of lists of target ids, one for each source, or `None`.
        constraints: Int32 array of phrases, one row for each source, or `None`.
        token_bias: Dict of arrays, the biases of each source, or `None`.
        rule_inputs: Dict of arrays, values of the inputs of rules.
    """

    def __init__(
        self,
        function: SearchFunction,
        source_tokenizer: ExportTokenizer | None = None,
        sentences: Sentences | None = None,
        parity_inputs: ParityInputs | None = None,
        batch_size: int | None = None,
    ) -> None:
        self._function = function
        num_weights = sum(math.prod(weight.shape) for weight in function.weights)
        self.budget = TokenBudget(num_weights, function.search.num_open_hypotheses, batch_size)
        count = SENTENCES if self.budget.tokens >= FEW_TOKENS else FEW_SENTENCES
        self.sources = parity_sources(function, source_tokenizer, sentences, parity_inputs, count)
        self.prefixes = parity_prefixes(function, len(self.sources))
        self.constraints = parity_constraints(function, len(self.sources))
        self.token_bias = parity_token_bias(function, len(self.sources))
        self.rule_inputs = parity_rule_inputs(function, len(self.sources))

    @functools.cached_property
    def keras(self) -> Run:
        """Function that runs Keras on arrays (keyword arguments) and returns a dict of arrays."""
        return self._function.runner()

    def expected(self) -> Iterator[tuple[Arrays, Arrays]]:
        """Returns an iterator of pairs of inputs and outputs of Keras; see `translated_batches`."""
        function = self._function
        return translated_batches(
            self.keras,
            self.sources,
            function.search,
            self.budget,
            self.prefixes,
            function.runtime_settings,
            self.constraints,
            {**(self.token_bias or {}), **self.rule_inputs},
        )

    def usual_steps(self, num_sources: int, num_batches: int = 1) -> int:
        """Returns the maximum length of hypotheses for a comparison of the texts.

        Args:
            num_sources: Int, number of sources in a batch.
            num_batches: Int, number of batches, for which a part of the budget is spent. Defaults
                to `1`.
        """
        steps = self.budget.steps(num_sources, RESERVED * self.budget.tokens / num_batches)
        return min(self._function.search.max_length, usual_length(USUAL_SOURCE), steps)

    def compare(
        self,
        run: Run,
        expected: Iterable[tuple[Arrays, Arrays]] | None = None,
        tolerance: float = TOLERANCE,
    ) -> ParityReport:
        """Compares a file with Keras.

        Args:
            run: Function that runs the file on arrays (keyword arguments) and returns a dict of
                arrays.
            expected: Results of `expected()`. If `None`, this method calls `expected()`. Defaults
                to `None`.
            tolerance: Float, maximum difference, see `ParityReport.check`. Defaults to `1e-4`.

        Returns:
            A `ParityReport`.

        Raises:
            ExportError: If the file disagrees with Keras.
        """
        report_phase("Comparing the file with Keras")
        expected = list(self.expected() if expected is None else expected)
        inputs, outputs = expected[0]
        size = largest_logit(self._function, inputs, outputs["token_ids"])
        search = self._function.search
        report = compare_translations(expected, run, search, size, len(self.sources))
        report.check(tolerance)
        self._inputs = [inputs for inputs, _ in expected]
        self._scale = report.scale
        return report

    def compare_precision(
        self, precision: OnnxPrecision, float32: Run, runs: Sequence[Run]
    ) -> PrecisionReport:
        """Compares a file of lower precision with the float32 model, after `compare`.

        Args:
            precision: String, name of the precision.
            float32: Function that runs the float32 model.
            runs: List of functions that run the file: on the CPU, and with the rounding of another
                device, if there is one.

        Returns:
            The `PrecisionReport` with the largest difference.

        Raises:
            ExportError: If the results differ too much.
        """
        report_phase(f"Comparing {precision} with float32")
        function = self._function
        batches = list(precision_batches(self._inputs, function.search))
        reports = PrecisionReport.compare(
            precision, float32, runs, batches, function.is_stochastic, self._scale
        )
        for report in reports:
            report.check()
        return max(reports, key=lambda report: report.mean_difference)


def largest_logit(function: SearchFunction, inputs: Arrays, token_ids: np.ndarray) -> float:
    """Returns the largest absolute logit of a model in the first steps of some hypotheses.

    Keras runs the steps. Impossible tokens, whose logits are large negative constants, do not
    count.

    Args:
        function: `SearchFunction`.
        inputs: Dict of arrays, the inputs of the encoder.
        token_ids: Int array `(batch, hypotheses, length)`, the hypotheses.

    Returns:
        Float.
    """
    encoded = function.encode_with_mask(*(inputs[name][:SOURCES] for name in function.inputs))
    search, decoder = function.search, function.search.decoder
    memory = decoder.prepare_memory(**encoded)
    ids = decoder.first_token_ids(memory, search.start_token_id)
    state = decoder.initial_state(memory, 1, False, STEPS)
    best, largest = token_ids[:SOURCES, 0, :STEPS], 0.0
    for step in range(best.shape[1]):
        logits, state = decoder.step(ids, state, memory)  # (B, V)
        sizes = np.abs(keras.ops.convert_to_numpy(logits))
        largest = max(largest, float(sizes[sizes < IMPOSSIBLE].max(initial=0)))
        ids = keras.ops.convert_to_tensor(best[:, step])
    return largest
