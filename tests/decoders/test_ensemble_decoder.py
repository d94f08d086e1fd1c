import keras
import numpy as np
import pytest

from keras_attn import (
    AlibiBias,
    AttentionRNNCell,
    BahdanauAttention,
    BeamDecoder,
    CausalLanguageModel,
    EnsembleDecoder,
    GenerationModel,
    GreedyDecoder,
    LearnedPositions,
    RNNDecoder,
    SinusoidalPositions,
    TransformerDecoder,
    TransformerDecoderBlock,
)
from keras_attn._encoders.prompt_input import PromptInput
from keras_attn.testing import check_decoder, check_layer, check_search
from tests import oracles
from tests.contracts import assert_close, numpy, randomize
from tests.slow_cases import all_slow_but, slow_on_jax

GENERATOR = np.random.default_rng(0)
VOCABULARY_SIZE = 5
TOKEN_IDS = np.array([[1, 3, 4, 3], [1, 4, 4, 2], [1, 3, 3, 4]], "int32")
MASK = np.arange(6) < np.array([[6], [2], [4]])


def outputs(features=5, source=6):
    return GENERATOR.normal(size=(3, source, features)).astype("float32")


ENCODED = {"encoder_outputs": outputs(), "encoder_mask": MASK}


def recurrent(attention=True):
    cell = AttentionRNNCell(keras.layers.LSTMCell(6), BahdanauAttention(4) if attention else None)
    return RNNDecoder(cell, keras.layers.Embedding(VOCABULARY_SIZE, 4), head=keras.layers.Dense(5))


def transformer(vocabulary_size=VOCABULARY_SIZE, positions=None, bias=None, **arguments):
    embedding = keras.layers.ReversibleEmbedding(vocabulary_size, 8)
    block = TransformerDecoderBlock(2, 12, use_bias=False)
    return TransformerDecoder(
        block, embedding, num_layers=1, positions=positions, position_bias=bias, **arguments
    )


ENSEMBLES = {
    "of two kinds": lambda: EnsembleDecoder(
        [recurrent(), transformer(positions=SinusoidalPositions())]
    ),
    "geometric, weighted": lambda: EnsembleDecoder(
        [transformer(bias=AlibiBias(2)), recurrent()], [1, 2], average="geometric"
    ),
    "of two archives": lambda: EnsembleDecoder(
        [transformer(cache_block_size=2), transformer(cache_block_size=3, bias=AlibiBias(2))]
    ),
    "with a fixed cache": lambda: EnsembleDecoder([recurrent(), transformer(growing_cache=False)]),
    "some without alignments": lambda: EnsembleDecoder([recurrent(False), transformer()]),
    "of ensembles": lambda: EnsembleDecoder([EnsembleDecoder([recurrent()]), transformer()]),
}


@pytest.mark.parametrize(
    "name", all_slow_but("of two kinds", cases=["of two kinds", "geometric, weighted"])
)
def test_it_is_a_layer(name):
    inputs, masked = {"token_ids": TOKEN_IDS, **ENCODED}, {"encoder_outputs": "encoder_mask"}
    check_layer(ENSEMBLES[name], inputs, masked, mixed_dtype="float32")


@pytest.mark.parametrize(
    "name",
    all_slow_but("of two archives", "of ensembles", cases=ENSEMBLES, on_jax=[]),
)
def test_it_keeps_the_contract_of_a_decoder(name):
    check_decoder(ENSEMBLES[name], ENCODED, TOKEN_IDS)


@slow_on_jax
@pytest.mark.parametrize(
    "name", all_slow_but("of two kinds", cases=["of two kinds", "of two archives", "of ensembles"])
)
def test_searches_find_its_best_hypotheses(name):
    check_search(ENSEMBLES[name], ENCODED)


@pytest.mark.parametrize("average", ["arithmetic", "geometric"])
@pytest.mark.parametrize("member_weights", [None, [3, 0.5, 1.5]])
def test_probabilities_are_the_mean(average, member_weights):
    members = [recurrent(), transformer(), transformer(bias=AlibiBias(2))]
    ensemble = EnsembleDecoder(members, member_weights, average=average)
    ensemble(TOKEN_IDS, **ENCODED)
    randomize(ensemble, scale=1.0)
    shares = np.array(member_weights or [1, 1, 1]) / np.sum(member_weights or [1, 1, 1])
    each = np.stack(
        [oracles.log_softmax(numpy(member(TOKEN_IDS, **ENCODED))) for member in members]
    )
    if average == "arithmetic":
        expected = np.tensordot(shares, np.exp(each), 1)
    else:
        expected = np.exp(np.tensordot(shares, each, 1))
        expected /= expected.sum(axis=-1, keepdims=True)
    logits = numpy(ensemble(TOKEN_IDS, **ENCODED))
    assert_close(np.exp(oracles.log_softmax(logits)), expected)


