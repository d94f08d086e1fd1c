import keras
import numpy as np
import pytest
from keras import ops

from keras_attn import (
    BeamDecoder,
    CausalLanguageModel,
    GenerationModel,
    TrainingModel,
    TransformerDecoderBlock,
    rnn_seq2seq,
    transformer_seq2seq,
)
from keras_attn._decoders.step_decoder import StepDecoder
from keras_attn.training import ScheduledSampling, compile_for_training
from tests.backend import requires_tensorflow
from tests.contracts import assert_close, numpy
from tests.slow_cases import slow_on_jax

TOKENS = 50
SOURCE_IDS = np.array([[5, 6, 7, 2], [8, 2, 0, 0]])
TARGET_IDS = np.array([[1, 8, 9, 10], [1, 11, 0, 0]])


class Successor(StepDecoder):
    """Predicts the next number after each token, so that the logits show its input."""

    def call(
        self, token_ids, encoder_outputs, encoder_mask=None, encoder_state=None, training=False
    ):
        return 100.0 * ops.one_hot((token_ids + 1) % TOKENS, TOKENS) + encoder_outputs[:, :, None]


class Biased(StepDecoder):
    """Returns constant probabilities at inference; its logits in training show its input."""

    probs = np.array([0.1, 0.2, 0.0, 0.4, 0.3], "float32")

    def call(
        self, token_ids, encoder_outputs, encoder_mask=None, encoder_state=None, training=False
    ):
        if training:
            return ops.one_hot(token_ids, len(self.probs))
        logits = ops.log(ops.convert_to_tensor(np.maximum(self.probs, 1e-30)))
        return ops.zeros((*ops.shape(token_ids), len(self.probs))) + logits


class Ids(keras.layers.Layer):
    """An encoder whose outputs are the ids."""

    def call(self, source_ids):
        return {"encoder_outputs": ops.cast(source_ids, "float32")[:, :1]}


def make_language_model():
    block = TransformerDecoderBlock(2, 16, cross_attention=False)
    embedding = keras.layers.ReversibleEmbedding(TOKENS, 8)
    return None, CausalLanguageModel(block, embedding, num_layers=1)


def make_decoder_of_a_user():
    return Ids(), Successor()


def shown(token_ids, probability, num_passes=1):
    """Returns the input of a decoder in training."""
    sampling = ScheduledSampling(Successor(), probability, num_passes=num_passes, seed=1)
    logits = sampling(token_ids, np.zeros((len(token_ids), 1), "float32"), training=True)
    return (np.argmax(numpy(logits), -1) - 1) % TOKENS


def test_all_tokens_but_the_first_and_padding_are_drawn_with_a_probability_of_one():
    tokens = np.array([[1, 10, 20, 30, 40], [1, 10, 20, 0, 0]])
    assert shown(tokens, 1.0).tolist() == [[1, 2, 11, 21, 31], [1, 2, 11, 0, 0]]


def test_tokens_of_the_second_pass_follow_drawn_ones():
    tokens = np.array([[1, 10, 20, 30, 40]])
    assert shown(tokens, 1.0, num_passes=2).tolist() == [[1, 2, 3, 12, 22]]


def test_padding_is_not_drawn():
    tokens = np.array([[1, TOKENS - 1, 20]])  # the last token is followed by id 0, padding
    assert shown(tokens, 1.0).tolist() == [[1, 2, 20]]


@pytest.mark.parametrize("probability", [0.0, 0.3])
def test_the_share_of_drawn_tokens_is_the_probability(probability):
    tokens = np.full((40, 250), 20)
    share = np.mean(shown(tokens, probability)[:, 1:] == 21)
    assert abs(share - probability) <= 4 * np.sqrt(probability * (1 - probability) / tokens.size)


def test_tokens_are_drawn_by_their_probabilities():
    sampling = ScheduledSampling(Biased(), 1.0, pad_token_id=2, seed=1)
    logits = sampling(np.full((40, 251), 4), np.zeros((40, 1), "float32"), training=True)
    drawn = np.argmax(numpy(logits), -1)[:, 1:]
    shares = np.bincount(drawn.ravel(), minlength=5) / drawn.size
    assert np.abs(shares - Biased.probs).max() < 4 * np.sqrt(0.25 / drawn.size)


