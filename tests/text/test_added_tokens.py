"""Added tokens, against the library `tokenizers`."""

import pytest

from keras_attn.text import AddedToken, SentencePieceTokenizer
from keras_attn.text._added_tokens import AddedTokenSplitter
from keras_attn.training import RunDirectory

TOKENS = [
    AddedToken("<sep>", 10),
    AddedToken("<sep><sep>", 11),
    AddedToken("<left>", 12, lstrip=True),
    AddedToken("<right>", 13, rstrip=True),
    AddedToken("word", 14, single_word=True),
    AddedToken("</s>", 2, special=True),
]
TEXTS = [
    *("", "a", "<sep>", "a<sep>b", " <sep> ", "<sep><sep><sep>", "a \n<left>\x1f <left> b"),
    *("<right> \t\u3000b <right>", "a<right> <left>b", "word words aword a word, word", "word"),
    *("a </s> b", "</s><sep>", "two dogs <sep> run", "eword\u0301 word_ wordword"),
]


@pytest.fixture(scope="module")
def tokenizer_model(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "lines.txt"
    path.write_text("two dogs run over the field .\nan old man reads a book .\n" * 9)
    return SentencePieceTokenizer.train(path, 60).model


def test_texts_are_split_as_in_the_library():
    tokenizers = pytest.importorskip("tokenizers")
    library = tokenizers.Tokenizer(tokenizers.models.WordLevel({"?": 0}, unk_token="?"))
    flags = ("lstrip", "rstrip", "single_word", "special")
    library.add_tokens(
        [
            tokenizers.AddedToken(
                token.content, normalized=False, **{name: getattr(token, name) for name in flags}
            )
            for token in TOKENS
        ]
    )
    ids = {token.content: token.id for token in TOKENS}
    for text in TEXTS:
        found = library.encode(text)
        names = map(library.id_to_token, found.ids)
        pieces = zip(names, found.offsets, strict=True)
        expected = [ids.get(name, text[start:end]) for name, (start, end) in pieces]
        assert AddedTokenSplitter(TOKENS).split(text) == expected, text


def test_a_space_token_precedes_a_token_after_white_space():
    splitter = AddedTokenSplitter(TOKENS, space_token_id=5)
    assert splitter.split("a <sep> b") == ["a ", 5, 10, " b"]
    assert splitter.split("a <left>b<sep>") == ["a", 12, "b", 10]


def test_special_tokens_in_texts_are_characters_by_default(tokenizer_model, tmp_path):
    plain = SentencePieceTokenizer(tokenizer_model)
    safe = SentencePieceTokenizer(tokenizer_model, added_tokens=TOKENS)
    parsing = SentencePieceTokenizer(
        tokenizer_model, added_tokens=TOKENS, parse_special_tokens=True, clean_up_spaces=True
    )
    (two, dogs) = plain.encode(["two", "dogs"])
    text = "two </s> dogs<sep>"
    assert plain.encode(["two </s>"])[0] == [*two, *plain.encode(["</s>"])[0]]
    assert not {0, 1, 2} & set(safe.encode([text])[0]) and safe.encode([text])[0][-1] == 10
    assert parsing.encode([text]) == [[*two, 2, *dogs, 10]]
    default = SentencePieceTokenizer(tokenizer_model, parse_special_tokens=True)
    assert default.encode(["<s>two</s> <pad><unk>"]) == [[1, *two, 2, 0, 3]]
    for tokenizer in (safe, parsing):
        run = RunDirectory.create(tmp_path / "run", "generation", tokenizer)
        assert run.source_tokenizer.encode(TEXTS) == tokenizer.encode(TEXTS)
        assert run.source_tokenizer.clean_up_spaces == tokenizer.clean_up_spaces
        with pytest.raises(ValueError, match="tokenizer with .*added_tokens"):
            tokenizer.to_tensorflow()
    (sampled,) = safe.sample(["two<sep>dogs"], alpha=1.0, seed=1)
    assert 10 in sampled


def test_decoding_can_clean_up_spaces(tokenizer_model):
    tokenizer = SentencePieceTokenizer(tokenizer_model, clean_up_spaces=True)
    ids = tokenizer.encode(["two dogs ."])
    assert tokenizer.decode(ids) == ["two dogs."]


@pytest.mark.parametrize(("content", "id_"), [("", 1), ("a", -1), (None, 1), ("a", None)])
def test_wrong_added_tokens_are_refused(content, id_):
    with pytest.raises(ValueError, match="Expected (content|id) to be"):
        AddedToken(content, id_)
