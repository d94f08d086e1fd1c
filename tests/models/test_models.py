import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_attn import (
    AttentionRNNCell,
    BahdanauAttention,
    BeamDecoder,
    GenerationModel,
    GreedyDecoder,
    LuongAttention,
    RNNDecoder,
    RNNEncoder,
    SamplingDecoder,
    TrainingModel,
    ensemble_model,
    rnn_seq2seq,
    with_search,
)
from keras_attn.training import compile_for_training
from tests.contracts import assert_close, assert_identical, numpy
from tests.slow_cases import all_slow_but, slow_on_jax

SOURCE_IDS = np.array([[5, 6, 7, 2], [9, 2, 0, 0]], "int32")
TARGET_IDS = np.array([[1, 4, 5], [1, 6, 0]], "int32")
INPUTS = {"source_ids": SOURCE_IDS, "target_ids": TARGET_IDS}
SMALL = {"embedding_dim": 4, "units": 5, "dropout": 0.0}


def make_models(encoder, decoder):
    search = BeamDecoder(decoder, beam_width=3, num_hypotheses=2, max_length=6, name="search")
    return TrainingModel(encoder, decoder), GenerationModel(encoder, search)


@pytest.fixture(
    params=all_slow_but(True, cases=[False, True]), ids=["two embeddings", "shared embedding"]
)
def models(request):
    return make_models(*rnn_seq2seq(10, 10, **SMALL, share_embeddings=request.param, seed=1))


def weights_of(model):
    return sum(np.prod(weight.shape) for weight in model.trainable_weights)


def test_inputs_and_outputs_are_those_of_the_contract(models):
    trainer, translator = models
    logits = numpy(trainer(INPUTS))
    assert logits.shape == (2, 3, 10) and logits.dtype == "float32"
    results = numpy(translator(SOURCE_IDS))
    assert set(results) == {"token_ids", "lengths", "scores", "log_probs"}
    assert results["token_ids"].shape[:2] == (2, 2)
    assert [layer.name for layer in trainer.layers if layer.weights] == ["encoder", "decoder"]
    assert [tensor.name for tensor in translator.inputs] == ["source_ids"]


def test_trainer_and_translator_are_the_same_weights(models):
    trainer, translator = models
    assert {id(weight) for weight in trainer.weights} == {id(w) for w in translator.weights}
    before = numpy(translator(SOURCE_IDS))
    trainer.set_weights([2 * weight for weight in trainer.get_weights()])
    assert (numpy(translator(SOURCE_IDS))["log_probs"] != before["log_probs"]).any()


def test_the_translator_is_rebuilt_from_a_saved_trainer(models, tmp_path):
    trainer, translator = models
    trainer.save(tmp_path / "trainer.keras")
    loaded = keras.models.load_model(tmp_path / "trainer.keras")
    assert weights_of(loaded) == weights_of(trainer)
    rebuilt = make_models(loaded.encoder, loaded.decoder)
    assert_close(numpy(rebuilt[0](INPUTS)), numpy(trainer(INPUTS)))
    assert_close(numpy(rebuilt[1](SOURCE_IDS)), numpy(translator(SOURCE_IDS)))


def test_the_trainer_is_rebuilt_from_a_saved_translator(models, tmp_path):
    trainer, translator = models
    translator.save(tmp_path / "translator.keras")
    loaded = keras.models.load_model(tmp_path / "translator.keras")
    assert weights_of(loaded) == weights_of(translator)
    assert_close(numpy(loaded(SOURCE_IDS)), numpy(translator(SOURCE_IDS)))
    rebuilt = TrainingModel(loaded.encoder, loaded.decoder)
    assert_close(numpy(rebuilt(INPUTS)), numpy(trainer(INPUTS)))


def test_a_shared_embedding_is_one_layer_also_after_loading(tmp_path):
    _, translator = make_models(*rnn_seq2seq(10, 10, **SMALL, share_embeddings=True, seed=1))
    translator.save(tmp_path / "translator.keras")
    loaded = keras.models.load_model(tmp_path / "translator.keras")
    assert weights_of(loaded) == weights_of(translator)
    assert loaded.encoder.embedding is loaded.decoder.embedding


