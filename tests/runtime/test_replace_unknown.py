"""Unknown tokens of a translation become source words, in the runtime and in Keras.

The fake model copies the source, and its alignments are the identity. With replaced unknown tokens,
its output is therefore the source text itself, with single spaces.
"""

import base64
import subprocess
import sys

import numpy as np
import onnx
import pytest
from keras_attn_runtime import ModelFileError, Translator
from keras_attn_runtime._file_format.vocabulary_side import AddedToken, Side
from keras_attn_runtime._inputs.source import Source
from keras_attn_runtime._text import source_words as runtime_words
from keras_attn_runtime._text.json_tokenizer import JsonTokenizer
from keras_attn_runtime._text.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_attn_runtime._translate import replace_unknown as runtime
from keras_attn_runtime._translate.languages import LanguageIds

from keras_attn import text as keras_text
from keras_attn._models import replace_unknown as keras_functions
from tests.runtime.fake_model import build_model, metadata
from tests.text.json_tokenizers import byte_level, word_piece

SOURCES = [
    "a woman in Zürich 2024",
    "  two   dogs run 😀  over\tthe Šķoda-field. ",
    "some text",
    "Üä",
    "(Zürich) stands, Łódź Łódź",
]
MARK = runtime.MARK
ZURICH = (3, "Zürich")
FUNCTIONS = {
    "runtime": (runtime_words.SourceWord, runtime_words.words_of_pieces, runtime.insert_words),
    "keras": (
        keras_functions.SourceWord,
        keras_functions.words_of_pieces,
        keras_functions.insert_words,
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    ("marked", "words", "expected"),
    [
        ("in ? 2024", [ZURICH], "in Zürich 2024"),
        ("Z?rich", [ZURICH], "Zürich"),
        ("z?RICH!", [ZURICH], "Zürich!"),
        ("(?).", [(0, "(Zürich)")], "(Zürich)."),
        ("?.", [(0, "Zürich.")], "Zürich."),
        ("??", [ZURICH, ZURICH], "Zürich"),
        ("? ?!", [ZURICH, ZURICH], "Zürich!"),
        ("Z?ric?", [ZURICH, ZURICH], "Zürich"),
        ("? and ?", [ZURICH, ZURICH], "Zürich and Zürich"),
        ("? ?", [ZURICH, (10, "Zürich")], "Zürich Zürich"),
        ("?-? x", [(0, "Łódź"), ZURICH], "Łódź-Zürich x"),
        ("?住?", [ZURICH, ZURICH], "Zürich住Zürich"),
        ("?世界", [(0, "苏黎世")], "苏黎世世界"),
        ("?", [(0, "a")], "a"),
        ("a?a", [(0, "a")], "aaa"),
    ],
)
def test_words_are_copied_once(name, marked, words, expected):
    word, _, insert = FUNCTIONS[name]
    assert insert(marked.replace("?", MARK), [word(*each) for each in words]) == expected


@pytest.mark.parametrize("name", FUNCTIONS)
def test_words_of_pieces(name):
    word, words_of, _ = FUNCTIONS[name]
    text = " 我在Zürich 2024年。 東京\u3000x "
    spans = [
        (0, 0),
        (1, 2),
        (2, 4),
        (3, 5),
        (8, 9),
        (9, 11),
        (14, 15),
        (17, 19),
        (19, 20),
        (99, 99),
    ]
    found = [(each.start, each.text) for each in words_of(text, spans)]
    zurich, tokyo = (3, "Zürich"), (17, "東京")
    assert found == [
        *((1, "我"), (1, "我"), (2, "在"), zurich, zurich, (10, "2024")),
        *((14, "年"), tokyo, (20, "x"), (20, "x")),
    ]
    assert words_of(" ", [(0, 1)]) == [None] and words_of("", []) == []
    assert isinstance(words_of("a", [(0, 1)])[0], word)


def json_file(content):
    """Returns both tokenizers of a `tokenizer.json`."""
    side = Side(300, 1, start_token_id=0, end_token_id=2, tokenizer="tokenizers")
    ids = {"pad_token_id": 1, "start_token_id": 0, "end_token_id": 2}
    encoded = base64.b64encode(content).decode()
    return JsonTokenizer(encoded, side), keras_text.HuggingFaceTokenizer(content, **ids)


def word_level():
    import tokenizers

    words = ["<s>", "<pad>", "</s>", "[UNK]", "a", "woman", "in", "some", "text"]
    model = tokenizers.models.WordLevel({each: i for i, each in enumerate(words)}, "[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(words[:4])
    return tokenizer.to_str().encode()


def unigram():
    import tokenizers
    from tokenizers import decoders, normalizers, pre_tokenizers

    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("?", -9.0), ("▁", -3.0)]
    pieces += [(letter, -4.0) for letter in "abcdefghijklmnopqrstuvwxyz"]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, unk_id=3))
    tokenizer.normalizer = normalizers.Replace(tokenizers.Regex(r"\s+"), " ")
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>"])
    return tokenizer.to_str().encode()


