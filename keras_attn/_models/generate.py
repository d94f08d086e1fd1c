import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import keras
import numpy as np
import numpy.typing as npt

from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn._layer.get_vocabulary_size import get_vocabulary_size
from keras_attn._models.constraints import Constraints, padded_phrases, read_constraints
from keras_attn._models.generation_result import (
    GenerationResult,
    empty_hypothesis,
    hypotheses_of_row,
    pieces,
)
from keras_attn._models.model_inputs import reads_ids
from keras_attn._models.model_with_inputs import model_with_inputs
from keras_attn._models.replace_unknown import (
    MarkingTokenizer,
    SourceWord,
    check_replaceable,
    with_source_words,
    words_of_pieces,
)
from keras_attn._models.request_languages import RequestLanguages, request_languages
from keras_attn._models.stop_texts import cut_at_stop, read_stop_texts
from keras_attn._models.target_prefixes import (
    TargetPrefix,
    check_whole_prefix,
    read_prefixes,
)
from keras_attn._models.token_bias import read_token_bias
from keras_attn._models.vocabulary_side import id_range, source_side
from keras_attn._models.word_starts import word_starts
from keras_attn._search.rules import read_rule_inputs
from keras_attn._types import TokenizerLike

if TYPE_CHECKING:
    from keras_attn._models.generation_model import GenerationModel
    from keras_attn._models.vocabulary_side import Side


Sources: TypeAlias = npt.ArrayLike | Mapping[str, npt.ArrayLike]
"""Texts, lists of ids, an array, or a dict of arrays by the names of the inputs."""


