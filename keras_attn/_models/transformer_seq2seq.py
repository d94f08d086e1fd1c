from typing import Any, Literal, TypeAlias, get_args

import keras

from keras_attn._decoders.transformer_decoder import TransformerDecoder
from keras_attn._encoders.transformer_encoder import TransformerEncoder
from keras_attn._layer.argument_checks import (
    accepts_numpy_numbers,
    check_positive_integer,
    check_seed,
)
from keras_attn._models.seq2seq_embeddings import seq2seq_embeddings
from keras_attn._positions.alibi_bias import AlibiBias
from keras_attn._positions.learned_positions import LearnedPositions
from keras_attn._positions.relative_position_bias import RelativePositionBias
from keras_attn._positions.rotary_positions import RotaryPositions
from keras_attn._positions.sinusoidal_positions import SinusoidalPositions
from keras_attn._transformer.transformer_decoder_block import TransformerDecoderBlock
from keras_attn._transformer.transformer_encoder_block import TransformerEncoderBlock

Positions: TypeAlias = Literal["sinusoidal", "learned", "rotary", "alibi", "relative"]
POSITIONS = get_args(Positions)


@accepts_numpy_numbers
def transformer_seq2seq(
    source_vocabulary_size: int,
    target_vocabulary_size: int,
    *,
    num_layers: int = 6,
    num_heads: int = 8,
    embedding_dim: int = 512,
    intermediate_dim: int = 2048,
    dropout: float = 0.1,
    positions: Positions = "sinusoidal",
    max_length: int = 512,
    share_embeddings: bool = False,
    seed: int | None = None,
    dtype: str | keras.DTypePolicy | None = None,
    **block: Any,
) -> tuple[TransformerEncoder, TransformerDecoder]:
    """Returns a Transformer encoder and decoder.

        encoder block    x = x + attention(norm(x));  x = x + feed_forward(norm(x))
        decoder block    x = x + attention(norm(x));  x = x + cross_attention(norm(x), h);
                         x = x + feed_forward(norm(x))
        output           logits = E norm(x)

    Here h are the encoder outputs, and E is the target embedding matrix.

    By default, the model has the same sizes as the base model in [Vaswani et al.,
    2017](https://arxiv.org/abs/1706.03762), but with pre-norm blocks. The output layer and the
    target embedding share the matrix E ([Press and Wolf, 2017](https://arxiv.org/abs/1608.05859)).

    Args:
        source_vocabulary_size: Positive int, number of source ids.
        target_vocabulary_size: Positive int, number of target ids.
        num_layers: Positive int, number of blocks in the encoder and in the decoder. Defaults to
            `6`.
        num_heads: Positive int, number of attention heads in each block. Defaults to `8`.
        embedding_dim: Positive int, size of the embeddings and the block outputs. Defaults to
            `512`.
        intermediate_dim: Positive int, hidden size of the feed-forward networks. Defaults to
            `2048`.
        dropout: Float in [0, 1), dropout rate of embeddings and blocks. Defaults to `0.1`.
        positions: String, `"sinusoidal"`, `"learned"`, `"rotary"`, `"alibi"`, or `"relative"` for
            T5's relative position bias. Defaults to `"sinusoidal"`.
        max_length: Positive int, maximum sequence length for `"learned"` positions. The other
            kinds have no limit. Defaults to `512`.
        share_embeddings: Bool, whether source and target share one embedding. `True` requires the
            same vocabulary for source and target. Defaults to `False`.
        seed: Int, seed for weights and dropout. The function passes the seed to
            `keras.utils.set_random_seed`, which seeds Python, NumPy and Keras. Defaults to `None`:
            no seed is set.
        dtype: Dtype or policy for all layers. Defaults to `None`: the global policy.
        **block: Further arguments for the `TransformerEncoderBlock`s and
            `TransformerDecoderBlock`s, such as `activation` or `num_key_value_heads`.

    Returns:
        Tuple of a `TransformerEncoder` named "encoder" and a `TransformerDecoder` named "decoder".

    Raises:
        ValueError: If `positions` is unknown, shared embeddings have vocabularies of different
            sizes, or a size is out of range.

    Example:

    >>> import numpy as np
    >>> from keras_attn import transformer_seq2seq
    >>> sizes = dict(num_layers=1, num_heads=2, embedding_dim=8, intermediate_dim=16)
    >>> encoder, decoder = transformer_seq2seq(20, 30, positions="rotary", **sizes)
    >>> logits = decoder(np.array([[1, 8, 9]]), **encoder(np.array([[5, 6, 7, 2]])))
    >>> tuple(logits.shape)  # (batch, target, vocabulary)
    (1, 3, 30)
    """
    if positions not in POSITIONS:
        raise ValueError(
            f"Expected positions to be one of {POSITIONS}. Received: positions={positions!r}."
        )
    sizes = {
        "num_layers": num_layers,
        "num_heads": num_heads,
        "intermediate_dim": intermediate_dim,
        "max_length": max_length,
    }
    for name, size in sizes.items():
        check_positive_integer(name, size)
    check_seed(seed)
    if seed is not None:
        keras.utils.set_random_seed(seed)
    source_embedding, target_embedding = seq2seq_embeddings(
        source_vocabulary_size, target_vocabulary_size, embedding_dim, share_embeddings, dtype
    )

    def side(bidirectional: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the arguments of the encoder or decoder and its block arguments."""
        stack, rotary = {}, None
        if positions == "sinusoidal":
            stack["positions"] = SinusoidalPositions(dtype=dtype)
        elif positions == "learned":
            stack["positions"] = LearnedPositions(max_length, dtype=dtype)
        elif positions == "rotary":
            rotary = RotaryPositions(dtype=dtype)
        elif positions == "alibi":
            stack["position_bias"] = AlibiBias(num_heads, dtype=dtype)
        else:
            stack["position_bias"] = RelativePositionBias(
                num_heads, bidirectional=bidirectional, dtype=dtype
            )
        # The encoder uses the seeds up to `seed + num_layers`.
        own_seed = seed if seed is None or bidirectional else seed + num_layers + 1
        shared = {"dropout": dropout, "seed": own_seed}
        arguments = {"num_layers": num_layers, "scale_embedding": True, "dtype": dtype}
        return {**arguments, **shared, **stack}, {"rotary": rotary, **shared, **block}

    stack, arguments = side(bidirectional=True)
    encoder_block = TransformerEncoderBlock(num_heads, intermediate_dim, **arguments)
    encoder = TransformerEncoder(encoder_block, source_embedding, name="encoder", **stack)
    stack, arguments = side(bidirectional=False)
    decoder_block = TransformerDecoderBlock(num_heads, intermediate_dim, **arguments)
    decoder = TransformerDecoder(decoder_block, target_embedding, name="decoder", **stack)
    return encoder, decoder
