import warnings
from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING

from keras_attn.export._types import ExportTokenizer, LiteRTPrecision, Run, SampleInputs, Sentences
from keras_attn.export.checks.litert_runner import litert_runner
from keras_attn.export.checks.parity_report import ParityReport
from keras_attn.export.formats.litert_search import write_litert_search
from keras_attn.export.trace.litert_conversion import SIGNATURE, Signatures
from keras_attn.export.trace.search_function import SearchFunction
from keras_attn.models.generation_model import GenerationModel
from keras_attn.training.image_format import ImageFormat
from keras_attn.training.model_card import ModelCard

if TYPE_CHECKING:
    import tensorflow as tf


def export_litert(
    model: GenerationModel,
    path: str | PathLike[str],
    source_tokenizer: ExportTokenizer | None = None,
    target_tokenizer: ExportTokenizer | None = None,
    *,
    alignments: bool | None = None,
    sentences: Sentences | None = None,
    sample_inputs: SampleInputs | None = None,
    precision: LiteRTPrecision = "float32",
    batch_size: int = 1,
    target_prefix: bool = False,
    allow_nonfinite: bool = False,
    tolerance: float = 1e-3,
    card: ModelCard | None = None,
    image_format: ImageFormat | None = None,
) -> ParityReport:
    """Exports a `GenerationModel` to one LiteRT file with its search loop and its vocabularies.

    LiteRT, formerly TensorFlow Lite, is an interpreter for phones and other small devices. The file
    uses only built-in operators of LiteRT. It has the signature `serving_default`:

    - Input `source_ids`: int32 `(batch_size, source)`. The sources need at least one token.
    - Input `max_length`: int32 `()`.
    - Input `length_penalty`: float32 `()`.
    - Input `prefix_ids`: int32 `(batch_size, prefix)`. Only with `target_prefix=True`.
    - Input `seeds`: int32 `(batch_size,)`. Only for a search with random sampling.
    - Outputs: `token_ids`, `lengths`, `scores` and `log_probs`. If requested, also `alignments` and
      `token_log_probs`. See `Search`.

    A model can also have other inputs than ids, such as an image. In the file, these inputs replace
    `source_ids`. They keep their names, shapes and dtypes. The names are the same as in the file
    that `export_onnx` writes.

    The interpreter needs a fixed batch size. The file ends with a zip archive of the tokenizers and
    all other metadata, which the interpreter ignores; see docs/file-format.md. A model with mixed
    precision is exported in float32, the precision of its weights.

    The decoder should have `can_widen=True`, see `StepDecoder`. Otherwise the export warns: LiteRT
    then allocates all buffers of the loop again in each step, so the file is slower. In such a file
    with a repetition penalty, results of LiteRT differed from run to run.

    The export compares the file with Keras on at least 200 sentences before it writes the file. For
    some sentences, `max_length` cuts the hypotheses.

    Args:
        model: `GenerationModel`.
        path: Path of the file; an existing file is replaced.
        source_tokenizer: `SentencePieceTokenizer`, stored in the file. Defaults to `None`.
        target_tokenizer: `SentencePieceTokenizer`, stored in the file. If `None`, the source
            tokenizer is used for source and target. A model whose inputs are not ids has only a
            `target_tokenizer`. Defaults to `None`.
        alignments: Bool, whether the attention weights are outputs. `None` means the value of
            `return_alignments` of the search. Defaults to `None`.
        sentences: List of texts, or list of lists of ids, for the comparison with Keras. Texts
            require `source_tokenizer`. If there are fewer than 200 sentences, random sentences are
            added. Defaults to `None`.
        sample_inputs: Inputs for the comparison with Keras, only for a model that does not read
            ids. Pass them as for `model.predict`: an array, or a dict from the names of the inputs
            to arrays. If `None`, the inputs are random numbers in [0, 1); this requires float
            inputs. Defaults to `None`.
        precision: String, one of the following. Defaults to `"float32"`. A file of another
            precision is also compared with the float32 model, see `PrecisionReport`.
            `"float16"`: the weights have 16 bits, so the file has half the size; the model computes
            in float32. `"int8"`: the weights of matrix products and embeddings have 8 bits, and the
            inputs of matrix products are quantized when the model runs.
        batch_size: Positive int, number of sources in a call. Defaults to `1`.
        target_prefix: Bool, whether the file has the input `prefix_ids`: tokens with which each
            hypothesis must begin, padded on the right. Defaults to `False`.
        allow_nonfinite: Bool, whether weights may be NaN or infinite. The export still fails if a
            compared output is NaN. Defaults to `False`.
        tolerance: Positive float, maximum difference between the file and Keras of a score, a log
            probability or an attention weight, for logits up to 10. For larger logits, it grows in
            proportion, as rounding errors do, see `ParityReport`. Defaults to `1e-3`.
        card: `ModelCard` to store in the file. Defaults to `None`.
        image_format: `ImageFormat` of the input images, stored in the file. Defaults to `None`.

    Returns:
        The `ParityReport` of the comparison with Keras. If `precision` is not `"float32"`, the
        attribute `precision` compares the file with the float32 model.

    Raises:
        ExportError: If LiteRT lacks an operator of the model, the weights have more than 2 GB, or
            the file disagrees with Keras. No file is written, and an existing file is unchanged.
        ImportError: If ai-edge-litert is not installed.
        ValueError: If `model` is not a `GenerationModel`, or an argument does not fit it.

    Example:

    ```python
    report = export_litert(translator, "en-de.tflite", source_tokenizer, target_tokenizer)
    print(report)
    ```
    """
    return write_litert_search(
        model,
        path,
        source_tokenizer,
        target_tokenizer,
        _one_signature,
        alignments=alignments,
        sentences=sentences,
        sample_inputs=sample_inputs,
        precision=precision,
        batch_size=batch_size,
        target_prefix=target_prefix,
        allow_nonfinite=allow_nonfinite,
        tolerance=tolerance,
        card=card,
        image_format=image_format,
    )


def _one_signature(
    function: SearchFunction, signature: "Sequence[tf.TensorSpec]"
) -> tuple[Signatures, Callable[[bytes], Run]]:
    """Returns the signature of the whole search, see `write_litert_search`."""
    decoder = function.search.decoder
    if not decoder.can_widen:
        warnings.warn(
            f"The buffers of the search with {type(decoder).__name__} {decoder.name!r} grow in "
            "each step of the LiteRT file, because can_widen=False: the file is slower, and with a "
            "repetition penalty its results can differ from run to run. Set growing_cache=None in "
            "a Transformer decoder; in a decoder class of your own, set can_widen=True, and "
            "implement widen if its state grows (see StepDecoder).",
            stacklevel=4,
        )
    return {SIGNATURE: (function, signature)}, litert_runner
