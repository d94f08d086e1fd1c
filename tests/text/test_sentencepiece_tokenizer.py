import gzip
import io
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from keras_attn.convert._renumber_pieces import import_sentencepiece_protobuf, renumber_pieces
from keras_attn.text import (
    SentencePieceTokenizer,
    SpecialTokenIds,
    Tokenizer,
)
from keras_attn.text._subword_sampling import replace_unknown_parts
from keras_attn.text._training_sentences import LONGEST_LINE, TrainingSentences
from tests.text.corpus_text import ENGLISH, GERMAN, sentences

spm = pytest.importorskip("sentencepiece")


@pytest.fixture(scope="module")
def text_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "train.txt"
    path.write_text("\n".join(sentences(ENGLISH, 300) + sentences(GERMAN, 300)) + "\n")
    return path


@pytest.fixture(scope="module")
def code_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("code") / "train.py"
    path.write_text("def f(x):\n\tif x:\n        return  x  # end \n" * 20)
    return path


@pytest.fixture(scope="module")
def tokenizer(text_file):
    return SentencePieceTokenizer.train(text_file, 90, "bpe")


@pytest.mark.parametrize("model_type", ["unigram", "bpe", "char"])
def test_every_model_type_undoes_its_encoding(text_file, model_type):
    tokenizer = SentencePieceTokenizer.train([text_file], 60, model_type)
    texts = sentences(ENGLISH, 20, seed=1) + sentences(GERMAN, 20, seed=2)
    ids = tokenizer.encode(texts)
    assert tokenizer.decode(ids) == texts
    assert all(3 < token < tokenizer.vocabulary_size for row in ids for token in row)
    # A character model has only as many ids as the text has characters.
    num_characters = len(set("".join(ENGLISH + GERMAN))) + 1
    assert tokenizer.vocabulary_size == (4 + num_characters if model_type == "char" else 60)


def test_it_is_a_tokenizer_with_the_special_ids_of_the_package(tokenizer):
    assert isinstance(tokenizer, Tokenizer)
    processor = spm.SentencePieceProcessor(model_proto=tokenizer.model)
    ids = (processor.pad_id(), processor.bos_id(), processor.eos_id(), processor.unk_id())
    assert ids == (0, 1, 2, 3)
    assert ids == (
        tokenizer.pad_token_id,
        tokenizer.start_token_id,
        tokenizer.end_token_id,
        tokenizer.unknown_token_id,
    )


def test_special_ids_vanish_and_the_unknown_shows(tokenizer):
    (ids,) = tokenizer.encode(["the dog"])
    assert tokenizer.decode([[1, *ids, 2, 0, 0], [], [2], [3]]) == ["the dog", "", "", " ⁇ "]
    assert tokenizer.encode(["猫"])[0][-1] == 3


def test_nothing_in_nothing_out(tokenizer):
    assert tokenizer.encode([]) == []
    assert tokenizer.decode([]) == []
    assert tokenizer.encode(["", "   "]) == [[], []]


def test_byte_fallback_spells_unknown_characters(text_file):
    tokenizer = SentencePieceTokenizer.train(text_file, 340, "unigram", byte_fallback=True)
    assert tokenizer.decode(tokenizer.encode(["猫 dog 🐕"])) == ["猫 dog 🐕"]
    assert 3 not in tokenizer.encode(["猫"])[0]


@pytest.mark.parametrize("model_type", ["unigram", "bpe", "char"])
def test_identity_normaliser_keeps_every_space_tab_and_newline(code_file, model_type):
    size = {"unigram": 26, "bpe": 34, "char": 99}[model_type]
    tokenizer = SentencePieceTokenizer.train(code_file, size, model_type, normalizer="identity")
    texts = [code_file.read_text(), " return", "return ", "  ", "\n", "\t", "\n\n\t  x \n", " x"]
    generator = random.Random(0)
    texts += ["".join(generator.choices(" \t\nfx", k=30)) for _ in range(50)]
    assert tokenizer.decode(tokenizer.encode(texts)) == texts


def test_default_normaliser_folds_width_and_white_space(tokenizer):
    assert tokenizer.decode(tokenizer.encode(["  the　 ｄｏｇ\n"])) == ["the dog"]


