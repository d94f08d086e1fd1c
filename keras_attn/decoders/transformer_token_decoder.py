from typing import Any, Self

import keras

from keras_attn._decoding_state import growing_buffer, kv_cache
from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn._types import TensorDict
from keras_attn.decoders.token_decoder import TokenDecoder
from keras_attn.transformer.transformer_stack import TransformerStack, check_block


class TransformerTokenDecoder(TokenDecoder):
    """Base of the decoders that are a stack of Transformer blocks with a cache.

    Args:
        block, embedding, head, num_layers, positions, position_bias, scale_embedding, dropout,
            growing_cache, cache_block_size, seed: see `TransformerDecoder`.
        **kwargs: arguments of `keras.layers.Layer`.

    Raises:
        ValueError: for arguments out of range, blocks of another kind, or if the output cannot be
            tied to the embedding.
    """

    def __init__(
        self,
        block: keras.layers.Layer,
        embedding: keras.layers.Layer,
        head: keras.layers.Layer | None = None,
        num_layers: int = 6,
        positions: keras.layers.Layer | None = None,
        position_bias: keras.layers.Layer | None = None,
        scale_embedding: bool = False,
        dropout: float = 0.0,
        growing_cache: bool | None = None,
        cache_block_size: int | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("autocast", False)  # ids given as floats would be rounded
        super().__init__(embedding, head, **kwargs)
        if cache_block_size is not None:
            check_positive_integer("cache_block_size", cache_block_size)
        check_block(block)
        self.check_block(block)
        parts = (block, embedding, num_layers, positions, position_bias, scale_embedding)
        self.stack = TransformerStack(*parts, dropout, seed, dtype=self.dtype_policy, name="stack")
        self.growing_cache = growing_cache
        self.cache_block_size = cache_block_size

    def check_block(self, block: Any) -> None:
        """Raises a `ValueError` for a block of another kind than the decoder is made of."""
        raise NotImplementedError(f"{type(self).__name__} must override `check_block`.")

    @property
    def can_exceed_max_length(self) -> bool:
        return growing_buffer.supports_growth(self.growing_cache)

    def capacity(self, max_length: int | None, beam_width: int) -> int:
        """int, the slots of a cache for `max_length` steps, which one that grows need not know."""
        if max_length is None and not self.can_exceed_max_length:
            raise ValueError(
                "A cache that does not grow needs the most steps that will follow. Received: "
                "max_length=None."
            )
        return (max_length or 0) * beam_width

    def archive(self, state: TensorDict) -> TensorDict:
        return {**state, "shared": kv_cache.archive(state["shared"])}

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            **self.stack.serialize_arguments(),
            "growing_cache": self.growing_cache,
            "cache_block_size": self.cache_block_size,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        return super().from_config(TransformerStack.deserialize_arguments(config))
