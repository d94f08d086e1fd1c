"""What translations begin with: for all of them the same, or for each its own.

A whole translation, given to be scored, is such a prefix too: one that ends with the end token.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Set
from numbers import Integral

import numpy as np

from keras_attn_runtime.errors import SentenceError

LEAST_TARGET_CHARACTERS = 16_384
"""A prefix or target may have so many characters, also of a file whose sources are shorter."""


class PrefixReader:
    """Gives each `Source` the ids that its translation begins with.

    Args:
        tokenizer: `Tokenizer` of the target language, or `None`.
        side: `Side` of the target.
        max_characters: int, limit of characters (code points) of a text; a longer one is refused.
    """

    def __init__(self, tokenizer, side, max_characters):
        self.tokenizer = tokenizer
        self.side = side
        self.max_characters = max_characters

    def of_texts(self, sources, target_prefix):
        """Yields the sources with prefixes: a string for all, or an iterable of one for each."""
        return self._with_prefixes(sources, target_prefix, _is_text, self._ids_of_text)

    def of_ids(self, sources, target_prefix):
        """Yields the sources with prefixes: ids for all, or an iterable of ids for each."""
        return self._with_prefixes(sources, target_prefix, _are_ids, self._checked_ids)

    def of_targets(self, sources, targets):
        """Yields the sources with whole translations, an iterable of one string for each."""
        return self._each_with_its_own(sources, targets, self._ids_of_target, "target")

    def _with_prefixes(self, sources, target_prefix, is_one, read):
        is_number = isinstance(target_prefix, np.ndarray) and target_prefix.ndim == 0
        is_iterable = hasattr(target_prefix, "__iter__") and not is_number
        if not is_iterable or isinstance(target_prefix, (bytes, Mapping, Set)):
            raise ValueError(
                "Expected target_prefix to be what all translations begin with, or a list with "
                f"one item for each. Received: type={type(target_prefix).__name__}."
            )
        if is_one(target_prefix):
            prefix = read(target_prefix)
            return (dataclasses.replace(source, prefix=prefix) for source in sources)
        return self._each_with_its_own(sources, target_prefix, read)

    def _each_with_its_own(self, sources, prefixes, read, name="target_prefix"):
        nothing = object()
        pairs = itertools.zip_longest(sources, prefixes, fillvalue=nothing)
        for index, (source, prefix) in enumerate(pairs):
            if source is nothing or prefix is nothing:
                more = "more than" if source is nothing else "only"
                raise ValueError(
                    f"Expected one {name} for each sentence. Received: {more} {index}."
                )
            try:
                ids = read(prefix)
            except ValueError as error:
                raise SentenceError(index, str(error)) from error
            yield dataclasses.replace(source, prefix=ids)

    def _ids_of_target(self, text):
        return [*self._encoded(text, "target"), self.side.end_token_id]

    def _ids_of_text(self, text):
        ids = self._encoded(text, "target_prefix")
        if self.tokenizer.unknown_token_id in ids:
            raise ValueError(
                "Expected a target_prefix that the tokenizer knows. Received: "
                f"{text!r}, in which there are unknown characters."
            )
        return ids

    def _encoded(self, text, name):
        if not isinstance(text, str):
            raise ValueError(
                f"Expected {name} to be a string, or strings. Received: type={type(text).__name__}."
            )
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"Expected a {name} that can be written as UTF-8. Received: {error.reason}."
            ) from error
        if len(text) > self.max_characters:  # see `SourceReader`
            raise ValueError(
                f"Expected a {name} of at most {self.max_characters} characters. Received: a "
                "longer text. Raise max_source_characters, which is the limit of targets too where "
                f"it is above {LEAST_TARGET_CHARACTERS}."
            )
        return self.tokenizer.encode(text)

    def _checked_ids(self, ids):
        try:
            ids = list(ids)
        except TypeError as error:
            raise ValueError(
                f"Expected a target_prefix of ids. Received: type={type(ids).__name__}."
            ) from error
        size, padding = self.side.vocabulary_size, self.side.pad_token_id
        for each in ids:
            is_id = isinstance(each, Integral) and not isinstance(each, bool)
            if not is_id or not 0 <= each < size:
                raise ValueError(
                    f"Expected ids of a target_prefix in [0, {size}), the target vocabulary. "
                    f"Received: {each!r}."
                )
        ids = [int(each) for each in ids]
        while ids and ids[-1] == padding:
            ids.pop()
        if padding in ids:
            raise ValueError(
                f"Expected padding (id {padding}) of a target_prefix only at the end. Received: "
                f"padding at position {ids.index(padding)}."
            )
        return ids


def _is_text(target_prefix):
    return isinstance(target_prefix, str)


def _are_ids(target_prefix):
    is_sequence = isinstance(target_prefix, (list, tuple, np.ndarray))
    return is_sequence and all(isinstance(each, Integral) for each in target_prefix)
