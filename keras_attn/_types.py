"""Types of arguments and results: tensors of any backend, values that convert to them, masks.

`Tensor` is a protocol, because the backends have no common base class: `keras.KerasTensor`,
`keras.Variable`, `tf.Tensor`, `jax.Array`, `torch.Tensor` and `np.ndarray` all match it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, overload

import numpy as np


class Shape(Protocol):
    """Shape of a tensor: a tuple, or a `tf.TensorShape`.

    A size is an `int`, `None` where a symbolic tensor does not know it, or a scalar tensor. `Any`
    in the union spares a check for `None` at each of the many sizes that are always known.
    """

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[int | Any]: ...

    @overload
    def __getitem__(self, key: int, /) -> int | Any: ...

    @overload
    def __getitem__(self, key: slice, /) -> "Shape": ...


class Tensor(Protocol):
    """Tensor of any backend, or a symbolic one.

    The operators are untyped, because each backend accepts its operands and returns its own class.
    """

    @property
    def shape(self) -> Shape: ...

    @property
    def dtype(self) -> Any: ...

    def __getitem__(self, key: Any, /) -> Any: ...

    def __neg__(self) -> Any: ...

    def __add__(self, other: Any, /) -> Any: ...

    def __radd__(self, other: Any, /) -> Any: ...

    def __sub__(self, other: Any, /) -> Any: ...

    def __rsub__(self, other: Any, /) -> Any: ...

    def __mul__(self, other: Any, /) -> Any: ...

    def __rmul__(self, other: Any, /) -> Any: ...

    def __truediv__(self, other: Any, /) -> Any: ...

    def __rtruediv__(self, other: Any, /) -> Any: ...

    def __floordiv__(self, other: Any, /) -> Any: ...

    def __pow__(self, other: Any, /) -> Any: ...

    def __matmul__(self, other: Any, /) -> Any: ...

    def __and__(self, other: Any, /) -> Any: ...

    def __or__(self, other: Any, /) -> Any: ...

    def __eq__(self, other: Any, /) -> Any: ...

    def __ne__(self, other: Any, /) -> Any: ...

    def __lt__(self, other: Any, /) -> Any: ...

    def __le__(self, other: Any, /) -> Any: ...

    def __gt__(self, other: Any, /) -> Any: ...

    def __ge__(self, other: Any, /) -> Any: ...


TensorLike: TypeAlias = Tensor | np.ndarray | Sequence[Any] | float
"""A tensor, or what `keras.ops.convert_to_tensor` makes one of: arrays, nested lists, numbers."""

Mask: TypeAlias = Tensor | np.ndarray
"""A boolean tensor or array, True where a position counts."""

Masks: TypeAlias = Mask | Mapping[str, Mask | None]
"""A mask, or the masks of several sequences by their names."""

TensorDict: TypeAlias = dict[str, Any]
"""A nested dict of tensors: the memory or the state of a decoder."""

StaticShape: TypeAlias = tuple[int | Any, ...]
"""A shape as Keras passes it to `build`: `None` for the sizes that are unknown, see `Shape`."""

InitializerLike: TypeAlias = str | dict[str, Any] | Callable[..., Any]
"""Argument of `keras.initializers.get`: a name, a configuration, an initializer, a function."""

ActivationLike: TypeAlias = str | dict[str, Any] | Callable[..., Any] | None
"""Argument of `keras.activations.get`: a name, a configuration, a layer, a function, or `None`."""

PositionBias: TypeAlias = Tensor | Callable[[Tensor, Tensor], Any]
"""A bias of attention scores: a layer or function of query and key positions, or its result."""
