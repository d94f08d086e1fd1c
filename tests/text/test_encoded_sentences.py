import numpy as np
import pytest

from keras_attn.text import EncodedSentences
from keras_attn.text.encoded_sentences_writer import EncodedSentencesWriter

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
