from typing import Any, Self

import keras

from keras_attn._decoders.token_decoder import TokenDecoder
from keras_attn._decoding_state import growing_buffer, kv_cache
from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn._transformer.transformer_stack import TransformerStack, check_block
from keras_attn._types import Tensor, TensorDict
from keras_attn_checks.number_types import is_integer


class TransformerTokenDecoder(TokenDecoder):
    """Base class for decoders with a stack of Transformer blocks and key-value caches.

    Args:
        block: Transformer block, the template for all blocks.
        embedding: Layer that maps ids `(batch, target)` to vectors.
        head: Layer that maps outputs to logits. Defaults to `None`: the embedding is also the
            output layer ([Press and Wolf, 2017](https://arxiv.org/abs/1608.05859)), and must be a
            `keras.layers.ReversibleEmbedding`.
        num_layers: Positive int, number of blocks. Defaults to `6`.
        positions: Layer that is called with `(vectors, start_index)` and adds position encodings to
            the vectors, such as `SinusoidalPositions`. Defaults to `None`: no position encodings.
        position_bias: Layer that computes a bias for all blocks' attention scores, such as
            `AlibiBias` or `RelativePositionBias`. Defaults to `None`: no bias.
        scale_embedding: Bool, whether embeddings are multiplied by the square root of the vector
            size. Defaults to `False`.
        dropout: Float in [0, 1), dropout rate for the embedded inputs. Defaults to `0.0`.
        growing_cache: Bool, whether the key-value cache grows with each step. If `False`, the cache
            is allocated for `max_length` steps at the start. Only a growing cache can be exported
            to ONNX. Defaults to `None`: the cache grows if the backend supports it.
        cache_block_size: Positive int. After every `cache_block_size` steps, a search moves a
            growing cache's content to a second cache. Each step copies the growing cache to extend
            it, but does not copy the second cache. The second cache therefore speeds up long
            outputs on TensorFlow and in ONNX. Other backends ignore this argument. Defaults to
            `None`: no second cache. For short outputs, such as a single sentence, `None` is faster.
        seed: Int, dropout seed. Defaults to `None`: a random seed.
        use_output_bias: Bool, whether a trainable bias is added to the logits. `True` requires
            `head=None`. Defaults to `False`.
        embedding_norm: Bool, whether the sum of embeddings and positions is normalized, as in BART
            and mBART. The normalization layer has the type that the blocks use. Defaults to
            `False`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Raises:
        ValueError: If an argument is out of range, `block` has the wrong type, or `head` is `None`
            and the embedding cannot be the output layer.
    """

    def __init__(
        self,
        block: keras.layers.Layer,
        embedding: keras.layers.Layer,
        *,
        head: keras.layers.Layer | None = None,
        num_layers: int = 6,
        positions: keras.layers.Layer | None = None,
        position_bias: keras.layers.Layer | None = None,
        scale_embedding: bool = False,
        dropout: float = 0.0,
        growing_cache: bool | None = None,
        cache_block_size: int | None = None,
        seed: int | None = None,
        use_output_bias: bool = False,
        embedding_norm: bool = False,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("autocast", False)  # half precision would round large ids
        super().__init__(embedding, head, use_output_bias=use_output_bias, **kwargs)
        if cache_block_size is not None:
            check_positive_integer("cache_block_size", cache_block_size)
        check_block(block)
        self.check_block(block)
        self.stack = TransformerStack(
            block,
            embedding,
            num_layers=num_layers,
            positions=positions,
            position_bias=position_bias,
            scale_embedding=scale_embedding,
            dropout=dropout,
            seed=seed,
            embedding_norm=embedding_norm,
            dtype=self.dtype_policy,
            name="stack",
        )
        self.growing_cache = growing_cache
        self.cache_block_size = cache_block_size

    def check_block(self, block: Any) -> None:
        """Raises a `ValueError` if a block has the wrong type."""
        raise NotImplementedError(f"{type(self).__name__} must override `check_block`.")

    @property
    def can_exceed_max_length(self) -> bool:
        return growing_buffer.supports_growth(self.growing_cache)

    def capacity(self, max_length: int | None, beam_width: int | Tensor) -> int:
        """Returns the number of cache slots for `max_length` steps: one per beam and step.

        A cache that grows ignores the number. The result is 0 for a `beam_width` that is not known,
        which needs a cache that grows.
        """
        if max_length is None and not self.can_exceed_max_length:
            raise ValueError(
                "Expected max_length for a cache that does not grow. Received: "
                "max_length=None. Pass the maximum number of steps, or use growing_cache=True."
            )
        if max_length is None or not is_integer(beam_width):
            return 0
        return max_length * beam_width

    @property
    def can_widen(self) -> bool:
        return self.growing_cache is None

    def widen(self, state: TensorDict, steps: int) -> TensorDict:
        return kv_cache.widen(state, steps)

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
