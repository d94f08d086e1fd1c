import keras
import numpy as np
import pytest
from keras import tree

from keras_attn import (
    AttentionRNN,
    AttentionRNNCell,
    BahdanauAttention,
    BeamDecoder,
    CombinedAttention,
    CoverageAttention,
    GreedyDecoder,
    IntraDecoderAttention,
    LocalAttention,
    LocationAttention,
    LuongAttention,
    MultiHeadAttention,
    RNNCell,
    RNNDecoder,
    StepDecoder,
    rnn_seq2seq,
)
from keras_attn._attention.attention_losses import coverage_loss
from keras_attn.testing import check_decoder, check_layer, check_search
from tests.backend import precision
from tests.contracts import assert_close, assert_identical, numpy, randomize
from tests.rnn.minimal_cell import MinimalCell
from tests.slow_cases import all_slow_but

GENERATOR = np.random.default_rng(0)
VOCABULARY_SIZE = 5
TOKEN_IDS = np.array([[1, 3, 4, 3], [1, 4, 4, 2], [1, 3, 3, 4]], "int32")
ENCODED = {
    "encoder_outputs": GENERATOR.normal(size=(3, 6, 4)).astype("float32"),
    "encoder_mask": np.arange(6) < np.array([[6], [2], [4]]),
    "encoder_state": [[GENERATOR.normal(size=(3, 6)).astype("float32") for _ in range(2)]],
}
STATELESS = {name: ENCODED[name] for name in ("encoder_outputs", "encoder_mask")}


def tied():
    return keras.layers.ReversibleEmbedding(VOCABULARY_SIZE, 6)


def with_head(cell, **kwargs):
    embedding = keras.layers.Embedding(VOCABULARY_SIZE, 3)
    return RNNDecoder(cell, embedding, head=keras.layers.Dense(VOCABULARY_SIZE), **kwargs)


def attention_cell(cell=None, attention=None, **kwargs):
    cell = keras.layers.GRUCell(6) if cell is None else cell
    attention = BahdanauAttention(5) if attention is None else attention
    return AttentionRNNCell(cell, attention, **{"attention_units": 6, **kwargs})


DECODERS = {
    "bahdanau, tied": lambda: RNNDecoder(attention_cell(), tied()),
    "order of bahdanau's paper": lambda: with_head(
        attention_cell(query_from="previous_state", input_feeding=False, attention_units=None)
    ),
    "luong, copied state": lambda: with_head(
        attention_cell(keras.layers.LSTMCell(6), LuongAttention("general")), bridge="copy"
    ),
    "no input feeding": lambda: RNNDecoder(
        attention_cell(keras.layers.LSTMCell(6), LuongAttention("dot"), input_feeding=False),
        tied(),
        bridge="zero",
    ),
    "several heads": lambda: with_head(
        attention_cell(attention=MultiHeadAttention(2, 3), query_from="previous_state")
    ),
    "several heads, no input feeding": lambda: with_head(
        attention_cell(attention=MultiHeadAttention(2, 3, output_shape=5), input_feeding=False)
    ),
    "sparse": lambda: with_head(
        attention_cell(attention=BahdanauAttention(5, probability_fn="sparsemax"))
    ),
    "local": lambda: with_head(
        attention_cell(attention=LocalAttention(BahdanauAttention(5), window=1))
    ),
    "location": lambda: with_head(attention_cell(attention=LocationAttention(20))),
    "stack": lambda: with_head(
        attention_cell([keras.layers.SimpleRNNCell(3), RNNCell(4)], query_from="previous_state")
    ),
    "cell written by the user": lambda: with_head(attention_cell(MinimalCell(4))),
    "plain": lambda: RNNDecoder(keras.layers.GRUCell(6), tied()),
    "plain stack": lambda: with_head([keras.layers.LSTMCell(3), keras.layers.GRUCell(4)]),
}


SLOW = ["order of bahdanau's paper", "several heads", "sparse", "location", "plain"]


