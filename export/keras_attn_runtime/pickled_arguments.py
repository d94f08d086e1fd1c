import functools
from typing import Any, Self


class PickledArguments:
    """Makes the objects of a class pickle as the arguments that they were created with.

    For objects that hold sessions and threads, which cannot be pickled: each process that receives
    one opens the files again. The files must be there, under the same paths. `copy.copy` and
    `copy.deepcopy` also create a new object.
    """

    _arguments: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *arguments: Any, **named_arguments: Any) -> Self:
        created = super().__new__(cls)
        created._arguments = arguments, named_arguments
        return created

    def __reduce__(self) -> tuple[functools.partial[Self], tuple[()]]:
        arguments, named_arguments = self._arguments
        return functools.partial(type(self), *arguments, **named_arguments), ()
