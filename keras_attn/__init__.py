"""Attention for RNNs and Transformers as Keras layers, one beam decoder for all, exported whole to
ONNX.

Importing the package registers every layer, so that `keras.models.load_model` finds them.
"""

from keras_attn.attention.attention_mechanism import AttentionMechanism
from keras_attn.attention.bahdanau_attention import BahdanauAttention
from keras_attn.attention.luong_attention import LuongAttention
from keras_attn.decoders.decoder import Decoder
from keras_attn.decoders.rnn_decoder import RNNDecoder
from keras_attn.encoders.rnn_encoder import RNNEncoder
from keras_attn.models.rnn_seq2seq import rnn_seq2seq
from keras_attn.models.search_model import search_model
from keras_attn.models.training_model import training_model
from keras_attn.rnn.attention_rnn import AttentionRNN
from keras_attn.rnn.attention_rnn_cell import AttentionRNNCell
from keras_attn.rnn.rnn_cell import RNNCell
from keras_attn.rnn.state_bridge import StateBridge
from keras_attn.search.beam_decoder import BeamDecoder
from keras_attn.search.greedy_decoder import GreedyDecoder
from keras_attn.search.search import Search

__version__ = "0.1.0"

__all__ = [
    "AttentionMechanism",
    "AttentionRNN",
    "AttentionRNNCell",
    "BahdanauAttention",
    "BeamDecoder",
    "Decoder",
    "GreedyDecoder",
    "LuongAttention",
    "RNNCell",
    "RNNDecoder",
    "RNNEncoder",
    "Search",
    "StateBridge",
    "rnn_seq2seq",
    "search_model",
    "training_model",
]