@pytest.fixture(
    params=all_slow_but(
        *(each for each in DECODERS if each not in SLOW),
        cases=DECODERS,
        on_jax=["bahdanau, tied", "local", "plain stack"],
    )
)
def name(request):
    return request.param


def encoded_for(name):
    # The values of dot are as large as the queries.
    if name == "no input feeding":
        outputs = np.concatenate([ENCODED["encoder_outputs"]] * 2, axis=-1)[:, :, :6]
        return {**ENCODED, "encoder_outputs": outputs}
    return ENCODED


def built(make_decoder, encoded=ENCODED):
    decoder = make_decoder()
    decoder(TOKEN_IDS, **encoded)
    return randomize(decoder)


def test_keeps_the_contract(name):
    check_decoder(DECODERS[name], encoded_for(name), TOKEN_IDS, sum_to_one=name != "local")


def test_keeps_the_contract_for_an_encoder_without_state():
    check_decoder(DECODERS["bahdanau, tied"], STATELESS, TOKEN_IDS)


@pytest.mark.parametrize(
    "name",
    all_slow_but("bahdanau, tied", cases=["bahdanau, tied", "no input feeding", "plain stack"]),
)
def test_searches_find_the_best_hypotheses(name):
    encoded = tree.map_structure(lambda leaf: leaf[:2], encoded_for(name))
    check_search(DECODERS[name], encoded, VOCABULARY_SIZE)


def test_is_a_good_layer():
    check_layer(
        DECODERS["stack"],
        {"token_ids": TOKEN_IDS, **ENCODED},
        masked={"encoder_outputs": "encoder_mask"},
        mixed_dtype="float32",
    )


@pytest.mark.parametrize("head", [False, True])
def test_logits_are_products_of_what_the_layer_gives(head):
    embedding = keras.layers.Embedding(VOCABULARY_SIZE, 3) if head else tied()
    layer = keras.layers.Dense(VOCABULARY_SIZE) if head else None
    made = built(lambda: RNNDecoder(attention_cell(), embedding, head=layer, bridge="zero"))
    embeddings, memory = numpy(made.embedding.embeddings), list(STATELESS.values())
    outputs = numpy(AttentionRNN(made.cell)(embeddings[TOKEN_IDS], *memory))
    kernel, bias = numpy([made.head.kernel, made.head.bias]) if head else (embeddings.T, 0)
    assert_close(numpy(made(TOKEN_IDS, **ENCODED)), outputs @ kernel + bias)


def test_steps_work_in_half_precision():
    with precision("mixed_float16"):
        decoder = built(DECODERS["luong, copied state"])
    memory = decoder.prepare_memory(**ENCODED)
    state = decoder.initial_state(memory, alignments=True)
    logits, new_state = decoder.step(TOKEN_IDS[:, 0], state, memory)
    assert numpy(logits).dtype == "float32"
    for new, old in zip(tree.flatten(new_state), tree.flatten(state), strict=True):
        assert numpy(new).dtype == numpy(old).dtype == "float16"


@pytest.mark.parametrize("name", ["bahdanau, tied", "no input feeding"])
def test_teacher_forcing_returns_the_weights_of_the_steps(name):
    encoded = encoded_for(name)
    decoder = built(DECODERS[name], encoded)
    logits, weights = numpy(decoder(TOKEN_IDS, **encoded, return_attention_scores=True))
    assert_close(logits, numpy(decoder(TOKEN_IDS, **encoded)))
    memory = decoder.prepare_memory(**encoded)
    state = decoder.initial_state(memory, alignments=True)
    for t in range(TOKEN_IDS.shape[1]):
        _, state = decoder.step(TOKEN_IDS[:, t], state, memory)
        assert_close(weights[:, t], numpy(state["alignments"]))


def test_a_source_of_nothing_gives_a_zero_context():
    decoder = built(lambda: with_head(attention_cell(attention_units=None), bridge="zero"))
    nothing = {**STATELESS, "encoder_mask": np.zeros((3, 6), "bool")}
    logits = numpy(decoder(TOKEN_IDS, **nothing))
    other = {**nothing, "encoder_outputs": -nothing["encoder_outputs"]}
    assert np.isfinite(logits).all()
    assert_identical(numpy(decoder(TOKEN_IDS, **other)), logits)