@slow_on_jax
@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize(
    ("attention", "kind"),
    [
        ("bahdanau", BahdanauAttention),
        ("luong", LuongAttention),
        (lambda: LuongAttention("concat", units=3), LuongAttention),
        (None, type(None)),
    ],
)
def test_every_choice_makes_a_model(cell, attention, kind):
    attention = attention() if callable(attention) else attention
    encoder, decoder = rnn_seq2seq(10, 12, attention=attention, cell=cell, **SMALL, num_layers=2)
    assert isinstance(encoder, RNNEncoder) and isinstance(decoder, RNNDecoder)
    assert isinstance(decoder.cell.attention, kind)
    assert len(decoder.cell.cell.cells) == len(encoder.recurrent_layers) == 2
    logits = numpy(decoder(TARGET_IDS, **encoder(SOURCE_IDS)))
    assert logits.shape == (2, 3, 12)


def test_input_feeding_can_be_left_out():
    _, decoder = rnn_seq2seq(10, 10, **SMALL, input_feeding=False)
    assert not decoder.cell.requires_time_loop
    assert rnn_seq2seq(10, 10, **SMALL)[1].cell.requires_time_loop


def test_a_seed_makes_the_same_weights():
    def weights(seed):
        encoder, decoder = rnn_seq2seq(10, 10, **SMALL, seed=seed)
        decoder(TARGET_IDS, **encoder(SOURCE_IDS))
        return numpy([*encoder.trainable_weights, *decoder.trainable_weights])

    first, same, other = weights(3), weights(3), weights(4)
    assert_identical(first, same)
    assert any((a != b).any() for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"attention": "cosine"}, "Expected attention to be .* Received: attention='cosine'"),
        ({"cell": "elman"}, "Expected cell to be one of .* Received: cell='elman'"),
        ({"share_embeddings": True}, "Received: source_vocabulary_size=10, target_vocabulary_size"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        rnn_seq2seq(10, 11, **arguments)


def test_parts_in_the_wrong_place_are_named(models):
    encoder, decoder = rnn_seq2seq(10, 11, units=4, embedding_dim=4)
    with pytest.raises(ValueError, match="be a Search. Received: search=RNNDecoder"):
        GenerationModel(encoder, decoder)
    with pytest.raises(ValueError, match="Received: encoder=RNNDecoder. Pass the enc"):
        TrainingModel(decoder, encoder)
    with pytest.raises(ValueError, match="to be a StepDecoder.* Received: decoder=Dense"):
        BeamDecoder(keras.layers.Dense(3))
    with pytest.raises(ValueError, match="to be a list .*Received: models='generation_model'"):
        ensemble_model(GenerationModel(encoder, BeamDecoder(decoder)))


@pytest.mark.parametrize(
    "make, cell, name",
    [
        (RNNEncoder, keras.layers.LSTM(4), "LSTM"),
        (RNNEncoder, 16, "int"),
        (RNNEncoder, [keras.layers.GRUCell(4)], "list"),
        (AttentionRNNCell, keras.layers.LSTM(4), "LSTM"),
        (AttentionRNNCell, [keras.layers.GRUCell(4), keras.layers.GRU(4)], "GRU"),
    ],
)
def test_a_layer_is_no_cell(make, cell, name):
    with pytest.raises(ValueError, match=f"Expected a cell.* Received: cell={name}"):
        make(cell)


def test_two_searches_with_one_decoder_are_loaded_with_one(tmp_path):
    encoder, decoder = rnn_seq2seq(10, 10, **SMALL, seed=1)
    ids = keras.Input((None,), dtype="int32")
    encoded = encoder(ids)
    searches = {"beam": BeamDecoder(decoder, beam_width=2), "greedy": GreedyDecoder(decoder)}
    outputs = {name: search(**encoded) for name, search in searches.items()}
    model = keras.Model(ids, outputs)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert weights_of(loaded) == weights_of(model)
    assert_close(numpy(loaded(SOURCE_IDS)), numpy(model(SOURCE_IDS)))


def test_a_compiled_model_is_loaded_where_only_the_package_was_imported(tmp_path):
    trainer = TrainingModel(*rnn_seq2seq(10, 10, **SMALL))
    compile_for_training(trainer).save(tmp_path / "trainer.keras")
    code = "import sys, keras, keras_attn; print(keras.models.load_model(sys.argv[1]).loss)"
    arguments = [sys.executable, "-c", code, tmp_path / "trainer.keras"]
    process = subprocess.run(arguments, capture_output=True, text=True)
    assert "SequenceCrossentropy" in process.stdout, process.stderr


def test_other_settings_of_a_search_leave_the_model_as_it_is(models):
    _, translator = models
    before = numpy(translator(SOURCE_IDS))
    other = with_search(translator, beam_width=1, num_hypotheses=1, max_length=3)
    encoder, search = translator.encoder, translator.search
    expected = BeamDecoder(search.decoder, beam_width=1, max_length=3)(**encoder(SOURCE_IDS))
    assert_close(numpy(other(SOURCE_IDS)), numpy(expected))
    assert_identical(numpy(translator(SOURCE_IDS)), before)
    assert other.name == translator.name and other.search is not search
    greedy = GenerationModel(encoder, GreedyDecoder(search.decoder, max_length=6, name="greedy"))
    (length,) = with_search(greedy, max_length=2)(SOURCE_IDS[:1])["lengths"][0]
    assert length <= 2


def test_another_class_of_search_takes_over_what_it_has_too(models):
    encoder, search = models[1].encoder, models[1].search
    sampler = with_search(models[1], SamplingDecoder, temperature=0.5, max_length=3, seed=1)
    made = sampler.search
    assert type(made) is SamplingDecoder and made.decoder is search.decoder
    assert made.num_hypotheses == search.num_hypotheses and made.temperature == 0.5
    expected = SamplingDecoder(
        search.decoder,
        num_hypotheses=2,
        temperature=0.5,
        max_length=3,
        relative_max_length=None,
        seed=1,
    )
    assert_identical(numpy(sampler(SOURCE_IDS)), numpy(expected(**encoder(SOURCE_IDS))))
    beam = with_search(sampler, BeamDecoder, beam_width=2)
    assert_close(
        numpy(beam(SOURCE_IDS)),
        numpy(with_search(models[1], beam_width=2, max_length=3)(SOURCE_IDS)),
    )
    greedy = with_search(sampler, GreedyDecoder)
    beam = with_search(greedy, BeamDecoder, beam_width=1)
    assert beam.search.beam_width == 1
    many = with_search(models[1], SamplingDecoder, num_hypotheses=10)
    assert with_search(many, BeamDecoder).search.num_hypotheses == 4
    with pytest.raises(ValueError, match="arguments of GreedyDecoder: .* Received: beam_width"):
        with_search(models[1], GreedyDecoder, beam_width=1)


def test_settings_follow_from_others(models):
    fewer = with_search(models[1], beam_width=1).search
    assert fewer.num_hypotheses == 1
    more = with_search(models[1], beam_width=5).search
    assert more.num_hypotheses == 2
    special = with_search(models[1], start_token_id=5, end_token_id=1)
    assert special.search.suppressed_token_ids == [0, 5]
    chosen = with_search(models[1], suppressed_token_ids=[3])
    other = with_search(chosen, start_token_id=5).search
    assert other.suppressed_token_ids == [3]


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"beam": 3}, "Expected arguments of BeamDecoder: beam_width, .* Received: beam.$"),
        ({"num_beams": 3}, "Received: num_beams. Instead of num_beams, use beam_width."),
        ({"temperature": 2.0}, "Received: temperature. To use these arguments, pass Samp"),
        ({"decoder": None}, "Received: decoder"),
        ({"name": "other"}, "Received: name"),
        ({"num_hypotheses": 4}, "num_hypotheses"),
        ({"search_class": keras.layers.Dense}, "a subclass of Search. Received: .*Dense"),
        (
            {"search_class": "BeamDecoder"},
            "a subclass of Search. Received: search_class='BeamDecoder'",
        ),
    ],
)
def test_settings_that_a_search_does_not_have_are_refused(models, settings, message):
    with pytest.raises(ValueError, match=message):
        with_search(models[1], **settings)