def test_identity_normaliser_does_not_fold(code_file):
    tokenizer = SentencePieceTokenizer.train(code_file, 26, "unigram", normalizer="identity")
    assert tokenizer.encode(["ｘ"]) == [[3]]


def test_lines_with_tabs_are_trained_on(tmp_path):
    (tmp_path / "text").write_text("abc\tdef\n" * 5)
    tokenizer = SentencePieceTokenizer.train(tmp_path / "text", 99, "char")
    assert tokenizer.vocabulary_size == 4 + len("▁abcdef")


@pytest.mark.parametrize("line", ["abc de\u20ac " * 20000, "abcde\u20ac" * 20000])
def test_lines_of_any_length_are_trained_on(tmp_path, line):
    (tmp_path / "text").write_text(line, encoding="utf-8")
    tokenizer = SentencePieceTokenizer.train(tmp_path / "text", 99, "char")
    assert tokenizer.vocabulary_size == 4 + len("▁abcde€")
    sentences = list(TrainingSentences([tmp_path / "text"]))
    assert "".join(sentences) == line and len(sentences) > 1
    assert all(len(sentence.encode()) <= LONGEST_LINE for sentence in sentences)
    assert all(sentence.endswith(" ") for sentence in sentences) or " " not in line


def test_user_defined_symbols_are_one_piece(text_file):
    tokenizer = SentencePieceTokenizer.train(text_file, 60, "bpe", user_defined_symbols="<2de>")
    (ids,) = tokenizer.encode(["<2de>dog"])
    processor = spm.SentencePieceProcessor(model_proto=tokenizer.model)
    assert "<2de>" in processor.id_to_piece(ids)


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_training_is_deterministic_also_when_it_samples(text_file, tmp_path, model_type):
    packed = tmp_path / "train.txt.gz"
    packed.write_bytes(gzip.compress(text_file.read_bytes()))
    models = {
        SentencePieceTokenizer.train(file, 50, model_type, max_sentences=200).model
        for file in (text_file, text_file, packed)
    }
    assert len(models) == 1
    assert models != {SentencePieceTokenizer.train(text_file, 50, model_type).model}


def test_special_ids_of_a_model_made_elsewhere(code_file, tmp_path):
    def train(**special_ids):
        model = io.BytesIO()
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter(code_file.read_text().splitlines()),
            model_writer=model,
            vocab_size=99,
            model_type="char",
            hard_vocab_limit=False,
            minloglevel=2,
            **special_ids,
        )
        return model.getvalue()

    def ids(tokenizer):
        return SpecialTokenIds.of(tokenizer)

    other = train(pad_id=1, bos_id=3, eos_id=2, unk_id=0)
    tokenizer = SentencePieceTokenizer(other)
    assert ids(tokenizer) == SpecialTokenIds(pad=1, start=3, end=2, unknown=0)
    assert ids(SentencePieceTokenizer(other, start_token_id=5)).start == 5
    usual = train()  # defaults of spm_train: unknown 0, start 1, end 2, no padding
    with pytest.raises(ValueError, match="Expected a pad_token_id, because the model has none"):
        SentencePieceTokenizer(usual)
    with pytest.raises(ValueError, match=r"pad_token_id to be in \[0, .* pad_token_id=1000"):
        SentencePieceTokenizer(usual, pad_token_id=1000)
    tokenizer.save(tmp_path / "other.spm")
    assert ids(SentencePieceTokenizer.load(tmp_path / "other.spm", end_token_id=4)).end == 4


def test_save_and_load(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "text.spm")
    tokenizer.save(tmp_path / "text.spm")  # replaces the old file
    loaded = SentencePieceTokenizer.load(tmp_path / "text.spm")
    assert loaded.model == tokenizer.model
    assert loaded.encode(["the dog"]) == tokenizer.encode(["the dog"])
    assert [path.name for path in tmp_path.iterdir()] == ["text.spm"]


