"""Scores of given translations, from a search with the whole translation as its prefix."""

import collections
from collections.abc import Callable, Iterable, Iterator

from keras_attn_runtime.errors import SentenceError
from keras_attn_runtime.source import Source
from keras_attn_runtime.translation import Translation, Unfinished


def require_tokens(sources: Iterable[Source]) -> Iterator[Source]:
    """Yields the sources; raises `SentenceError` at a source without tokens."""
    for index, source in enumerate(sources):
        if not source.ids:
            raise SentenceError(
                index,
                "expected a text with tokens. Received: ids=[]. Remove it, or use skip_unscorable.",
            )
        yield source


def scores(
    sources: Iterable[Source],
    search: Callable[[Iterator[Source]], Iterable[Translation | Unfinished]],
    skip_unscorable: bool = False,
) -> Iterator[Translation | Unfinished | None]:
    """Yields the `Translation` of each source, which equals the prefix of the source.

    Args:
        sources: iterable of `Source`s, whose prefixes end with the end token; without
            `skip_unscorable` all must have tokens.
        search: function from sources to their translations, lazily and in order.
        skip_unscorable: bool, whether to yield `None` for a source without tokens, and for a
            translation that a limit has cut. Default False. An `UNFINISHED` one stays so.

    Raises:
        SentenceError: if a limit has cut one.
    """
    read: collections.deque[Source] = collections.deque()

    def noted() -> Iterator[Source]:
        for source in sources:
            read.append(source)
            yield source

    for index, translation in enumerate(search(noted())):
        source = read.popleft()
        if isinstance(translation, Unfinished):
            yield translation
            continue
        target = source.prefix
        if source.ids and translation.ended and translation.token_ids == target[:-1]:
            yield translation
        elif skip_unscorable:
            yield None
        else:
            raise SentenceError(
                index,
                f"expected a target of at most {len(translation.token_ids)} tokens, the end token "
                f"included, the limit for this text. Received: {len(target)}. It is that of "
                "max_length, of the positions that the model has learned, or of the file's search: "
                "export it with `--search relative_max_length=null`.",
            )
