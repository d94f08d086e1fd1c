"""Padding ids inside of sources and prefixes, and prefixes that a limit cuts."""

import numpy as np
import onnx
import pytest
from keras_attn_runtime import InputError, Translator
from keras_attn_runtime._file_format import Side
from keras_attn_runtime._inputs.source import SourceReader

from tests.runtime.fake_model import build_model, metadata


class Ids:
    """A tokenizer of digits."""

    unknown_token_id, vocabulary_size = 3, 10

    def encode(self, text):
        return [int(digit) for digit in text]


def reader(row_length=None, **settings):
    side = Side(vocabulary_size=10, pad_token_id=2, **settings)
    return SourceReader(side, 5, 100, truncate=False, row_length=row_length)


PROMPT = {"masks_only_trailing_padding": True, "is_prompt": True}


@pytest.mark.parametrize(
    ("row", "of_list", "of_array"),
    [
        ([5, 2, 6], [5, 2, 6], [5, 2, 6]),
        ([2, 5], [2, 5], [2, 5]),
        ([5, 2, 2], [5, 2, 2], [5]),
        ([2], [2], []),
    ],
)
def test_padding_in_a_list_of_prompt_ids_is_a_token(row, of_list, of_array):
    (listed,) = reader(**PROMPT).read_ids([row])
    (padded,) = reader(**PROMPT).read_ids(np.array([row]), are_padded=True)
    (text,) = reader(**PROMPT).read_texts(["".join(map(str, row))], Ids())
    assert (listed.ids, padded.ids, text.ids) == (of_list, of_array, row)


def test_the_end_of_a_source_keeps_padding_before_it():
    settings = {"masks_only_trailing_padding": True, "end_token_id": 1, "add_end": True}
    read = list(reader(**settings).read_ids([[5, 2, 6], [5, 2, 1, 2], [5, 2, 2]]))
    assert [source.ids for source in read] == [[5, 2, 6, 1], [5, 2, 1], [5, 1]]


@pytest.mark.parametrize("row", ["526", "256", "562"])
def test_texts_with_padding_are_refused_by_files_that_mask_it_everywhere(row):
    """Files of earlier releases mask the padding id at every position."""
    with pytest.raises(InputError, match=f"padding at position {row.index('2')}"):
        list(reader().read_texts([row], Ids()))


def test_a_full_row_cannot_end_with_padding():
    (source,) = reader(row_length=4, **PROMPT).read_texts(["562"], Ids())
    assert source.ids == [5, 6, 2]
    with pytest.raises(InputError, match="at most 3 ids if the last token has the padding id 2"):
        list(reader(row_length=4, **PROMPT).read_texts(["5672"], Ids()))


@pytest.fixture(scope="module")
def prompt_file(tokenizer_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("padding") / "model.onnx"
    settings = {f"source__{name}": value for name, value in PROMPT.items()}
    settings |= {"source__add_end": False, "source__end_token_id": None, "target__end_token_id": 2}
    onnx.save(build_model(metadata(tokenizer_model, ["prefix_ids"], **settings), prefix=True), path)
    return path


def test_a_row_that_ends_with_padding_is_marked(prompt_file, monkeypatch):
    translator, fed = Translator(prompt_file, num_threads=1), []

    def search(feeds, call):
        fed.extend(feeds["source_ids"].tolist())
        return original(feeds, call)

    original = translator._model._search
    monkeypatch.setattr(translator._model, "_search", search)
    translator.translate_ids([[5, 0], [7, 0, 8, 9], [6]], max_length=1)
    assert sorted(fed) == [[5, 0, -1, 0], [6, 0, 0, 0], [7, 0, 8, 9]]


@pytest.mark.parametrize(
    ("prefix", "message"),
    [([5, 0, 6], r"padding at position 1"), ([5, 2, 6], "the end token at position 1")],
)
def test_prefixes_with_inner_special_ids_are_refused(prompt_file, prefix, message):
    with pytest.raises(ValueError, match=message):
        Translator(prompt_file, num_threads=1).translate_ids([[7]], target_prefix=prefix)


def test_a_prefix_that_the_file_cuts_is_refused(tokenizer_model, tmp_path):
    path = tmp_path / "model.onnx"
    properties = metadata(tokenizer_model, ["prefix_ids"], search__max_length=3)
    onnx.save(build_model(properties, prefix=True), path)
    translator = Translator(path, num_threads=1)
    with pytest.raises(InputError, match="Sentence 1 .*at most 3 tokens.* Received: 4 tokens"):
        translator.translate_ids([[7, 2], [8, 2]], target_prefix=[[5, 6, 7], [5, 6, 7, 8]])
    (cut,) = translator.translate_ids([[7, 2]], target_prefix=[5, 6, 7, 8], max_length=2)
    assert cut.token_ids == [5, 6]