def test_failed_save_leaves_the_old_file_and_no_other(tokenizer, tmp_path, monkeypatch):
    (tmp_path / "text.spm").write_text("old")

    def full_disk(handle):
        raise OSError("No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        tokenizer.save(tmp_path / "text.spm")
    assert [path.name for path in tmp_path.iterdir()] == ["text.spm"]
    assert (tmp_path / "text.spm").read_text() == "old"


def test_every_truncation_of_a_model_is_refused(code_file, tmp_path):
    # Without the NFKC character map, a model is small enough to test each length.
    tokenizer = SentencePieceTokenizer.train(code_file, 99, "char", normalizer="identity")
    loads_in_sentencepiece = 0
    for length in range(len(tokenizer.model)):
        with pytest.raises(ValueError, match=f"Received: .* of {length} bytes"):
            SentencePieceTokenizer(tokenizer.model[:length])
        try:
            spm.SentencePieceProcessor().LoadFromSerializedProto(tokenizer.model[:length])
            loads_in_sentencepiece += 1
        except RuntimeError:
            pass
    # The reason for our own check. If this fails, remove the check.
    assert loads_in_sentencepiece > 10


def test_damaged_and_missing_files_are_named(tmp_path):
    (tmp_path / "bad.spm").write_bytes(b"not a model")
    with pytest.raises(ValueError, match="complete SentencePiece model.*bad.spm"):
        SentencePieceTokenizer.load(tmp_path / "bad.spm")
    with pytest.raises(FileNotFoundError, match="missing.spm"):
        SentencePieceTokenizer.load(tmp_path / "missing.spm")


def test_ids_outside_the_vocabulary_are_refused(tokenizer):
    for token in (-1, tokenizer.vocabulary_size):
        with pytest.raises(ValueError, match=f"Expected ids from 0 to 89.*{token}"):
            tokenizer.decode([[5], [5, token]])


def test_ids_of_one_text_are_no_rows(tokenizer):
    for ids in ([5, 6], np.array([5, 6])):
        with pytest.raises(ValueError, match=r"Expected one row of ids.*Pass \[ids\]"):
            tokenizer.decode(ids)


def test_one_text_is_no_list_of_texts(tokenizer):
    with pytest.raises(ValueError, match=r"Received: texts='the dog'. Pass \[text\]"):
        tokenizer.encode("the dog")


@pytest.mark.parametrize("content", ["", "\n\n", " \n\t\n", "\u200b\n", "\ufffd\n\u2581 \n<s>\n"])
def test_training_on_nothing_names_the_file(tmp_path, content):
    (tmp_path / "empty.txt").write_text(content, encoding="utf-8")
    for normalizer in ("nmt_nfkc", "identity"):
        with pytest.raises(ValueError, match="Expected text to train.*empty.txt"):
            SentencePieceTokenizer.train(tmp_path / "empty.txt", 50, normalizer=normalizer)


def test_errors_while_reading_come_through_the_trainer(text_file, tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"good\n\xff\n")
    with pytest.raises(ValueError, match="UTF-8.*bad.txt', line 2"):
        SentencePieceTokenizer.train([text_file, tmp_path / "bad.txt"], 50)
    with pytest.raises(FileNotFoundError, match="missing.txt"):
        SentencePieceTokenizer.train([text_file, tmp_path / "missing.txt"], 50)


@pytest.mark.parametrize("model_type", ["unigram", "bpe", "char"])
def test_a_small_text_fills_what_it_can_of_the_vocabulary(text_file, model_type):
    tokenizer = SentencePieceTokenizer.train(text_file, 100_000, model_type)
    assert 20 < tokenizer.vocabulary_size < 2000
    ids = tokenizer.encode(["the dog"])
    assert max(ids[0]) < tokenizer.vocabulary_size
    assert tokenizer.decode(ids) == ["the dog"]


def test_a_vocabulary_too_small_for_the_characters_is_refused(text_file):
    with pytest.raises(ValueError, match="vocabulary_size=10,.*smaller than required_chars"):
        SentencePieceTokenizer.train(text_file, 10)


def test_a_character_vocabulary_that_is_too_small_is_refused(text_file):
    """SentencePiece would leave out the rarest characters without an error."""
    num_characters = len(set("".join(ENGLISH + GERMAN))) + 1
    for size in (5, 12, 3 + num_characters):
        message = f"at least {4 + num_characters}, .*vocabulary_size={size},.*'char'"
        with pytest.raises(ValueError, match=message):
            SentencePieceTokenizer.train(text_file, size, "char")
    exact = SentencePieceTokenizer.train(text_file, 4 + num_characters, "char")
    assert exact.model == SentencePieceTokenizer.train(text_file, 999, "char").model
    assert 3 not in exact.encode([" ".join(ENGLISH + GERMAN)])[0]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("vocabulary_size", [0, -1, 1.5, 60.0, True, None, "60", 2**31]),
        ("character_coverage", [0, -1, 0.5, 0.979, 1.001, float("nan"), None, "1"]),
        ("max_sentences", [0, -1, 1, 100, 1e3, True, None, 2**63]),
        ("byte_fallback", [None, "yes", 2]),
        ("user_defined_symbols", [("",), "", (3,), ("x", "x"), ("<s>",), ("\ud800",)]),
    ],
)
def test_training_options_out_of_range_are_refused(text_file, name, values):
    for value in values:
        with pytest.raises(ValueError, match=f"Expected {name} to be .*Received: {name}="):
            SentencePieceTokenizer.train(text_file, **{"vocabulary_size": 60, name: value})


