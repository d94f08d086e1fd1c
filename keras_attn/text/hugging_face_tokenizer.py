import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn.text.language import Language
from keras_attn.text.tokenizer import check_texts, rows_of_ids


class HuggingFaceTokenizer:
    """Tokenizer from a `tokenizer.json` of Hugging Face's library `tokenizers`.

    Byte-level BPE (GPT-2, BART, RoBERTa) and WordPiece (BERT) tokenizers have this format. Files
    that are exported for `keras_attn_runtime` contain the tokenizer. Exported files that take
    strings as inputs, such as a SavedModel, cannot contain it.

    Args:
        model: Bytes of `tokenizer.json`.
        pad_token_id: Int, id of padding.
        start_token_id: Int, first input of a decoder.
        end_token_id: Int, id of the end of a sentence.
        languages: Dict from names of languages to `Language`s. Defaults to `None`: no languages.
        parse_special_tokens: Bool, whether special tokens that are typed in a text, such as
            `"</s>"`, become their ids. By default they are ordinary characters. Pass `True` only
            for texts that you wrote yourself, such as prompts of a chat template. Added tokens that
            are not special always become their ids. Defaults to `False`.

    Attributes:
        model: Bytes of `tokenizer.json`.
        vocabulary_size: Int, the largest id plus 1.
        pad_token_id, start_token_id, end_token_id: Ints.
        unknown_token_id: Int, id of text outside of the vocabulary. If the tokenizer has no such
            id, because it can encode every text, the attribute equals `pad_token_id`.
        languages: Dict from names of languages to `Language`s.
        parse_special_tokens: Bool.

    Raises:
        ImportError: If the package `tokenizers` is not installed.
        ValueError: If the bytes are not a tokenizer, or an id is outside of the vocabulary.

    Example:

    ```python
    model = Path("bart-base/tokenizer.json").read_bytes()
    tokenizer = HuggingFaceTokenizer(model, pad_token_id=1, start_token_id=2, end_token_id=2)
    ids = tokenizer.encode(["A man sleeps."])
    tokenizer.decode(ids)  # ["A man sleeps."]
    ```
    """

    format = "tokenizers"
    """Name of the format in run directories and exported files."""

    suffix = ".json"
    """Suffix of the files that `save` writes."""

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
            own = json.loads(text)["model"]
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
        unknown = own.get("unk_id")
        if unknown is None:
            unknown = vocabulary.get(own.get("unk_token") or "", self.pad_token_id)
        self.unknown_token_id = int(unknown)
        self.languages = dict(languages or {})
        self.parse_special_tokens = parse_special_tokens
        self._tokenizer.encode_special_tokens = not parse_special_tokens
        added = self._tokenizer.get_added_tokens_decoder()
        special = {id_ for id_, token in added.items() if token.special}
        self._never_typed = set() if parse_special_tokens else special - {self.unknown_token_id}

    @classmethod
    def load(cls, path: str | PathLike, **arguments: Any) -> "HuggingFaceTokenizer":
        """Creates a tokenizer from a file.

        Args:
            path: Path of a `tokenizer.json`.
            **arguments: Further arguments of the constructor.

        Returns:
            A `HuggingFaceTokenizer`.
        """
        return cls(Path(path).read_bytes(), **arguments)

    def save(self, path: str | PathLike) -> None:
        """Writes the `tokenizer.json` atomically.

        Args:
            path: Path of the file.
        """
        with atomic_replace(path) as partial:
            partial.write_bytes(self.model)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns one list of ids per text, without start, end and padding ids.

        Args:
            texts: List of strings.
        """
        check_texts(texts)
        found = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        rows = [each.ids for each in found]
        if self._never_typed:
            return [self._without_special_tokens(row) for row in rows]
        return rows

    def _without_special_tokens(self, ids):
        """Replaces the ids of special tokens that the model itself finds, by ids of their parts.

        A unigram model has special tokens among its pieces. The option `encode_special_tokens` of
        the library does not concern them.
        """
        if self._never_typed.isdisjoint(ids):
            return ids
        rest = []
        for id_ in ids:
            parts = self._parts(self._pieces[id_]) if id_ in self._never_typed else [id_]
            for part in parts:
                # As in a text, adjacent unknown characters are one unknown token.
                if len(parts) == 1 or part != self.unknown_token_id or rest[-1:] != [part]:
                    rest.append(part)
        return rest

    def _parts(self, piece):
        """Returns the ids of the first character of a piece and of the rest."""
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
            ids: List of lists of ids, or an int array of shape `(batch, length)`.

        Returns:
            List of strings.
        """
        special = {self.pad_token_id, self.start_token_id, self.end_token_id}
        rows = [[id_ for id_ in row if id_ not in special] for row in rows_of_ids(ids)]
        return self._tokenizer.decode_batch(rows, skip_special_tokens=True)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the piece of each id, for one row of ids."""
        return [self._pieces.get(id_, "") for id_ in rows_of_ids([ids])[0]]


def _import_tokenizers():
    try:
        import tokenizers
    except ImportError as error:
        raise ImportError(
            "Expected the package tokenizers for HuggingFaceTokenizer: "
            "`pip install keras-attn[tokenizers]`."
        ) from error
    return tokenizers
