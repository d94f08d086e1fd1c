import functools
from typing import Any

from keras_attn.export.checks.parity_report import TOLERANCE
from keras_attn.export.checks.parity_sentences import parity_prefixes
from keras_attn.export.checks.parity_sources import parity_sources
from keras_attn.export.checks.precision_report import PrecisionReport
from keras_attn.export.checks.verify import compare_translations, translated_batches, whole_batches


class SearchComparison:
    """Comparison of an exported search with Keras.

    Args:
        function: `SearchFunction`.
        source_tokenizer: Tokenizer of the source texts. Defaults to `None`.
        sentences: List of texts or of lists of ids, see `parity_sentences`. Defaults to `None`.
        sample_inputs: Arrays for a model that does not read ids. Defaults to `None`.

    Attributes:
        sources: `IdSources` or `ArraySources`.
        prefixes: List of lists of target ids, one for each source, or `None`.
    """

    def __init__(
        self,
        function: Any,
        source_tokenizer: Any = None,
        sentences: Any = None,
        sample_inputs: Any = None,
    ) -> None:
        self._function = function
        self.sources = parity_sources(function, source_tokenizer, sentences, sample_inputs)
        self.prefixes = parity_prefixes(function, len(self.sources))

    @functools.cached_property
    def keras(self) -> Any:
        """Function that runs Keras on arrays (keyword arguments) and returns a dict of arrays."""
        return self._function.runner()

    def expected(self) -> Any:
        """Returns an iterator of pairs of inputs and outputs of Keras; see `translated_batches`."""
        return translated_batches(self.keras, self.sources, self._function.search, self.prefixes)

    def compare(self, run: Any, expected: Any = None, tolerance: float = TOLERANCE) -> Any:
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
        expected = self.expected() if expected is None else expected
        report = compare_translations(expected, run, self._function.search)
        report.check(tolerance)
        return report

    def compare_precision(self, precision: Any, float32: Any, run: Any) -> Any:
        """Compares a file of lower precision with the float32 model.

        Args:
            precision: String, name of the precision.
            float32: Function that runs the float32 model.
            run: Function that runs the file.

        Returns:
            A `PrecisionReport`.

        Raises:
            ExportError: If the results differ too much.
        """
        function = self._function
        batches = whole_batches(self.sources, function.search, self.prefixes)
        report = PrecisionReport.compare(precision, float32, run, batches, function.is_stochastic)
        report.check()
        return report
