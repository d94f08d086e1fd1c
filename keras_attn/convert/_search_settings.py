import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_attn.convert._conversion_error import Problems
from keras_attn.convert._search_refusals import (
    check_ngrams,
    check_renormalization,
    check_repetition_penalty,
    check_sequences,
    is_id,
    refusal,
    single_id,
)
from keras_attn.convert._settings import Settings

STOPS: dict[bool | str, str] = {True: "collected", False: "heuristic", "never": "exact"}
"""Dict from `early_stopping` in transformers to `stop` in `BeamDecoder`."""

DEFAULT_NEW_TOKENS = 20
"""Number of tokens that `generate` in transformers writes if no length is set."""


@dataclasses.dataclass(frozen=True)
class SearchSettings:
    """The search that transformers' `generate` runs with a checkpoint's settings.

    Args:
        class_name: String, search class.
        arguments: Dict, keyword arguments for the class.
        impossible_token_ids: List, ids whose probability is set to 0 before the others are
            normalized.
    """

    class_name: str
    arguments: dict[str, Any]
    impossible_token_ids: tuple[int, ...] = ()


def search_settings(
    settings: Settings, max_positions: int | None, reads_prompts: bool = False
) -> SearchSettings:
    """Maps `generate` settings to a search.

    Args:
        settings: `Settings` from `generation_config.json`, or from `config.json` without such a
            file.
        max_positions: Int, the model's `max_position_embeddings`, or `None`.
        reads_prompts: Bool, whether the model continues prompts. In transformers, `max_length` then
            includes the prompt. Defaults to `False`: a decoder with an encoder.

    Returns:
        `SearchSettings`.

    Raises:
        ConversionError: If no keras_attn search returns the same results. The message names all
            settings responsible.
    """
    problems = Problems()
    ids = _special_ids(settings, reads_prompts, problems)
    start, end, suppressed = ids["start_token_id"], ids["end_token_id"], []
    sequences: list[list[int]] = []
    with problems.collect():
        ends = [end, *ids.get("other_end_token_ids", [])]
        suppressed, sequences = _suppressed(settings, ends)
    with problems.collect():
        check_sequences(settings, sequences, start, reads_prompts)
    arguments: dict[str, Any] = {
        **ids,
        "suppressed_token_ids": suppressed,
        **({"suppressed_sequences": sequences} if sequences else {}),
        **_lengths(settings, max_positions, reads_prompts),
    }
    with problems.collect():
        arguments["min_length"] = _min_length(settings, reads_prompts)
    with problems.collect():
        arguments |= _forced_ids(settings, end, reads_prompts)
    ngrams = int(settings["no_repeat_ngram_size"])
    if ngrams:
        with problems.collect():
            check_ngrams(settings, ngrams, start, end, suppressed, reads_prompts)
        arguments["no_repeat_ngram_size"] = ngrams
    beams, hypotheses = int(settings["num_beams"]), int(settings["num_return_sequences"])
    penalty = float(settings["repetition_penalty"])
    if penalty != 1:
        with problems.collect():
            check_repetition_penalty(settings, penalty, start, suppressed, beams, reads_prompts)
        arguments["repetition_penalty"] = penalty
    name, impossible = "GreedyDecoder", ()
    with problems.collect():
        if settings["do_sample"]:
            name = "SamplingDecoder"
            arguments |= _sampling(settings, beams, hypotheses)
        elif beams > 1:
            name = "BeamDecoder"
            arguments |= _beams(settings, beams, hypotheses)
        elif hypotheses > 1:
            advice = "A greedy search returns one hypothesis."
            raise refusal(settings, "num_return_sequences", hypotheses, "1", advice)
    if name == "BeamDecoder" and settings["renormalize_logits"]:
        check_renormalization(settings, arguments, problems)
        impossible = tuple(suppressed)
    problems.raise_all()
    return SearchSettings(name, arguments, impossible)


def _special_ids(settings, reads_prompts, problems):
    """Returns the start, end and padding ids."""
    start = end = pad = None
    others: list[int] = []
    with problems.collect():
        end, *others = _end_ids(settings)
    with problems.collect():
        start = single_id(settings, "decoder_start_token_id")
        start = single_id(settings, "bos_token_id") if start is None else start
        if start is None and reads_prompts:
            start = end  # a prompt is never empty, so no search uses this start token
        elif start is None:
            advice = "Add decoder_start_token_id."
            raise refusal(settings, "decoder_start_token_id", None, "a start token", advice)
    with problems.collect():
        pad = single_id(settings, "pad_token_id")
        if pad is not None and pad < 0:
            # Language model configurations name no padding by -1, as Llama 1 does.
            if not reads_prompts:
                raise refusal(settings, "pad_token_id", pad, "an id of at least 0", "")
            pad = None
    return {
        "start_token_id": start,
        "end_token_id": end,
        "pad_token_id": end if pad is None else pad,
        **({"other_end_token_ids": others} if others else {}),
    }