def test_a_plain_decoder_sees_the_source_through_the_state_only():
    decoder = built(DECODERS["plain"])
    logits = numpy(decoder(TOKEN_IDS, **ENCODED))
    outputs = {**ENCODED, "encoder_outputs": -ENCODED["encoder_outputs"]}
    assert_identical(numpy(decoder(TOKEN_IDS, **outputs)), logits)
    state = {**ENCODED, "encoder_state": [[-leaf for leaf in ENCODED["encoder_state"][0]]]}
    assert not np.allclose(numpy(decoder(TOKEN_IDS, **state)), logits)


def test_a_plain_decoder_has_no_attention_to_return():
    decoder = built(DECODERS["plain"])
    with pytest.raises(ValueError, match="=False for a cell without attention"):
        decoder(TOKEN_IDS, **ENCODED, return_attention_scores=True)


def test_tied_weights_are_one_matrix():
    decoder = built(lambda: RNNDecoder(attention_cell(attention=BahdanauAttention(7)), tied()))
    shapes = [tuple(weight.shape) for weight in decoder.trainable_weights]
    assert shapes.count((VOCABULARY_SIZE, 6)) == 1
    assert (6, VOCABULARY_SIZE) not in shapes


def test_the_head_can_be_any_layer():
    head = keras.Sequential([keras.layers.Dense(7, "relu"), keras.layers.Dense(VOCABULARY_SIZE)])
    decoder = built(
        lambda: RNNDecoder(attention_cell(), keras.layers.Embedding(VOCABULARY_SIZE, 3), head=head)
    )
    assert decoder(TOKEN_IDS, **ENCODED).shape == (3, 4, VOCABULARY_SIZE)


@pytest.mark.parametrize("input_feeding", [False, True])
def test_sequences_of_numbers_are_sequences_too(input_feeding):
    """Real-valued inputs through a Dense "embedding", real-valued outputs from a Dense head."""
    cell = attention_cell(input_feeding=input_feeding)
    decoder = RNNDecoder(cell, keras.layers.Dense(3), head=keras.layers.Dense(2))
    inputs = {"values": keras.Input((None, 2)), "memory": keras.Input((None, 4))}
    model = keras.Model(
        list(inputs.values()), decoder(inputs["values"], encoder_outputs=inputs["memory"])
    )
    model.compile("sgd", "mse")
    values = GENERATOR.normal(size=(3, 4, 2)).astype("float32")
    data = [values, ENCODED["encoder_outputs"]]
    history = model.fit(data, -values, epochs=2, verbose=0)
    losses = history.history["loss"]
    assert losses[1] < losses[0]


def test_coverage_of_a_sequence_of_numbers_counts_all_of_it():
    cell = attention_cell(attention=CoverageAttention(5))
    decoder = RNNDecoder(cell, keras.layers.Dense(3), head=keras.layers.Dense(2), coverage_loss=1.0)
    values, memory = np.zeros((3, 4, 2), "float32"), ENCODED["encoder_outputs"]
    _, weights = decoder(values, memory, return_attention_scores=True)
    expected = coverage_loss(weights, np.ones((3, 4), "bool"))
    assert tuple(decoder(values, memory, training=True).shape) == (3, 4, 2)
    assert_close(numpy(decoder.losses[0]), numpy(expected))


def test_a_search_stays_within_the_room_for_the_decoders_own_past():
    own = {"source": BahdanauAttention(5), "own": IntraDecoderAttention(LuongAttention("general"))}
    decoder = built(lambda: with_head(attention_cell(attention=CombinedAttention(own))))
    search = GreedyDecoder(
        decoder, max_length=4, relative_max_length=None, suppressed_token_ids=[2]
    )
    results = numpy(search(**ENCODED, max_length=9))
    assert results["lengths"].tolist() == [[4]] * 3
    assert_close(results, numpy(search(**ENCODED)))


