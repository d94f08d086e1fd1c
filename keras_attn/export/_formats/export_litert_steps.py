from os import PathLike
from typing import Unpack

from keras_attn._models.generation_model import GenerationModel
from keras_attn._search.search import COUNTS
from keras_attn.export._checks.litert_runner import litert_runner
from keras_attn.export._checks.parity_report import ParityReport
from keras_attn.export._checks.stepped_runner import stepped_runner
from keras_attn.export._formats.litert_search import LiteRTSearch
from keras_attn.export._options import LiteRTArguments
from keras_attn.export._trace.litert_conversion import Signatures
from keras_attn.export._trace.nonempty_steps import NonemptySteps
from keras_attn.export._trace.stepped_search import SteppedSearch
from keras_attn.export._types import ExportTokenizer, Run
from keras_attn_checks.export_options import LiteRTOptions
from keras_attn_checks.message import Argument, Message
from keras_attn_checks.options import list_options


@list_options(LiteRTOptions)
def export_litert_steps(
    model: GenerationModel,
    path: str | PathLike[str],
    source_tokenizer: ExportTokenizer | None = None,
    target_tokenizer: ExportTokenizer | None = None,
    **options: Unpack[LiteRTArguments],
) -> ParityReport:
    """Exports a `GenerationModel` to one LiteRT file, for programs that run the search loop.

    Such a program (the host) gets each token as soon as it is generated, and can stop between two
    steps. The file has three signatures, the parts of the search that `export_litert` combines with
    a loop. In the table, `STATE` stands for all tensors that the search keeps between two steps:

        start    source_ids, max_length, optionally prefix_ids and seeds -> STATE
        step     STATE, length_penalty, optionally the runtime_settings -> new values of STATE,
                 partial
        finish   STATE -> token_ids, lengths, scores, log_probs, optionally alignments,
                 token_log_probs, top_token_ids and top_token_log_probs

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
        {{options}}

    Returns:
        The `ParityReport` of the comparison with Keras. If `precision` is not `"float32"`, the
        attribute `precision` compares the file with the float32 model.

    Raises:
        ExportError: If LiteRT lacks an operator of the model, the weights have more than 2 GB, or
            the file disagrees with Keras. No file is written, and an existing file is unchanged.
        ImportError: If ai-edge-litert is not installed.
        ValueError: If `model` is not a `GenerationModel`, an argument does not fit it, or
            `runtime_settings` contains `beam_width` or `num_hypotheses`.

    Example:

    ```python
    report = export_litert_steps(translator, "steps.tflite", source_tokenizer, target_tokenizer)
    print(report)
    ```
    """
    chosen = LiteRTOptions.of(options)
    counts = [name for name in COUNTS if name in (chosen.runtime_settings or ())]
    if counts:
        raise ValueError(
            Message(
                "Expected ",
                Argument("runtime_settings"),
                f" without {' and '.join(counts)} for the steps of LiteRT. Received: "
                f"{list(chosen.runtime_settings or ())}. Export a file for each value, or use the "
                "formats litert or onnx-steps.",
            )
        )
    search = LiteRTSearch(model, path, source_tokenizer, target_tokenizer, chosen)
    steps = NonemptySteps(SteppedSearch(search.function, search.signature))
    signatures: Signatures = {
        "start": (steps.start, steps.start_signature),
        "step": (steps.step, steps.step_signature),
        "finish": (steps.finish, steps.finish_signature),
    }

    def open_model(content: bytes) -> Run:
        return stepped_runner(steps, *(litert_runner(content, name) for name in signatures))

    return search.write(signatures, open_model)
