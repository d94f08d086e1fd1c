import keras
import numpy as np
import pytest

from keras_attn import BeamDecoder, GreedyDecoder, SamplingDecoder, rnn_seq2seq
from tests.backend import requires_tensorflow
from tests.contracts import assert_close, numpy
from tests.search.table_decoder import TableDecoder, random_tables

pytestmark = requires_tensorflow("tensors keep their shape in a loop elsewhere")


class CountingDecoder(TableDecoder):
    """Notes the rows of each step; run eagerly."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.rows = []

    def step(self, token_ids, state, memory):
        assert (
            len(memory["tables"]) * self.num_open_hypotheses == len(token_ids) == len(state["node"])
        )
        self.rows.append(len(token_ids) // self.num_open_hypotheses)
        return super().step(token_ids, state, memory)


def sentences():
    """Tables of 8 sentences, the first of which end at once and the last at the limit."""
    tables = random_tables(4, batch=8)
    tables[:, :, 2] = np.linspace(30, -30, 8)[:, None]
    return tables


@pytest.mark.parametrize(
    "make",
    [
        lambda decoder: GreedyDecoder(decoder, max_length=10),
        lambda decoder: BeamDecoder(decoder, beam_width=3, num_hypotheses=2, max_length=10),
        lambda decoder: SamplingDecoder(decoder, num_hypotheses=2, top_k=1, max_length=10),
    ],
)
@pytest.mark.parametrize("alignments", [False, True])
def test_sentences_that_have_ended_are_dropped_and_give_what_they_give_alone(make, alignments):
    decoder = CountingDecoder()
    search = make(decoder)
    decoder.num_open_hypotheses, search.return_alignments = search.num_open_hypotheses, alignments
    results = numpy(search(sentences()))
    rows = decoder.rows
    assert rows[0] == 8 and rows[-1] < 6 and rows == sorted(rows, reverse=True)
    for b, table in enumerate(sentences()):
        alone = numpy(search(table[None]))
        for name, value in alone.items():
            received = results[name][b : b + 1]
            if value.ndim > 2:
                assert not received[:, :, value.shape[2] :].any()
                received = received[:, :, : value.shape[2]]
            assert_close(received, value)


class ScaledDecoder(TableDecoder):
    """Counts the steps. Its layer is built by the first step."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.scale, self.steps = keras.layers.Dense(7), 0

    def step(self, token_ids, state, memory):
        self.steps += 1
        logits, state = super().step(token_ids, state, memory)
        return self.scale(logits), state


@pytest.mark.parametrize("search_class", [GreedyDecoder, BeamDecoder, SamplingDecoder])
def test_shapes_are_inferred_without_a_step_once_all_layers_are_built(search_class):
    decoder = ScaledDecoder()
    options = {"return_alignments": True, "return_token_log_probs": True, "max_length": 4}
    search = search_class(decoder, return_top_tokens=2, **options)
    tables = keras.Input((19, 7))
    with_steps = search(tables)
    assert decoder.scale.built and decoder.steps
    decoder.steps = 0
    without_steps = search(tables)
    assert not decoder.steps

    def specs(outputs):
        return {name: (value.shape, value.dtype) for name, value in outputs.items()}

    assert specs(without_steps) == specs(with_steps)


@pytest.mark.parametrize(
    "search", [GreedyDecoder(TableDecoder()), BeamDecoder(TableDecoder(), beam_width=3)]
)
@pytest.mark.parametrize("empty", [1, 3, 7])
def test_most_sentences_may_have_a_limit_of_no_tokens(search, empty):
    tables = sentences()
    mask = np.ones(tables.shape[:2], "bool")
    search.relative_max_length = (1, 0)
    expected = numpy(search(tables, mask))
    mask[8 - empty :] = False
    received = numpy(search(tables, mask))
    columns = received["token_ids"].shape[2]
    assert_close(received["token_ids"][:-empty], expected["token_ids"][:-empty, :, :columns])
    assert_close(received["scores"][:-empty], expected["scores"][:-empty])
    assert not received["token_ids"][-empty:].any() and not received["scores"][-empty:].any()


@pytest.mark.parametrize("in_a_graph", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda **options: GreedyDecoder(TableDecoder(), max_length=4, **options),
        lambda **options: BeamDecoder(
            TableDecoder(), beam_width=3, num_hypotheses=2, max_length=4, **options
        ),
    ],
    ids=["greedy", "beam"],
)
def test_alignments_of_an_empty_source_have_no_positions(make, in_a_graph):
    import tensorflow as tf

    encoder, decoder = rnn_seq2seq(20, 21, units=4, embedding_dim=4, seed=1)
    search, plain = make(return_alignments=True), make()
    search.decoder = plain.decoder = decoder
    encoded = encoder(np.zeros((2, 0), "int32"))
    expected = numpy(plain(**encoded))
    translate = search
    if in_a_graph:  # the search alone, because Keras' recurrent layers need a source there
        shapes = {"encoder_outputs": ((2, None, 8), "float32")}
        shapes["encoder_mask"] = ((2, None), "bool")
        specs = {name: tf.TensorSpec(*shape) for name, shape in shapes.items()}
        state = encoded.pop("encoder_state")
        translate = tf.function(
            lambda given: search(**given, encoder_state=state), input_signature=[specs]
        )
    received = numpy(translate(encoded) if in_a_graph else translate(**encoded))
    shape = expected["token_ids"].shape
    assert received.pop("alignments").shape == (*shape, 0)
    assert_close(received, expected)
