"""Texts that end an output."""

import itertools
import json

import numpy as np
import pytest
from keras_attn_runtime import Hypothesis, ModelFileError, TopToken, Translator
from keras_attn_runtime._engines.litert_session import ArrayValue
from keras_attn_runtime._file_info.tensor_value import TensorValue
from keras_attn_runtime._models.stepped_search import SteppedSearch
from keras_attn_runtime._translate.constraints import ConstraintReader
from keras_attn_runtime._translate.stops import (
    cut_at_stop,
    find_stop,
    finished_text,
    num_begun_tokens,
    num_stop_tokens,
)


def first_complete(text, stops, start=0):
    """Reads a text character by character until it ends with a stop text."""
    for end in range(start, len(text) + 1):
        ended = [each for each in stops if text[start:end].endswith(each)]
        if ended:
            longest = max(ended, key=len)
            return end - len(longest), longest
    return None


STOPS = [["b"], ["ab", "b"], ["bca", "c"], ["aab", "aba"], ["aba"]]


@pytest.mark.parametrize("stops", STOPS, ids=str)
@pytest.mark.parametrize("start", [0, 2])
def test_the_stop_text_that_is_complete_first_cuts(stops, start):
    num_found = 0
    for letters in itertools.product("abc", repeat=5):
        text = "".join(letters)
        found = find_stop(text, stops, start)
        expected = first_complete(text, stops, start)
        assert (found and (found.begin, found.text)) == expected
        num_found += found is not None
        # What is shown of each beginning is a part of the final text, and as long as possible.
        final = text if expected is None else text[: expected[0]]
        for end in range(len(text) + 1):
            if find_stop(text[:end], stops, start):
                break
            shown = finished_text(text[:end], stops, start)
            assert final.startswith(shown) and text.startswith(shown)
            following = ["".join(each) for each in itertools.product("abc", repeat=3)]
            cuts = [first_complete(text[:end] + each, stops, start) for each in following]
            least = min([end, *(begin for begin, _ in filter(None, cuts) if begin < end)])
            assert len(shown) == least or (stops == ["bca", "c"] and len(shown) < least)
    assert 0 < num_found < 3**5


def test_an_incomplete_character_is_held_back():
    assert finished_text("ab\ufffd\ufffd", ["x"]) == "ab"
    assert finished_text("ab\ufffd", []) == "ab\ufffd"


def test_stop_sequences_of_tokens():
    sequences = [[5, 6, 7], [7]]
    assert num_stop_tokens([3, 5, 6, 7], sequences) == 3
    assert num_stop_tokens([6, 7], sequences) == 1
    assert num_stop_tokens([], sequences) == num_stop_tokens([5, 6], sequences) == 0
    begun = [num_begun_tokens(ids, sequences) for ids in ([3, 5], [5, 6], [6], [5, 5], [])]
    assert begun == [1, 2, 0, 1, 0]
    assert num_begun_tokens([3], []) == 0


class Bytes:
    """Tokenizer whose tokens are two bytes long, so that characters span tokens."""

    def decode(self, ids):
        content = b"".join(bytes(divmod(each, 256)) for each in ids)
        return content.rstrip(b"\0").decode(errors="replace")

    def pieces(self, ids):
        return [*map(str, ids)]

    def encode(self, text):
        content = text.encode() + b"\0" * (len(text.encode()) % 2)
        pairs = zip(content[::2], content[1::2], strict=True)
        return [256 * first + second for first, second in pairs]


def hypothesis(text):
    ids = Bytes().encode(text)
    size = len(ids)
    return Hypothesis(
        text=text,
        token_ids=ids,
        pieces=None,
        score=-1.0,
        log_prob=-2.0,
        ended=False,
        alignments=np.zeros((size, 3), "float32"),
        token_log_probs=[-1.0] * (size + 1),
        top_tokens=[[TopToken(each, None, -1.0)] for each in (*ids, 2)],
    )


@pytest.mark.parametrize("text", ["abcdefg#h", "aé🙂x🙂#yy", "🙂🙂🙂🙂a#", "#abc", "ab#c#d"])
def test_tokens_are_cut_at_the_token_before_the_stop_text(text):
    tokenizer = Bytes()
    whole = hypothesis(text)
    cut = cut_at_stop(whole, ["#"], tokenizer, 0)
    before = text.split("#")[0]
    counts = [
        count
        for count in range(len(whole.token_ids) + 1)
        if before.startswith(tokenizer.decode(whole.token_ids[:count]))
    ]
    assert (cut.text, cut.stop_text, cut.ended) == (before, "#", True)
    assert cut.token_ids == whole.token_ids[: max(counts)]
    assert len(cut.pieces) == len(cut.token_log_probs) == len(cut.alignments) == max(counts)
    assert [each.token_id for (each,) in cut.top_tokens] == cut.token_ids
    assert (cut.score, cut.log_prob) == (-1.0, -2.0)
    assert cut_at_stop(whole, ["##"], tokenizer, 0) is whole


def test_a_prefix_contains_no_stop_text():
    whole = hypothesis("a#b#cd#")
    cut = cut_at_stop(whole, ["#"], Bytes(), 1)
    assert (cut.text, cut.token_ids) == ("a#b", whole.token_ids[:1])
    assert cut_at_stop(whole, ["#c"], Bytes(), 2) is whole  # "#" is part of the prefix
    assert cut_at_stop(hypothesis("ab"), ["b"], Bytes(), 7).stop_text is None


