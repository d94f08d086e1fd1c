import warnings
from os import PathLike
from typing import TYPE_CHECKING, Unpack

from keras_attn._models.generation_model import GenerationModel
from keras_attn.export._checks.litert_runner import litert_runner
from keras_attn.export._checks.parity_report import ParityReport
from keras_attn.export._formats.litert_search import LiteRTSearch
from keras_attn.export._options import LiteRTArguments
from keras_attn.export._trace.litert_conversion import SIGNATURE
from keras_attn.export._types import ExportTokenizer
from keras_attn_checks.export_options import LiteRTOptions
from keras_attn_checks.options import list_options

if TYPE_CHECKING:
    pass


@list_options(LiteRTOptions)
def export_litert(
    model: GenerationModel,
    path: str | PathLike[str],
    source_tokenizer: ExportTokenizer | None = None,
    target_tokenizer: ExportTokenizer | None = None,
    **options: Unpack[LiteRTArguments],
) -> ParityReport:
    """Exports a `GenerationModel` to one LiteRT file with its search loop and its vocabularies.

    LiteRT, formerly TensorFlow Lite, is an interpreter for phones and other small devices. The file
    uses only built-in operators of LiteRT. It has the signature `serving_default`:

    - Input `source_ids`: int32 `(batch_size, source)`. The sources need at least one token.
    - Input `max_length`: int32 `()`.
    - Input `length_penalty`: float32 `()`.
    - An input for each name in `runtime_settings`, such as `temperature`: int32 or float32 `()`.
    - Input `prefix_ids`: int32 `(batch_size, prefix)`. Only with `accept_target_prefix=True`.
    - Input `seeds`: int32 `(batch_size,)`. Only for a search with random sampling.
    - Input `constraint_ids`: int32 `(batch_size, phrases, alternatives, tokens)`, padded with -1,
      with at least one phrase, alternative and token. Input `constraints_in_order`: bool `()`. Only
      with `accept_constraints=True`.
    - Inputs `token_bias_ids`, int32, and `token_bias_values`, float32: `(batch_size, biases)`. Only
      with `accept_token_bias=True`.
    - Outputs: `token_ids`, `lengths`, `scores` and `log_probs`. If requested, also `alignments`,
      `token_log_probs`, `top_token_ids`, `top_token_log_probs` and `constraints_met`. See `Search`.

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
        {{options}}

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
    chosen = LiteRTOptions.of(options)
    search = LiteRTSearch(model, path, source_tokenizer, target_tokenizer, chosen)
    decoder = search.function.search.decoder
    if not decoder.can_widen:
        warnings.warn(
            f"The buffers of the search with {type(decoder).__name__} {decoder.name!r} grow in "
            "each step of the LiteRT file, because can_widen=False: the file is slower, and with a "
            "repetition penalty its results can differ from run to run. Set growing_cache=None in "
            "a Transformer decoder; in a decoder class of your own, set can_widen=True, and "
            "implement widen if its state grows (see StepDecoder).",
            stacklevel=2,
        )
    return search.write({SIGNATURE: (search.function, search.signature)}, litert_runner)
