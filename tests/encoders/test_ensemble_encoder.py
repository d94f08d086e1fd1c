import keras
import numpy as np
import pytest

from keras_attn import EnsembleEncoder, RNNEncoder, rnn_seq2seq, transformer_tiny
from keras_attn._encoders.prompt_input import PromptInput
from keras_attn.testing import check_layer
from tests.contracts import assert_identical, numpy

SOURCE_IDS = np.array([[5, 6, 7, 2], [9, 2, 0, 0]], "int32")


def recurrent(vocabulary_size=10, **arguments):
    embedding = keras.layers.Embedding(vocabulary_size, 4)
    return RNNEncoder(keras.layers.LSTMCell(5), embedding, **arguments)


def transformer(vocabulary_size=10, **arguments):
    small = {"num_layers": 1, "num_heads": 2, "embedding_dim": 8, "intermediate_dim": 12}
    return transformer_tiny(vocabulary_size, 11, **small, use_bias=False, **arguments)[0]


def test_it_is_a_layer():
    check_layer(lambda: EnsembleEncoder([transformer(), recurrent()]), {"inputs": SOURCE_IDS})


def test_each_encoder_reads_the_source():
    encoders = [transformer(), recurrent()]
    received = numpy(EnsembleEncoder(encoders)(SOURCE_IDS))
    first, second = (numpy(encoder(SOURCE_IDS)) for encoder in encoders)
    assert set(received) == {"encoder_outputs", "encoder_mask", "encoder_state"}
    assert set(received["encoder_state"]) == {"1"}  # a Transformer has none
    for name in received:
        assert_identical(received[name]["1"], second[name])
    for name in first:
        assert_identical(received[name]["0"], first[name])


def test_it_tells_an_export_what_all_encoders_read():
    joined = EnsembleEncoder(
        [
            transformer(positions="learned", max_length=length) if length else transformer()
            for length in (None, 9, 7)
        ]
    )
    assert joined.vocabulary_size == 10 and joined.pad_token_id == 0
    assert joined.max_source_length == 7 and (joined.start_token_id, joined.end_token_id) == (
        None,
        2,
    )
    prompts = EnsembleEncoder([PromptInput(12, 3, start_token_id=1)] * 2)
    assert prompts.vocabulary_size == 12 and prompts.pad_token_id == 3
    assert EnsembleEncoder([PromptInput(), PromptInput(12)]).vocabulary_size == 12
    assert prompts.max_source_length is None and (prompts.start_token_id, prompts.end_token_id) == (
        1,
        None,
    )


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: [], "at least one"),
        (lambda: [transformer(), recurrent(12)], r"same vocabulary_size. .*=\[10, 12\]"),
        (lambda: [transformer(), recurrent(pad_token_id=4)], r"same pad_token_id. .*=\[0, 4\]"),
        (lambda: [transformer(), PromptInput(10)], r"same end_token_id. .*=\[2, None\]"),
    ],
)
def test_encoders_that_read_something_else_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        EnsembleEncoder(make())


def test_a_source_of_features_has_no_vocabulary():
    encoder = rnn_seq2seq(10, 10, embedding_dim=4, units=5)[0]
    assert EnsembleEncoder([RNNEncoder(keras.layers.GRUCell(5))]).vocabulary_size is None
    assert EnsembleEncoder([encoder]).vocabulary_size == 10
