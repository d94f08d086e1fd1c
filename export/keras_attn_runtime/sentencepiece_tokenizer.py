import base64
import binascii
from collections.abc import Iterable

import sentencepiece

from keras_attn_runtime.errors import ModelFileError
from keras_attn_runtime.tokenizer import Tokenizer


class SentencePieceTokenizer(Tokenizer):
    """A SentencePiece model from the metadata of an exported file.

    Args:
        encoded_model: string, the serialized SentencePiece model in base64.
        vocabulary_size: int, number of ids; the ids of further pieces are replaced by the unknown
            id. Default: the number of pieces.

    Raises:
        ModelFileError: if the model cannot be decoded or loaded.
    """

    def __init__(self, encoded_model: str, vocabulary_size: int | None = None) -> None:
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(base64.b64decode(encoded_model, validate=True))
        except (binascii.Error, ValueError, RuntimeError) as error:
            raise ModelFileError(
                f"The tokenizer in the file cannot be read ({error}). The file is damaged; export "
                "it again."
            ) from error
        num_pieces = self._processor.get_piece_size()
        self.vocabulary_size = num_pieces if vocabulary_size is None else vocabulary_size
        self._has_extra_pieces = self.vocabulary_size < num_pieces
        self.unknown_token_id = self._processor.unk_id()

    def encode(self, text: str) -> list[int]:
        ids = self._processor.encode(text)
        return self._known(ids) if self._has_extra_pieces else ids

    def decode(self, ids: Iterable[int]) -> str:
        return self._processor.decode(self._known(ids))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._processor.id_to_piece(id) for id in self._known(ids)]