def generate(
    model: "GenerationModel",
    inputs: Sources,
    source_tokenizer: TokenizerLike | None = None,
    target_tokenizer: TokenizerLike | None = None,
    batch_size: int = 32,
    return_details: bool = False,
    verbose: int = 0,
    source_language: str | None = None,
    target_language: str | None = None,
    target_prefix: TargetPrefix | None = None,
    constraints: Constraints | None = None,
    constraints_in_order: bool = False,
    token_bias: Mapping[str, float] | Mapping[int, float] | None = None,
    rule_inputs: Mapping[str, npt.ArrayLike] | None = None,
    replace_unknown: bool = False,
    stop_texts: str | Sequence[str] | None = None,
) -> list[Any]:
    """Implements `GenerationModel.generate`.

    Args:
        model: `GenerationModel`.
        inputs, source_tokenizer, target_tokenizer, batch_size, return_details, verbose,
            source_language, target_language, target_prefix, constraints, constraints_in_order,
            token_bias, rule_inputs, replace_unknown, stop_texts: See `GenerationModel.generate`.

    Returns:
        See `GenerationModel.generate`.
    """
    check_positive_integer("batch_size", batch_size)
    source = model.source
    words: list[list[SourceWord | None]] = []
    if reads_ids(source):
        dtype = source.dtype
        is_padded = len(getattr(inputs, "shape", ())) == 2
        inputs, is_text = _read_inputs(inputs)
        languages = request_languages(
            source_tokenizer,
            source_tokenizer if target_tokenizer is None else target_tokenizer,
            source_language,
            target_language,
            is_text,
        )
        _check_tokenizer("source_tokenizer", source_tokenizer, model.source_encoder)
        side = source_side(model.source_encoder, model.search, source_tokenizer)
        if is_text:
            sources = _read_texts(inputs, source_tokenizer, languages, side)
            if replace_unknown:
                check_replaceable(source_tokenizer, target_tokenizer or source_tokenizer)
                words = _read_words(inputs, sources, source_tokenizer, languages, side)
        else:
            sources = [(_checked_ids(ids, side, is_padded), False) for ids in inputs]
        rows_of_ids = [side.ended_row(ids) for ids, _ in sources]
        lengths = [len(ids) for ids, _ in sources]
        # Sources of similar lengths need little padding. Empty sources need no search.
        order = [row for row in np.argsort(lengths, kind="stable").tolist() if lengths[row]]

        def batch_of_ids(rows: Sequence[int]) -> np.ndarray:
            ids = [rows_of_ids[row] for row in rows]
            return _pad(ids, side.pad_token_id, dtype, side.max_row_length)

        batch: Callable[[Sequence[int]], np.ndarray | dict[str, np.ndarray]] = batch_of_ids
    else:
        arrays, count = _read_arrays(model, inputs)
        sources, lengths, is_text = [([], False)] * count, [None] * count, False
        languages = request_languages(None, None, source_language, target_language, False)
        order = range(count)

        def batch_of_arrays(rows: Sequence[int]) -> dict[str, np.ndarray]:
            return {name: values[rows] for name, values in arrays.items()}

        batch = batch_of_arrays

    if replace_unknown and sources and not is_text:
        raise ValueError(
            "Expected texts with replace_unknown, because their words are copied. Received: "
            "replace_unknown=True for inputs that are not texts. Pass texts, or omit it."
        )
    if target_tokenizer is None and is_text:
        target_tokenizer = source_tokenizer
    _check_tokenizer("target_tokenizer", target_tokenizer, model.decoder)
    prefixes = read_prefixes(target_prefix, languages, len(sources), target_tokenizer, model)
    names: tuple[str, ...] = () if prefixes is None else ("prefix_ids",)
    stops = read_stop_texts(stop_texts, target_tokenizer)
    phrases, values = None, {}
    if constraints is not None:
        if not isinstance(constraints_in_order, bool):
            raise ValueError(
                "Expected constraints_in_order to be True or False. Received: "
                f"constraints_in_order={constraints_in_order!r}. Pass one of them."
            )
        starts = None
        if target_tokenizer is not None:
            starts = word_starts(target_tokenizer, get_vocabulary_size(model.decoder))
        phrases = read_constraints(
            constraints, len(sources), target_tokenizer, model.search, starts
        )
        names = (*names, "constraint_ids")
        values = {"constraints_in_order": constraints_in_order, "word_starts": starts}
    biases = None
    if token_bias is not None:
        biases = read_token_bias(token_bias, target_tokenizer, model.search)
        names = (*names, *biases)
    if rule_inputs:
        values["rule_inputs"] = read_rule_inputs(model.search.rules, rule_inputs)
    searcher = model_with_inputs(model, names, **values) if names or values else model
    nothing = empty_hypothesis(model.search, target_tokenizer is not None)
    generations = [
        [dataclasses.replace(nothing, constraints_met=[False] * len(row) or None)]
        for row in phrases or [[]] * len(sources)
    ]
    progress = keras.utils.Progbar(len(sources), verbose=verbose, unit_name="source")
    for start in range(0, len(order), batch_size):
        rows = list(order[start : start + batch_size])
        searched = rows
        if start and keras.backend.backend() == "jax" and not model.search.is_stochastic:
            # Speed: JAX compiles the search for each batch size. The repeated rows change nothing,
            # except the samples of a stochastic search.
            searched = rows + rows[-1:] * (batch_size - len(rows))
        content = batch(searched)
        if searcher is not model and not isinstance(content, dict):
            content = {model.inputs[0].name: content}
        if prefixes is not None:
            padding = model.search.pad_token_id
            content["prefix_ids"] = _pad([prefixes[row] for row in searched], padding, "int32")
        if phrases is not None:
            content["constraint_ids"] = padded_phrases([phrases[row] for row in searched], phrases)
        for name, row in (biases or {}).items():
            content[name] = np.repeat(row[None], len(searched), axis=0)
        results = searcher.predict_on_batch(content)
        for place, row in enumerate(rows):
            generations[row] = hypotheses_of_row(
                results,
                place,
                lengths[row],
                model.search,
                target_tokenizer,
                None if phrases is None else len(phrases[row]),
            )
            prefix = [] if prefixes is None else prefixes[row]
            if prefixes is not None:
                check_whole_prefix(prefix, generations[row][0], model.search)
            if stops and target_tokenizer is not None:
                num_given = len(model.search.forced_prefix_ids) + len(prefix)
                generations[row] = [
                    cut_at_stop(each, stops, target_tokenizer, num_given)
                    for each in generations[row]
                ]
            if words and target_tokenizer is not None:
                generations[row] = [
                    with_source_words(each, words[row], target_tokenizer)
                    for each in generations[row]
                ]
        if verbose:
            progress.update(start + len(rows))
    if not return_details:
        name = "token_ids" if target_tokenizer is None else "text"
        return [getattr(hypotheses[0], name) for hypotheses in generations]
    return [
        GenerationResult(
            **vars(hypotheses[0]),
            hypotheses=tuple(hypotheses),
            source_pieces=pieces(source_tokenizer, ids) if is_text else None,
            truncated=truncated,
        )
        for hypotheses, (ids, truncated) in zip(generations, sources, strict=True)
    ]


def _read_inputs(inputs: Sources) -> tuple[list, bool]:
    """Returns the sources as a list, and whether they are texts."""
    if isinstance(inputs, str | bytes | dict) or not isinstance(inputs, Iterable):
        raise ValueError(
            "Expected inputs to be a list of texts, or of lists of ids. Received: inputs of type "
            f"{type(inputs).__name__}. Pass [text] for one text."
        )
    sources = list(inputs)
    return sources, bool(sources) and all(isinstance(source, str) for source in sources)


