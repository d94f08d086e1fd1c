"""Types of arguments and results.

`Tensor` is a protocol, because the backends have no common base class: `keras.KerasTensor`,
`keras.Variable`, `tf.Tensor`, `jax.Array`, `torch.Tensor` and `np.ndarray` all match it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, overload

import numpy as np


class Shape(Protocol):
    """Shape of a tensor: a tuple, or a `tf.TensorShape`.

    A size is an `int`, `None` if it is unknown in a symbolic tensor, or a scalar tensor. The union
    contains `Any` instead of `None`, so that code needs no check for `None` where sizes are always
    known.
    """

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[int | Any]: ...

    @overload
    def __getitem__(self, key: int, /) -> int | Any: ...

    @overload
    def __getitem__(self, key: slice, /) -> "Shape": ...


class Tensor(Protocol):
    """Tensor of any backend, or symbolic tensor.

    The operators are untyped, because operands and results have different classes in each backend.
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


class TokenizerLike(Protocol):
    """Tokenizer methods that a model uses, see `keras_attn.text.Tokenizer`."""

    @property
    def vocabulary_size(self) -> int: ...

    @property
    def end_token_id(self) -> int: ...

    def encode(self, texts: Sequence[str], /) -> list[list[int]]: ...

    def decode(self, ids: Sequence[Sequence[int]], /) -> list[str]: ...


Verbosity: TypeAlias = int | Literal["auto"]
"""Argument `verbose` of Keras: 0 for no progress bar."""

TensorLike: TypeAlias = Tensor | np.ndarray | Sequence[Any] | float
"""Tensor, or a value that `keras.ops.convert_to_tensor` accepts: array, nested list, number."""

Mask: TypeAlias = Tensor | np.ndarray
"""Boolean tensor or array. `True` marks unmasked positions."""

Masks: TypeAlias = Mask | Mapping[str, Mask | None]
"""Mask, or a dict from sequence names to masks."""

TensorDict: TypeAlias = dict[str, Any]
"""Nested dict of tensors: the memory or the state of a decoder."""

StaticShape: TypeAlias = tuple[int | Any, ...]
"""Shape that Keras passes to `build`. Unknown sizes are `None`, see `Shape`."""

InitializerLike: TypeAlias = str | dict[str, Any] | Callable[..., Any]
"""Argument of `keras.initializers.get`: name, configuration, initializer or function."""

ActivationLike: TypeAlias = str | dict[str, Any] | Callable[..., Any] | None
"""Argument of `keras.activations.get`: name, configuration, layer, function or `None`."""

PositionBias: TypeAlias = Tensor | Callable[[Tensor, Tensor], Any]
"""Bias of attention scores: a tensor, or a layer or function of query and key positions."""
