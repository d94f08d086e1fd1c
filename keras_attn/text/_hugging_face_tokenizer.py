import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn.text._language import Language
from keras_attn.text._tokenizer import check_texts, rows_of_ids


class HuggingFaceTokenizer:
    """Tokenizer from a `tokenizer.json` for Hugging Face's library `tokenizers`.

    Byte-level BPE (GPT-2, BART, RoBERTa) and WordPiece (BERT) tokenizers use this format. Files
    exported for `keras_attn_runtime` contain the tokenizer. Exported files that take strings as
    inputs, such as a SavedModel, cannot contain it.

    Args:
        model: Bytes, `tokenizer.json`.
        pad_token_id: Int, padding id.
        start_token_id: Int, a decoder's first input.
        end_token_id: Int, id at the end of a sentence.
        languages: Dict from language names to `Language`s. Defaults to `None`: no languages.
        parse_special_tokens: Bool, whether special tokens typed in a text, such as `"</s>"`, become
            their ids. By default they are ordinary characters. Pass `True` only for texts that you
            wrote yourself, such as chat template prompts. Added tokens that are not special always
            become their ids. Defaults to `False`.

    Attributes:
        model: Bytes, `tokenizer.json`.
        vocabulary_size: Int, the largest id plus 1.
        pad_token_id, start_token_id, end_token_id: Ints.
        unknown_token_id: Int, id for text outside the vocabulary. If the tokenizer can encode every
            text and has no such id, it equals `pad_token_id`.
        has_unknown_token: Bool, whether the tokenizer has such an id.
        languages: Dict from language names to `Language`s.
        parse_special_tokens: Bool.

    Raises:
        ImportError: If the package `tokenizers` is not installed.
        ValueError: If the bytes are not a tokenizer, or an id is outside the vocabulary.

    Example:

    ```python
    model = Path("bart-base/tokenizer.json").read_bytes()
    tokenizer = HuggingFaceTokenizer(model, pad_token_id=1, start_token_id=2, end_token_id=2)
    ids = tokenizer.encode(["A man sleeps."])
    tokenizer.decode(ids)  # ["A man sleeps."]
    ```
    """

    format = "tokenizers"
    """Format name in run directories and exported files."""

    suffix = ".json"
    """Suffix of files written by `save`."""

    has_extra_pieces = False

    def __init__(
        self,
        model: bytes,
        *,
        pad_token_id: int,
        start_token_id: int,
        end_token_id: int,
        languages: Mapping[str, Language] | None = None,
        parse_special_tokens: bool = False,
    ) -> None:
        tokenizers = _import_tokenizers()
        self.model = bytes(model)
        try:
            text = self.model.decode()
            self._tokenizer: Any = tokenizers.Tokenizer.from_str(text)
            parsed = json.loads(text)["model"]
        except Exception as error:  # `tokenizers` raises plain exceptions
            raise ValueError(
                f"Expected the content of a tokenizer.json. Received: {len(self.model)} bytes that "
                f"cannot be read ({error}). Copy the file again."
            ) from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        vocabulary = self._tokenizer.get_vocab()
        self._pieces = {id_: piece for piece, id_ in vocabulary.items()}
        self.vocabulary_size = max(self._pieces) + 1
        ids = {
            "pad_token_id": pad_token_id,
            "start_token_id": start_token_id,
            "end_token_id": end_token_id,
        }
        for name, id_ in ids.items():
            if not 0 <= id_ < self.vocabulary_size:
                raise ValueError(
                    f"Expected {name} to be in [0, {self.vocabulary_size}), the vocabulary. "
                    f"Received: {name}={id_}."
                )
        self.pad_token_id, self.start_token_id, self.end_token_id = map(int, ids.values())
        unknown = parsed.get("unk_id")
        if unknown is None:
            unknown = vocabulary.get(parsed.get("unk_token") or "", self.pad_token_id)
        self.unknown_token_id = int(unknown)
        self.has_unknown_token = self.unknown_token_id not in self._special_ids
        self.languages = dict(languages or {})
        self.parse_special_tokens = parse_special_tokens
        self._tokenizer.encode_special_tokens = not parse_special_tokens
        added = self._tokenizer.get_added_tokens_decoder()
        special = {id_ for id_, token in added.items() if token.special}
        self._special_added = special
        self._never_typed = set() if parse_special_tokens else special - {self.unknown_token_id}

    @property
    def _special_ids(self):
        return {self.pad_token_id, self.start_token_id, self.end_token_id}

    @classmethod
    def load(cls, path: str | PathLike, **arguments: Any) -> "HuggingFaceTokenizer":
        """Creates a tokenizer from a file.

        Args:
            path: Path of a `tokenizer.json`.
            **arguments: Further constructor arguments.

        Returns:
            A `HuggingFaceTokenizer`.
        """
        return cls(Path(path).read_bytes(), **arguments)

    def save(self, path: str | PathLike) -> None:
        """Writes the `tokenizer.json` atomically.

        Args:
            path: File path.
        """
        with atomic_replace(path) as partial:
            partial.write_bytes(self.model)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns one list of ids per text, without start, end and padding ids.

        Args:
            texts: List of strings.
        """
        check_texts(texts)
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        rows = [encoding.ids for encoding in encodings]
        if self._never_typed:
            return [[id_ for id_, _ in self._without_special_tokens(row)] for row in rows]
        return rows

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Returns the positions in one text that each id of `encode` represents.

        Args:
            text: String.

        Returns:
            List with a pair for each id: the first position in the text before normalization, and
            the position after the last. A span can be empty.
        """
        check_texts([text])
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        indices = [index for _, index in self._without_special_tokens(encoding.ids)]
        return [encoding.offsets[index] for index in indices]

    def _without_special_tokens(self, ids):
        """Replaces special tokens that the model itself finds by the ids of their parts.

        A unigram model contains special tokens among its pieces. The library's option
        `encode_special_tokens` does not concern them.

        Returns:
            List of pairs: an id, and the index of the id in `ids` that it is a part of.
        """
        if self._never_typed.isdisjoint(ids):
            return [(id_, index) for index, id_ in enumerate(ids)]
        rest = []
        for index, id_ in enumerate(ids):
            parts = self._parts(self._pieces[id_]) if id_ in self._never_typed else [id_]
            for part in parts:
                # As in a text, adjacent unknown characters are one unknown token.
                is_first = not rest or rest[-1][0] != part
                if len(parts) == 1 or part != self.unknown_token_id or is_first:
                    rest.append((part, index))
        return rest

    def _parts(self, piece):
        """Returns the ids of a piece's first character and its rest."""
        ids = []
        for part in (piece[:1], piece[1:]):
            for token in self._tokenizer.model.tokenize(part) if part else []:
                if token.id not in self._never_typed:
                    ids.append(token.id)
                elif len(token.value) > 1:
                    ids += self._parts(token.value)
                else:
                    ids.append(self.unknown_token_id)
        return ids

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Returns one text per row of ids, without special ids.

        Args:
            ids: List of lists of ids, or an int array with shape `(batch, length)`.

        Returns:
            List of strings.
        """
        special = self._special_ids
        rows = [[id_ for id_ in row if id_ not in special] for row in rows_of_ids(ids)]
        return self._tokenizer.decode_batch(rows, skip_special_tokens=True)

    def decode_with_mark(self, ids: Sequence[int], mark: str) -> str:
        """Returns the text for one row of ids, with `mark` in place of each unknown id.

        Args:
            ids: List of ids.
            mark: String that is not a piece.
        """
        unknown = self.unknown_token_id
        left_out = (self._special_ids | self._special_added) - {unknown}
        (row,) = rows_of_ids([ids])
        row = [id_ for id_ in row if id_ in self._pieces and id_ not in left_out]
        tokens = [mark if id_ == unknown else self._pieces[id_] for id_ in row]
        decoder = self._tokenizer.decoder
        return " ".join(tokens) if decoder is None else decoder.decode(tokens)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns each id's piece, for one row of ids."""
        return [self._pieces.get(id_, "") for id_ in rows_of_ids([ids])[0]]


def _import_tokenizers():
    try:
        import tokenizers
    except ImportError as error:
        raise ImportError(
            "Expected the package tokenizers for HuggingFaceTokenizer: "
            "`pip install '.[tokenizers]'` in a checkout."
        ) from error
    return tokenizers
