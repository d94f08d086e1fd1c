"""Keras layers for attention in RNNs and Transformers, with beam search and export to ONNX.

Importing the package registers all layers, losses and optimizers, so that `keras.models.load_model`
can load them.
"""

try:
    import keras as _  # noqa: F401 - fails if the backend is missing
except ModuleNotFoundError as error:
    backend = (error.name or "").partition(".")[0]
    if backend not in ("tensorflow", "jax", "torch"):
        raise
    raise ImportError(
        f"Expected an installed backend of Keras. Received: {backend!r}, which is not "
        "installed. In a checkout, `pip install '.[tensorflow]'`, or `pip install '.[jax]'` and "
        "set the environment variable KERAS_BACKEND=jax."
    ) from None

import importlib
from typing import TYPE_CHECKING, Any

from keras_attn import files, forecasting, masks, training
from keras_attn._attention.attention_mechanism import AttentionMechanism
from keras_attn._attention.attention_recorder import record_attention_scores
from keras_attn._attention.bahdanau_attention import BahdanauAttention
from keras_attn._attention.cache_view import CacheView
from keras_attn._attention.combined_attention import CombinedAttention
from keras_attn._attention.cosine_attention import CosineAttention
from keras_attn._attention.coverage_attention import CoverageAttention
from keras_attn._attention.intra_decoder_attention import IntraDecoderAttention
from keras_attn._attention.intra_sentence_attention import IntraSentenceAttention
from keras_attn._attention.linear_score_attention import LinearScoreAttention
from keras_attn._attention.local_attention import LocalAttention
from keras_attn._attention.location_attention import LocationAttention
from keras_attn._attention.location_sensitive_attention import LocationSensitiveAttention
from keras_attn._attention.luong_attention import LuongAttention
from keras_attn._attention.monotonic_attention import MonotonicAttention
from keras_attn._attention.multi_head_attention import MultiHeadAttention
from keras_attn._attention.scaled_dot_product_attention import ScaledDotProductAttention
from keras_attn._attention.soft_alignment import SoftAlignment
from keras_attn._attention.stateful_attention import StatefulAttention
from keras_attn._backend.private_names import check_before_quantization
from keras_attn._decoders.causal_language_model import CausalLanguageModel
from keras_attn._decoders.ensemble_decoder import EnsembleDecoder
from keras_attn._decoders.fused_decoder import FusedDecoder
from keras_attn._decoders.rnn_decoder import RNNDecoder
from keras_attn._decoders.step_decoder import StepDecoder
from keras_attn._decoders.transformer_decoder import TransformerDecoder
from keras_attn._encoders.ensemble_encoder import EnsembleEncoder
from keras_attn._encoders.patch_embedding import PatchEmbedding
from keras_attn._encoders.rnn_encoder import RNNEncoder
from keras_attn._encoders.transformer_encoder import TransformerEncoder
from keras_attn._layer.quantization import check_quantization
from keras_attn._layer.retracing import retrace_after_changes
from keras_attn._models.decomposable_attention_classifier import decomposable_attention_classifier
from keras_attn._models.ensemble_model import ensemble_model
from keras_attn._models.generation_model import GenerationModel
from keras_attn._models.masked_language_model import masked_language_model
from keras_attn._models.rnn_seq2seq import rnn_seq2seq
from keras_attn._models.sequence_classifier import sequence_classifier
from keras_attn._models.training_model import TrainingModel
from keras_attn._models.transformer_seq2seq import transformer_seq2seq
from keras_attn._models.transformer_sizes import (
    transformer_base,
    transformer_big,
    transformer_tiny,
)
from keras_attn._models.with_search import with_search
from keras_attn._output_layers.attention_pooling import AttentionPooling
from keras_attn._output_layers.sequence_pooling import SequencePooling
from keras_attn._output_layers.tied_mlm_head import TiedMLMHead
from keras_attn._positions.alibi_bias import AlibiBias
from keras_attn._positions.learned_positions import LearnedPositions
from keras_attn._positions.relative_position_bias import RelativePositionBias
from keras_attn._positions.rotary_positions import RotaryPositions
from keras_attn._positions.rotary_scaling import (
    LinearRotaryScaling,
    Llama3RotaryScaling,
    YarnRotaryScaling,
)
from keras_attn._positions.sinusoidal_positions import SinusoidalPositions
from keras_attn._rnn.attention_rnn import AttentionRNN
from keras_attn._rnn.attention_rnn_cell import AttentionRNNCell
from keras_attn._rnn.rnn_cell import RNNCell
from keras_attn._rnn.state_bridge import StateBridge
from keras_attn._search.alternatives_decoder import AlternativesDecoder
from keras_attn._search.beam_decoder import BeamDecoder
from keras_attn._search.greedy_decoder import GreedyDecoder
from keras_attn._search.logits_rule import LogitsRule, RuleInput
from keras_attn._search.sampling_decoder import SamplingDecoder
from keras_attn._search.search import Search
from keras_attn._transformer.feed_forward import FeedForward
from keras_attn._transformer.transformer_decoder_block import TransformerDecoderBlock
from keras_attn._transformer.transformer_encoder_block import TransformerEncoderBlock