def sentencepiece(model, tokens=()):
    """Returns both SentencePiece tokenizers."""
    options = {"added_tokens": tuple(AddedToken(*token) for token in tokens)}
    side = Side(64, 0, tokenizer="sentencepiece", space_token_id=5, **options)
    added = [keras_text.AddedToken(*token) for token in tokens]
    encoded = base64.b64encode(model).decode()
    return SentencePieceTokenizer(encoded, side), keras_text.SentencePieceTokenizer(
        model, added_tokens=added, space_token_id=5
    )


TEXTS = [
    *SOURCES,
    "ﬁ ½ e\u0301 <sep> \u3000dogs™ a  b",  # NFKC changes the number of characters
    "<s> a</s> [UNK] <pad>",
    "",
    " ",
]


@pytest.mark.parametrize(
    "name", ["sentencepiece", "added", "word_piece", "word_level", "unigram", "byte_level"]
)
def test_spans_and_marks_of_tokenizers(name, tokenizer_model):
    makers = {
        "sentencepiece": lambda: sentencepiece(tokenizer_model),
        "added": lambda: sentencepiece(tokenizer_model, [("<sep>", 7), ("dogs", 8)]),
    }
    jsons = {each.__name__: each for each in (word_piece, word_level, unigram, byte_level)}
    tokenizer, keras_tokenizer = makers[name]() if name in makers else json_file(jsons[name]())
    assert tokenizer.has_unknown_token == keras_tokenizer.has_unknown_token
    assert tokenizer.has_unknown_token == (name != "byte_level")
    unknown = tokenizer.unknown_token_id
    num_unknown = 0
    for text in TEXTS:
        ids, spans = tokenizer.encode(text), tokenizer.spans(text)
        assert (keras_tokenizer.encode([text])[0], keras_tokenizer.spans(text)) == (ids, spans)
        starts = [start for start, _ in spans]
        assert len(spans) == len(ids) and starts == sorted(starts)
        assert all(0 <= start <= stop <= len(text) for start, stop in spans)
        if name == "byte_level":
            continue
        marked = tokenizer.decode_with_mark(ids, MARK)
        assert marked.count(MARK) == ids.count(unknown)
        assert keras_tokenizer.decode_with_mark(ids, MARK) == marked
        num_unknown += ids.count(unknown)
        known = [0, *(id for id in ids if id != unknown), 2, 1]
        decoded = tokenizer.decode(known)
        assert tokenizer.decode_with_mark(known, MARK) == decoded
        assert keras_tokenizer.decode_with_mark(known, MARK) == decoded
    assert num_unknown > 5 or name == "byte_level"


def model_file(path, content, tokenizer="sentencepiece", pad=0, **options):
    sides = {f"{side}__tokenizer": tokenizer for side in ("source", "target")}
    sides |= {f"{side}__pad_token_id": pad for side in ("source", "target")}
    sides |= {f"{side}__vocabulary_size": 300 for side in ("source", "target")}
    onnx.save(build_model(metadata(content, **sides), **options), path)
    return path


@pytest.mark.parametrize("kind", ["sentencepiece", "unigram", "word_level"])
def test_copying_model_returns_the_source_text(kind, tokenizer_model, tmp_path):
    content = {"sentencepiece": lambda: tokenizer_model, "unigram": unigram}.get(kind, word_level)()
    is_json = kind != "sentencepiece"
    names = ("tokenizers", 1) if is_json else ()
    translator = Translator(model_file(tmp_path / "model.onnx", content, *names), num_threads=1)
    plain = translator.translate(SOURCES, num_hypotheses=2)
    results = translator.translate(SOURCES, num_hypotheses=2, replace_unknown=True, batch_size=3)
    found = [each.text.rstrip() for each in results]  # unigram keeps a space at the end
    assert found == [" ".join(text.split()) for text in SOURCES]
    unknown = translator._model.target_tokenizer.unknown_token_id
    for before, after in zip(plain, results, strict=True):
        assert (before.token_ids, before.pieces) == (after.token_ids, after.pieces)
        assert after.hypotheses[1].text == before.hypotheses[1].text == ""
        assert (before.text == after.text) == (unknown not in before.token_ids)
    without = translator.translate(SOURCES, replace_unknown=True, alignments=False)
    assert [each.text for each in without] == [each.text for each in results]
    assert all(each.alignments is None for each in without)