def test_training_options_at_their_limits_are_used(text_file):
    tokenizer = SentencePieceTokenizer.train(
        text_file, np.int64(60), character_coverage=0.98, max_sentences=101, byte_fallback=False
    )
    assert tokenizer.vocabulary_size == 60
    SentencePieceTokenizer.train(text_file, 60, character_coverage=1, max_sentences=2**62)


def test_unknown_options_are_refused(text_file):
    with pytest.raises(ValueError, match="model_type.*Received: model_type='word'"):
        SentencePieceTokenizer.train(text_file, 50, "word")
    with pytest.raises(ValueError, match="normalizer.*Received: normalizer='nfc'"):
        SentencePieceTokenizer.train(text_file, 50, normalizer="nfc")


def test_pieces_are_the_parts_that_make_up_the_text(tokenizer):
    ids = tokenizer.encode(["the dog"])[0]
    assert "".join(tokenizer.pieces(ids)).replace("▁", " ").strip() == "the dog"
    assert tokenizer.pieces([1, 2]) == ["<s>", "</s>"]


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_sampled_pieces_spell_the_same_text_and_follow_from_the_seed(text_file, model_type):
    tokenizer = SentencePieceTokenizer.train(text_file, 90, model_type)
    for texts in (["the old dog sleeps"], sentences(ENGLISH, 20), [], ["", "the"]):
        samples = [tokenizer.sample(texts, 0.3, seed) for seed in (5, 5, 6)]
        assert tokenizer.decode(samples[0]) == tokenizer.decode(samples[2]) == texts
        assert samples[0] == samples[1]
        if len(texts) == 20:
            assert samples[0] != samples[2]


def test_alpha_is_the_share_of_merges_that_bpe_skips(tokenizer):
    texts = sentences(ENGLISH, 50)
    num_ids = [sum(map(len, tokenizer.sample(texts, alpha, 1))) for alpha in (0.1, 0.5)]
    assert tokenizer.sample(texts, 0.0, 1) == tokenizer.encode(texts)
    spelled = tokenizer.sample(texts, 1.0, 1)
    assert all(len(piece) == 1 for row in spelled for piece in tokenizer.pieces(row))
    num_pieces, num_characters = (sum(map(len, ids)) for ids in (tokenizer.encode(texts), spelled))
    assert num_pieces < num_ids[0] < num_ids[1] < num_characters


@pytest.fixture(scope="module")
def syllable_file(tmp_path_factory):
    syllables = ["ka", "lo", "mi", "ter", "sun", "ber", "gen", "rä", "du", "fi"]
    words = ["".join(random.Random(i).choices(syllables, k=1 + i % 4)) for i in range(100)]
    path = tmp_path_factory.mktemp("small") / "text"
    path.write_text("\n".join(sentences(words, 300)), encoding="utf-8")
    return path