def test_a_file_is_cut(translator):
    texts = ["the old man reads a book", "some text"]
    found = translator.translate(texts, stop_texts=["man", "reads"], num_hypotheses=2)
    assert [each.text for each in found] == ["the old ", "some text"]
    assert [each.stop_text for each in found] == ["man", None]
    assert found[0].ended and len(found[0].alignments) == len(found[0].token_ids)
    assert translator(texts, stop_texts="text") == ["the old man reads a book", "some "]
    assert translator(texts, stop_texts=[]) == translator(texts, stop_texts=None) == texts


@pytest.mark.parametrize("value", ["", [""], ["a", 3], 3, [None], {"a": 1}], ids=str)
def test_wrong_stop_texts_are_errors(translator, value):
    with pytest.raises(ValueError, match="Expected stop_texts to be a string or a list"):
        translator(["some text"], stop_texts=value)


def test_a_phrase_contains_no_stop_sequence(write_model):
    settings = Translator(write_model(search__stop_sequences=[[5, 6]])).settings
    reader = ConstraintReader(settings, None, 100)
    assert reader.read_phrase([5, 7, 6]) == [[5, 7, 6]]
    with pytest.raises(ValueError, match="tokens that the search never generates"):
        reader.read_phrase([4, 5, 6])


class FakeSession:
    """Start of a search whose state is given."""

    engine, outputs = "fake", ()

    def __init__(self, batch_size=None, **state):
        self.inputs = [TensorValue("source_ids", "int32", (batch_size, None))]
        self.state = state

    def value_of(self, array):
        return ArrayValue(array)

    def run_values(self, values, call):
        return {name: ArrayValue(np.asarray(value)) for name, value in self.state.items()}


NEVER = -2e9
TOKENS = [[7, 3, 7, 0], [3, 4, 7, 7]]  # the step 2 has read the first two
BEAMS = {
    "all beams stopped": (TOKENS[:1] * 2, [-1, -2], False, 3),
    "one beam is open": (TOKENS, [-1, -2], False, 9),
    "the other beam is not possible": (TOKENS, [-1, NEVER], False, 3),
    "done": (TOKENS[:1] * 2, [-1, -2], True, 9),
    "no beam is possible": (TOKENS, [NEVER, NEVER], False, 9),
}


def limits_after_stops(start, num_sentences):
    feeds = {"source_ids": np.ones((num_sentences, 2), "int32")}
    search = SteppedSearch((start, FakeSession(), FakeSession()), feeds)
    search.end_stopped(lambda row, token_ids: 7 in token_ids)
    return search.values["max_lengths"].numpy().tolist()


def test_a_search_ends_for_sentences_whose_beams_are_all_stopped():
    token_ids, log_probs, done, expected = zip(*BEAMS.values(), strict=True)
    state = {"step": 2, "done": done, "max_lengths": [9] * len(BEAMS)}
    beams = {"beams/token_ids": token_ids, "beams/log_probs": log_probs}
    start = FakeSession(**state, **beams)
    assert limits_after_stops(start, len(BEAMS)) == list(expected)


def test_a_search_ends_for_samples_that_are_stopped_or_ended():
    token_ids = [TOKENS, TOKENS, TOKENS[:1] * 2]
    ended = [[False, True], [True, False], [False, False]]
    state = {"step": 2, "done": [False] * 3, "max_lengths": [9, 9, 2], "ended": ended}
    samples = {"hypotheses/token_ids": token_ids}
    assert limits_after_stops(FakeSession(**state, **samples), 3) == [3, 9, 2]


def test_copies_in_a_batch_of_fixed_size_end_with_their_sentence():
    state = {"step": 2, "done": [False] * 4, "max_lengths": [9] * 4, "ended": [[False]] * 4}
    samples = {"hypotheses/token_ids": [TOKENS[1:], TOKENS[:1], TOKENS[:1], TOKENS[:1]]}
    assert limits_after_stops(FakeSession(4, **state, **samples), 2) == [9, 3, 3, 3]


def test_a_search_of_another_class_is_not_ended():
    state = {"step": 2, "done": [False], "max_lengths": [9]}
    assert limits_after_stops(FakeSession(**state), 1) == [9]


def test_a_file_without_tokenizers_has_no_stop_texts(write_model):
    sides = {f"{side}__tokenizer": "none" for side in ("source", "target")}
    path = write_model({"keras_attn.source_tokenizer": None}, **sides)
    with pytest.raises(ModelFileError, match="target tokenizer.*or omit `stop_texts`"):
        Translator(path).translate_ids([[5, 2]], stop_texts="a")


def test_the_command_cuts_lines(start_command, model_path):
    arguments = ("translate", model_path, "--stop-text", "man", "--stop-text", "text")
    lines = b"the old man reads\nsome text\nby the river\n"
    output, _ = start_command(*arguments).communicate(lines, timeout=60)
    assert output.decode().split("\n") == ["the old ", "some ", "by the river", ""]
    output, _ = start_command(*arguments, "--format", "jsonl").communicate(lines, timeout=60)
    results = [json.loads(line) for line in output.decode().splitlines()]
    assert [each.get("stop_text") for each in results] == ["man", "text", None]
