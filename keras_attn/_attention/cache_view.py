import dataclasses

from keras import ops

from keras_attn._decoding_state import growing_buffer, kv_cache
from keras_attn._masks import both, position_mask
from keras_attn._positions.position_range import position_range
from keras_attn._types import Tensor, TensorDict


@dataclasses.dataclass(frozen=True)
class CacheView:
    """Slots of a key-value cache: the slots for new tokens, and the slots to attend to.

    Args:
        slot: Int or scalar int32 tensor, number of used slots, and therefore the index of the slot
            that the first new token fills.
        start_index: Int, scalar int32 tensor or int32 tensor of shape `(batch,)`, position of the
            first new token. Defaults to `slot`, which is correct for caches without beams and
            padding.
        key_positions: Int32 tensor of shape `(1 or batch, slots)`, position of the token in each
            slot of the cache, including the new tokens. Slots with a negative position are not
            attended to. Defaults to the slot numbers, which is correct for caches without beams and
            padding.
        ancestor_bias: Float32 tensor of shape `(batch, 1, beams, slots)`, added to the scores. In a
            cache that beams share, this bias restricts each beam to its own slots, see
            `keras_attn._decoding_state.kv_cache`. Defaults to `None`: no beams.
        archive: Dict, a second cache with earlier tokens, which a step reads but does not copy. Its
            slots come before the slots of the growing cache. Defaults to `None`: no second cache.
        growing: Bool, whether the cache grows. Defaults to `None`: `True` on TensorFlow, `False` on
            other backends.
        num_beams: Int or scalar int32 tensor, number of beams that share the cache. Defaults to
            `1`: no beams.

    Example:

    >>> import numpy as np
    >>> from keras_attn import CacheView, MultiHeadAttention
    >>> attention = MultiHeadAttention(num_heads=2, key_dim=4)
    >>> x = np.ones((1, 3, 8), "float32")
    >>> full = attention(x, use_causal_mask=True)
    >>> cache, outputs = attention.new_cache(batch=1, capacity=3), []
    >>> for slot in range(3):
    ...     output, _, cache = attention.step(x[:, slot], cache, CacheView(slot))
    ...     outputs.append(np.array(output))
    >>> bool(np.allclose(np.stack(outputs, axis=1), full, atol=1e-6))
    True
    """

    slot: int | Tensor
    start_index: int | Tensor | None = None
    key_positions: Tensor | None = None
    ancestor_bias: Tensor | None = None
    archive: TensorDict | None = None
    growing: bool | None = None
    num_beams: int | Tensor = 1

    @property
    def first_position(self) -> int | Tensor:
        """Position of the first new token."""
        return self.slot if self.start_index is None else self.start_index

    def positions(self, cache: TensorDict, num_new: int | Tensor) -> tuple[Tensor, Tensor]:
        """Returns query positions `(1 or batch, new)` and key positions `(1 or batch, slots)`.

        Args:
            cache: The cache after the new tokens were added.
            num_new: Int or scalar int32 tensor, number of new tokens.
        """
        key_positions = self.key_positions
        if key_positions is None:
            key_positions = position_range(kv_cache.num_slots(cache, archive=self.archive))
        return position_range(num_new, self.first_position), key_positions

    def mask(
        self, query_positions: Tensor, key_positions: Tensor, sliding_window: int | None = None
    ) -> Tensor | None:
        """Returns the attention mask, boolean `(1 or batch, new, slots)`, or `None` for no mask."""
        is_used = None
        if self.ancestor_bias is None and self.key_positions is not None:
            is_used = ops.expand_dims(key_positions >= 0, 1)  # (1 or B, 1, S)
        causal = not self._ends_with_query(query_positions)
        return both(position_mask(query_positions, key_positions, causal, sliding_window), is_used)

    def _ends_with_query(self, query_positions):
        """Returns whether no slot comes after the query. A causal mask is not needed then."""
        if self.ancestor_bias is not None:
            return True
        is_single = query_positions.shape[1] == 1 and self.key_positions is None
        return is_single and growing_buffer.grows_each_step(self.growing)