def with_vocabulary(model, pieces):
    """Returns a tokenizer with the segmentation of a model and a vocabulary of some pieces."""
    vocabulary = {piece: i for i, piece in enumerate(["</s>", "<unk>", *pieces, "<pad>"])}
    return SentencePieceTokenizer(
        renumber_pieces(model, vocabulary),
        start_token_id=vocabulary["<pad>"],
        vocabulary_size=len(vocabulary),
    )


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def small_vocabulary(request, syllable_file):
    """Returns a tokenizer of the pieces that `encode` finds in a text, and the lines of the text.

    The vocabulary lacks four characters and other pieces that the model has.
    """
    lines = syllable_file.read_text(encoding="utf-8").splitlines()
    model = SentencePieceTokenizer.train(syllable_file, 300, request.param).model
    processor = spm.SentencePieceProcessor(model_proto=model)
    used = {piece for line in lines for piece in processor.encode_as_pieces(line)}
    tokenizer = with_vocabulary(model, sorted(used | set("▁alomitersnbgd")))  # not k, u, f and ä
    assert tokenizer.has_extra_pieces
    return tokenizer, lines


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5, 1.0])
def test_samples_have_no_unknown_ids_where_the_text_has_none(small_vocabulary, alpha):
    tokenizer, lines = small_vocabulary
    assert not any(1 in row for row in tokenizer.encode(lines))
    drawn = tokenizer.sample(lines, alpha, 3)
    assert not any(1 in row for row in drawn)
    assert tokenizer.decode(drawn) == lines
    assert drawn == tokenizer.sample(lines, alpha, 3)
    unknown = tokenizer.sample(["kalo猫", "猫"], alpha, 3)
    assert all(1 in row for row in unknown)


def test_samples_of_a_small_vocabulary_are_still_random(small_vocabulary):
    tokenizer, lines = small_vocabulary
    draws = [tokenizer.sample(lines, 0.1, seed) for seed in range(3)]
    for first, second in ((0, 1), (1, 2)):
        pairs = zip(draws[first], draws[second], strict=True)
        assert sum(a != b for a, b in pairs) > 50


def test_unigram_samples_follow_the_probabilities_of_the_pieces_in_the_vocabulary(syllable_file):
    protobuf = import_sentencepiece_protobuf()
    proto = protobuf.ModelProto.FromString(SentencePieceTokenizer.train(syllable_file, 99).model)
    del proto.pieces[4:]
    scores = {"▁": -2, "a": -3, "b": -3.5, "▁a": -2.5, "ab": -4, "ba": -4.2, "▁ab": -5, "aba": -2}
    for piece, score in scores.items():
        proto.pieces.add(piece=piece, score=score)
    del scores["aba"]
    tokenizer = with_vocabulary(proto.SerializeToString(), scores)

    def segmentations(text):
        if not text:
            yield ()
        for end in range(1, len(text) + 1):
            if text[:end] in scores:
                yield from ((text[:end], *rest) for rest in segmentations(text[end:]))

    alpha, count = 0.4, 4000
    weights = {
        pieces: np.exp(alpha * sum(map(scores.get, pieces))) for pieces in segmentations("▁abab")
    }
    drawn = [tuple(tokenizer.pieces(row)) for row in tokenizer.sample(["abab"] * count, alpha, 1)]
    assert len(weights) > 5 and set(drawn) <= set(weights)
    for pieces, weight in weights.items():
        expected = weight / sum(weights.values())
        deviation = np.sqrt(expected * (1 - expected) / count)
        assert abs(drawn.count(pieces) / count - expected) < 4.5 * deviation + 1 / count, pieces


def test_only_the_parts_with_unknown_ids_keep_their_best_segmentation():
    """The letters stand for pieces of 1 (a, b), 2 (c, d), 3 (x) and 5 (y) bytes; 0 is unknown."""
    best = [("c", 2), ("x", 3), ("d", 2), ("y", 5)]
    drawn = [("a", 1), ("b", 1), (0, 1), ("c", 2), ("a", 1), ("b", 1), ("x", 3), (0, 2)]
    found = replace_unknown_parts(drawn, best, lambda id_: id_ == 0)
    assert found == ["a", "b", "x", "a", "b", "y"]
    kept = replace_unknown_parts(drawn, [(0, 5), ("d", 2), ("y", 5)], lambda id_: id_ == 0)
    assert kept == ["a", "b", 0, "c", "a", "b", "y"]


