"""Translation prefixes: one for all sentences, or one for each sentence.

A translation is scored as a prefix that ends with the end token.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from numbers import Integral

from keras_attn_runtime._array_types import is_in_memory, is_integer, is_scalar_array
from keras_attn_runtime._file_format import Side
from keras_attn_runtime._inputs.sentences import has_items
from keras_attn_runtime._inputs.source import Source
from keras_attn_runtime._text.tokenizer import Tokenizer
from keras_attn_runtime._translate.read_each import read_each

LEAST_TARGET_CHARACTERS = 16_384
"""A prefix or target may contain this many characters, even if the limit for sources is lower."""


class PrefixReader:
    """Checks translation prefixes and adds them to `Source`s.

    Args:
        side: `Side`, the target.
        max_characters: int, maximum number of characters (code points) in a text. Longer texts are
            rejected.
        end_token_ids: sequence of ints or `None`, the tokens that end a hypothesis.
    """

    def __init__(
        self, side: Side, max_characters: int, end_token_ids: Sequence[int | None]
    ) -> None:
        self.side = side
        self.max_characters = max_characters
        self.end_token_ids = end_token_ids

    def of_texts(
        self, sources: Iterable[Source], target_prefix: object, tokenizer: Tokenizer
    ) -> Iterator[Source]:
        """Adds string prefixes.

        Args:
            sources: iterable of `Source`s.
            target_prefix: one string for all sources, or iterable with one string for each source.
            tokenizer: `Tokenizer`, the target tokenizer.

        Returns:
            Iterator over copies of the sources with prefixes.

        Raises:
            ValueError: if `target_prefix` has a wrong type, or the numbers of prefixes and sources
                differ.
            InputError: if a sentence's prefix is not valid.
        """

        def read(text: object) -> list[int]:
            return self._ids_of_text(text, tokenizer)

        return _with_prefixes(sources, target_prefix, _is_text, read)

    def of_ids(self, sources: Iterable[Source], target_prefix: object) -> Iterator[Source]:
        """Adds id prefixes: one list for all sources, or one list for each source."""
        return _with_prefixes(sources, target_prefix, _are_ids, self._checked_ids)

    def of_targets(
        self,
        sources: Iterable[Source],
        targets: Iterable[object],
        tokenizer: Tokenizer,
        end_token_id: int,
    ) -> Iterator[Source]:
        """Adds whole translations as prefixes, followed by the end token.

        `targets` contains one string for each source.
        """

        def read(text: object) -> list[int]:
            ids = [*self._encoded(text, "target", tokenizer), end_token_id]
            self._require_end_at_end(ids, "target")
            return ids

        return _each_with_its_own(sources, targets, read, "target")

    def _ids_of_text(self, text: object, tokenizer: Tokenizer) -> list[int]:
        ids = self._encoded(text, "target_prefix", tokenizer)
        if tokenizer.unknown_token_id in ids:
            raise ValueError(
                "Expected a target_prefix without unknown characters. Received: "
                f"target_prefix={text!r}."
            )
        self._require_end_at_end(ids, "target_prefix")
        return ids

    def _require_end_at_end(self, ids: Sequence[int], name: str) -> None:
        """Raises `ValueError` if ids contain padding, or tokens after the end token.

        A search ends a hypothesis at the end token, and ignores the rest of the prefix.
        """
        padding = self.side.pad_token_id
        if padding in ids:
            raise ValueError(
                f"Expected padding (id {padding}) of a {name} only at the end. Received: padding "
                f"at position {ids.index(padding)}."
            )
        for index, end in enumerate(ids[:-1]):
            if end in self.end_token_ids:
                raise ValueError(
                    f"Expected the end token (id {end}) of a {name} only at the end. Received: the "
                    f"end token at position {index}."
                )

    def _encoded(self, text: object, name: str, tokenizer: Tokenizer) -> list[int]:
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
        if len(text) > self.max_characters:  # tokenization could take quadratic time
            raise ValueError(
                f"Expected a {name} of at most {self.max_characters} characters. Received: "
                f"{len(text)} characters. Raise max_source_characters: the limit of targets is "
                f"this number, but at least {LEAST_TARGET_CHARACTERS}."
            )
        return tokenizer.encode(text)

    def _checked_ids(self, prefix: object) -> list[int]:
        if not isinstance(prefix, Iterable) or is_scalar_array(prefix):
            raise ValueError(
                f"Expected a target_prefix of ids. Received: type={type(prefix).__name__}."
            )
        ids: list[int] = []
        size, padding = self.side.vocabulary_size, self.side.pad_token_id
        for id_ in prefix:
            if not is_integer(id_) or not 0 <= int(id_) < size:
                raise ValueError(
                    f"Expected ids of a target_prefix in [0, {size}), the target vocabulary. "
                    f"Received: {id_!r}."
                )
            ids.append(int(id_))
        while ids and ids[-1] == padding:
            ids.pop()
        self._require_end_at_end(ids, "target_prefix")
        return ids


def _with_prefixes(
    sources: Iterable[Source],
    target_prefix: object,
    is_one: Callable[[object], bool],
    read: Callable[[object], list[int]],
) -> Iterator[Source]:
    if not has_items(target_prefix):
        raise ValueError(
            "Expected target_prefix to be a prefix of all translations, or a list with one item "
            f"for each. Received: type={type(target_prefix).__name__}."
        )
    if is_one(target_prefix):
        prefix = read(target_prefix)
        return (dataclasses.replace(source, prefix=prefix) for source in sources)
    return _each_with_its_own(sources, target_prefix, read, "target_prefix")


def _each_with_its_own(
    sources: Iterable[Source],
    prefixes: Iterable[object],
    read: Callable[[object], list[int]],
    name: str,
) -> Iterator[Source]:
    pairs = read_each(sources, prefixes, read, name)
    return (dataclasses.replace(source, prefix=ids) for source, ids in pairs)


def _is_text(target_prefix: object) -> bool:
    return isinstance(target_prefix, str)


def _are_ids(target_prefix: object) -> bool:
    if not is_in_memory(target_prefix) or not isinstance(target_prefix, Iterable):
        return False
    return all(isinstance(item, Integral) for item in target_prefix)
