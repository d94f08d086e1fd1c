import warnings

import keras
import numpy as np
import pytest

from keras_attn import TrainingModel, rnn_seq2seq
from keras_attn.training import compile_for_training
from tests.backend import requires_tensorflow
from tests.contracts import assert_close, numpy

IDS = np.array([[5, 6, 7, 2], [9, 2, 0, 0]], "int32")
TARGET_IDS = np.array([[1, 4, 5], [1, 6, 0]], "int32")
INPUTS = {"source_ids": IDS, "target_ids": TARGET_IDS}


@pytest.fixture(scope="module")
def trainer():
    model = TrainingModel(*rnn_seq2seq(10, 10, embedding_dim=4, units=5, seed=1))
    return compile_for_training(model)


@requires_tensorflow("datasets of TensorFlow")
def test_fit_does_not_warn_of_a_dataset_that_it_cannot_shuffle(trainer):
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensors((INPUTS, TARGET_IDS))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer.fit(dataset, verbose=0)
    with pytest.warns(UserWarning, match="shuffle=True"):
        trainer.fit(dataset, shuffle=True, verbose=0)


def test_fit_shuffles_arrays_but_not_generators(trainer, monkeypatch):
    given = []
    monkeypatch.setattr(keras.Model, "fit", lambda self, *args, **kwargs: given.append(args[8]))

    class Batches(keras.utils.PyDataset):
        num_batches = 3

    class Endless(keras.utils.PyDataset):
        num_batches = None

    for x in (INPUTS, IDS, Batches(), Endless(), iter([INPUTS])):
        trainer.fit(x)
    trainer.fit(INPUTS, shuffle=False)
    assert given == [True, True, True, False, False, False]


def test_lists_contain_the_inputs_in_the_order_of_the_model():
    name = "view"  # alphabetically after "target_ids"
    image = keras.Input((None, 3), name=name)
    _, decoder = rnn_seq2seq(10, 10, embedding_dim=4, units=5, seed=1)
    model = TrainingModel(keras.Model(image, {"encoder_outputs": image}), decoder)
    compile_for_training(model, learning_rate=0.1)
    vectors = np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")
    before = numpy(model({name: vectors, "target_ids": TARGET_IDS}))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert_close(numpy(model([vectors, TARGET_IDS])), before)
        model.fit([vectors, TARGET_IDS], TARGET_IDS, verbose=0)
    after = numpy(model({name: vectors, "target_ids": TARGET_IDS}))
    assert not np.allclose(after, before)
    assert_close(model.predict([vectors, TARGET_IDS], verbose=0), after)
    with pytest.raises(ValueError, match="2"):
        model.fit([vectors], TARGET_IDS, verbose=0)
