import json
import math
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import NotRequired, TypedDict, Unpack

import numpy as np

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn._models.generation_model import GenerationModel
from keras_attn._models.vocabulary_side import Side, source_side
from keras_attn._models.with_search import with_search
from keras_attn.export._checks.onnx_runner import open_session
from keras_attn.export._checks.parity_report import ParityReport
from keras_attn.export._checks.parity_sentences import parity_prefixes
from keras_attn.export._checks.parity_sources import pad
from keras_attn.export._checks.search_comparison import SearchComparison
from keras_attn.export._export_error import ExportError
from keras_attn.export._formats.export_onnx import export_onnx
from keras_attn.export._formats.external_data import require_one_file
from keras_attn.export._formats.file_metadata import check_text_tokenizers, describe_card
from keras_attn.export._options import OnnxTextArguments
from keras_attn.export._require import require
from keras_attn.export._trace import source_characters
from keras_attn.export._trace.search_function import SearchFunction
from keras_attn.export._trace.text_graph import MAX_CHARACTERS, add_text
from keras_attn.export._types import Run
from keras_attn.text._sentencepiece_tokenizer import SentencePieceTokenizer
from keras_attn_checks.export_options import OnnxTextOptions
from keras_attn_checks.message import Argument, Message
from keras_attn_checks.options import list_options
from keras_attn_checks.output_path import ONNX_BEGINNING
from keras_attn_checks.progress import report_count, report_phase

BATCH_SIZE = 16
"""Number of texts in a batch of the comparison."""

PROGRAM = Path(__file__).with_name("run_text_model.py")

ODD_TEXTS = ["", "  ", " a  b ", "\u3000", "ﬁ ① 👩‍👩‍👧", "x\ny"]
"""Additional texts for the comparison: empty, spaces, normalization, unknown characters."""


