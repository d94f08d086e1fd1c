import functools
from typing import Any, Self


class PickledArguments:
    """Base class for objects that are pickled as their constructor arguments.

    These objects contain sessions and threads, which cannot be pickled. Unpickling calls the
    constructor, which opens the files again. They must exist under the same paths. `copy.copy`
    and `copy.deepcopy` also call the constructor.
    """

    _arguments: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *arguments: Any, **named_arguments: Any) -> Self:
        created = super().__new__(cls)
        created._arguments = arguments, named_arguments
        return created

    def __reduce__(self) -> tuple[functools.partial[Self], tuple[()]]:
        arguments, named_arguments = self._arguments
        return functools.partial(type(self), *arguments, **named_arguments), ()
