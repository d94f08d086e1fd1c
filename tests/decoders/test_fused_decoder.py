import keras
import numpy as np
import pytest

from keras_attn import (
    AlibiBias,
    BeamDecoder,
    EnsembleDecoder,
    FusedDecoder,
    GenerationModel,
    GreedyDecoder,
    LearnedPositions,
    SinusoidalPositions,
)
from keras_attn.testing import check_decoder, check_layer, check_search
from tests import oracles
from tests.contracts import assert_close, numpy, randomize
from tests.decoders.test_ensemble_decoder import (
    ENCODED,
    MASK,
    TOKEN_IDS,
    VOCABULARY_SIZE,
    outputs,
    recurrent,
    transformer,
)
from tests.public_layers import language_model as language_model_of
from tests.slow_cases import all_slow_but, slow_on_jax


def language_model(vocabulary_size=VOCABULARY_SIZE, positions=None, **arguments):
    return language_model_of(vocabulary_size, positions=positions, **arguments)


FUSED = {
    "of a transformer": lambda: FusedDecoder(
        transformer(positions=SinusoidalPositions()),
        language_model(positions=SinusoidalPositions()),
        0.5,
    ),
    "of an RNN": lambda: FusedDecoder(recurrent(), language_model(position_bias=AlibiBias(2)), 2),
    "of two archives": lambda: FusedDecoder(
        transformer(cache_block_size=2), language_model(cache_block_size=3), 0.5
    ),
    "with fixed caches": lambda: FusedDecoder(
        transformer(growing_cache=False), language_model(growing_cache=False), 0.5
    ),
    "nested": lambda: FusedDecoder(
        FusedDecoder(EnsembleDecoder([recurrent(), transformer()]), language_model(), 0.5),
        EnsembleDecoder([language_model(), language_model(position_bias=AlibiBias(2))]),
        0.3,
    ),
}


@pytest.mark.parametrize("name", all_slow_but("of an RNN", cases=["of an RNN", "of a transformer"]))
def test_it_is_a_layer(name):
    inputs, masked = {"token_ids": TOKEN_IDS, **ENCODED}, {"encoder_outputs": "encoder_mask"}
    check_layer(FUSED[name], inputs, masked, mixed_dtype="float32")


@pytest.mark.parametrize("name", all_slow_but("of two archives", cases=FUSED, on_jax=[]))
def test_it_keeps_the_contract_of_a_decoder(name):
    check_decoder(FUSED[name], ENCODED, TOKEN_IDS)


@slow_on_jax
@pytest.mark.parametrize(
    "name", all_slow_but("of a transformer", cases=["of a transformer", "of an RNN", "nested"])
)
def test_searches_find_its_best_hypotheses(name):
    check_search(FUSED[name], ENCODED)


@pytest.mark.parametrize("weight", [0, 0.25])
def test_scores_are_the_weighted_sum(weight):
    decoder, model = recurrent(), language_model(positions=SinusoidalPositions())
    fused = FusedDecoder(decoder, model, weight)
    fused(TOKEN_IDS, **ENCODED)
    randomize(fused, scale=1.0)
    each = [
        oracles.log_softmax(numpy(part))
        for part in (decoder(TOKEN_IDS, **ENCODED), model(TOKEN_IDS))
    ]
    assert_close(numpy(fused(TOKEN_IDS, **ENCODED)), (each[0] + weight * each[1]).astype("float32"))


def test_the_language_model_begins_with_the_start_token():
    fused = FUSED["of a transformer"]()
    search = GreedyDecoder(
        fused, min_length=4, max_length=4, relative_max_length=None, return_token_log_probs=True
    )
    search(**ENCODED)
    randomize(fused, scale=1.0)
    found = numpy(search(**ENCODED))
    tokens = found["token_ids"][:, 0]
    before = np.concatenate([np.ones((3, 1), "int32"), tokens[:, :-1]], axis=1)
    each = [
        oracles.log_softmax(numpy(logits))
        for logits in (fused.decoder(before, **ENCODED), fused.language_model(before))
    ]
    scores = np.take_along_axis(each[0] + 0.5 * each[1], tokens[..., None], axis=2)[..., 0]
    assert tokens.shape == (3, 4)
    assert_close(found["token_log_probs"][:, 0], scores.astype("float32"))