@list_options(OnnxTextOptions)
def export_onnx_text(
    model: GenerationModel,
    path: str | PathLike[str],
    source_tokenizer: SentencePieceTokenizer,
    target_tokenizer: SentencePieceTokenizer | None = None,
    **options: Unpack[OnnxTextArguments],
) -> ParityReport:
    """Exports a `GenerationModel` to one ONNX file that maps texts to texts.

    The file contains the model of `export_onnx`, and the tokenizers as operators of
    onnxruntime-extensions. A session must register the operators of that package.

    Inputs:

    - `text`: string `(batch,)`. The other inputs are optional.
    - `max_length`: int32 `()`.
    - `length_penalty`: float32 `()`.
    - An input for each name in `runtime_settings`, such as `temperature`: int32 or float32 `()`.
    - `target_prefix`: string `(batch,)`, or `(1,)` to use one prefix for all texts. Only with
      `accept_target_prefix=True`.
    - `seeds`: int32 `(batch,)`, or `(1,)` to use one seed for all texts. Only for a search with
      random sampling. The default is 0.

    Outputs:

    - `translations`: string `(batch, hypotheses)`, best first. The hypotheses of a text without
      tokens are empty.
    - `scores` and `log_probs`: float32 `(batch, hypotheses)`. There are no `token_log_probs`
      and no most probable tokens.

    The export writes the file only if it passes all checks of `export_onnx`. In addition, the file
    must return the same texts as the file of `export_onnx` with separate tokenizers. This check
    runs in a process without TensorFlow.

    Args:
        model: `GenerationModel`.
        path: Path of the file; an existing file is replaced.
        source_tokenizer: `SentencePieceTokenizer`.
        target_tokenizer: `SentencePieceTokenizer`. If `None`, the source tokenizer is used for
            source and target. Defaults to `None`.
        {{options}}

    Returns:
        The `ParityReport` of the comparison with Keras on ids, without tokenizers.

    Raises:
        ExportError: If a check fails. No file is written, and an existing file is unchanged.
        ImportError: If tf2onnx, onnx, onnxruntime or onnxruntime-extensions is not installed.
        ValueError: If `model` is not a `GenerationModel`, or an argument does not fit it.

    Example:

    ```python
    export_onnx_text(translator, "en-de.text.onnx", source_tokenizer, target_tokenizer)

    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
    session = onnxruntime.InferenceSession("en-de.text.onnx", options)
    session.run(["translations"], {"text": np.array(["A man sleeps."], object)})
    ```
    """
    chosen = OnnxTextOptions.of(options)
    require("onnx", "onnxruntime", "onnxruntime_extensions")
    check_text_tokenizers(source_tokenizer, target_tokenizer)
    import onnx

    target_tokenizer = target_tokenizer or source_tokenizer
    tokenizers = (source_tokenizer, target_tokenizer)
    function = SearchFunction(model, *tokenizers)
    require_one_file(function.weights)
    if function.rule_inputs:
        raise ValueError(
            "Expected a search whose rules have no inputs for a file of strings. Received: rules "
            f"with the inputs {list(function.rule_inputs)}. Export with `export_onnx`, and use "
            "keras-attn-runtime."
        )
    source = source_side(function.encoder, function.search, source_tokenizer)
    max_characters = source_characters.max_source_characters(source, chosen.max_source_characters)
    if max_characters > MAX_CHARACTERS:
        raise ValueError(
            Message(
                "Expected ",
                Argument("max_source_characters"),
                f" of at most {MAX_CHARACTERS} for a file of strings. Received: ",
                Argument("max_source_characters", max_characters),
                ". For longer texts, export with `export_onnx` and use keras-attn-runtime.",
            )
        )
    if function.search.return_token_log_probs or function.search.return_top_tokens:
        # Callers of the file do not see the tokens.
        model = with_search(model, return_token_log_probs=False, return_top_tokens=0)
    with atomic_replace(path, is_file=True, first_bytes=ONNX_BEGINNING) as partial:
        report = export_onnx(
            model,
            partial,
            *tokenizers,
            alignments=False,
            parity_sentences=chosen.parity_sentences,
            precision=chosen.precision,
            accept_target_prefix=chosen.accept_target_prefix,
            runtime_settings=chosen.runtime_settings,
            allow_nonfinite=chosen.allow_nonfinite,
            tolerance=chosen.tolerance,
        )
        function = SearchFunction(
            model,
            *tokenizers,
            accept_target_prefix=chosen.accept_target_prefix,
            runtime_settings=chosen.runtime_settings,
        )
        comparison = SearchComparison(function, source_tokenizer, chosen.parity_sentences)
        # Byte fallback may decode a NUL character, at which the operators would end the text.
        texts = [
            text.replace("\0", "") for text in _decode(source_tokenizer, comparison.sources.ids)
        ]
        texts = [*ODD_TEXTS, *texts]
        prefixes = parity_prefixes(function, len(texts))
        if prefixes is not None:
            prefixes = [text.replace("\0", "") for text in _decode(target_tokenizer, prefixes)]
        limit = comparison.usual_steps(BATCH_SIZE, math.ceil(len(texts) / BATCH_SIZE))
        limit = None if limit == function.search.max_length else limit
        batches = list(_batches(texts, limit, prefixes, function.is_stochastic))
        report_phase("Translating texts with the file of token ids")
        run = open_session(partial)
        expected = list(_translate(run, batches, *tokenizers, function, source))
        report_phase("Adding the tokenizers to the file")
        text_model = onnx.load(partial)
        add_text(text_model, *tokenizers, function, max_characters)
        del text_model.metadata_props[:]  # the tokenizers are operators of the file, not metadata
        onnx.helper.set_model_props(text_model, describe_card(chosen.model_card, report))
        onnx.checker.check_model(text_model, full_check=True)
        onnx.save(text_model, partial)
        report_phase("Comparing the texts")
        _check_texts(expected, _run(partial, batches))
    return report


class TextBatch(TypedDict):
    """Inputs of a text model for some texts."""

    text: list[str]
    max_length: NotRequired[int]
    target_prefix: NotRequired[list[str]]
    seeds: NotRequired[list[int]]


