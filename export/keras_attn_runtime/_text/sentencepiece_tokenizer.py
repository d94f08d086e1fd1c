import base64
import binascii
from collections.abc import Iterable

from keras_attn_runtime._errors import ModelFileError
from keras_attn_runtime._file_format import Side
from keras_attn_runtime._text.added_tokens import AddedTokenSplitter, clean_up_spaces
from keras_attn_runtime._text.tokenizer import Tokenizer


class SentencePieceTokenizer(Tokenizer):
    """A SentencePiece model from an exported file's metadata.

    Args:
        encoded_model: string, the serialized SentencePiece model in base64.
        side: `Side`, the tokenizer's side. Its `tokenizer_vocabulary_size` is the number of ids;
            further pieces are replaced by the unknown id.

    Raises:
        ModelFileError: if the model cannot be decoded or loaded.
    """

    def __init__(self, encoded_model: str, side: Side) -> None:
        import sentencepiece  # not at the top: forecasters and files of ids run without it

        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(base64.b64decode(encoded_model, validate=True))
        except (binascii.Error, ValueError, RuntimeError) as error:
            raise ModelFileError(
                f"The tokenizer in the file cannot be read ({error}). The file is damaged; export "
                "it again."
            ) from error
        num_pieces = self._processor.get_piece_size()
        self.vocabulary_size = side.tokenizer_vocabulary_size or num_pieces
        self._has_extra_pieces = self.vocabulary_size < num_pieces
        self.unknown_token_id = self._processor.unk_id()
        self._splitter = AddedTokenSplitter(
            side.added_tokens, side.space_token_id, self._ends_with_space
        )
        self._cleans_up_spaces = side.clean_up_spaces

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for part in self._splitter.split(text):
            ids += [part] if isinstance(part, int) else self._processor.encode(part)
        return self._known(ids) if self._has_extra_pieces else ids

    def spans(self, text: str) -> list[tuple[int, int]]:
        spans: list[tuple[int, int]] = []
        for part, start in self._splitter.split_with_starts(text):
            if isinstance(part, int):
                spans.append((start, start))
                continue
            pieces = self._processor.encode(part, out_type="immutable_proto").pieces
            spans += [(start + piece.begin, start + piece.end) for piece in pieces]
        return spans

    def _ends_with_space(self, text: str) -> bool:
        # SentencePiece removes spaces at both ends of a text.
        normalized: str = self._processor.normalize(f"a{text}a")
        return normalized[-2:-1] in (" ", "\u2581")

    def decode(self, ids: Iterable[int]) -> str:
        text: str = self._processor.decode(self._known(ids))
        return clean_up_spaces(text) if self._cleans_up_spaces else text

    def decode_with_mark(self, ids: Iterable[int], mark: str) -> str:
        # SentencePiece decodes a piece that is not in the vocabulary as it is.
        unknown, find = self.unknown_token_id, self._processor.id_to_piece
        pieces = [mark if id == unknown else find(id) for id in self._known(ids)]
        text: str = self._processor.decode_pieces(pieces)
        return clean_up_spaces(text) if self._cleans_up_spaces else text

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._processor.id_to_piece(id) for id in self._known(ids)]