def test_alignments_are_those_of_the_decoder():
    decoder = recurrent()
    fused = FusedDecoder(decoder, language_model(), 0.5)
    fused(TOKEN_IDS, **ENCODED)
    randomize(fused)
    alignments = []
    for each in (decoder, fused):
        memory = each.prepare_memory(**ENCODED)
        state = each.initial_state(memory, alignments=True, max_length=4)
        _, state = each.step(TOKEN_IDS[:, 0], state, memory)
        alignments.append(numpy(state["alignments"]))
    assert_close(*alignments)
    without = FusedDecoder(recurrent(attention=False), language_model(), 0.5)
    with pytest.raises(ValueError, match="Expected a decoder with attention"):
        GreedyDecoder(without, return_alignments=True, max_length=3)(**ENCODED)


@slow_on_jax
def test_members_of_an_ensemble_read_their_own_sources():
    joined = {
        "encoder_outputs": {"0": outputs(), "1": outputs(7, 4)},
        "encoder_mask": {"0": MASK, "1": np.arange(4) < np.array([[2], [4], [1]])},
    }
    members = [transformer(), recurrent()]
    inside = FusedDecoder(EnsembleDecoder(members), language_model(), 0.5)
    outside = EnsembleDecoder([FusedDecoder(members[0], inside.language_model, 0.5), members[1]])
    for decoder in (inside, outside):
        search = BeamDecoder(decoder, beam_width=2, max_length=4)
        assert tuple(search(**joined)["token_ids"].shape[:2]) == (3, 1)


@slow_on_jax
def test_two_language_models_continue_the_same_prompt():
    models = [language_model(), language_model(position_bias=AlibiBias(2))]
    fused = FusedDecoder(*models, 0.5)
    search = GreedyDecoder(fused, max_length=1, relative_max_length=None)
    generator = GenerationModel(None, search)
    prompts = np.array([[1, 3, 4, 4], [1, 4, 0, 0]], "int32")
    generator(prompts)
    randomize(fused, scale=1.0)
    found = numpy(generator(prompts))
    for row, prompt in enumerate(([1, 3, 4, 4], [1, 4])):
        each = [oracles.log_softmax(numpy(model(np.array([prompt]))))[0, -1] for model in models]
        scores = each[0] + 0.5 * each[1]
        assert found["token_ids"][row, 0, 0] == 2 + np.argmax(scores[2:])
        assert_close(found["log_probs"][row, 0], np.float32(scores[2:].max()))


@slow_on_jax
def test_a_search_ends_at_the_last_position_of_the_language_model():
    fused = FusedDecoder(recurrent(), language_model(positions=LearnedPositions(3)), 0.5)
    search = GreedyDecoder(fused, max_length=9, relative_max_length=None, suppressed_token_ids=[2])
    assert numpy(search(**ENCODED))["lengths"].tolist() == [[3]] * 3


def test_a_saved_model_shares_its_language_model(tmp_path):
    model = language_model()
    fused = FusedDecoder(FusedDecoder(transformer(), model, 0.5), model, 0.25)
    search = GreedyDecoder(fused, max_length=3)
    encoder = keras.layers.Input((None, 5), name="encoder_outputs")
    saved = keras.Model(encoder, search(encoder))
    randomize(saved)
    saved.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    decoder = loaded.layers[-1].decoder
    assert decoder.language_model is decoder.decoder.language_model
    assert (decoder.weight, decoder.decoder.weight) == (0.25, 0.5)
    sources = outputs()
    assert_close(numpy(loaded(sources)), numpy(saved(sources)))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"weight": -0.1}, "weight=-0.1"),
        ({"weight": float("nan")}, "weight=nan"),
        ({"weight": "0.1"}, "weight='0.1'"),
        ({"decoder": keras.layers.Dense(3)}, "decoder to be a StepDecoder.*decoder=Dense"),
        ({"decoder": FusedDecoder}, "decoder=FusedDecoder"),
        ({"language_model": transformer()}, "CausalLanguageModel.*=TransformerDecoder"),
        ({"language_model": keras.layers.Dense(3)}, "language_model=Dense"),
        ({"language_model": language_model(6)}, r"vocabulary sizes \[5, 6\]. Train all models"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    valid = {"decoder": transformer(), "language_model": language_model(), "weight": 0.1}
    with pytest.raises(ValueError, match=message):
        FusedDecoder(**{**valid, **arguments})
