"""Tokenizers of T5 and Pegasus folders."""

import pytest

from keras_attn.convert import from_transformers
from tests.convert.small_checkpoints import ENGLISH, GERMAN, pieces_of, train_pieces

transformers = pytest.importorskip("transformers")
pytest.importorskip("torch")
sentencepiece = pytest.importorskip("sentencepiece")

from tests.convert.against_transformers import randomize, save  # noqa: E402
from tests.convert.test_fairseq_models import make  # noqa: E402
from tests.convert.test_t5_models import t5  # noqa: E402

LINES = [*ENGLISH, *GERMAN]


def test_t5_has_sentinels_behind_its_pieces(tmp_path):
    model = train_pieces(LINES, 50, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    size = len(pieces_of(model))
    save(randomize(t5(vocab_size=size + 100 + 4)), tmp_path)  # T5 has more rows than ids
    (tmp_path / "spiece.model").write_bytes(model)
    tokenizer = from_transformers(tmp_path).source_tokenizer
    original = sentencepiece.SentencePieceProcessor(model_proto=model)
    for line in LINES:
        assert tokenizer.encode([line]) == [original.encode(line)]
        assert tokenizer.decode(tokenizer.encode([line])) == [line]
    texts = ["the <extra_id_0> sleeps<extra_id_1>", "<extra_id_2> </s>katzen", "  x <pad> "]
    assert not [id_ for row in tokenizer.encode(texts) for id_ in row if id_ >= size or id_ < 2]
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    parsing = from_transformers(tmp_path, parse_special_tokens=True).source_tokenizer
    expected = [theirs(text, add_special_tokens=False)["input_ids"] for text in texts]
    assert parsing.encode(texts) == expected
    assert parsing.decode(expected) == theirs.batch_decode(expected, skip_special_tokens=True)


def test_pegasus_has_ids_before_its_pieces(tmp_path):
    model = train_pieces(LINES, 50, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    names = pieces_of(model)
    save(randomize(make("pegasus", vocab_size=len(names) + 103)), tmp_path)
    (tmp_path / "spiece.model").write_bytes(model)
    tokenizer = from_transformers(tmp_path).source_tokenizer
    (ids,) = tokenizer.encode([ENGLISH[0]])
    assert [names[id_ - 103] for id_ in ids] == tokenizer.pieces(ids)
    assert tokenizer.decode([ids]) == [ENGLISH[0]]