def test_what_no_member_thinks_possible_stays_finite():
    head = keras.layers.Dense(VOCABULARY_SIZE)
    embedding = keras.layers.Embedding(VOCABULARY_SIZE, 8)
    ensemble = EnsembleDecoder(
        [TransformerDecoder(TransformerDecoderBlock(2, 12), embedding, head=head, num_layers=1)]
    )
    ensemble(TOKEN_IDS, **ENCODED)
    head.bias.assign([0, 0, 0, 1000, 0])
    logits = numpy(ensemble(TOKEN_IDS, **ENCODED))
    assert np.isfinite(logits).all() and (logits[..., 3] - logits[..., 0]).min() > 80


def test_each_reads_what_its_own_encoder_has_read():
    members = [transformer(), recurrent()]
    encoded = [
        {"encoder_outputs": outputs(), "encoder_mask": MASK},
        {
            "encoder_outputs": outputs(7, 4),
            "encoder_mask": np.arange(4) < np.array([[2], [4], [1]]),
            "encoder_state": [outputs(6)[:, 0], outputs(6)[:, 0]],
        },
    ]
    joined = {
        name: {str(i): own[name] for i, own in enumerate(encoded) if name in own}
        for name in encoded[1]
    }
    ensemble = EnsembleDecoder(members)
    search = BeamDecoder(ensemble, beam_width=3, max_length=4)
    search(**joined)
    randomize(ensemble)
    each = [
        np.exp(oracles.log_softmax(numpy(member(TOKEN_IDS, **own))))
        for member, own in zip(members, encoded, strict=True)
    ]
    received = np.exp(oracles.log_softmax(numpy(ensemble(TOKEN_IDS, **joined))))
    assert_close(received, np.mean(each, axis=0))
    results = numpy(search(**joined))
    ids = results["token_ids"][:, 0]
    before = np.concatenate([np.ones((3, 1), "int32"), ids[:, :-1]], axis=1)
    log_probs = oracles.log_softmax(numpy(ensemble(before, **joined)))
    chosen = np.take_along_axis(log_probs, ids[:, :, None], axis=2)[:, :, 0]
    assert_close(results["log_probs"][:, 0], np.where(ids != 0, chosen, 0).sum(axis=1))


def test_alignments_are_the_mean_of_those_that_have_some():
    members = [recurrent(), transformer(), recurrent(attention=False)]
    ensemble = EnsembleDecoder(members, [1, 3, 5])
    ensemble(TOKEN_IDS, **ENCODED)
    randomize(ensemble)
    alignments = []
    for decoder in (*members[:2], ensemble):
        memory = decoder.prepare_memory(**ENCODED)
        state = decoder.initial_state(memory, alignments=True, max_length=4)
        _, state = decoder.step(TOKEN_IDS[:, 0], state, memory)
        alignments.append(numpy(state["alignments"]))
    assert_close(alignments[2], 0.25 * alignments[0] + 0.75 * alignments[1])


def test_a_search_ends_where_the_first_member_must():
    members = [transformer(positions=LearnedPositions(length)) for length in (7, 5)]
    ensemble = EnsembleDecoder([recurrent(), *members])
    search = GreedyDecoder(
        ensemble, max_length=9, relative_max_length=None, suppressed_token_ids=[2]
    )
    assert numpy(search(**ENCODED))["lengths"].tolist() == [[5]] * 3


