"""Segmentations are those of the original model, ids those of the vocabulary."""

import io

import pytest

from keras_attn.convert._checkpoint_vocabularies import (
    fairseq_vocabulary,
    pegasus_vocabulary,
    t5_vocabulary,
)
from keras_attn.convert._renumber_pieces import renumber_pieces
from keras_attn.text import SentencePieceTokenizer

sentencepiece = pytest.importorskip("sentencepiece")
pytest.importorskip("google.protobuf")

ENGLISH = ["the cat sleeps in the red house", "a dog eats the bone of the cat", "two cats sleep"]
GERMAN = ["die katze schläft im haus", "der hund frisst den knochen", "zwei katzen schlafen"]
LINES = [*ENGLISH, *GERMAN, "the kätzchen", "  two   houses ", "", "x☃y ☃☃ the", "2 dogs"]


def train(lines, model_type="unigram", **ids):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 4),
        model_writer=model,
        vocab_size=48,
        model_type=model_type,
        hard_vocab_limit=False,
        minloglevel=2,
        **ids,
    )
    return model.getvalue()


def processor(model):
    return sentencepiece.SentencePieceProcessor(model_proto=model)


def pieces_of(model):
    found = processor(model)
    return [found.id_to_piece(id_) for id_ in range(found.get_piece_size())]


def joint_vocabulary(*models, without=()):
    """A vocabulary of all pieces, in another order than in the models."""
    special = ["</s>", "<unk>", "<s>"]
    names = {name for model in models for name in pieces_of(model)} - {*special, *without}
    ordered = [*special[:2], *sorted(names, key=lambda name: name[::-1]), "<pad>"]
    return {name: id_ for id_, name in enumerate(ordered)}


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def models(request):
    return train(ENGLISH, request.param), train(GERMAN, request.param)


def test_ids_are_those_of_the_vocabulary(models):
    vocabulary = joint_vocabulary(*models)
    for model in models:
        old, new = processor(model), processor(renumber_pieces(model, vocabulary))
        for line in LINES:
            pieces = old.encode(line, out_type=str)
            ids = new.encode(line)
            if all(piece in vocabulary for piece in pieces):
                assert ids == [vocabulary[piece] for piece in pieces]
                assert new.decode(ids) == old.decode_pieces(pieces)
    assert sum(vocabulary[name] for name in ("</s>", "<unk>")) == 1  # not the ids of the models


def test_ids_of_the_other_model_are_decoded(models):
    vocabulary = joint_vocabulary(*models)
    english = processor(renumber_pieces(models[0], vocabulary))
    german = processor(renumber_pieces(models[1], vocabulary))
    for line in GERMAN:
        assert english.decode(german.encode(line)) == line


def test_special_ids_are_decoded_to_nothing(models):
    vocabulary = {**joint_vocabulary(*models), "de_DE": 200}
    model = renumber_pieces(models[0], vocabulary, size=210, control_pieces=["de_DE"])
    new = processor(model)
    ids = new.encode("the cat")
    assert new.unk_id() == 1 and new.eos_id() == 0 and new.bos_id() == -1
    assert new.pad_id() == vocabulary["<pad>"] and new.get_piece_size() == 210
    for special in (0, 1, 200, 205, vocabulary["<pad>"]):
        assert new.decode([special, *ids, special]) == "the cat"


def test_pieces_outside_of_the_vocabulary_are_unknown(models, tmp_path):
    old = processor(models[0])
    missing = [piece for piece in old.encode(ENGLISH[0], out_type=str) if len(piece) > 2][:2]
    vocabulary = joint_vocabulary(*models, without=missing)
    size = len(vocabulary) + 5  # as many ids as the network has
    model = renumber_pieces(models[0], vocabulary, size=size)
    tokenizer = SentencePieceTokenizer(
        model, start_token_id=vocabulary["<pad>"], vocabulary_size=size
    )
    assert tokenizer.has_extra_pieces and tokenizer.vocabulary_size == size
    expected = [vocabulary.get(piece, 1) for piece in old.encode(ENGLISH[0], out_type=str)]
    assert 1 in expected and tokenizer.encode(ENGLISH[:1]) == [expected]


