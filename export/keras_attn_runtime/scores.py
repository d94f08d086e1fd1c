"""How probable given translations are, from a search that is told all of each."""

import collections

from keras_attn_runtime.errors import SentenceError


def require_tokens(sources):
    """Yields the sources; raises `SentenceError` at one without tokens: no model runs on it."""
    for index, source in enumerate(sources):
        if not source.ids:
            raise SentenceError(index, "expected a text with tokens. Received: one without.")
        yield source


def scores(sources, search):
    """Yields the `Translation` of each source, which is all of its prefix.

    Args:
        sources: iterable of `Source`s, whose prefixes end with the end token.
        search: function from sources to their translations, lazily and in order.

    Raises:
        SentenceError: if a limit has cut one.
    """
    read = collections.deque()

    def noted():
        for source in sources:
            read.append(source)
            yield source

    for index, translation in enumerate(search(noted())):
        target = read.popleft().prefix
        if not translation.ended or translation.token_ids != target[:-1]:
            raise SentenceError(
                index,
                f"expected a target of at most {len(translation.token_ids)} tokens, the end token "
                f"included, the limit for this text. Received: {len(target)}. It is that of "
                "max_length, of the positions that the model has learned, or of the file's search: "
                "export it with `--search relative_max_length=null`.",
            )
        yield translation