def _read_texts(
    texts: Sequence[str], tokenizer: TokenizerLike | None, languages: RequestLanguages, side: "Side"
) -> list[tuple[list[int], bool]]:
    """Converts texts to the input ids of the encoder.

    Returns:
        List with a pair for each text: its ids, and whether they were truncated.
    """
    if tokenizer is None:
        raise ValueError(
            "Expected a source_tokenizer for texts. Received: source_tokenizer=None. Pass the "
            "tokenizer of the training data, or ids."
        )
    limit = None if side.max_length is None else side.max_length - languages.num_source_ids
    sources = []
    for ids in tokenizer.encode(texts):
        kept = list(ids[:limit])
        # If a start token but no end token is added to each text, an empty text becomes a prompt
        # that consists of the start token. Otherwise, an empty text is an empty source, which needs
        # no search.
        is_empty = not kept and (side.add_end or not side.add_start)
        whole = [] if is_empty else side.with_special_ids(kept)
        sources.append((languages.add_to(whole, len(side.start)), len(kept) < len(ids)))
    return sources


def _read_words(
    texts: Sequence[str],
    sources: Sequence[tuple[list[int], bool]],
    tokenizer: TokenizerLike | None,
    languages: RequestLanguages,
    side: "Side",
) -> list[list[SourceWord | None]]:
    """Returns the word of each text at each position of its ids, `None` at special tokens."""
    first: list[SourceWord | None] = [None] * (len(side.start) + len(languages.source_start))
    num_special = len(first) + len(side.end) + len(languages.source_end)
    rows = []
    for text, (ids, _) in zip(texts, sources, strict=True):
        words = words_of_pieces(text, cast(MarkingTokenizer, tokenizer).spans(text))
        rows.append([*first, *words[: max(0, len(ids) - num_special)]])
    return rows


def _checked_ids(ids: npt.ArrayLike, side: "Side", is_padded: bool) -> list[int]:
    """Returns the ids of a source without padding, or raises a `ValueError`.

    Args:
        ids: Sequence of ids.
        side: `Side` of the source.
        is_padded: Bool, whether the ids are a row of an array. A list of prompt ids has no padding,
            so the padding id at its end is a token.
    """
    array = np.asarray(ids)
    if array.size == 0:
        return []
    size = side.vocabulary_size
    is_known = size is None or array.max() < size
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.min() < 0 or not is_known:
        raise ValueError(
            f"Expected each source to be a text, or a list of ids {id_range(size)}. Received: "
            f"source={ids!r}. Pass ids of the source vocabulary."
        )
    token_ids = array.tolist()
    if is_padded or not side.is_prompt:
        token_ids = side.without_padding(token_ids)
    if side.max_row_length is not None and len(token_ids) > side.max_row_length:
        raise ValueError(
            f"Expected each source to have at most {side.max_row_length} ids, the number of "
            f"learned positions. Received: a source with {len(token_ids)} ids. Shorten it."
        )
    return token_ids


def _check_tokenizer(name: str, tokenizer: TokenizerLike | None, layer: keras.layers.Layer) -> None:
    size = get_vocabulary_size(layer)
    if tokenizer is not None and size is not None and tokenizer.vocabulary_size > size:
        raise ValueError(
            f"Expected {name} to have at most {size} ids, the vocabulary size of the model. "
            f"Received: {name} with vocabulary_size={tokenizer.vocabulary_size}. Pass the "
            "tokenizer of the training data."
        )


def _pad(
    rows: Sequence[Sequence[int]], pad_token_id: int, dtype: str, max_length: int | None = None
) -> np.ndarray:
    length = max(map(len, rows))
    if keras.backend.backend() == "jax":
        # Speed: JAX compiles the search for each shape, so use few lengths.
        rounded = -(-length // 8) * 8
        length = rounded if max_length is None else max(length, min(rounded, max_length))
    ids = np.full((len(rows), length), pad_token_id, dtype)
    for padded, row in zip(ids, rows, strict=True):
        padded[: len(row)] = row
    return ids


def _read_arrays(
    model: "GenerationModel", inputs: npt.ArrayLike | Mapping[str, npt.ArrayLike]
) -> tuple[dict[str, np.ndarray], int]:
    """Returns a dict from input names to arrays, and the number of rows of the arrays."""
    names = [tensor.name for tensor in model.inputs]
    is_named = isinstance(inputs, dict)
    named = {names[0]: inputs} if not is_named and len(names) == 1 else inputs
    if not isinstance(named, dict) or set(named) != set(names):
        received = list(named) if isinstance(named, dict) else type(named).__name__
        raise ValueError(
            f"Expected inputs to be a dict of arrays with the keys {names}. Received: "
            f"inputs={received}."
        )
    arrays = {name: np.asarray(values) for name, values in named.items()}
    counts = {name: len(values) for name, values in arrays.items()}
    if len(set(counts.values())) != 1:
        raise ValueError(
            "Expected input arrays with the same number of rows. Received: numbers of rows "
            f"{counts}. Pass one row per source."
        )
    return arrays, next(iter(counts.values()))
