"""Texts that end the results in `GenerationModel.generate`."""

import dataclasses
from collections.abc import Sequence

from keras_attn._models.generation_result import Hypothesis, pieces
from keras_attn._types import TokenizerLike


def read_stop_texts(
    stop_texts: str | Sequence[str] | None, tokenizer: TokenizerLike | None
) -> list[str]:
    """Returns a call's stop texts as a list.

    Args:
        stop_texts: See `GenerationModel.generate`.
        tokenizer: Target tokenizer, or `None`.

    Raises:
        ValueError: If an item is not a string or is empty, or there is no tokenizer.
    """
    if stop_texts is None:
        return []
    texts = [stop_texts] if isinstance(stop_texts, str) else stop_texts
    is_list = isinstance(texts, list | tuple)
    if not is_list or not all(isinstance(each, str) and each for each in texts):
        raise ValueError(
            "Expected stop_texts to be a text or a list of texts that are not empty. Received: "
            f"stop_texts={stop_texts!r}. Use stop_sequences for ids."
        )
    if texts and tokenizer is None:
        raise ValueError(
            "Expected a target_tokenizer for stop_texts. Received: target_tokenizer=None. Pass the "
            "tokenizer, or use stop_sequences."
        )
    return list(texts)


def cut_at_stop(
    hypothesis: Hypothesis, stop_texts: Sequence[str], tokenizer: TokenizerLike, num_given: int
) -> Hypothesis:
    """Cuts a hypothesis before the stop text that is complete first.

    Args:
        hypothesis: `Hypothesis` with a text.
        stop_texts: Strings. Among those that are complete at the same place, the longest counts.
        tokenizer: Target tokenizer.
        num_given: Int, size of the target prefix, which contains no stop text.
    """
    token_ids, text = hypothesis.token_ids, hypothesis.text or ""
    (given,) = tokenizer.decode([token_ids[:num_given]])
    found = [(text.find(each, len(given)), each) for each in stop_texts]
    ends = [(begin + len(each), begin, each) for begin, each in found if begin >= 0]
    if not ends:
        return hypothesis
    _, begin, stop_text = min(ends)
    text = text[:begin]
    count = _num_tokens_within(text, token_ids, tokenizer, min(num_given, len(token_ids)))
    alignments, log_probs = hypothesis.alignments, hypothesis.token_log_probs
    top_tokens = hypothesis.top_tokens
    return dataclasses.replace(
        hypothesis,
        text=text,
        token_ids=token_ids[:count],
        pieces=pieces(tokenizer, token_ids[:count]),
        ended=True,
        alignments=None if alignments is None else alignments[:count],
        token_log_probs=None if log_probs is None else log_probs[:count],
        top_tokens=None if top_tokens is None else top_tokens[:count],
        stop_text=stop_text,
    )


def _num_tokens_within(
    text: str, token_ids: Sequence[int], tokenizer: TokenizerLike, least: int
) -> int:
    """Returns how many tokens, at least `least`, lie entirely within `text`."""

    def text_of(count: int) -> str:
        (start,) = tokenizer.decode([token_ids[:count]])
        return start

    first, last = least, len(token_ids)
    while first < last:
        middle = (first + last + 1) // 2
        if len(text_of(middle)) <= len(text):
            first = middle
        else:
            last = middle - 1
    # The text of an incomplete character can be longer than that of the whole character.
    while first > least and not text.startswith(text_of(first)):
        first -= 1
    return first
