"""Converts a keras_attn search to settings for `generate` in transformers."""

from collections.abc import Mapping
from typing import Any

from keras_attn._search.beam_decoder import BeamDecoder
from keras_attn._search.greedy_decoder import GreedyDecoder
from keras_attn._search.sampling_decoder import SamplingDecoder
from keras_attn._search.search import Search
from keras_attn.convert._checkpoint import GENERATION_CONFIG
from keras_attn.convert._conversion_error import ConversionError
from keras_attn.convert._generation_settings import GENERATION
from keras_attn.convert._search_refusals import ADVICE
from keras_attn.convert._search_settings import (
    STOPS,
    SearchSettings,
    search_settings,
    with_languages,
)
from keras_attn.convert._settings import Settings

SEARCHES: dict[str, Any] = {
    search.__name__: search for search in (BeamDecoder, GreedyDecoder, SamplingDecoder)
}
"""Dict from names to search classes. `generate` in transformers has an equal search for each."""

IGNORED = {
    *("decoder", "dtype", "name", "trainable"),
    *("return_alignments", "return_token_log_probs", "return_top_tokens"),
}
_ADVICE = (
    "Change the search with keras_attn.with_search or --search NAME=VALUE, for example "
    "relative_max_length=null and length_penalty_form=average_with_end."
)
WITHOUT_BEAMS = {"length_penalty", "length_penalty_form"}
"""Arguments that do not change the ids found without beams."""


def search_differences(
    search: Search, settings: SearchSettings, reads_prompts: bool = False
) -> list[str]:
    """Returns the search arguments that differ from settings for `generate` of transformers.

    Args:
        search: Search.
        settings: `SearchSettings` for `generate`.
        reads_prompts: Bool, whether the model continues prompts. The start token is then not used
            and not compared. Defaults to `False`.

    Returns:
        List of strings, such as `"coverage_penalty=0.2 instead of 0.0"`.
    """
    if type(search).__name__ != settings.class_name:
        return [f"{type(search).__name__} instead of {settings.class_name}"]
    expected = SEARCHES[settings.class_name](search.decoder, **settings.arguments).get_config()
    ignored = IGNORED if settings.class_name == "BeamDecoder" else IGNORED | WITHOUT_BEAMS
    ignored = ignored | {"start_token_id"} if reads_prompts else ignored
    config = {name: _plain(value) for name, value in search.get_config().items()}
    return [
        f"{name}={config[name]!r} instead of {value!r}"
        for name, value in expected.items()
        if name not in ignored and config[name] != _plain(value)
    ]


def generation_config(
    search: Search,
    reads_prompts: bool,
    languages: Mapping[str, Any],
    max_positions: int | None = None,
) -> dict[str, Any]:
    """Returns a `generation_config.json` with which `generate` finds the same ids.

    Args:
        search: Search.
        reads_prompts: Bool, whether the model continues prompts.
        languages: Dict, the target tokenizer's `languages`.
        max_positions: Int, the model's `max_position_embeddings`, or `None`.

    Returns:
        Dict.

    Raises:
        ConversionError: If `generate` has no equal search.
    """
    if type(search).__name__ not in SEARCHES:
        raise _error(f"{type(search).__name__}, which is none of {tuple(SEARCHES)}")
    values = _values(search, reads_prompts)
    settings = Settings(GENERATION_CONFIG, values, GENERATION, null_is_default=True)
    try:
        written = search_settings(settings, max_positions, reads_prompts)
    except ConversionError as error:
        messages = (text.removesuffix(ADVICE).rstrip() for text in error.messages)
        raise ConversionError(f"{ConversionError(*messages)} {_ADVICE}") from error
    differences = search_differences(search, with_languages(written, languages), reads_prompts)
    if differences:
        raise _error(", ".join(differences))
    return values


def _values(search, reads_prompts):
    values: dict[str, Any] = {
        "bos_token_id": search.start_token_id,
        "eos_token_id": search.end_token_ids if search.other_end_token_ids else search.end_token_id,
        "pad_token_id": search.pad_token_id,
        "max_new_tokens": search.max_length,
    }
    if not reads_prompts:
        values["decoder_start_token_id"] = search.start_token_id
    if reads_prompts and search.relative_max_length is not None:
        del values["max_new_tokens"]
        values["max_length"] = search.max_length  # includes the prompt
    if search.min_length:
        values["min_new_tokens"] = search.min_length
    if search.suppressed_token_ids:
        values["suppress_tokens"] = list(search.suppressed_token_ids)
    if search.suppressed_sequences:
        values["bad_words_ids"] = search.suppressed_sequences
    if search.forced_prefix_ids:
        values["forced_bos_token_id"] = search.forced_prefix_ids[0]
    if search.force_end_token:
        values["forced_eos_token_id"] = search.end_token_id
    for name, default in (("no_repeat_ngram_size", 0), ("repetition_penalty", 1.0)):
        if getattr(search, name) != default:
            values[name] = getattr(search, name)
    if isinstance(search, BeamDecoder):
        values |= _beams(search)
    elif isinstance(search, SamplingDecoder):
        values |= {
            "do_sample": True,
            "num_return_sequences": search.num_hypotheses,
            "temperature": search.temperature,
            "top_k": search.top_k or 0,
            "top_p": search.top_p,
        }
    return values


def _beams(search):
    stops = {ours: theirs for theirs, ours in STOPS.items()}
    values = {
        "num_beams": search.beam_width,
        "early_stopping": stops[search.stop],
        "length_penalty": search.length_penalty,
    }
    if search.num_hypotheses > 1 and search.stop != "exact":
        values["num_return_sequences"] = search.num_hypotheses
    return values


def _plain(value):
    return list(value) if isinstance(value, tuple) else value


def _error(received):
    return ConversionError(
        f"Expected a search that generate of transformers has. Received: {received}. {_ADVICE}"
    )
