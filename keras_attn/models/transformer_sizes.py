"""Transformers of well-known sizes: each function returns an encoder and a decoder.

All take the vocabulary sizes and any argument of `transformer_seq2seq`.
"""

from typing import Any

from keras_attn.decoders.transformer_decoder import TransformerDecoder
from keras_attn.encoders.transformer_encoder import TransformerEncoder
from keras_attn.models.transformer_seq2seq import transformer_seq2seq


def transformer_tiny(
    source_vocabulary_size: int, target_vocabulary_size: int, **kwargs: Any
) -> tuple[TransformerEncoder, TransformerDecoder]:
    """4 + 4 blocks of 128 features and 4 heads: for some 10,000 sentence pairs."""
    sizes = {"num_layers": 4, "num_heads": 4, "embedding_dim": 128, "intermediate_dim": 256}
    arguments = {**sizes, "dropout": 0.3, **kwargs}
    return transformer_seq2seq(source_vocabulary_size, target_vocabulary_size, **arguments)


def transformer_base(
    source_vocabulary_size: int, target_vocabulary_size: int, **kwargs: Any
) -> tuple[TransformerEncoder, TransformerDecoder]:
    """The base model of [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), table 3."""
    sizes = {"num_layers": 6, "num_heads": 8, "embedding_dim": 512, "intermediate_dim": 2048}
    arguments = {**sizes, "dropout": 0.1, **kwargs}
    return transformer_seq2seq(source_vocabulary_size, target_vocabulary_size, **arguments)


def transformer_big(
    source_vocabulary_size: int, target_vocabulary_size: int, **kwargs: Any
) -> tuple[TransformerEncoder, TransformerDecoder]:
    """The big model of [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), table 3."""
    sizes = {"num_layers": 6, "num_heads": 16, "embedding_dim": 1024, "intermediate_dim": 4096}
    arguments = {**sizes, "dropout": 0.3, **kwargs}
    return transformer_seq2seq(source_vocabulary_size, target_vocabulary_size, **arguments)