def test_extra_pieces_are_unknown_in_a_graph(models):
    pytest.importorskip("tensorflow_text")
    missing = [piece for piece in pieces_of(models[0]) if len(piece) > 2][3:8]
    vocabulary = joint_vocabulary(*models, without=missing)
    model = renumber_pieces(models[0], vocabulary)
    pad, size = vocabulary["<pad>"], len(vocabulary)
    tokenizer = SentencePieceTokenizer(model, start_token_id=pad, vocabulary_size=size)
    rows = tokenizer.to_tensorflow().encode(ENGLISH).numpy().tolist()
    assert [[id_ for id_ in row if id_ != pad] for row in rows] == tokenizer.encode(ENGLISH)
    assert any(1 in row for row in rows)


@pytest.mark.parametrize("size", [0, 10_000])
def test_a_vocabulary_size_out_of_range_is_refused(models, size):
    model = renumber_pieces(models[0], joint_vocabulary(*models))
    with pytest.raises(ValueError, match=f"Received: vocabulary_size={size}"):
        SentencePieceTokenizer(model, start_token_id=0, vocabulary_size=size)


def test_tags_are_recognized_before_a_text(models):
    vocabulary = joint_vocabulary(*models)
    tags = {f">>{name}<<": len(vocabulary) + number for number, name in enumerate(("fra", "deu"))}
    plain = processor(renumber_pieces(models[0], vocabulary))
    vocabulary = {**vocabulary, **tags}
    tagged = processor(renumber_pieces(models[0], vocabulary, user_defined_pieces=tags))
    for line in ENGLISH:
        for tag, id_ in tags.items():
            assert tagged.encode(f"{tag} {line}") == [id_, *plain.encode(line)]


def test_sentinels_of_t5_are_recognized_and_kept():
    model = train(ENGLISH, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    vocabulary = t5_vocabulary(model, 10)
    size = len(pieces_of(model))
    assert vocabulary["<extra_id_0>"] == size + 9 and vocabulary["<extra_id_9>"] == size
    sentinels = [f"<extra_id_{number}>" for number in range(10)]
    new = processor(renumber_pieces(model, vocabulary, user_defined_pieces=sentinels))
    the, cat = (processor(model).encode(word) for word in ("the", "cat"))
    text = "the <extra_id_0> cat <extra_id_1>"
    assert new.encode(text) == [*the, size + 9, *cat, size + 8]
    assert new.decode(new.encode(text)) == text


def test_vocabulary_of_fairseq_is_shifted_by_one():
    model = train(ENGLISH)  # <unk> 0, <s> 1, </s> 2
    codes = ["en_XX", "de_DE"]
    vocabulary = fairseq_vocabulary(model, codes)
    size = len(pieces_of(model))
    assert [vocabulary[name] for name in ("<s>", "<pad>", "</s>", "<unk>")] == [0, 1, 2, 3]
    assert [vocabulary[name] for name in (*codes, "<mask>")] == [size + 1, size + 2, size + 3]
    new = renumber_pieces(model, vocabulary, control_pieces=["<mask>", *codes])
    for line in ENGLISH:
        assert processor(new).encode(line) == [id_ + 1 for id_ in processor(model).encode(line)]


def test_vocabulary_of_pegasus_is_shifted_by_103():
    model = train(ENGLISH, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    vocabulary = pegasus_vocabulary(model)
    assert (vocabulary["<pad>"], vocabulary["</s>"], vocabulary["<mask_2>"]) == (0, 1, 3)
    assert vocabulary["<unk_102>"] == 104 and vocabulary["<unk>"] == 105
    new = processor(renumber_pieces(model, vocabulary))
    for line in ENGLISH:
        assert new.encode(line) == [id_ + 103 for id_ in processor(model).encode(line)]


@pytest.mark.parametrize(
    ("vocabulary", "settings", "message"),
    [
        ({"a": 0}, {}, r"with the pieces \['<unk>'\]. Received: a vocabulary of 1 pieces"),
        ({"<unk>": 0, "a": 0}, {}, "Received: id 0 for 'a' and '<unk>'"),
        ({"<unk>": -1}, {}, "Received: id -1 for '<unk>'."),
        ({"<unk>": 0, "a": 7}, {"size": 7}, "size to be at least 8.* Received: size=7"),
        ({"<unk>": 0}, {"control_pieces": ["de"]}, r"without \['de'\]"),
    ],
    ids=str,
)
def test_wrong_vocabularies_are_refused(models, vocabulary, settings, message):
    with pytest.raises(ValueError, match=message):
        renumber_pieces(models[0], vocabulary, **settings)
