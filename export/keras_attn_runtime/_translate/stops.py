"""Stop texts and stop sequences: what they cut from an output."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from keras_attn_runtime._generation_result import Hypothesis
from keras_attn_runtime._text.tokenizer import Tokenizer

INCOMPLETE = "\ufffd"
"""Character that replaces the first bytes of a character whose other bytes are missing."""


@dataclass(frozen=True)
class Stop:
    """A stop text in a text.

    Attributes:
        begin: int, index of its first character.
        text: string, the stop text.
    """

    begin: int
    text: str


def find_stop(text: str, stop_texts: Sequence[str], start: int = 0) -> Stop | None:
    """Returns the stop text that is complete first, the longest if several are.

    Args:
        text: string.
        stop_texts: sequence of strings that are not empty.
        start: int, index before which no stop text can begin. Default: 0.
    """
    found = [(text.find(each, start), each) for each in stop_texts]
    ends = [(begin + len(each), begin, each) for begin, each in found if begin >= 0]
    if not ends:
        return None
    _, begin, each = min(ends)
    return Stop(begin, each)


@dataclass(frozen=True)
class StopCheck:
    """Tells whether a hypothesis of a search contains a stop text.

    Args:
        stop_texts: sequence of strings that are not empty.
        tokenizer: `Tokenizer`, the target tokenizer.
        num_given: list of ints, the number of tokens of each sentence's target prefix, which
            contains no stop text.
        stop_sequences: list of id sequences that end a hypothesis. Tokens that may begin one are
            not read.
    """

    stop_texts: Sequence[str]
    tokenizer: Tokenizer
    num_given: Sequence[int]
    stop_sequences: Sequence[Sequence[int]]

    def __call__(self, row: int, token_ids: list[int]) -> bool:
        """Returns whether a hypothesis of the sentence `row` contains a stop text."""
        given, after = token_ids[: self.num_given[row]], token_ids[self.num_given[row] :]
        read = token_ids[: len(token_ids) - num_begun_tokens(after, self.stop_sequences)]
        start = len(self.tokenizer.decode(given))
        return find_stop(self.tokenizer.decode(read), self.stop_texts, start) is not None


def finished_text(text: str, stop_texts: Sequence[str], start: int = 0) -> str:
    """Returns a text without the characters at its end that may begin a stop text.

    Args:
        text: string that contains no stop text.
        stop_texts, start: see `find_stop`.
    """
    if not stop_texts:
        return text
    text = text.rstrip(INCOMPLETE)
    longest = max(map(len, stop_texts))
    for begin in range(max(start, len(text) - longest + 1), len(text)):
        if any(each.startswith(text[begin:]) for each in stop_texts):
            return text[:begin]
    return text


def cut_at_stop(
    hypothesis: Hypothesis, stop_texts: Sequence[str], tokenizer: Tokenizer, num_given: int
) -> Hypothesis:
    """Cuts a hypothesis before its stop text, if it contains one.

    Args:
        hypothesis: `Hypothesis` with a text.
        stop_texts: sequence of strings that are not empty.
        tokenizer: `Tokenizer`, the target tokenizer.
        num_given: int, size of the target prefix, which contains no stop text.

    Returns:
        A new `Hypothesis` with `ended` and `stop_text`, whose tokens are those of the remaining
        text and of the target prefix. Without a stop text, `hypothesis`.
    """
    token_ids, text = hypothesis.token_ids, hypothesis.text or ""
    stop = find_stop(text, stop_texts, len(tokenizer.decode(token_ids[:num_given])))
    if stop is None:
        return hypothesis
    text = text[: stop.begin]
    count = _num_tokens_within(text, token_ids, tokenizer, min(num_given, len(token_ids)))
    alignments, log_probs = hypothesis.alignments, hypothesis.token_log_probs
    top_tokens = hypothesis.top_tokens
    return dataclasses.replace(
        hypothesis,
        text=text,
        token_ids=token_ids[:count],
        pieces=tokenizer.pieces(token_ids[:count]),
        ended=True,
        alignments=None if alignments is None else alignments[:count],
        token_log_probs=None if log_probs is None else log_probs[:count],
        top_tokens=None if top_tokens is None else top_tokens[:count],
        stop_text=stop.text,
    )


def _num_tokens_within(
    text: str, token_ids: Sequence[int], tokenizer: Tokenizer, least: int
) -> int:
    """Returns how many tokens, at least `least`, lie entirely within `text`."""
    first, last = least, len(token_ids)
    while first < last:
        middle = (first + last + 1) // 2
        if len(tokenizer.decode(token_ids[:middle])) <= len(text):
            first = middle
        else:
            last = middle - 1
    # The text of an incomplete character can be longer than that of the whole character.
    while first > least and not text.startswith(tokenizer.decode(token_ids[:first])):
        first -= 1
    return first


def num_stop_tokens(token_ids: Sequence[int], sequences: Sequence[Sequence[int]]) -> int:
    """Returns how many tokens the longest stop sequence at the end has, or 0.

    Args:
        token_ids: sequence of ints, without those in a prefix.
        sequences: list of id sequences.
    """
    lengths = [len(each) for each in sequences if list(token_ids[-len(each) :]) == list(each)]
    return max(lengths, default=0)


def num_begun_tokens(token_ids: Sequence[int], sequences: Sequence[Sequence[int]]) -> int:
    """Returns how many tokens at the end may begin a stop sequence.

    Args:
        token_ids, sequences: see `num_stop_tokens`.
    """
    longest = max(map(len, sequences), default=1)
    for count in range(min(longest - 1, len(token_ids)), 0, -1):
        if any(list(token_ids[-count:]) == list(each[:count]) for each in sequences):
            return count
    return 0
