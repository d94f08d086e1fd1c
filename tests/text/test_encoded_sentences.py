import numpy as np
import pytest

from keras_attn.text import EncodedSentences, SpecialTokenIds
from keras_attn.text import _encoded_sentences as encoded_sentences
from keras_attn.text._encode_parallel_files import EncodedSentencesWriter

LISTS = [[7, 8, 9], [], [5], [6, 4, 4, 4], [11]]


def padded_by_hand(lists, width, before=(), after=()):
    rows = [[*before, *row, *after] for row in lists]
    return [row + [0] * (width - len(row)) for row in rows]


@pytest.fixture(params=["memory", "files"])
def sentences(request, tmp_path):
    if request.param == "memory":
        return EncodedSentences.from_lists(LISTS)
    with EncodedSentencesWriter(tmp_path, "side") as writer:
        for chunk in (LISTS[:2], [], LISTS[2:3], LISTS[3:]):
            writer.append(chunk)
    assert writer.num_tokens == 9
    return EncodedSentences.load(tmp_path, "side")


def test_sentences_come_back(sentences):
    assert len(sentences) == 5
    assert [sentences[row].tolist() for row in range(5)] == LISTS
    assert sentences.lengths.tolist() == [3, 0, 1, 4, 1]
    assert sentences.ids.dtype == np.int32


@pytest.mark.parametrize("rows", [[0, 1, 2, 3, 4], [4, 4, 1], [3], []])
def test_padding_with_and_without_special_ids(sentences, rows):
    lists = [LISTS[row] for row in rows]
    rows = np.array(rows, int)
    for width in (6, 9):
        padded = sentences.padded(rows, width)
        assert padded.dtype == np.int32 and padded.shape == (len(rows), width)
        assert padded.tolist() == padded_by_hand(lists, width)
        ended = sentences.padded(rows, width, end_token_id=2)
        assert ended.tolist() == padded_by_hand(lists, width, after=[2])
        started = sentences.padded(rows, width, start_token_id=1)
        assert started.tolist() == padded_by_hand(lists, width, before=[1])
        both = sentences.padded(rows, width, start_token_id=1, end_token_id=2)
        assert both.tolist() == padded_by_hand(lists, width, before=[1], after=[2])


def test_only_empty_sentences(tmp_path):
    with EncodedSentencesWriter(tmp_path, "side") as writer:
        writer.append([[], []])
    sentences = EncodedSentences.load(tmp_path, "side")
    assert sentences.lengths.tolist() == [0, 0]
    assert sentences.padded(np.array([0, 1]), 2, end_token_id=2).tolist() == [[2, 0], [2, 0]]


def test_files_are_mapped_not_read(tmp_path):
    with EncodedSentencesWriter(tmp_path, "side") as writer:
        writer.append(LISTS)
    sentences = EncodedSentences.load(tmp_path, "side")
    assert isinstance(sentences.ids.base, np.memmap)
    assert not sentences.ids.flags.owndata and not sentences.ids.flags.writeable


def test_offsets_that_do_not_fit_are_refused():
    for offsets in ([], [1, 3], [0, 2]):
        with pytest.raises(ValueError, match=r"Expected offsets from 0.*len\(ids\)=3"):
            EncodedSentences(np.array([4, 5, 6], np.int32), np.array(offsets, np.int64))


@pytest.mark.parametrize("kind", [int, np.int32, np.uint8, np.int64])
def test_negative_rows_count_from_the_end(sentences, kind):
    assert sentences[kind(3)].tolist() == LISTS[3]
    if kind is not np.uint8:
        assert [sentences[kind(row)].tolist() for row in range(-5, 0)] == LISTS
        rows = np.array([-1, 0, -5, -2], kind)
        expected = padded_by_hand([LISTS[row] for row in rows], 6, after=[2])
        assert sentences.padded(rows, 6, end_token_id=2).tolist() == expected
    assert sentences.padded([4, -5], 3).tolist() == padded_by_hand([[11], [7, 8, 9]], 3)


@pytest.mark.parametrize("row", [5, -6, 10**6, np.int64(-6)])
def test_rows_out_of_range_raise_index_error(sentences, row):
    with pytest.raises(IndexError, match=f"from -5 to 4.*Received: row={row}"):
        sentences[row]
    with pytest.raises(IndexError, match=f"from -5 to 4.*Received: row={row}"):
        sentences.padded(np.array([0, row]), 6)


@pytest.mark.parametrize("row", [True, np.True_, 1.0, slice(0, 2), np.array([1, 2]), None, "1"])
def test_only_integers_select_a_sentence(sentences, row):
    with pytest.raises(TypeError, match="Expected a row of type int. Received: row="):
        sentences[row]


def test_padded_checks_rows_and_width(sentences):
    for rows in ([True, False, True, False, True], [0.0, 1.0], [[0, 1]], 3):
        with pytest.raises(ValueError, match="rows to be a one-dimensional array of integers"):
            sentences.padded(np.array(rows), 6)
    for special, least in [({}, 4), ({"end_token_id": 2}, 5), ({"start_token_id": 1}, 5)]:
        assert sentences.padded([3], least, **special).shape == (1, least)
        with pytest.raises(ValueError, match=f"at least {least}.*Received: width={least - 1}"):
            sentences.padded([3], least - 1, **special)


def test_offsets_that_decrease_are_refused():
    with pytest.raises(ValueError, match=r"do not decrease.*offsets\[1\]=2, offsets\[2\]=1"):
        EncodedSentences(np.array([4, 5, 6], np.int32), np.array([0, 2, 1, 3]))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([5, 0, 6], "id 0 at position 1 of sentence 2"),
        ([5, 6, 2], "id 2 at position 2 of sentence 2"),
        ([-1], "from -1 to 8"),
        ([2**40], "dtype int64"),
        ([1.5], "dtype float64"),
    ],
)
def test_ids_that_no_sentence_may_contain_are_refused(row, message, monkeypatch):
    monkeypatch.setattr(encoded_sentences, "_IDS_PER_BLOCK", 2)
    with pytest.raises(ValueError, match=f"Expected .*Received: .*{message}"):
        EncodedSentences.from_lists([[7, 8], [], row])


def test_other_special_ids_make_other_ids_ordinary():
    sentences = EncodedSentences.from_lists([[0, 2, 3]], SpecialTokenIds(pad=1, end=7))
    assert sentences[0].tolist() == [0, 2, 3]
    with pytest.raises(ValueError, match="padding id 1 and the end id 7.*Received: id 7"):
        EncodedSentences(np.array([3, 7]), np.array([0, 2]), SpecialTokenIds(pad=1, end=7))
