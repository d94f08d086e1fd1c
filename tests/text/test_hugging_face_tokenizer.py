import json

import pytest

from keras_attn.text import HuggingFaceTokenizer, Language, Tokenizer
from keras_attn.training import RunDirectory
from tests.text.json_tokenizers import LINES, byte_level, word_piece

tokenizers = pytest.importorskip("tokenizers", reason="needs keras-attn[tokenizers]")
IDS = {"pad_token_id": 1, "start_token_id": 2, "end_token_id": 2}
TEXTS = [*LINES, "  two  spaces", "neu: ☃ 漢字", ""]


def test_byte_level_ids_are_those_of_the_library_and_decode_exactly():
    model = byte_level()
    tokenizer, library = (
        HuggingFaceTokenizer(model, **IDS),
        tokenizers.Tokenizer.from_str(model.decode()),
    )
    ids = tokenizer.encode(TEXTS)
    assert ids == [library.encode(text).ids for text in TEXTS]
    assert tokenizer.decode(ids) == TEXTS
    assert tokenizer.decode([[2, *row, 2, 1, 1] for row in ids]) == TEXTS  # special ids
    assert tokenizer.pieces(ids[0]) == library.encode(TEXTS[0]).tokens
    assert isinstance(tokenizer, Tokenizer) and tokenizer.unknown_token_id == 1
    assert max(max(row, default=0) for row in ids) < tokenizer.vocabulary_size


def test_word_piece_has_an_unknown_id():
    tokenizer = HuggingFaceTokenizer(word_piece(), **IDS)
    assert tokenizer.unknown_token_id == 3
    assert tokenizer.encode(["☃"]) == [[3]]
    assert tokenizer.decode(tokenizer.encode(["the cat sleeps"])) == ["the cat sleeps"]


TYPED = ["the </s> dog", "a <pad> b", "<s>", "</s><pad></s>"]


def test_special_tokens_in_texts_are_characters_by_default(tmp_path):
    model = byte_level()
    library = tokenizers.Tokenizer.from_str(model.decode())
    parsing = HuggingFaceTokenizer(model, **IDS, parse_special_tokens=True)
    assert parsing.encode(TYPED) == [library.encode(text).ids for text in TYPED]
    library.encode_special_tokens = True
    safe = HuggingFaceTokenizer(model, **IDS)
    assert safe.encode(TYPED) == [library.encode(text).ids for text in TYPED]
    assert safe.decode(safe.encode(TYPED)) == TYPED
    for tokenizer in (safe, parsing):
        run = RunDirectory.create(tmp_path / "run", "generation", tokenizer)
        assert run.source_tokenizer.encode(TYPED) == tokenizer.encode(TYPED)
    # A run of an earlier version, which always parsed special tokens, is read as before.
    path = tmp_path / "run" / "run.json"
    description = json.loads(path.read_text())
    del description["source"]["parse_special_tokens"]
    path.write_text(json.dumps(description))
    assert RunDirectory(tmp_path / "run").source_tokenizer.encode(TYPED) == parsing.encode(TYPED)


def test_a_model_cannot_find_special_tokens_itself():
    """A unigram model has special tokens among its pieces, a word model among its words."""
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((each, -2.0) for each in "▁ats")]
    library = tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, unk_id=2))
    library.add_special_tokens(["<pad>", "</s>", "<unk>"])
    ids = {"pad_token_id": 0, "start_token_id": 0, "end_token_id": 1}
    tokenizer = HuggingFaceTokenizer(library.to_str().encode(), **ids)
    assert tokenizer.encode(["at</s>s", "<pad>"]) == [[4, 5, 2, 6, 2, 6], [2, 4, 2]]
    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"<pad>": 0, "</s>": 1, "<unk>": 2, "at": 3}, "<unk>")
    )
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    words.add_special_tokens(["<pad>", "</s>", "<unk>"])
    tokenizer = HuggingFaceTokenizer(words.to_str().encode(), **ids)
    assert tokenizer.encode(["at </s> at"]) == [[3, 2, 3]]


def test_run_directory_keeps_the_tokenizer(tmp_path):
    languages = {"de": Language(source_start=[5])}
    tokenizer = HuggingFaceTokenizer(byte_level(), **IDS, languages=languages)
    run = RunDirectory.create(tmp_path / "run", "generation", tokenizer)
    assert (tmp_path / "run" / "source.json").is_file()
    loaded = RunDirectory(tmp_path / "run").source_tokenizer
    assert loaded.encode(TEXTS) == tokenizer.encode(TEXTS)
    assert (loaded.pad_token_id, loaded.end_token_id) == (1, 2)
    assert loaded.languages["de"].source_start == [5] and run.target_tokenizer is None


@pytest.mark.parametrize(
    ("model", "ids", "message"),
    [
        (b"{", {}, "content of a tokenizer.json. Received: 1 bytes"),
        (b"\xff", {}, "content of a tokenizer.json"),
        (None, {"end_token_id": 300}, r"end_token_id to be in \[0, 300\).*Received: end_token_id"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(model, ids, message):
    with pytest.raises(ValueError, match=message):
        HuggingFaceTokenizer(byte_level() if model is None else model, **{**IDS, **ids})


def test_one_text_is_refused():
    with pytest.raises(ValueError, match="list of texts"):
        HuggingFaceTokenizer(byte_level(), **IDS).encode("text")


def test_texts_that_utf8_cannot_encode_are_named():
    tokenizer = HuggingFaceTokenizer(byte_level(), **IDS)
    with pytest.raises(ValueError, match=r"texts\[1\]='a\\udcff', with a lone surrogate"):
        tokenizer.encode(["é", "a\udcff"])
    with pytest.raises(ValueError, match=r"list of strings. Received: texts\[0\]=3"):
        tokenizer.encode([3])