def _batches(
    texts: list[str],
    limit: int | None = None,
    prefixes: list[str] | None = None,
    is_stochastic: bool = False,
    size: int = BATCH_SIZE,
) -> Iterator[TextBatch]:
    """Yields the inputs of all texts in batches.

    Every second batch has a `max_length` that cuts some hypotheses. The others have the
    `max_length` `limit`, or none if `limit` is `None`. If there are prefixes, the
    batches have in turn one prefix for each text, one prefix for all texts, and no prefix. The same
    is true of seeds if the search samples.
    """
    for number, begin in enumerate(range(0, len(texts), size)):
        batch: TextBatch = {"text": texts[begin : begin + size]}
        if number % 2 == 1:
            batch["max_length"] = min(5, limit or 5)
        elif limit is not None:
            batch["max_length"] = limit
        if prefixes is not None and number % 3 < 2:
            own = prefixes[begin : begin + size]
            batch["target_prefix"] = own[-1:] if number % 3 else own
        if is_stochastic and number % 3 < 2:
            seeds = list(range(begin, begin + len(batch["text"])))
            batch["seeds"] = seeds[-1:] if number % 3 else seeds
        yield batch


def _translate(
    run: Run,
    batches: Sequence[TextBatch],
    source_tokenizer: SentencePieceTokenizer,
    target_tokenizer: SentencePieceTokenizer,
    function: SearchFunction,
    source: Side,
) -> Iterator[list[list[str]]]:
    """Yields the translations of each batch from the model of `export_onnx` and the tokenizers."""
    search = function.search
    for number, batch in enumerate(batches):
        report_count(number + 1, len(batches))
        sentences, others = source_tokenizer.encode(batch["text"]), {}
        if function.accept_target_prefix:
            ids = pad(
                target_tokenizer.encode(batch.get("target_prefix", [""])), search.pad_token_id
            )
            others["prefix_ids"] = np.broadcast_to(ids, (len(sentences), ids.shape[1]))
        if function.is_stochastic:
            seeds = np.array(batch.get("seeds", [0]), "int32")
            others["seeds"] = np.broadcast_to(seeds, len(sentences))
        outputs = run(
            source_ids=pad(
                [
                    source.ended_row(source.with_special_ids(ids[: source.max_length]))
                    for ids in sentences
                ],
                source.pad_token_id,
            ),
            max_length=np.array(batch.get("max_length", search.max_length), "int32"),
            length_penalty=np.array(search.length_penalty, "float32"),
            **{
                name: np.array(search.setting_value(name), dtype)
                for name, dtype in function.runtime_settings.items()
            },
            **others,
        )
        yield [
            _decode(target_tokenizer, [ids[:length] for ids, length in zip(*row, strict=True)])
            if sentence or function.accepts_empty_texts
            else [""] * len(row[0])
            for sentence, *row in zip(
                sentences, outputs["token_ids"], outputs["lengths"], strict=True
            )
        ]


def _decode(tokenizer: SentencePieceTokenizer, rows: Iterable[Iterable[int]]) -> list[str]:
    """Detokenizes ids. The model may have more ids than the tokenizer."""
    size, unknown = tokenizer.vocabulary_size, tokenizer.unknown_token_id
    return tokenizer.decode([[token if token < size else unknown for token in row] for row in rows])


def _run(path: Path, batches: Sequence[TextBatch]) -> list[list[list[str]]]:
    """Returns the translations of each batch from the file with tokenizers."""
    process = subprocess.run(
        [sys.executable, "-P", str(PROGRAM), str(path)],
        input=json.dumps(batches),
        capture_output=True,
        text=True,
    )
    if process.returncode != 0:
        raise ExportError(f"ONNX Runtime cannot run the text model: {process.stderr.strip()}")
    return json.loads(process.stdout)


def _check_texts(expected: Iterable[list[list[str]]], actual: Iterable[list[list[str]]]) -> None:
    for ours, theirs in zip(expected, actual, strict=True):
        for each, other in zip(ours, theirs, strict=True):
            if each != other:
                raise ExportError(
                    "The text model disagrees with the model of token ids. Expected the texts "
                    f"{each}. Received: {other}."
                )
