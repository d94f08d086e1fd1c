import base64
import json
from collections.abc import Iterable
from typing import Any

from keras_attn_runtime._errors import ModelFileError
from keras_attn_runtime._file_format import Side
from keras_attn_runtime._text.tokenizer import Tokenizer


class JsonTokenizer(Tokenizer):
    """A `tokenizer.json` for Hugging Face's library tokenizers, from file metadata.

    Args:
        encoded_model: string, `tokenizer.json` in base64.
        side: `Side`, the tokenizer's side. Its special ids are not decoded. Unless
            `side.parse_special_tokens` is true, special tokens typed in a text are ordinary
            characters.

    Raises:
        ImportError: if the package tokenizers is not installed.
        ModelFileError: if the content cannot be decoded or loaded.
    """

    def __init__(self, encoded_model: str, side: Side) -> None:
        try:
            import tokenizers
        except ImportError as error:
            raise ImportError(
                "Expected the package tokenizers, because the file contains a tokenizer of Hugging "
                "Face. Install it: `pip install './export[tokenizers]'` in a checkout."
            ) from error
        try:
            text = base64.b64decode(encoded_model, validate=True).decode()
            self._tokenizer: Any = tokenizers.Tokenizer.from_str(text)
        except Exception as error:  # the package tokenizers raises `Exception` itself
            raise ModelFileError(
                f"The tokenizer in the file cannot be read ({error}). The file is damaged; export "
                "it again."
            ) from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._pieces = {id: piece for piece, id in self._tokenizer.get_vocab().items()}
        self.vocabulary_size = max(self._pieces) + 1
        # Byte-level models define no unknown token, because they encode every text.
        unknown = _unknown_token_id(json.loads(text)["model"], self._tokenizer.get_vocab())
        self.unknown_token_id = side.pad_token_id if unknown is None else unknown
        ids = (side.pad_token_id, side.start_token_id, side.end_token_id)
        self._special_ids = {id for id in ids if id is not None}
        self.has_unknown_token = unknown is not None and unknown not in self._special_ids
        self._tokenizer.encode_special_tokens = not side.parse_special_tokens
        added: dict[int, Any] = self._tokenizer.get_added_tokens_decoder()
        special = {id for id, token in added.items() if token.special}
        self._special_added = frozenset(special)
        special.discard(self.unknown_token_id)
        self._never_typed: set[int] = set() if side.parse_special_tokens else special

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        if self._never_typed.isdisjoint(ids):
            return ids
        return [id for id, _ in self._without_special_tokens(ids)]

    def spans(self, text: str) -> list[tuple[int, int]]:
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        spans: list[tuple[int, int]] = encoding.offsets
        if self._never_typed.isdisjoint(encoding.ids):
            return spans
        return [spans[index] for _, index in self._without_special_tokens(encoding.ids)]

    def _without_special_tokens(self, ids: list[int]) -> list[tuple[int, int]]:
        """Replaces special tokens that the model itself finds by the ids of their parts.

        A unigram model contains special tokens among its pieces. The library's option
        `encode_special_tokens` does not concern them.

        Returns:
            List of pairs: an id, and the index of the id in `ids` that it is a part of.
        """
        rest: list[tuple[int, int]] = []
        for index, id in enumerate(ids):
            parts = self._parts(self._pieces[id]) if id in self._never_typed else [id]
            for part in parts:
                # As in a text, adjacent unknown characters are one unknown token.
                is_first = not rest or rest[-1][0] != part
                if len(parts) == 1 or part != self.unknown_token_id or is_first:
                    rest.append((part, index))
        return rest

    def _parts(self, piece: str) -> list[int]:
        """Returns the ids of a piece's first character and its rest."""
        ids: list[int] = []
        for part in (piece[:1], piece[1:]):
            tokens: list[Any] = self._tokenizer.model.tokenize(part) if part else []
            for token in tokens:
                if token.id not in self._never_typed:
                    ids.append(token.id)
                elif len(token.value) > 1:
                    ids += self._parts(token.value)
                else:
                    ids.append(self.unknown_token_id)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        rest = [id for id in self._known(ids) if id not in self._special_ids]
        return self._tokenizer.decode(rest, skip_special_tokens=True)

    def decode_with_mark(self, ids: Iterable[int], mark: str) -> str:
        unknown = self.unknown_token_id
        left_out = (self._special_ids | self._special_added) - {unknown}
        rest = [id for id in self._known(ids) if id in self._pieces and id not in left_out]
        tokens = [mark if id == unknown else self._pieces[id] for id in rest]
        decoder = self._tokenizer.decoder
        return " ".join(tokens) if decoder is None else decoder.decode(tokens)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._pieces.get(id, "") for id in ids]


def _unknown_token_id(model: dict[str, Any], vocabulary: dict[str, int]) -> int | None:
    unknown = model.get("unk_id")
    return vocabulary.get(model.get("unk_token") or "") if unknown is None else unknown
