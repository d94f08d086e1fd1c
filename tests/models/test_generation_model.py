import inspect

import keras
import numpy as np
import pytest

from keras_attn import (
    BeamDecoder,
    CausalLanguageModel,
    GenerationModel,
    GreedyDecoder,
    PatchEmbedding,
    TrainingModel,
    TransformerDecoderBlock,
    TransformerEncoder,
    TransformerEncoderBlock,
    rnn_seq2seq,
    with_search,
)
from keras_attn.training import compile_for_training
from tests.contracts import assert_close, numpy
from tests.models.mean_decoder import MeanDecoder

IDS = np.array([[5, 6, 7, 2], [9, 2, 0, 0]], "int32")
TARGET_IDS = np.array([[1, 4, 5], [1, 6, 0]], "int32")
GENERATOR = np.random.default_rng(1)
IMAGES = GENERATOR.normal(size=(2, 8, 8, 3)).astype("float32")


@keras.saving.register_keras_serializable(package="tests")
class TwoInputs(keras.layers.Layer):
    """Encodes ids and features of the same length."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.embedding = keras.layers.Embedding(10, 4)

    def build(self, source_ids_shape, features_shape):
        self.embedding.build(None)

    def call(self, source_ids, features):
        return {"encoder_outputs": self.embedding(source_ids) + features}


def parts():
    """Encoder and decoder with one embedding."""
    return rnn_seq2seq(10, 10, embedding_dim=4, units=4, cell="gru", share_embeddings=True, seed=1)


def captioner():
    encoder = TransformerEncoder(TransformerEncoderBlock(2, 8), PatchEmbedding(4, 4), num_layers=1)
    image = keras.Input((8, 8, 3), name="image")
    return encoder, MeanDecoder(), image, {"image": IMAGES}


def functional_captioner():
    image = keras.Input((8, 8, 3), name="image")
    features = keras.layers.Dense(4)(keras.layers.Reshape((4, 48))(image))
    encoder = keras.Model(image, {"encoder_outputs": features})
    return encoder, MeanDecoder(), None, {"image": IMAGES}


def model_of_two_inputs():
    inputs = {
        "source_ids": keras.Input((None,), dtype="int32", name="source_ids"),
        "features": keras.Input((None, 4), name="features"),
    }
    features = GENERATOR.normal(size=(2, 4, 4)).astype("float32")
    return TwoInputs(), MeanDecoder(), inputs, {"source_ids": IDS, "features": features}


def language_model():
    block = TransformerDecoderBlock(2, 8, cross_attention=False)
    embedding = keras.layers.ReversibleEmbedding(10, 4)
    return None, CausalLanguageModel(block, embedding, num_layers=1), None, {"source_ids": IDS}


@pytest.mark.parametrize(
    "make",
    [captioner, functional_captioner, model_of_two_inputs, language_model],
    ids=lambda make: make.__name__,
)
def test_models_of_any_inputs_are_trained_saved_loaded_and_cloned(make, tmp_path):
    encoder, decoder, inputs, source = make()
    trainer = TrainingModel(encoder, decoder, inputs=inputs)
    search = GreedyDecoder(decoder, max_length=2, relative_max_length=None)
    model = GenerationModel(encoder, search, inputs=inputs)
    assert trainer.encoder is model.encoder is encoder
    assert trainer.decoder is model.decoder is decoder and model.search is search
    assert {id(weight) for weight in trainer.weights} == {id(weight) for weight in model.weights}
    batch = {**({} if encoder is None else source), "target_ids": TARGET_IDS}
    before = trainer.get_weights()
    compile_for_training(trainer, learning_rate=0.01).train_on_batch(batch, TARGET_IDS)
    assert any((a != b).any() for a, b in zip(before, trainer.get_weights(), strict=True))

    for each, given in ((model, source), (trainer, batch)):
        expected = numpy(each(given))
        each.save(tmp_path / "model.keras")
        loaded = keras.saving.load_model(tmp_path / "model.keras")
        assert_close(numpy(loaded(given)), expected)
        clone = keras.models.clone_model(each)
        assert clone.count_params() == each.count_params()
        for other in (loaded, clone):
            assert type(other) is type(each)
            assert [tensor.name for tensor in other.inputs] == [t.name for t in each.inputs]
            assert (other.encoder is None) == (encoder is None)
            assert other.decoder is not decoder
    clone.set_weights(trainer.get_weights())
    assert_close(numpy(clone(batch)), expected)


def test_models_of_a_config_keep_shared_embeddings_shared():
    encoder, decoder = parts()
    model = GenerationModel(encoder, GreedyDecoder(decoder))
    from_json = keras.models.model_from_json(model.to_json())
    for copy in (from_json, keras.models.clone_model(model)):
        assert copy.encoder.embedding is copy.decoder.embedding
        assert copy.encoder.embedding is not encoder.embedding
        assert copy.count_params() == model.count_params()
    assert from_json.encoder.embedding is not copy.encoder.embedding


def test_the_constructor_shows_its_arguments():
    assert list(inspect.signature(GenerationModel).parameters)[:2] == ["encoder", "search"]
    assert list(inspect.signature(TrainingModel).parameters)[:2] == ["encoder", "decoder"]


def test_a_prompt_of_a_language_model_keeps_its_start_token():
    _, decoder, _, _ = language_model()
    search = GreedyDecoder(decoder, max_length=4, pad_token_id=3)
    model = GenerationModel(None, search, source_start_token_id=1)
    for each in (model, keras.models.clone_model(model), with_search(model, max_length=2)):
        assert each.source_start_token_id == 1 and each.source_encoder.pad_token_id == 3
    assert GenerationModel(None, search).source_start_token_id is None


def test_predict_pads_the_results_of_batches_of_different_lengths():
    """Of arrays and of batches whose sources differ in length, as on every backend."""
    encoder, decoder = parts()
    model = GenerationModel(
        encoder, GreedyDecoder(decoder, return_alignments=True, relative_max_length=(1, 0))
    )
    expected = [numpy(model(ids)) for ids in (IDS[:1], IDS[1:, :2])]

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return ((IDS[:1], IDS[1:, :2])[index],)

    def check(results):
        assert all(isinstance(value, np.ndarray) for value in results.values())
        assert results["alignments"].shape[3] == 4
        for row, each in enumerate(expected):
            for name, value in each.items():
                own = tuple(map(slice, value.shape[1:]))
                assert_close(results[name][row][own], value[0])
                rest = results[name][row].copy()
                rest[own] = 0
                assert not rest.any()

    check(model.predict(Batches(), verbose=0))


def test_wrong_parts_are_named_with_their_type():
    encoder, decoder = parts()
    search = GreedyDecoder(decoder)
    ids = keras.Input((None,), dtype="int32", name="ids")
    for make, message in (
        (lambda: GenerationModel(encoder, decoder), "be a Search. Received: search=RNNDecoder"),
        (lambda: GenerationModel(decoder, search), "Received: encoder=RNNDecoder.*first argument"),
        (lambda: GenerationModel("bert", search), "Received: encoder=str"),
        (lambda: GenerationModel(encoder, BeamDecoder), "search=the class BeamDecoder"),
        (lambda: GenerationModel(None, search), "language model.*encoder=None, decoder=RNNDecoder"),
        (lambda: TrainingModel(None, decoder), "language model.*encoder=None, decoder=RNNDecoder"),
        (lambda: TrainingModel(decoder, encoder), "Received: encoder=RNNDecoder"),
        (lambda: TrainingModel(encoder, search), "be a StepDecoder, .*decoder=GreedyDecoder"),
        (lambda: TrainingModel(encoder, encoder), "be a StepDecoder, .*decoder=RNNEncoder"),
        (
            lambda: GenerationModel(keras.layers.Embedding(9, 4), search),
            "encoder=Embedding, which returns KerasTensor",
        ),
        (
            lambda: GenerationModel(encoder, search, source_start_token_id=1),
            "source_start_token_id=1",
        ),
        (lambda: GenerationModel(encoder, search, inputs=IDS), "Expected inputs to be"),
        (lambda: GenerationModel(encoder, search, inputs={"a": ids}), r"\['a'\] .* \['ids'\]"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


def test_the_input_of_the_decoder_has_its_name_alone():
    encoder, decoder = parts()
    ids = keras.Input((None,), dtype="int32", name="target_ids")
    with pytest.raises(ValueError, match="names other than 'target_ids'"):
        TrainingModel(encoder, decoder, inputs=ids)