check_before_quantization(check_quantization)
retrace_after_changes()

__version__ = "0.1.0"

__all__ = [
    "AlibiBias",
    "AlternativesDecoder",
    "AttentionMechanism",
    "AttentionPooling",
    "AttentionRNN",
    "AttentionRNNCell",
    "BahdanauAttention",
    "BeamDecoder",
    "CacheView",
    "CausalLanguageModel",
    "CombinedAttention",
    "CosineAttention",
    "CoverageAttention",
    "EnsembleDecoder",
    "EnsembleEncoder",
    "FeedForward",
    "FusedDecoder",
    "GenerationModel",
    "GreedyDecoder",
    "IntraDecoderAttention",
    "IntraSentenceAttention",
    "LearnedPositions",
    "LinearRotaryScaling",
    "LinearScoreAttention",
    "Llama3RotaryScaling",
    "LocalAttention",
    "LocationAttention",
    "LocationSensitiveAttention",
    "LogitsRule",
    "LuongAttention",
    "MonotonicAttention",
    "MultiHeadAttention",
    "PatchEmbedding",
    "RNNCell",
    "RNNDecoder",
    "RNNEncoder",
    "RelativePositionBias",
    "RotaryPositions",
    "RuleInput",
    "SamplingDecoder",
    "ScaledDotProductAttention",
    "Search",
    "SequencePooling",
    "SinusoidalPositions",
    "SoftAlignment",
    "StateBridge",
    "StatefulAttention",
    "StepDecoder",
    "TiedMLMHead",
    "TrainingModel",
    "TransformerDecoder",
    "TransformerDecoderBlock",
    "TransformerEncoder",
    "TransformerEncoderBlock",
    "YarnRotaryScaling",
    "decomposable_attention_classifier",
    "ensemble_model",
    "files",
    "forecasting",
    "masked_language_model",
    "masks",
    "record_attention_scores",
    "rnn_seq2seq",
    "sequence_classifier",
    "training",
    "transformer_base",
    "transformer_big",
    "transformer_seq2seq",
    "transformer_tiny",
    "with_search",
]

_LAZY = ("convert", "export", "testing", "text", "visualize")
"""Public packages that are imported at their first use, because they need more dependencies.

They are not in `__all__`: `from keras_attn import *` would import them, and `export` needs
TensorFlow.
"""


if TYPE_CHECKING:
    from keras_attn import convert as convert
    from keras_attn import export as export
    from keras_attn import testing as testing
    from keras_attn import text as text
    from keras_attn import visualize as visualize


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(f"keras_attn.{name}")
    raise AttributeError(f"module 'keras_attn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
