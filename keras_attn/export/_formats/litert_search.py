"""Writes the LiteRT file of a search, with one or several signatures."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn._models.generation_model import GenerationModel
from keras_attn.export._checks.check_finite import check_finite
from keras_attn.export._checks.litert_runner import run_in_batches
from keras_attn.export._checks.parity_report import ParityReport
from keras_attn.export._checks.search_comparison import SearchComparison
from keras_attn.export._formats.file_metadata import describe, describe_card
from keras_attn.export._formats.litert_file import refuse_other_file, write_litert_file
from keras_attn.export._require import require, require_utf8
from keras_attn.export._trace.litert_conversion import (
    Signatures,
    convert_to_litert,
    require_small,
    with_batch_size,
)
from keras_attn.export._trace.pause_garbage_collection import pause_garbage_collection
from keras_attn.export._trace.search_function import SearchFunction
from keras_attn.export._types import ExportTokenizer, Run
from keras_attn_checks.export_options import LiteRTOptions
from keras_attn_checks.progress import report_phase


class LiteRTSearch:
    """A search that will be written to a LiteRT file.

    The constructor checks the arguments, so that wrong ones are found before the conversion.

    Args:
        model: See `export_litert`.
        path: See `export_litert`.
        source_tokenizer: See `export_litert`.
        target_tokenizer: See `export_litert`.
        options: `LiteRTOptions`.

    Attributes:
        function: `SearchFunction`, the whole search.
        signature: List with a `tf.TensorSpec` of fixed batch size for each input of `function`.

    Raises:
        ExportError: See `export_litert`.
        ImportError: See `export_litert`.
        ValueError: See `export_litert`.
    """

    def __init__(
        self,
        model: GenerationModel,
        path: str | PathLike[str],
        source_tokenizer: ExportTokenizer | None,
        target_tokenizer: ExportTokenizer | None,
        options: LiteRTOptions,
    ) -> None:
        self._path, self._options = path, options
        require("tensorflow", "ai_edge_litert")
        require_utf8(path)
        refuse_other_file(Path(path))
        report_phase("Copying the layers")
        tokenizers = source_tokenizer, target_tokenizer
        self.function = SearchFunction(
            model,
            *tokenizers,
            options.alignments,
            options.accept_target_prefix,
            options.runtime_settings,
            options.accept_constraints,
            options.accept_token_bias,
            fixed_counts=True,
        )
        require_small(self.function.weights)
        check_finite(self.function.weights, options.allow_nonfinite)
        self._comparison = SearchComparison(
            self.function,
            source_tokenizer,
            options.parity_sentences,
            options.parity_inputs,
            options.batch_size,
        )
        self._metadata = describe(
            self.function, *tokenizers, options.model_card, options.image_format
        )
        self.signature = [
            with_batch_size(spec, options.batch_size) for spec in self.function.signature
        ]

    def write(self, signatures: Signatures, open_model: Callable[[bytes], Run]) -> ParityReport:
        """Writes the file and compares it with Keras.

        Args:
            signatures: Dict from the name of each signature of the file to a function and its
                inputs.
            open_model: Function that returns a runner for the bytes of a model. The runner takes
                arrays as keyword arguments and returns a dict of arrays.

        Returns:
            The `ParityReport` of the comparison with Keras.

        Raises:
            ExportError: See `export_litert`.
        """
        options, weights = self._options, self.function.weights
        pad_token_id = self.function.search.pad_token_id

        def runner(content: bytes) -> Run:
            run = open_model(content)
            return lambda **inputs: run_in_batches(run, options.batch_size, inputs, pad_token_id)

        with atomic_replace(self._path, is_file=True) as partial, pause_garbage_collection():
            report_phase("Converting to LiteRT")
            content = convert_to_litert(signatures, weights)
            report = self._comparison.compare(runner(content), tolerance=options.tolerance)
            if options.precision != "float32":
                report_phase(f"Converting to LiteRT with the precision {options.precision}")
                content = convert_to_litert(signatures, weights, options.precision)
                report.precision = self._comparison.compare_precision(
                    options.precision, self._comparison.keras, [runner(content)]
                )
            report_phase("Writing the file")
            metadata = self._metadata | describe_card(options.model_card, report)
            write_litert_file(partial, content, metadata)
        return report