def test_dropout_is_for_training_only():
    decoder = built(lambda: RNNDecoder(attention_cell(), tied(), dropout=0.5, seed=1))
    inference = numpy(decoder(TOKEN_IDS, **ENCODED))
    assert_identical(numpy(decoder(TOKEN_IDS, **ENCODED)), inference)
    parts = [decoder.input_dropout, decoder.output_dropout]
    for one in parts:
        for each in parts:
            each.rate = 0.5 * (each is one)
        assert not np.allclose(numpy(decoder(TOKEN_IDS, **ENCODED, training=True)), inference)


def test_a_tied_output_must_have_the_size_of_the_embedding():
    decoder = RNNDecoder(attention_cell(attention_units=7), tied())
    with pytest.raises(ValueError, match="Received: output size=7, embedding size=6. Use equal"):
        decoder(TOKEN_IDS, **ENCODED)


def test_without_a_head_the_embedding_must_be_reversible():
    with pytest.raises(ValueError, match="Received: embedding=Embedding. Pass head=keras"):
        RNNDecoder(attention_cell(), keras.layers.Embedding(VOCABULARY_SIZE, 6))


def test_the_bridge_is_checked():
    with pytest.raises(ValueError, match="mode to be one of .* Received: mode='none'"):
        RNNDecoder(attention_cell(), tied(), bridge="none")


def test_copying_states_needs_states_that_fit():
    decoder = with_head(attention_cell(), bridge="copy")
    with pytest.raises(ValueError, match=r"encoder sizes=\[6, 6\], decoder sizes=\[6\]"):
        decoder(TOKEN_IDS, **ENCODED)


@pytest.mark.parametrize("dropout", [-0.1, 1.0])
def test_the_dropout_is_checked(dropout):
    with pytest.raises(ValueError, match=r"dropout to be in \[0, 1\). Received: dropout="):
        RNNDecoder(attention_cell(), tied(), dropout=dropout)


@pytest.mark.parametrize("shape", [(3,), (3, 4, 1)])
def test_ids_of_another_rank_are_refused(shape):
    with pytest.raises(ValueError, match="inputs of shape"):
        RNNDecoder(attention_cell(), tied())(np.ones(shape, "int32"), **ENCODED)


def test_a_decoder_must_implement_the_contract():
    class Unfinished(StepDecoder):
        pass

    decoder = Unfinished()
    for call in (
        lambda: decoder.call(TOKEN_IDS, **ENCODED),
        lambda: decoder.prepare_memory(**ENCODED),
        lambda: decoder.initial_state({}),
        lambda: decoder.step(TOKEN_IDS[:, 0], {}, {}),
    ):
        with pytest.raises(NotImplementedError, match="Unfinished must override"):
            call()


def test_large_ids_given_as_floats_are_not_rounded_in_half_precision():
    with precision("mixed_float16"):
        encoder, decoder = rnn_seq2seq(10, 5000, embedding_dim=4, units=4, dropout=0.0)
    encoded = encoder(np.array([[5, 2]], "int32"))
    ids = np.array([[4097, 4099]], "int32")
    expected = numpy(decoder(ids, **encoded))
    assert_close(numpy(decoder(ids.astype("float32"), **encoded)), expected)


def test_a_mask_of_one_row_is_for_all_sentences():
    encoder, decoder = rnn_seq2seq(10, 10, embedding_dim=4, units=4, dropout=0.0)
    outputs = np.random.default_rng(0).normal(size=(3, 4, 4)).astype("float32")
    encoded = {"encoder_outputs": outputs, "encoder_state": [np.ones((3, 4), "float32")] * 2}
    one = np.array([[True, True, True, False]])
    for call in (decoder, lambda ids, **encoded: BeamDecoder(decoder, beam_width=2)(**encoded)):
        found = [
            numpy(call(np.ones((3, 2), "int32"), **encoded, encoder_mask=mask))
            for mask in (one, np.repeat(one, 3, axis=0))
        ]
        assert_identical(*found)