def _end_ids(settings):
    """Returns the end ids, without repetitions."""
    value = settings["eos_token_id"]
    if isinstance(value, list) and value and all(map(is_id, value)):
        return list(dict.fromkeys(value))
    end = single_id(settings, "eos_token_id")
    if end is None:
        raise refusal(settings, "eos_token_id", None, "an end token", "Add eos_token_id.")
    return [end]


def _forced_ids(settings, end, reads_prompts):
    """Returns the arguments for a forced first token and a forced end token."""
    arguments: dict[str, Any] = {}
    forced_end = single_id(settings, "forced_eos_token_id")
    if end is not None and forced_end not in (None, end):
        expected = f"eos_token_id={end}, or null"
        raise refusal(settings, "forced_eos_token_id", forced_end, expected, "")
    if forced_end is not None:
        arguments["force_end_token"] = True
    forced_first = single_id(settings, "forced_bos_token_id")
    if forced_first is not None and reads_prompts:
        expected = (
            "null in a language model, because transformers forces this token only if the prompt "
            "has one token"
        )
        advice = (
            "Remove it with --setting forced_bos_token_id=null or settings={'forced_bos_token_id': "
            "None}."
        )
        raise refusal(settings, "forced_bos_token_id", forced_first, expected, advice)
    if forced_first is not None:
        arguments["forced_prefix_ids"] = [forced_first]
    return arguments


def with_languages(search: SearchSettings, languages: Mapping[str, Any]) -> SearchSettings:
    """Removes a forced language code from a search if the tokenizer has `languages`.

    transformers forces the target language's code as the first token, and `generation_config.json`
    can name one language. In keras_attn, the caller selects the language in each call, and its code
    becomes a prefix.

    Args:
        search: `SearchSettings`.
        languages: Dict, the target tokenizer's `languages`.
    """
    codes = [list(language.target_start) for language in languages.values()]
    if not any(codes):
        return search
    arguments = {**search.arguments, "score_prefix": False}
    if arguments.get("forced_prefix_ids") in codes:
        del arguments["forced_prefix_ids"]
    return dataclasses.replace(search, arguments=arguments)


def _beams(settings, beams, hypotheses):
    early_stopping = settings["early_stopping"]
    if early_stopping not in list(STOPS):  # a list, because the value may not be hashable
        raise refusal(settings, "early_stopping", early_stopping, f"one of {tuple(STOPS)}", "")
    stop = STOPS[early_stopping]
    return {
        "beam_width": beams,
        "stop": stop,
        # transformers collects num_beams finished hypotheses. Collecting fewer can end the search
        # earlier.
        "num_hypotheses": beams if stop == "exact" else hypotheses,
        "length_penalty": float(settings["length_penalty"]),
        "length_penalty_form": "average_with_end",
    }


def _sampling(settings, beams, hypotheses):
    if beams > 1:
        raise refusal(settings, "num_beams", beams, "num_beams=1 with do_sample", "")
    top_k = settings["top_k"]
    return {
        "num_hypotheses": hypotheses,
        "temperature": float(settings["temperature"]),
        "top_k": int(top_k) or None,
        "top_p": float(settings["top_p"]),
    }


def _lengths(settings, max_positions, reads_prompts):
    """Returns `max_length` and `relative_max_length`, which do not count the start token."""
    new, total = settings["max_new_tokens"], settings["max_length"]
    if new is None and total is not None:
        total = int(total)
        if reads_prompts:  # total includes the prompt
            return {"max_length": total, "relative_max_length": (-1, total)}
        return {"max_length": max(0, total - 1), "relative_max_length": None}
    if new is None:
        new = DEFAULT_NEW_TOKENS
        if max_positions is not None and not reads_prompts:
            new = min(new, max_positions - 1)
    return {"max_length": int(new), "relative_max_length": None}


def _min_length(settings, reads_prompts):
    """Returns `min_length` without the start token, which transformers includes."""
    new, total = settings["min_new_tokens"], int(settings["min_length"])
    if new is not None:
        return int(new)
    if total and reads_prompts:
        expected = "min_new_tokens, because min_length counts the prompt"
        raise refusal(settings, "min_length", total, expected, "Use min_new_tokens.")
    return max(0, total - 1)


def _suppressed(settings, ends):
    """Returns the suppressed tokens, and the suppressed sequences of several tokens."""
    words, tokens = settings["bad_words_ids"] or [], settings["suppress_tokens"] or []
    if not all(isinstance(word, list) and word and all(map(is_id, word)) for word in words):
        raise refusal(settings, "bad_words_ids", words, "a list of lists of ids", "")
    if not all(map(is_id, tokens)):
        raise refusal(settings, "suppress_tokens", tokens, "a list of ids", "")
    sequences = [list(map(int, word)) for word in words if len(word) > 1]
    # transformers ignores the end tokens in bad_words_ids.
    single = [int(word[0]) for word in words if len(word) == 1 and word[0] not in ends]
    return sorted({*single, *tokens}), sequences
