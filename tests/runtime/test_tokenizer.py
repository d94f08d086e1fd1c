"""The tokenizer in the file."""

import dataclasses

from keras_attn_runtime._file_format.vocabulary_side import AddedToken, Side
from keras_attn_runtime._text.sentencepiece_tokenizer import SentencePieceTokenizer
from sentencepiece import sentencepiece_model_pb2

from tests.runtime.fake_model import metadata

SIDE = Side(40, 0, tokenizer="sentencepiece")


def test_special_ids_have_no_text(tokenizer_model):
    tokenizer = SentencePieceTokenizer(
        metadata(tokenizer_model)["keras_attn.source_tokenizer"], SIDE
    )
    ids = tokenizer.encode("two dogs")
    assert tokenizer.decode([1, *ids, 2, 0, 0]) == "two dogs"
    assert tokenizer.decode([]) == ""
    assert tokenizer.pieces([0, 1, 2, 3]) == ["<pad>", "<s>", "</s>", "<unk>"]


def test_ids_beyond_the_vocabulary_are_unknown(tokenizer_model):
    encoded = metadata(tokenizer_model)["keras_attn.source_tokenizer"]
    whole = SentencePieceTokenizer(encoded, SIDE)
    side = dataclasses.replace(SIDE, tokenizer_vocabulary_size=20)
    smaller = SentencePieceTokenizer(encoded, side)
    ids = whole.encode("two dogs run over the field")
    assert max(ids) >= 20 > min(ids)
    assert smaller.encode("two dogs run over the field") == [id if id < 20 else 3 for id in ids]
    assert smaller.vocabulary_size == 20


def test_tie_is_broken_as_in_training():
    """Reason for the version pin: sentencepiece 0.2.2 returns ". ..", tensorflow_text ".. ."."""
    model = sentencepiece_model_pb2.ModelProto()
    kinds = model.SentencePiece
    for name in ("<pad>", "<s>", "</s>"):
        model.pieces.add(piece=name, score=0.0, type=kinds.CONTROL)
    model.pieces.add(piece="<unk>", score=0.0, type=kinds.UNKNOWN)
    model.pieces.add(piece=".", score=-3.1, type=kinds.NORMAL)
    model.pieces.add(piece="..", score=-1.7, type=kinds.NORMAL)
    model.trainer_spec.pad_id = 0
    model.trainer_spec.bos_id = 1
    model.trainer_spec.eos_id = 2
    model.trainer_spec.unk_id = 3
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = False
    encoded = metadata(model.SerializeToString())["keras_attn.source_tokenizer"]
    tokenizer = SentencePieceTokenizer(encoded, SIDE)
    assert tokenizer.pieces(tokenizer.encode("...")) == ["..", "."]


def test_added_tokens_are_found_as_in_keras(tokenizer_model):
    from keras_attn.text import AddedToken as KerasAddedToken
    from keras_attn.text import SentencePieceTokenizer as KerasTokenizer
    from tests.text.test_added_tokens import TEXTS, TOKENS

    tokens = tuple(AddedToken(**vars(token)) for token in TOKENS)
    options = {"space_token_id": 5, "clean_up_spaces": True, "parse_special_tokens": True}
    side = dataclasses.replace(SIDE, added_tokens=tokens, **options)
    encoded = metadata(tokenizer_model)["keras_attn.source_tokenizer"]
    tokenizer = SentencePieceTokenizer(encoded, side)
    given = [KerasAddedToken(**vars(token)) for token in TOKENS]
    expected = KerasTokenizer(tokenizer_model, added_tokens=given, **options)
    ids = [tokenizer.encode(text) for text in TEXTS]
    assert ids == expected.encode(TEXTS)
    assert [tokenizer.decode(row) for row in ids] == expected.decode(ids)
