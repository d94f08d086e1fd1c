from typing import Literal

import keras

from keras_attn._attention.bahdanau_attention import BahdanauAttention
from keras_attn._attention.luong_attention import LuongAttention
from keras_attn._decoders.rnn_decoder import RNNDecoder
from keras_attn._encoders.rnn_encoder import RNNEncoder
from keras_attn._layer.argument_checks import (
    accepts_numpy_numbers,
    check_positive_integer,
    check_seed,
)
from keras_attn._models.seq2seq_embeddings import seq2seq_embeddings
from keras_attn._rnn.attention_rnn_cell import AttentionRNNCell

CELLS = {"lstm": keras.layers.LSTMCell, "gru": keras.layers.GRUCell}


@accepts_numpy_numbers
def rnn_seq2seq(
    source_vocabulary_size: int,
    target_vocabulary_size: int,
    *,
    attention: Literal["bahdanau", "luong"] | keras.layers.Layer | None = "bahdanau",
    cell: Literal["lstm", "gru"] = "lstm",
    embedding_dim: int = 256,
    units: int = 256,
    num_layers: int = 1,
    input_feeding: bool = True,
    dropout: float = 0.3,
    share_embeddings: bool = False,
    seed: int | None = None,
) -> tuple[RNNEncoder, RNNDecoder]:
    """Returns a recurrent encoder and a recurrent decoder with attention, sized for small corpora.

        h_1 .. h_S = bidirectional RNN(x_1 .. x_S)
        s_t = RNN([E y_{t-1} ; a_{t-1}], s_{t-1}),    c_t = attention(s_t, h)
        a_t = tanh(W [s_t ; c_t]),    logits_t = E^T a_t

    Here x are the embedded source tokens, and y_{t-1} is the previous target token as a one-hot
    vector. The attention vector a_t and input feeding (a_{t-1} is an input of step t) were
    introduced by [Luong et al., 2015](https://arxiv.org/abs/1508.04025). The output layer and the
    target embedding share the matrix E ([Press and Wolf, 2017](https://arxiv.org/abs/1608.05859)).
    `attention="bahdanau"` uses the additive score of [Bahdanau et al.,
    2015](https://arxiv.org/abs/1409.0473).

    Args:
        source_vocabulary_size: Positive int, number of source ids.
        target_vocabulary_size: Positive int, number of target ids.
        attention: `"bahdanau"`, `"luong"` (general score), or an attention layer that
            `AttentionRNNCell` accepts. `None` for a decoder without attention, which only receives
            the encoder's final state. Defaults to `"bahdanau"`.
        cell: String, `"lstm"` or `"gru"`. Defaults to `"lstm"`.
        embedding_dim: Positive int, size of the embeddings and the attention vector. Defaults to
            `256`.
        units: Positive int, units in each cell. The encoder has this number of units in each
            direction. With `attention=None`, the top cell of the decoder has `embedding_dim` units
            instead. Defaults to `256`.
        num_layers: Positive int, number of recurrent layers in the encoder and in the decoder.
            Defaults to `1`.
        input_feeding: Bool, whether the attention vector is an input of the next step. Training is
            faster without input feeding. Defaults to `True`.
        dropout: Float in [0, 1), dropout rate of embeddings and layer outputs. Defaults to `0.3`.
        share_embeddings: Bool, whether source and target share one embedding. `True` requires the
            same vocabulary for source and target. Defaults to `False`.
        seed: Int, seed for weights and dropout. It does not affect an `attention` layer that you
            pass. The function passes the seed to `keras.utils.set_random_seed`, which seeds Python,
            NumPy and Keras. Defaults to `None`: no seed is set.

    Returns:
        Tuple of an `RNNEncoder` named "encoder" and an `RNNDecoder` named "decoder".

    Raises:
        ValueError: If `attention` or `cell` is unknown, shared embeddings have vocabularies of
            different sizes, or another argument is out of range.

    Example:

    >>> import numpy as np
    >>> from keras_attn import rnn_seq2seq
    >>> encoder, decoder = rnn_seq2seq(20, 30, attention="luong", units=8, embedding_dim=8)
    >>> logits = decoder(np.array([[1, 8, 9]]), **encoder(np.array([[5, 6, 7, 2]])))
    >>> tuple(logits.shape)  # (batch, target, vocabulary)
    (1, 3, 30)
    """
    if cell not in CELLS:
        raise ValueError(f"Expected cell to be one of {tuple(CELLS)}. Received: cell={cell!r}.")
    check_positive_integer("units", units)
    check_positive_integer("num_layers", num_layers)
    check_seed(seed)
    if seed is not None:
        keras.utils.set_random_seed(seed)
    source_embedding, target_embedding = seq2seq_embeddings(
        source_vocabulary_size, target_vocabulary_size, embedding_dim, share_embeddings
    )
    encoder = RNNEncoder(
        CELLS[cell](units),
        embedding=source_embedding,
        num_layers=num_layers,
        dropout=dropout,
        name="encoder",
    )
    cells = [CELLS[cell](units) for _ in range(num_layers)]
    if attention is None:
        # Without attention, the output of the top cell is multiplied by the embedding matrix, so
        # this output must have the size of the embedding.
        cells[-1] = CELLS[cell](embedding_dim)
    decoder = RNNDecoder(
        AttentionRNNCell(
            cells,
            attention=_attention(attention, units),
            input_feeding=input_feeding,
            attention_units=embedding_dim,
        ),
        embedding=target_embedding,
        dropout=dropout,
        name="decoder",
    )
    return encoder, decoder


def _attention(attention: str | keras.layers.Layer | None, units: int) -> keras.layers.Layer | None:
    if attention == "bahdanau":
        return BahdanauAttention(units, name="attention")
    if attention == "luong":
        return LuongAttention("general", name="attention")
    if isinstance(attention, str):
        raise ValueError(
            'Expected attention to be "bahdanau", "luong", None or an attention layer. '
            f"Received: attention={attention!r}."
        )
    return attention
