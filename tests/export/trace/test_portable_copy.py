import keras
import pytest

from keras_attn import rnn_seq2seq
from keras_attn.export._trace.portable_copy import portable_copy, traceable_copy

layers = keras.layers
RATES = {"dropout": 0.2, "recurrent_dropout": 0.3}


def test_portable_copy_turns_cudnn_off_in_all_layers_of_the_copy_alone():
    encoder, _ = rnn_seq2seq(9, 9, units=4, embedding_dim=4)
    alone = layers.GRU(3, use_cudnn=True)

    def settings(encoder, alone):
        wrapper = encoder.recurrent_layers[0]
        return [each.use_cudnn for each in (wrapper.forward_layer, wrapper.backward_layer, alone)]

    assert settings(*portable_copy(encoder, alone)) == [False, False, False]
    assert settings(encoder, alone) == ["auto", "auto", True]


def test_portable_copy_sets_dropout_of_nested_cells_to_0_in_the_copy_alone():
    stacked = layers.RNN(layers.StackedRNNCells([layers.GRUCell(2, **RATES), layers.LSTMCell(2)]))
    (copied,) = portable_copy(stacked)
    assert [(each.dropout, each.recurrent_dropout) for each in copied.cell.cells] == [(0, 0)] * 2
    rates = [(each.dropout, each.recurrent_dropout) for each in stacked.cell.cells]
    assert rates == [(0.2, 0.3), (0, 0)]


@pytest.mark.parametrize("keep_precision", [True, False])
def test_portable_copy_computes_in_float32_unless_precision_is_kept(keep_precision):
    dense = layers.Dense(2, dtype="mixed_float16")
    (copied,) = portable_copy(dense, keep_precision=keep_precision)
    assert copied.compute_dtype == ("float16" if keep_precision else "float32")
    assert dense.compute_dtype == "float16"


def test_traceable_copy_replaces_loops_of_the_copy_alone():
    wrapper = layers.Bidirectional(layers.LSTM(2))
    (copied,) = traceable_copy(wrapper)
    for side in ("forward_layer", "backward_layer"):
        assert "inner_loop" in vars(getattr(copied, side))
        assert "inner_loop" not in vars(getattr(wrapper, side))
