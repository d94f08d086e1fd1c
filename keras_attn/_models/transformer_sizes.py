"""Transformers in well-known sizes."""

from typing import Any

from keras_attn._decoders.transformer_decoder import TransformerDecoder
from keras_attn._encoders.transformer_encoder import TransformerEncoder
from keras_attn._models.transformer_seq2seq import transformer_seq2seq


def transformer_tiny(
    source_vocabulary_size: int, target_vocabulary_size: int, **kwargs: Any
) -> tuple[TransformerEncoder, TransformerDecoder]:
    """Returns a Transformer encoder and decoder for about 10,000 sentence pairs.

    Encoder and decoder have 4 layers each, with 4 heads, 128 features, feed-forward networks of
    size 256, and dropout 0.3. See `transformer_seq2seq` for the architecture.

    Args:
        source_vocabulary_size: Positive int, number of source ids.
        target_vocabulary_size: Positive int, number of target ids.
        **kwargs: Arguments of `transformer_seq2seq` that override the sizes or other defaults.

    Returns:
        Tuple of a `TransformerEncoder` named "encoder" and a `TransformerDecoder` named "decoder".

    Raises:
        ValueError: See `transformer_seq2seq`.

    Example:

    >>> import numpy as np
    >>> from keras_attn import transformer_tiny
    >>> encoder, decoder = transformer_tiny(20, 30, num_layers=1)
    >>> tuple(encoder(np.array([[5, 6, 7, 2]]))["encoder_outputs"].shape)
    (1, 4, 128)
    """
    sizes = {"num_layers": 4, "num_heads": 4, "embedding_dim": 128, "intermediate_dim": 256}
    arguments = {**sizes, "dropout": 0.3, **kwargs}
    return transformer_seq2seq(source_vocabulary_size, target_vocabulary_size, **arguments)


def transformer_base(
    source_vocabulary_size: int, target_vocabulary_size: int, **kwargs: Any
) -> tuple[TransformerEncoder, TransformerDecoder]:
    """Returns a base-size Transformer encoder and decoder.

    Encoder and decoder have 6 layers each, with 8 heads, 512 features, feed-forward networks of
    size 2048, and dropout 0.1. These sizes match the base model in [Vaswani et al.,
    2017](https://arxiv.org/abs/1706.03762), table 3. See `transformer_seq2seq` for the
    architecture.

    Args:
        source_vocabulary_size: Positive int, number of source ids.
        target_vocabulary_size: Positive int, number of target ids.
        **kwargs: Arguments of `transformer_seq2seq` that override the sizes or other defaults.

    Returns:
        Tuple of a `TransformerEncoder` named "encoder" and a `TransformerDecoder` named "decoder".

    Raises:
        ValueError: See `transformer_seq2seq`.

    Example:

    >>> import numpy as np
    >>> from keras_attn import transformer_base
    >>> encoder, decoder = transformer_base(20, 30, num_layers=1)
    >>> tuple(encoder(np.array([[5, 6, 7, 2]]))["encoder_outputs"].shape)
    (1, 4, 512)
    """
    sizes = {"num_layers": 6, "num_heads": 8, "embedding_dim": 512, "intermediate_dim": 2048}
    arguments = {**sizes, "dropout": 0.1, **kwargs}
    return transformer_seq2seq(source_vocabulary_size, target_vocabulary_size, **arguments)


def transformer_big(
    source_vocabulary_size: int, target_vocabulary_size: int, **kwargs: Any
) -> tuple[TransformerEncoder, TransformerDecoder]:
    """Returns a big Transformer encoder and decoder.

    Encoder and decoder have 6 layers each, with 16 heads, 1024 features, feed-forward networks of
    size 4096, and dropout 0.3. These sizes match the big model in [Vaswani et al.,
    2017](https://arxiv.org/abs/1706.03762), table 3. See `transformer_seq2seq` for the
    architecture.

    Args:
        source_vocabulary_size: Positive int, number of source ids.
        target_vocabulary_size: Positive int, number of target ids.
        **kwargs: Arguments of `transformer_seq2seq` that override the sizes or other defaults.

    Returns:
        Tuple of a `TransformerEncoder` named "encoder" and a `TransformerDecoder` named "decoder".

    Raises:
        ValueError: See `transformer_seq2seq`.

    Example:

    >>> import numpy as np
    >>> from keras_attn import transformer_big
    >>> encoder, decoder = transformer_big(20, 30, num_layers=1)
    >>> tuple(encoder(np.array([[5, 6, 7, 2]]))["encoder_outputs"].shape)
    (1, 4, 1024)
    """
    sizes = {"num_layers": 6, "num_heads": 16, "embedding_dim": 1024, "intermediate_dim": 4096}
    arguments = {**sizes, "dropout": 0.3, **kwargs}
    return transformer_seq2seq(source_vocabulary_size, target_vocabulary_size, **arguments)
