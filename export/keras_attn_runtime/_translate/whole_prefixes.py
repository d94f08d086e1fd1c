"""Checks that translations begin with their whole prefix, which a limit in the file could cut."""

import collections
from collections.abc import Callable, Iterable, Iterator, Sequence

from keras_attn_runtime._errors import InputError
from keras_attn_runtime._generation_result import GenerationResult, Unfinished
from keras_attn_runtime._inputs.source import Source


def require_whole_prefixes(
    sources: Iterable[Source],
    search: Callable[[Iterator[Source]], Iterable[GenerationResult | Unfinished]],
    first_ids: Sequence[int],
    end_token_ids: Sequence[int | None],
    max_length: int | None,
) -> Iterator[GenerationResult | Unfinished]:
    """Yields each source's translation.

    Args:
        sources: iterable of `Source`s with prefixes.
        search: function that takes sources and yields their translations lazily and in order.
        first_ids: sequence of ints, ids that the search puts before every prefix.
        end_token_ids: sequence of ints or `None`, the end tokens. One of them may be the last token
            of a prefix.
        max_length: int, the caller's limit, or `None`. It may cut a prefix.

    Raises:
        InputError: if a limit in the file has cut a translation's prefix.
    """
    read: collections.deque[Source] = collections.deque()

    def noted() -> Iterator[Source]:
        for source in sources:
            read.append(source)
            yield source

    for index, translation in enumerate(search(noted())):
        source = read.popleft()
        if isinstance(translation, GenerationResult) and not source.is_empty and source.prefix:
            prefix = [*first_ids, *source.prefix]
            require_whole_prefix(index, translation.token_ids, prefix, end_token_ids, max_length)
        yield translation


def require_whole_prefix(
    index: int,
    token_ids: Sequence[int],
    prefix: Sequence[int],
    end_token_ids: Sequence[int | None],
    max_length: int | None,
) -> None:
    """Raises an `InputError` if a limit in the file has cut a translation's prefix.

    Args:
        index: int, input position of the sentence.
        token_ids: sequence of ints, the translation's tokens without the end token.
        prefix: sequence of ints.
        end_token_ids, max_length: see `require_whole_prefixes`.
    """
    expected = list(prefix)
    if expected and expected[-1] in end_token_ids:
        expected.pop()
    is_whole = list(token_ids[: len(expected)]) == expected
    if is_whole or (max_length is not None and len(token_ids) >= max_length):
        return
    raise InputError(
        index,
        f"expected a target_prefix of at most {len(token_ids)} tokens, the ids of the language "
        f"included. Received: {len(prefix)} tokens. The limit is the number of learned positions, "
        "or a limit of the search in the file. To remove the limit of the search, export with "
        "`--search relative_max_length=null`.",
    )