def test_language_models_go_on_behind_one_prompt():
    def model(bias):
        block = TransformerDecoderBlock(2, 12, cross_attention=False)
        embedding = keras.layers.ReversibleEmbedding(VOCABULARY_SIZE, 8)
        return CausalLanguageModel(block, embedding, num_layers=1, position_bias=bias)

    members = [model(None), model(AlibiBias(2))]
    ensemble = EnsembleDecoder(members)
    prompt_ids = np.array([[1, 3, 4, 4], [1, 4, 0, 0], [0, 0, 0, 0]], "int32")
    prompts = PromptInput()(prompt_ids)
    search = GreedyDecoder(ensemble, max_length=3, relative_max_length=None)
    search(**prompts)
    randomize(ensemble, scale=1.0)
    found = numpy(search(**prompts))
    assert_close(numpy(GenerationModel(None, search)(prompt_ids)), found)
    sequences = [[1, 3, 4, 4], [1, 4], [1]]
    for row, sequence in enumerate(sequences):
        total = 0.0
        for token in found["token_ids"][row, 0]:
            each = [numpy(member(np.array([sequence], "int32")))[0, -1] for member in members]
            mean = np.mean(np.exp(oracles.log_softmax(np.stack(each))), axis=0)
            if token == 0:
                break
            assert token == 2 + np.argmax(mean[2:])
            total += np.log(mean[token])
            sequence = [*sequence, int(token)]
        assert_close(found["log_probs"][row, 0], total)
    sequences = np.array([[1, 3, 4]], "int32")  # also of no prompt
    each = [np.exp(oracles.log_softmax(numpy(member(sequences)))) for member in members]
    received = np.exp(oracles.log_softmax(numpy(ensemble(sequences))))
    assert_close(received, np.mean(each, axis=0))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"decoders": []}, r"at least one StepDecoder. Received: decoders=\[\]"),
        ({"decoders": [keras.layers.Dense(3)]}, r"Received: decoders=\['Dense'\]"),
        ({"average": "harmonic"}, "average='harmonic'"),
        ({"member_weights": [1.0]}, r"member_weights=\[1.0\] for 2 decoders"),
        ({"member_weights": [1.0, 0.0]}, "positive, finite"),
        ({"member_weights": [1.0, float("inf")]}, "positive, finite"),
        ({"member_weights": [1.0, "2"]}, "positive, finite"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        EnsembleDecoder(**{"decoders": [recurrent(), transformer()], **arguments})


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"Received: vocabulary sizes \[5, 6\]"):
        EnsembleDecoder([transformer(), transformer(6)])
    ensemble = EnsembleDecoder([transformer(), transformer()])
    with pytest.raises(ValueError, match=r"indices \['0', '1'\] of .* keys \['0', '2'\]"):
        ensemble(TOKEN_IDS, {"0": outputs(), "2": outputs()})
    lengths = {"0": outputs(), "1": outputs(source=4)}
    assert tuple(ensemble(TOKEN_IDS, lengths).shape) == (3, 4, 5)
    memory = ensemble.prepare_memory(lengths)
    with pytest.raises(ValueError, match=r"source lengths \[4, 6\]"):
        ensemble.initial_state(memory, alignments=True, max_length=4)


def test_a_cache_that_would_have_to_grow_is_refused_where_it_cannot(monkeypatch):
    monkeypatch.setattr(
        "keras_attn._decoding_state.growing_buffer.supports_growth", bool
    )  # as elsewhere: only if asked
    growing, fixed = transformer(growing_cache=True), transformer()
    assert EnsembleDecoder([growing, fixed]).can_exceed_max_length
    assert not EnsembleDecoder([fixed, fixed]).can_exceed_max_length
    with pytest.raises(ValueError, match="Expected the TensorFlow backend"):
        GreedyDecoder(EnsembleDecoder([growing, fixed]))(**ENCODED)


def test_logits_are_as_large_as_those_of_the_members():
    """A penalty on repetition asks whether they are above 0."""
    member = transformer()
    for average in ("arithmetic", "geometric"):
        ensemble = EnsembleDecoder([member], average=average)
        ensemble(TOKEN_IDS, **ENCODED)
        randomize(member)
        logits = numpy(member(TOKEN_IDS, **ENCODED))
        assert logits.max() > 1
        assert_close(numpy(ensemble(TOKEN_IDS, **ENCODED)), logits)


def test_a_search_stays_within_the_smallest_cache():
    ensemble = ENSEMBLES["with a fixed cache"]()
    search = GreedyDecoder(
        ensemble, max_length=3, relative_max_length=None, suppressed_token_ids=[2]
    )
    assert numpy(search(**ENCODED, max_length=9))["lengths"].tolist() == [[3]] * 3


def test_archives_are_set_for_all():
    ensemble = EnsembleDecoder([recurrent(), transformer()])
    assert ensemble.cache_block_size is None
    ensemble.cache_block_size = 4
    assert [each.cache_block_size for each in ensemble.decoders] == [4, 4]
    ensemble.decoders[0].cache_block_size = 3
    assert ensemble.cache_block_size == 3
