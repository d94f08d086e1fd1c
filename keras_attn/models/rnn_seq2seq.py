from typing import Any

import keras

from keras_attn._layer.argument_checks import accepts_numpy_numbers
from keras_attn.attention.bahdanau_attention import BahdanauAttention
from keras_attn.attention.luong_attention import LuongAttention
from keras_attn.decoders.rnn_decoder import RNNDecoder
from keras_attn.encoders.rnn_encoder import RNNEncoder
from keras_attn.models.seq2seq_embeddings import seq2seq_embeddings
from keras_attn.rnn.attention_rnn_cell import AttentionRNNCell

CELLS = {"lstm": keras.layers.LSTMCell, "gru": keras.layers.GRUCell}


@accepts_numpy_numbers
def rnn_seq2seq(
    source_vocabulary_size: int,
    target_vocabulary_size: int,
    attention: Any = "bahdanau",
    cell: str = "lstm",
    embedding_dim: int = 256,
    units: int = 256,
    num_layers: int = 1,
    input_feeding: bool = True,
    dropout: float = 0.3,
    share_embeddings: bool = False,
    seed: int | None = None,
) -> tuple[RNNEncoder, RNNDecoder]:
    """A recurrent encoder and decoder with the sizes that suit small corpora.

    A bidirectional encoder; a decoder with the attention vector of Luong et al. (2015), tied to the
    target embedding ([Press and Wolf, 2017](https://arxiv.org/abs/1608.05859)).

    Args:
        source_vocabulary_size: int.
        target_vocabulary_size: int.
        attention: `"bahdanau"`, `"luong"` (score general), any attention that `AttentionRNNCell`
            takes, or `None` for the plain sequence-to-sequence model, where the encoder's state is
            all that the decoder sees.
        cell: `"lstm"` or `"gru"`.
        embedding_dim: int, size of embeddings and of the attention vector.
        units: int, units of each cell; the encoder has this many in each direction.
        num_layers: int, recurrent layers on each side.
        input_feeding: bool, whether the attention vector is fed to the next step. Without it
            training is faster.
        dropout: float in [0, 1).
        share_embeddings: bool, whether source and target have one embedding (and one vocabulary).
        seed: int, of weights and dropout, but for an `attention` that is a layer already. Sets the
            seeds of Python, NumPy and Keras, as `keras.utils.set_random_seed` does.

    Returns:
        Tuple of an `RNNEncoder` named "encoder" and an `RNNDecoder` named "decoder".

    Raises:
        ValueError: for an unknown name, or shared embeddings of two sizes.
    """
    if cell not in CELLS:
        raise ValueError(f"cell must be one of {tuple(CELLS)}. Received: cell={cell!r}.")
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
        # Without attention the top cell's output is the output: it must have the embedding's size
        # to be tied to it.
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


def _attention(attention, units):
    if attention == "bahdanau":
        return BahdanauAttention(units, name="attention")
    if attention == "luong":
        return LuongAttention("general", name="attention")
    if isinstance(attention, str):
        raise ValueError(
            'attention must be "bahdanau", "luong", None or a layer of attention. '
            f"Received: attention={attention!r}."
        )
    return attention
