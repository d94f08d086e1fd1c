from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING

from keras_attn.export._types import ExportTokenizer, LiteRTPrecision, Run, SampleInputs, Sentences
from keras_attn.export.checks.litert_runner import litert_runner
from keras_attn.export.checks.parity_report import ParityReport
from keras_attn.export.checks.stepped_runner import stepped_runner
from keras_attn.export.formats.litert_search import write_litert_search
from keras_attn.export.trace.litert_conversion import Signatures
from keras_attn.export.trace.nonempty_steps import NonemptySteps
from keras_attn.export.trace.search_function import SearchFunction
from keras_attn.export.trace.stepped_search import SteppedSearch
from keras_attn.models.generation_model import GenerationModel
from keras_attn.training.image_format import ImageFormat
from keras_attn.training.model_card import ModelCard

if TYPE_CHECKING:
    import tensorflow as tf


def export_litert_steps(
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
    """Exports a `GenerationModel` to one LiteRT file, for programs that run the search loop.

    Such a program (the host) gets each token as soon as it is generated, and can stop between two
    steps. The file has three signatures, the parts of the search that `export_litert` combines with
    a loop. In the table, `STATE` stands for all tensors that the search keeps between two steps:

        start    source_ids, max_length, optionally prefix_ids and seeds -> STATE
        step     STATE, length_penalty -> new values of STATE, partial
        finish   STATE -> token_ids, lengths, scores, log_probs, optionally alignments and
                 token_log_probs

    All other inputs and outputs are described in `export_litert`. The host runs `start`. While not
    all elements of the state tensor `done` are true, it runs `step`. A state tensor `name` that
    changes in a step is an output `next/name`; the host passes it as the input `name` of the next
    step. The output `partial`, int32 of shape `(batch_size, steps)`, is the best hypothesis so far.
    At the end, the host runs `finish`, whose outputs are those of `export_litert`. Each signature
    declares as inputs only the state tensors that it reads.

    The interpreter of LiteRT cannot return empty tensors. So each dynamic axis of a state tensor
    that changes in a step has one additional entry at its end. This entry is 0 and has no meaning.
    (The files of `export_onnx_steps` do not have this entry.)

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
    report = export_litert_steps(translator, "steps.tflite", source_tokenizer, target_tokenizer)
    print(report)
    ```
    """
    return write_litert_search(
        model,
        path,
        source_tokenizer,
        target_tokenizer,
        _three_signatures,
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


def _three_signatures(
    function: SearchFunction, signature: "Sequence[tf.TensorSpec]"
) -> tuple[Signatures, Callable[[bytes], Run]]:
    """Returns the signatures of the parts of the search, see `write_litert_search`."""
    steps = NonemptySteps(SteppedSearch(function, signature))
    signatures = {
        "start": (steps.start, steps.start_signature),
        "step": (steps.step, steps.step_signature),
        "finish": (steps.finish, steps.finish_signature),
    }

    def runner(content: bytes) -> Run:
        return stepped_runner(steps, *(litert_runner(content, name) for name in signatures))

    return signatures, runner
