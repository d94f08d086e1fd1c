"""The limit of characters applied before the tokenizer, whose time can be quadratic."""

import io

import pytest
from keras_attn_runtime import InputError, Translator
from keras_attn_runtime._commands.lines import PART, read_lines

from tests.runtime.endless import within_a_minute

WRITING_SYSTEMS = {
    "combining marks": "e" + "\u0301" * 5_000_000,
    "emoji": "\U0001f469\u200d" * 2_500_000,
    "jamo": "\u1100\u1161" * 2_500_000,
    "han": "\u4e00\u4e8c\u3002" * 1_700_000,
    "arabic": "\u0627\u0644\ufdfa" * 1_700_000,
}
LINES = pytest.mark.parametrize("text", WRITING_SYSTEMS.values(), ids=list(WRITING_SYSTEMS))


@LINES
def test_a_line_of_ten_megabytes_is_cut(model_path, text):
    translator = Translator(model_path, num_threads=1, truncate=True)
    beginning = translator.translate([text[: translator.max_source_characters]])[0]
    (cut,) = within_a_minute(lambda: translator.translate([text]))
    assert (cut.truncated, cut.token_ids) == (True, beginning.token_ids)
    assert cut.source_pieces == beginning.source_pieces


@LINES
def test_a_line_of_ten_megabytes_is_refused(translator, text):
    with pytest.raises(InputError, match="max_source_characters=16384 characters") as error:
        within_a_minute(lambda: translator(["two dogs", text]))
    assert error.value.index == 1


@LINES
def test_a_target_and_a_prefix_of_ten_megabytes_are_refused(prefix_translator, text):
    with pytest.raises(InputError, match="Expected a target of at most 16384 characters"):
        within_a_minute(lambda: prefix_translator.score(["two"], [text]))
    with pytest.raises(ValueError, match="Expected a target_prefix of at most 16384 characters"):
        within_a_minute(lambda: prefix_translator(["two"], target_prefix=text))


@pytest.fixture
def prefix_translator(tokenizer_model, tmp_path):
    import onnx

    from tests.runtime.fake_model import build_model, metadata

    onnx.save(
        build_model(metadata(tokenizer_model, ["prefix_ids"]), prefix=True),
        tmp_path / "prefix.onnx",
    )
    return Translator(tmp_path / "prefix.onnx", num_threads=1, max_source_length=5)


def test_the_default_is_32_characters_a_token(model_path, write_model):
    assert Translator(model_path).max_source_characters == 32 * 512
    assert Translator(model_path, max_source_length=10).max_source_characters == 320
    # The limit in the file is lower.
    assert Translator(write_model(source__max_length=7)).max_source_characters == 224
    assert Translator(model_path, max_source_characters=9).max_source_characters == 9


def test_a_text_is_cut_at_the_limit(model_path):
    translator = Translator(model_path, truncate=True, max_source_characters=8)
    texts = ["two dogs", "two dogs run", "two do", " " * 9, "\U0001f469" * 8, "\U0001f469" * 9]
    results = translator.translate(texts)
    assert [each.text for each in results[:4]] == ["two dogs", "two dogs", "two do", ""]
    assert [each.truncated for each in results] == [False, True, False, True, False, True]
    assert results[5].token_ids == results[4].token_ids


def test_a_text_is_refused_beyond_the_limit(model_path):
    translator = Translator(model_path, max_source_characters=8)
    assert translator(["two dogs"]) == ["two dogs"]
    results = translator.translate_iterable(["two dogs", "two dogs "])
    assert next(results).text == "two dogs"
    with pytest.raises(InputError, match="at most max_source_characters=8 characters"):
        next(results)


@pytest.mark.parametrize("value", [0, -1, 1.5, "9", True])
def test_a_limit_out_of_range(model_path, value):
    with pytest.raises(ValueError, match="max_source_characters"):
        Translator(model_path, max_source_characters=value)


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("length", [0, 4, 5, 6, 7, 8, 9, 20])
def test_long_lines_are_read_up_to_the_limit(length, mark, end):
    line = "é\r" * length
    content = f"{mark}{line[:length]}{end}" + (f"next{end}" if "\n" in end else "")
    whole = list(read_lines(io.BytesIO(content.encode())))
    cut = list(read_lines(io.BytesIO(content.encode()), max_characters=5))
    assert [each[:5] for each in cut] == [each[:5] for each in whole]
    assert [len(each) > 5 for each in cut] == [len(each) > 5 for each in whole]
    assert max(map(len, cut), default=0) <= 9


@pytest.mark.parametrize("shift", range(4))
def test_lines_of_several_parts_are_read(shift):
    # 4-byte characters are split between the parts at each position.
    text = "a" * shift + "\U0001f469" * (PART // 2)
    lines = ["two dogs", text, "a tree"]
    content = "\r\n".join(lines).encode()
    assert list(read_lines(io.BytesIO(content))) == lines
    beginnings = [each[:100] for each in read_lines(io.BytesIO(content), max_characters=100)]
    assert beginnings == [each[:100] for each in lines]


def test_lines_of_the_length_of_a_part_are_read():
    for length in (PART - 2, PART - 1, PART, PART + 1):
        content = b"a" * length + b"\nb\n" + b"c" * length
        assert [len(each) for each in read_lines(io.BytesIO(content))] == [length, 1, length]


def test_invalid_bytes_beyond_the_limit_are_found():
    before = "é".encode() * PART
    with pytest.raises(InputError, match=f"byte 0xff at byte {len(before)} of the line") as error:
        list(read_lines(io.BytesIO(b"ok\n" + before + b"\xff"), max_characters=3))
    assert error.value.index == 1
    with pytest.raises(InputError, match=f"byte 0xc3 at byte {len(before)} of the line"):
        list(read_lines(io.BytesIO(before + b"\xc3\n")))
    replaced = list(read_lines(io.BytesIO(before + b"\xc3\n"), "replace"))
    assert replaced == [before.decode() + "\ufffd"]
