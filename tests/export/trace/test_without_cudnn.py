import threading

import keras
import pytest

from keras_attn import rnn_seq2seq
from keras_attn.export.trace.without_cudnn import without_cudnn


def test_reaches_layers_inside_layers_and_restores_them():
    encoder, _ = rnn_seq2seq(9, 9, units=4, embedding_dim=4)
    bidirectional = encoder.recurrent_layers[0]
    inner = [bidirectional.forward_layer, bidirectional.backward_layer]
    alone = keras.layers.GRU(3, use_cudnn=True)
    with pytest.raises(KeyError):
        with without_cudnn(encoder, {"nested": [alone]}):
            assert [layer.use_cudnn for layer in [*inner, alone]] == [False, False, False]
            raise KeyError
    assert [layer.use_cudnn for layer in [*inner, alone]] == ["auto", "auto", True]


def test_threads_take_turns_with_a_layer_that_they_share():
    layer, inside, seen = keras.layers.GRU(3), threading.Event(), []

    def second():
        inside.wait()
        with without_cudnn(layer):
            seen.append(layer.use_cudnn)

    thread = threading.Thread(target=second)
    thread.start()
    with without_cudnn(layer):
        inside.set()
        thread.join(0.2)
        assert not seen
    thread.join()
    assert seen == [False] and layer.use_cudnn == "auto"
