import dataclasses
import importlib
import json
import types
from collections.abc import Container, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

import keras
import numpy as np

from keras_attn._encoders.transformer_encoder import TransformerEncoder
from keras_attn._files.atomic_replace import atomic_replace
from keras_attn._models.generation_model import GenerationModel, check_generation_model
from keras_attn._search.search import Search
from keras_attn.export._checks.check_finite import check_finite
from keras_attn.export._checks.parity_report import USUAL_LOGIT
from keras_attn.export._export_error import ExportError
from keras_attn.export._formats.ctranslate2_search import translate_arguments
from keras_attn.export._formats.ctranslate2_spec import check_model, model_spec, vocabulary_sizes
from keras_attn.export._formats.ctranslate2_vocabulary import UNKNOWN, special_tokens, vocabulary
from keras_attn.export._options import CTranslate2Arguments
from keras_attn.export._report import ExportReport
from keras_attn.export._types import ExportTokenizer
from keras_attn_checks.export_options import CTranslate2Options
from keras_attn_checks.options import list_options
from keras_attn_checks.progress import report_phase

REPORT = "export.txt"
TOLERANCE = 1e-3
"""Maximum difference between the log probabilities of a token in CTranslate2 and Keras, in
float32."""


@dataclasses.dataclass
class CTranslate2Report(ExportReport):
    """Result of `export_ctranslate2`.

    Args:
        num_sources: Int, number of random sources for the comparison with Keras.
        arguments: Dict, arguments of CTranslate2's `Translator.translate_batch` that correspond to
            the settings of the model's search.
        left_out: Tuple of strings, settings of the search that CTranslate2 does not have. Defaults
            to `()`.
        largest_difference: Float, largest difference between the log probabilities of a token in
            CTranslate2 and Keras. Defaults to `0.0`.

    Example:

    >>> from keras_attn.export import CTranslate2Report
    >>> report = CTranslate2Report(16, {"beam_size": 4, "length_penalty": 1.0})
    >>> str(report).split(". ")[1]
    'The search is translate_batch(..., beam_size=4, length_penalty=1.0).'
    """

    num_sources: int
    arguments: dict[str, Any]
    left_out: tuple[str, ...] = ()

    def summary(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        text = (
            f"Compared with Keras on {self.num_sources} random sources: largest difference of the "
            f"log probability of a token {self.largest_difference:.1e}. The search is "
            f"translate_batch(..., {arguments})."
        )
        if self.left_out:
            text += f" CTranslate2 does not have: {', '.join(self.left_out)}."
        return text


@list_options(CTranslate2Options)
def export_ctranslate2(
    model: GenerationModel,
    path: str | PathLike[str],
    source_tokenizer: ExportTokenizer | None = None,
    target_tokenizer: ExportTokenizer | None = None,
    **options: Unpack[CTranslate2Arguments],
) -> CTranslate2Report:
    """Writes a Transformer as a model of [CTranslate2](https://github.com/OpenNMT/CTranslate2).

    The directory has `model.bin`, `config.json` and the vocabularies. The model must have a
    `TransformerEncoder` and a `TransformerDecoder` with sinusoidal positions, learned positions or
    the relative position bias of T5. Examples are `transformer_seq2seq` and converted MarianMT,
    BART, NLLB and T5 models. For other models, the error names the reason. The directory does not
    contain the search. The report has the arguments of `translate_batch` for the search of the
    model.

    The tokens are the pieces of the tokenizers. Without tokenizers, they are the ids as decimal
    numbers, with `<pad>`, `<s>`, `</s>` and `<unk>` for special ids. CTranslate2 adds the start and
    end tokens of the source. The export compares log probabilities with Keras before it writes the
    directory.

    Args:
        model: `GenerationModel`.
        path: Path of the directory. An earlier export is replaced.
        source_tokenizer: Tokenizer of the sources. If `None`, the tokens are ids. Defaults to
            `None`.
        target_tokenizer: Tokenizer of the targets. If `None`, the source tokenizer is used for
            source and target. Defaults to `None`.
        {{options}}

    Returns:
        `CTranslate2Report`.

    Raises:
        ExportError: If CTranslate2 cannot represent the model, weights are not finite, or the log
            probabilities in float32 differ from those of Keras.
        FileExistsError: If the path is a directory with other content.
        ImportError: If ctranslate2 is not installed.
        ValueError: If an argument is out of range.

    Example:

    ```python
    export_ctranslate2(translator, "ct2", tokenizer)

    translator = ctranslate2.Translator("ct2")
    pieces = tokenizer.pieces(tokenizer.encode(["Good morning."])[0])
    translator.translate_batch([pieces], beam_size=4)[0].hypotheses[0]
    ```
    """
    chosen = CTranslate2Options.of(options)
    check_generation_model(model)
    ctranslate2 = _ctranslate2()
    check_finite(model.weights, chosen.allow_nonfinite)
    search = model.search
    encoder, decoder = check_model(model.encoder, search.decoder)
    report_phase("Copying the weights")
    spec = model_spec(encoder, decoder, chosen.num_positions)
    tokenizers = (source_tokenizer, target_tokenizer or source_tokenizer)
    tokens = _set_vocabularies(spec, encoder, search, tokenizers)
    arguments, left_out = translate_arguments(search, tokens)
    with atomic_replace(path, is_file=False) as partial:
        partial.mkdir()
        spec.validate()
        spec.optimize(None if chosen.precision == "float32" else chosen.precision)
        report_phase("Writing the model")
        spec.save(str(partial))
        report_phase("Comparing the model with Keras")
        difference, largest = _compare(ctranslate2, partial, encoder, search, chosen.num_sources)
        tolerance = TOLERANCE * max(1.0, largest / USUAL_LOGIT)
        if chosen.precision == "float32" and not difference <= tolerance:
            raise ExportError(
                f"Expected log probabilities in CTranslate2 that differ by at most {tolerance:.1g} "
                f"from those of Keras. Received: a largest difference of {difference:.1e}. This is "
                "a bug in the export; please report it."
            )
        report = CTranslate2Report(
            chosen.num_sources, arguments, tuple(left_out), largest_difference=difference
        )
        (partial / REPORT).write_text(f"{report}\n", encoding="utf-8")
    return report


def _set_vocabularies(
    spec: Any,
    encoder: TransformerEncoder,
    search: Search,
    tokenizers: Sequence[ExportTokenizer | None],
) -> list[str]:
    """Adds the vocabularies to the specification, and the special tokens to its configuration.

    Returns the list of the target tokens.
    """
    sizes = vocabulary_sizes(encoder, search.decoder)
    ids = (
        {
            "</s>": encoder.end_token_id,
            "<s>": encoder.start_token_id,
            "<pad>": encoder.pad_token_id,
        },
        {
            "</s>": search.end_token_id,
            "<pad>": search.pad_token_id,
            "<s>": search.start_token_id,
        },
    )
    found = [special_tokens(*each) for each in zip(tokenizers, ids, strict=True)]
    tables = []
    for tokenizer, size, names, own in zip(tokenizers, sizes, found, ids, strict=True):
        special = {own[name]: token for name, token in names.items()}
        tables.append(vocabulary(tokenizer, size, special))
    spec.register_source_vocabulary(tables[0])
    spec.register_target_vocabulary(tables[1])
    source, target = found
    config = spec.config
    config.unk_token = _unknown(tokenizers, tables)
    config.eos_token = target["</s>"]
    config.decoder_start_token = target["<s>"]
    config.add_source_eos = "</s>" in source
    config.add_source_bos = "<s>" in source
    config.bos_token = source.get("<s>", target["<s>"])
    if source.get("</s>", config.eos_token) != config.eos_token:
        raise ExportError(
            "Expected the same end token in source and target, because a CTranslate2 model has "
            f"only one. Received: {source['</s>']!r} and {config.eos_token!r}. Use tokenizers that "
            "have the same end token."
        )
    return tables[1]


def _unknown(tokenizers: Sequence[ExportTokenizer | None], tables: Sequence[list[str]]) -> str:
    """Returns the token that CTranslate2 reads instead of tokens outside of the vocabulary."""
    id_: int | None = getattr(tokenizers[0], "unknown_token_id", None)
    if id_ is not None and tables[0][id_] in tables[1]:
        return tables[0][id_]
    return UNKNOWN if UNKNOWN in tables[0] else tables[0][3 if len(tables[0]) > 3 else 0]


def _compare(
    ctranslate2: types.ModuleType,
    folder: Path,
    encoder: TransformerEncoder,
    search: Search,
    count: int,
) -> tuple[float, float]:
    """Compares log probabilities in CTranslate2 and in Keras.

    Returns the largest difference and the largest absolute logit.
    """
    decoder = search.decoder
    random = np.random.default_rng(0)
    sizes = vocabulary_sizes(encoder, decoder)
    special = {encoder.pad_token_id, encoder.start_token_id, encoder.end_token_id}
    sources = _rows(random, count, sizes[0], special)
    special = {search.pad_token_id, search.start_token_id, search.end_token_id}
    targets = _rows(random, count, sizes[1], special)
    names = [_read_tokens(folder, side) for side in ("source", "target")]
    texts = [
        [[table[id_] for id_ in row] for row in rows]
        for rows, table in zip((sources, targets), names, strict=True)
    ]
    translator = ctranslate2.Translator(str(folder), device="cpu", intra_threads=1)
    scores = translator.score_batch(*texts, max_input_length=0)
    difference = largest = 0.0
    for source, target, found in zip(sources, targets, scores, strict=True):
        own, size = _log_probs(encoder, search, decoder, source, target)
        difference = max(difference, float(np.abs(own - np.array(found.log_probs)).max()))
        largest = max(largest, size)
    return difference, largest


def _rows(
    random: np.random.Generator, count: int, size: int, special: Container[int]
) -> list[list[int]]:
    """Returns `count` lists of 1 to 8 random ids, without special ids."""
    usable = np.array([id_ for id_ in range(size) if id_ not in special])
    return [random.choice(usable, random.integers(1, 9)).tolist() for _ in range(count)]


def _read_tokens(folder: Path, side: str) -> list[str]:
    path = folder / f"{side}_vocabulary.json"
    path = path if path.is_file() else folder / "shared_vocabulary.json"
    return json.loads(path.read_text(encoding="utf-8"))


def _log_probs(
    encoder: TransformerEncoder,
    search: Search,
    decoder: keras.layers.Layer,
    source: Sequence[int],
    target: Sequence[int],
) -> tuple[np.ndarray, float]:
    """Returns the log probabilities of a target and the largest absolute logit."""
    start = [] if encoder.start_token_id is None else [encoder.start_token_id]
    end = [] if encoder.end_token_id is None else [encoder.end_token_id]
    encoded = encoder(np.array([[*start, *source, *end]], "int32"))
    inputs = np.array([[search.start_token_id, *target]], "int32")
    logits = decoder(inputs, **encoded)
    log_probs = keras.ops.convert_to_numpy(keras.ops.log_softmax(logits, axis=-1))[0]
    outputs = [*target, search.end_token_id]
    size = float(np.abs(keras.ops.convert_to_numpy(logits)).max())
    return log_probs[np.arange(len(outputs)), outputs], size


def _ctranslate2() -> types.ModuleType:
    try:
        return importlib.import_module("ctranslate2")
    except ImportError as error:
        raise ImportError(
            f"Expected the package ctranslate2, which writes CTranslate2 models. Received: {error}."
            " Install it with `pip install '.[ctranslate2]'` in a checkout."
        ) from error