def test_a_stop_text_cuts_the_tokens_after_a_copied_word(tokenizer_model, tmp_path):
    translator = Translator(model_file(tmp_path / "model.onnx", tokenizer_model), num_threads=1)
    text = "two Zürich dogs and dogs"
    (plain,) = translator.translate([text], stop_texts="and")
    (result,) = translator.translate([text], stop_texts="and", replace_unknown=True)
    assert result.text == "two Zürich dogs " != plain.text and result.stop_text == "and"
    assert result.token_ids == plain.token_ids and len(result.alignments) == len(plain.token_ids)
    tokenizer = keras_text.SentencePieceTokenizer(tokenizer_model)
    words = keras_functions.words_of_pieces(text, tokenizer.spans(text))
    same = keras_functions.with_source_words(plain, words, tokenizer)
    assert same.text == result.text


def test_long_text_is_truncated(tokenizer_model, tmp_path):
    path = model_file(tmp_path / "model.onnx", tokenizer_model)
    translator = Translator(path, num_threads=1, max_source_length=9, truncate=True)
    text = "some text Łódź " * 40
    (result,) = translator.translate([text], replace_unknown=True)
    assert result.truncated and len(result.token_ids) == 9
    assert text.startswith(result.text) and "Łódź" in result.text


def test_words_keep_their_positions_with_languages():
    languages = LanguageIds(1, [20, 21], [22], [])
    word = runtime_words.SourceWord(0, "Zürich")
    (source,) = languages.add_to([Source([1, 5, 2], False, words=(None, word))])
    assert source.ids == [1, 20, 21, 5, 2, 22]
    assert source.words == (None, None, None, word)


def test_unknown_token_looks_at_words_only(tokenizer_model):
    tokenizer = sentencepiece(tokenizer_model)[0]
    first, second = runtime_words.SourceWord(0, "Üä"), runtime_words.SourceWord(3, "ß")
    weights = np.array([[0.6, 0.1, 0.3, 0.0], [0.0, 0.2, 0.1, 0.7]], "float32")
    words = (None, first, second)  # the last position is the end token
    arguments = weights, words, tokenizer
    assert runtime.text_with_source_words([3, 3], *arguments) == "ßÜä"
    assert runtime.text_with_source_words([4, 5], *arguments) is None
    assert runtime.text_with_source_words([3], weights, (None, None), tokenizer) is None


def test_command(tokenizer_model, tmp_path):
    path = model_file(tmp_path / "model.onnx", tokenizer_model)
    command = [sys.executable, "-m", "keras_attn_runtime", "translate", path, "--replace-unknown"]
    found = subprocess.run(
        command, input="\n".join(SOURCES), capture_output=True, check=True, encoding="utf-8"
    )
    assert found.stdout.splitlines() == [" ".join(text.split()) for text in SOURCES]


def test_errors_say_what_to_do(tokenizer_model, tmp_path):
    path = model_file(tmp_path / "model.onnx", tokenizer_model, alignments=False)
    options = {"replace_unknown": True}
    with pytest.raises(ModelFileError, match="because of replace_unknown.*`--alignments`"):
        Translator(path, num_threads=1).translate(SOURCES, **options)
    translator = Translator(model_file(path, tokenizer_model), num_threads=1)
    with pytest.raises(ValueError, match="replace_unknown only for texts"):
        translator.translate_ids([[5, 6]], **options)
    with pytest.raises(ValueError, match="Expected replace_unknown to be"):
        translator.translate(SOURCES, replace_unknown=1)
    translator = Translator(model_file(path, byte_level(), "tokenizers", 1), num_threads=1)
    with pytest.raises(ModelFileError, match="with an unknown token"):
        translator.translate(SOURCES, **options)
    translator = Translator(model_file(path, b"", "none"), num_threads=1)
    with pytest.raises(ModelFileError, match="Expected a file with a source.*or omit replace_unk"):
        translator.translate(SOURCES, **options)