def test_a_schedule_is_asked_for_each_step_of_training():
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([1], [-5.0, 5.0])
    sampling = ScheduledSampling(Successor(), schedule, seed=1)
    tokens, outputs = np.array([[1, 10, 20]]), np.zeros((1, 1), "float32")
    seen = []
    for training in (True, False, True, True, False):
        logits = numpy(sampling(tokens, outputs, training=training))
        seen.append(((np.argmax(logits, -1) - 1) % TOKENS)[0].tolist())
    # A negative value means never, a value above 1 means always.
    assert seen == [[1, 10, 20], [1, 10, 20], [1, 10, 20], [1, 2, 11], [1, 10, 20]]
    assert int(sampling.num_steps) == 3


@slow_on_jax
@pytest.mark.parametrize(
    "make",
    [
        lambda: rnn_seq2seq(20, 30, units=8, embedding_dim=8, seed=1),
        pytest.param(
            lambda: transformer_seq2seq(
                20,
                30,
                num_layers=1,
                num_heads=2,
                embedding_dim=8,
                intermediate_dim=16,
                dropout=0.0,
                seed=1,
            ),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["rnn", "transformer"],
)
def test_a_decoder_learns_as_the_search_uses_it(make, tmp_path):
    encoder, decoder = make()
    schedule = keras.optimizers.schedules.PolynomialDecay(0.0, 10, 0.5)
    trainer = TrainingModel(encoder, ScheduledSampling(decoder, schedule, seed=1))
    translator = GenerationModel(encoder, BeamDecoder(decoder, max_length=4, stop="exact"))
    plain = TrainingModel(encoder, decoder)
    inputs = {"source_ids": SOURCE_IDS, "target_ids": TARGET_IDS}
    labels = np.array([[8, 9, 10, 2], [11, 2, 0, 0]])
    compile_for_training(trainer, learning_rate=0.02, label_smoothing=0.0)
    before = numpy(plain(inputs))
    losses = trainer.fit(inputs, labels, epochs=60, verbose=0).history["loss"]
    assert losses[-1] < losses[0] / 2
    assert np.abs(numpy(plain(inputs)) - before).max() > 0.1
    assert_close(numpy(trainer(inputs)), numpy(plain(inputs)))  # not in training

    trainer.save(tmp_path / "trainer.keras")
    loaded = keras.saving.load_model(tmp_path / "trainer.keras")
    assert_close(numpy(loaded(inputs)), numpy(plain(inputs)))
    sampling = loaded.layers[-1]
    assert int(sampling.num_steps) == 60 and sampling.probability.get_config() == (
        schedule.get_config()
    )
    assert numpy(translator(SOURCE_IDS)["token_ids"])[:, 0, :2].tolist() == [[8, 9], [11, 2]]


@pytest.mark.parametrize("make", [make_language_model, make_decoder_of_a_user])
def test_other_decoders_can_be_trained_so(make):
    encoder, decoder = make()
    trainer = TrainingModel(encoder, ScheduledSampling(decoder, 0.5, seed=1))
    inputs = {"source_ids": SOURCE_IDS, "target_ids": TARGET_IDS}
    assert_close(numpy(trainer(inputs)), numpy(TrainingModel(encoder, decoder)(inputs)))
    assert np.isfinite(numpy(trainer(inputs, training=True))).all()


@requires_tensorflow("on other backends the loss is computed from logits")
def test_scheduled_sampling_keeps_the_loss_fused():
    sampling = ScheduledSampling(rnn_seq2seq(20, 30, units=8, embedding_dim=8)[1], 0.5)
    trainer = TrainingModel(rnn_seq2seq(20, 30, units=8, embedding_dim=8)[0], sampling)
    assert compile_for_training(trainer).is_loss_fused
    encoded = trainer.encoder(SOURCE_IDS)
    features = sampling(TARGET_IDS, **encoded, training=True, return_features=True)
    assert features.shape == (2, 4, 8)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"probability": 1.1}, "probability to be in \\[0, 1\\].*Received: probability=1.1"),
        ({"probability": "linear"}, "Received: probability='linear'"),
        ({"probability": 0.5, "num_passes": 0}, "num_passes"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ScheduledSampling(Successor(), **arguments)
