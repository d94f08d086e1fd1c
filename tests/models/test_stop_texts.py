"""Stop texts of `GenerationModel.generate`."""

import keras
import numpy as np
import pytest

from keras_attn import BeamDecoder, GenerationModel, rnn_seq2seq

SOURCES = [[number, number % 4 + 3, 2] for number in range(4, 16)]


class Letters:
    """Tokenizer whose token 3 + n is the n-th of some pieces with one or two letters."""

    vocabulary_size, end_token_id = 9, 2
    texts = ["a", "b", "ab", "ba", "c", "bc"]

    def encode(self, texts):
        return [[3 + self.texts.index(letter) for letter in text] for text in texts]

    def decode(self, rows):
        return ["".join(self.texts[each - 3] for each in row) for row in rows]

    def pieces(self, row):
        return self.decode([[each] for each in row])


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(3)
    encoder, decoder = rnn_seq2seq(20, 9, units=8, embedding_dim=8)
    search = BeamDecoder(
        decoder,
        beam_width=4,
        num_hypotheses=4,
        max_length=7,
        return_token_log_probs=True,
        return_top_tokens=2,
        return_alignments=True,
    )
    return GenerationModel(encoder, search)


def generate(model, **options):
    options = {"target_tokenizer": Letters(), "return_details": True, **options}
    results = model.generate(SOURCES, **options)
    return [hypothesis for each in results for hypothesis in each.hypotheses]


def test_hypotheses_are_cut_before_the_text_that_is_complete_first(model):
    prefix, options = "ab", {"target_prefix": "ab"}
    stops = ["bb", "bcb", "ab"]
    stopped = set()
    for whole, cut in zip(
        generate(model, **options), generate(model, stop_texts=stops, **options), strict=True
    ):
        ends = [
            (end, stop)
            for end in range(len(whole.text) + 1)
            for stop in sorted(stops, key=len, reverse=True)
            if whole.text[len(prefix) : end].endswith(stop)
        ]
        assert (cut.score, cut.log_prob) == (whole.score, whole.log_prob)
        if not ends:
            assert (cut.text, cut.token_ids, cut.ended) == (
                whole.text,
                whole.token_ids,
                whole.ended,
            )
            assert cut.stop_text is None
            continue
        end, stop = ends[0]
        stopped.add(stop)
        assert (cut.text, cut.stop_text, cut.ended) == (whole.text[: end - len(stop)], stop, True)
        sizes = np.cumsum([len(piece) for piece in whole.pieces])
        count = int((sizes <= len(cut.text)).sum())
        assert cut.token_ids == whole.token_ids[:count]
        assert cut.pieces == whole.pieces[:count]
        assert cut.token_log_probs == whole.token_log_probs[:count]
        assert cut.top_tokens == whole.top_tokens[:count]
        for top_tokens in whole.top_tokens:
            assert [each.piece for each in top_tokens] == Letters().pieces(
                [each.token_id for each in top_tokens]
            )
        np.testing.assert_array_equal(cut.alignments, whole.alignments[:count])
    assert len(stopped) > 1


def test_one_text_and_none(model):
    texts = model.generate(SOURCES, target_tokenizer=Letters())
    cut = model.generate(SOURCES, target_tokenizer=Letters(), stop_texts="b")
    assert cut == [each.split("b")[0] for each in texts] != texts
    for nothing in (None, [], ()):
        assert model.generate(SOURCES, target_tokenizer=Letters(), stop_texts=nothing) == texts


@pytest.mark.parametrize("value", ["", ["a", ""], [3], 3, {"a"}], ids=str)
def test_wrong_stop_texts_are_errors(model, value):
    with pytest.raises(ValueError, match=r"stop_texts to be a text.*Use stop_sequences for ids"):
        model.generate(SOURCES, target_tokenizer=Letters(), stop_texts=value)


def test_stop_texts_need_a_tokenizer(model):
    with pytest.raises(ValueError, match="target_tokenizer for stop_texts"):
        model.generate(SOURCES, stop_texts="a")
    with pytest.raises(ValueError, match="For texts that end an output, use stop_texts"):
        model.generate(SOURCES, stop=["a"])