def test_samples_with_byte_fallback_stay_whole(text_file):
    base = SentencePieceTokenizer.train(text_file, 340, "bpe", byte_fallback=True)
    processor = spm.SentencePieceProcessor(model_proto=base.model)
    lines = sentences(GERMAN, 50)
    used = sorted({piece for line in lines for piece in processor.encode_as_pieces(line)})
    tokenizer = with_vocabulary(base.model, [*used, *(f"<0x{byte:02X}>" for byte in range(256))])
    texts = [line + " 猫 é" for line in lines]
    drawn = tokenizer.sample(texts, 0.3, 1)
    assert tokenizer.decode(drawn) == texts
    assert drawn != tokenizer.encode(texts)


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, None, "1"])
def test_seeds_out_of_range_are_refused(tokenizer, seed):
    with pytest.raises(ValueError, match=r"seed to be an integer in \[0, 2\*\*32\).*seed="):
        tokenizer.sample(["the dog"], 0.1, seed)


def test_texts_that_utf8_cannot_encode_are_named(tokenizer):
    for encode in (tokenizer.encode, lambda texts: tokenizer.sample(texts, 0.1, 1)):
        with pytest.raises(ValueError, match=r"texts\[1\]='a\\udcff', with a lone surr"):
            encode(["é dog", "a\udcff", "b"])
        with pytest.raises(ValueError, match=r"list of strings. Received: texts\[2\]=None"):
            encode(["é dog", "b", None])


@pytest.fixture(scope="module")
def usual_model(text_file):
    """A model with the defaults of spm_train: unknown 0, start 1, end 2, and no padding."""
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(text_file.read_text().splitlines()),
        model_writer=model,
        vocab_size=60,
        minloglevel=2,
    )
    return model.getvalue()


@pytest.mark.parametrize(
    "special",
    [
        {"pad_token_id": 0},  # the unknown id
        {"pad_token_id": 5},  # an ordinary piece
        {"pad_token_id": 2},  # the end id
        {"pad_token_id": 0, "end_token_id": 0},
        {"pad_token_id": 6, "start_token_id": 6, "end_token_id": 7},
    ],
    ids=str,
)
def test_padding_is_not_text(usual_model, special):
    tokenizer = SentencePieceTokenizer(usual_model, **special)
    pad, start, end, _ = SpecialTokenIds.of(tokenizer)
    texts = ["the dog", "a man sees the cat", "red"]
    rows = tokenizer.encode(texts)
    for before in ([], [start]):
        whole = [[*before, *row, end] for row in rows]
        longest = max(map(len, whole))
        padded = [row + [pad] * (longest + 2 - len(row)) for row in whole]
        assert tokenizer.decode(padded) == tokenizer.decode(np.array(padded)) == texts
        if pad != end:
            assert tokenizer.decode(whole) == texts
        assert tokenizer.decode([[*before, end, pad], [pad, pad][: end == pad]]) == ["", ""]
    if end != tokenizer.unknown_token_id:  # without an end id, the ids are all text
        unknown = tokenizer.encode(["the 猫"])
        assert tokenizer.decode(unknown) == ["the  ⁇ "]


def test_threads_that_sample_do_not_disturb_each_other(tokenizer):
    texts = sentences(ENGLISH, 20)
    alone = [tokenizer.sample(texts, 0.3, seed) for seed in range(40)]
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(lambda seed: tokenizer.sample(texts, 0.3, seed), range(40)))
    assert together == alone


def test_what_cannot_be_sampled_is_refused(text_file, tokenizer):
    characters = SentencePieceTokenizer.train(text_file, 60, "char")
    with pytest.raises(ValueError, match="unigram or bpe model"):
        characters.sample(["the dog"], 0.1, 1)
    with pytest.raises(ValueError, match="alpha=1.5"):
        tokenizer.sample(["the dog"], 1.5, 1)
    with pytest.raises(ValueError, match=r"Expected a list of texts.*'the dog'"):
        tokenizer.sample("the dog", 0.1, 1)


@pytest.mark.parametrize("row", [[4.5], [True], [5, True], [None], "45", [[5]]])
def test_ids_that_are_no_integers_are_refused(tokenizer, row):
    with pytest.raises(ValueError, match="Expected "):
        tokenizer.decode([row])
