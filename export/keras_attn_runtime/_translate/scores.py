"""Scores given translations with a search whose prefix is the whole translation."""

import collections
from collections.abc import Callable, Iterable, Iterator, Sequence

from keras_attn_runtime._errors import InputError
from keras_attn_runtime._generation_result import GenerationResult, Unfinished
from keras_attn_runtime._inputs.source import Source


def require_tokens(sources: Iterable[Source]) -> Iterator[Source]:
    """Yields the sources; raises `InputError` at a source without tokens."""
    for index, source in enumerate(sources):
        if not source.ids:
            raise InputError(
                index,
                "expected a text with tokens. Received: ids=[]. Remove the text and its target, or "
                "use skip_unscorable.",
            )
        yield source


def scores(
    sources: Iterable[Source],
    search: Callable[[Iterator[Source]], Iterable[GenerationResult | Unfinished]],
    skip_unscorable: bool = False,
    forced_prefix_ids: Sequence[int] = (),
) -> Iterator[GenerationResult | Unfinished | None]:
    """Yields a `GenerationResult` for each source. Its tokens are the source's prefix.

    Args:
        sources: iterable of `Source`s whose prefixes end with the end token. Unless
            `skip_unscorable`, all sources must contain tokens.
        search: function that takes sources and yields their translations lazily and in order.
        skip_unscorable: bool, whether to yield `None` for a source without tokens, and for a
            translation that was cut by a limit. If `search` yields `UNFINISHED`, so does this
            function. Default: False.
        forced_prefix_ids: sequence of ints, ids that the search puts before every prefix. Default:
            no ids.

    Raises:
        InputError: if a translation was cut by a limit, unless `skip_unscorable`.
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
        target = [*forced_prefix_ids, *source.prefix]
        if source.ids and translation.ended and translation.token_ids == target[:-1]:
            yield translation
        elif skip_unscorable:
            yield None
        else:
            raise InputError(
                index,
                f"expected a target of at most {len(translation.token_ids)} tokens, the end token "
                f"included. Received: {len(target)}. The limit is max_length, the number of "
                "learned positions, or a limit of the search in the file. To remove the limit of "
                "the search, export with `--search relative_max_length=null`.",
            )
