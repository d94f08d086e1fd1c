from typing import Any

import keras

from keras_attn._layer.argument_checks import accepts_numpy_numbers
from keras_attn.decoders.transformer_decoder import TransformerDecoder
from keras_attn.encoders.transformer_encoder import TransformerEncoder
from keras_attn.models.seq2seq_embeddings import seq2seq_embeddings
from keras_attn.positions.alibi_bias import AlibiBias
from keras_attn.positions.learned_positions import LearnedPositions
from keras_attn.positions.relative_position_bias import RelativePositionBias
from keras_attn.positions.rotary_positions import RotaryPositions
from keras_attn.positions.sinusoidal_positions import SinusoidalPositions
from keras_attn.transformer.transformer_decoder_block import TransformerDecoderBlock
from keras_attn.transformer.transformer_encoder_block import TransformerEncoderBlock

POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "relative")


@accepts_numpy_numbers
def transformer_seq2seq(
    source_vocabulary_size: int,
    target_vocabulary_size: int,
    num_layers: int = 6,
    num_heads: int = 8,
    embedding_dim: int = 512,
    intermediate_dim: int = 2048,
    dropout: float = 0.1,
    positions: str = "sinusoidal",
    max_length: int = 512,
    share_embeddings: bool = False,
    seed: int | None = None,
    dtype: Any = None,
    **block: Any,
) -> tuple[TransformerEncoder, TransformerDecoder]:
    """A Transformer encoder and decoder.

    By default of the base size of [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), with
    pre-norm blocks. The output is tied to the target embedding
    ([Press and Wolf, 2017](https://arxiv.org/abs/1608.05859)).

    Args:
        source_vocabulary_size: int.
        target_vocabulary_size: int.
        num_layers: int, blocks on each side.
        num_heads: int, attention heads of a block.
        embedding_dim: int, features between the blocks.
        intermediate_dim: int, size inside of the feed-forward networks.
        dropout: float in [0, 1).
        positions: `"sinusoidal"`, `"learned"`, `"rotary"`, `"alibi"` or `"relative"` (T5).
        max_length: int, longest sequence for `"learned"` positions.
        share_embeddings: bool, whether source and target have one embedding (and one vocabulary).
        seed: int, of weights and dropout. Sets the seeds of Python, NumPy and Keras, as
            `keras.utils.set_random_seed` does.
        dtype: dtype or policy of all layers. Default: the global one.
        **block: further arguments of `TransformerEncoderBlock`, for both sides.

    Returns:
        Tuple of a `TransformerEncoder` named "encoder" and a `TransformerDecoder` named "decoder".

    Raises:
        ValueError: for an unknown name, or shared embeddings of two sizes.
    """
    if positions not in POSITIONS:
        raise ValueError(
            f"positions must be one of {POSITIONS}. Received: positions={positions!r}."
        )
    if seed is not None:
        keras.utils.set_random_seed(seed)
    source_embedding, target_embedding = seq2seq_embeddings(
        source_vocabulary_size, target_vocabulary_size, embedding_dim, share_embeddings, dtype
    )

    def side(bidirectional):
        """Arguments of a stack and of its blocks."""
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
        # The blocks of an encoder take the seeds up to `seed + num_layers`.
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
