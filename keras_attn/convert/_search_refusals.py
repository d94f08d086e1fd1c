"""`generate` settings that no search in this library supports."""

from collections.abc import Mapping, Sequence
from typing import Any

from keras_attn.convert._conversion_error import ConversionError, Problems
from keras_attn.convert._settings import Settings

ADVICE = (
    "Choose a value with --setting NAME=VALUE or settings={NAME: VALUE}. keras_attn.with_search "
    "can change the search later."
)


def refusal(
    settings: Settings, name: str, value: Any, expected: str, advice: str = ""
) -> ConversionError:
    """Returns the error for a setting.

    Args:
        settings: `Settings` from the file.
        name: String, setting name.
        value: Its value.
        expected: String, which values can be converted.
        advice: String, what to do. Defaults to `""`: `ADVICE`.
    """
    return ConversionError(
        f"Expected {name} in {settings.file} to be {expected}. Received: {name}={value!r}. "
        f"{advice or ADVICE}"
    )


def check_ngrams(
    settings: Settings,
    size: int,
    start: int | None,
    end: int | None,
    suppressed: Sequence[int],
    reads_prompts: bool,
) -> None:
    """Rejects `no_repeat_ngram_size` if n-grams can contain the start token or a prompt."""
    is_never_generated = start in suppressed or (start == end and size > 1)
    if reads_prompts or not is_never_generated:
        counted = "the prompt" if reads_prompts else f"the start token {start}"
        expected = f"0, because transformers also counts n-grams with {counted}"
        raise refusal(settings, "no_repeat_ngram_size", size, expected, "")


def check_sequences(
    settings: Settings,
    sequences: Sequence[Sequence[int]],
    start: int | None,
    reads_prompts: bool,
) -> None:
    """Rejects `bad_words_ids` that transformers also finds in a prompt or at the start token."""
    refused = [each for each in sequences if reads_prompts or start in each[:-1]]
    if refused:
        counted = "in the prompt" if reads_prompts else f"at the start token {start}"
        expected = f"single tokens, because transformers also finds sequences {counted}"
        raise refusal(settings, "bad_words_ids", refused[0], expected, "")


def check_repetition_penalty(
    settings: Settings,
    penalty: float,
    start: int | None,
    suppressed: Sequence[int],
    beams: int,
    reads_prompts: bool,
) -> None:
    """Checks that the penalty in transformers changes the same tokens by the same amount."""
    if reads_prompts:
        reason = "transformers also penalizes the tokens of the prompt"
    elif beams > 1:
        reason = "beam search in transformers changes log probabilities, in keras_attn logits"
    elif start not in suppressed:
        reason = (
            f"transformers also penalizes the start token {start}. Add [{start}] to bad_words_ids "
            "if the model never generates this token"
        )
    else:
        return
    raise refusal(settings, "repetition_penalty", penalty, f"1.0, because {reason}", "")


def check_renormalization(
    settings: Settings, arguments: Mapping[str, Any], problems: Problems
) -> None:
    """Checks that only suppressed tokens are left out of the softmax."""
    for name in ("min_length", "no_repeat_ngram_size"):
        if arguments.get(name):
            with problems.collect():
                expected = f"{name}=0 with renormalize_logits and beams"
                raise refusal(settings, name, arguments[name], expected, "")
    for sequence in arguments.get("suppressed_sequences", [])[:1]:
        with problems.collect():
            expected = "single tokens with renormalize_logits and beams"
            raise refusal(settings, "bad_words_ids", sequence, expected, "")


def single_id(settings: Settings, name: str) -> Any:
    """Returns a special token's id, or `None`.

    Raises:
        ConversionError: If the setting is neither one id nor `null`.
    """
    value = settings[name]
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, list) and value and all(map(is_id, value)):
        advice = f"Choose one: --setting {name}={value[0]}, or settings={{{name!r}: {value[0]}}}."
        raise refusal(settings, name, value, "one id", advice)
    if value is not None and not is_id(value):
        raise refusal(settings, name, value, "one id", "There is one token of this kind.")
    return value


def is_id(value: Any) -> bool:
    """Returns whether a value is an integer."""
    return isinstance(value, int) and not isinstance(value, bool)
