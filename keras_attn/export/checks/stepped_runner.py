from collections.abc import Callable
from typing import Any

from keras_attn.export.trace.stepped_search import NEXT


def stepped_runner(steps: Any, start: Any, step: Any, finish: Any) -> Callable[..., dict[str, Any]]:
    """Returns a function that runs a search with its three exported parts.

    Args:
        steps: `SteppedSearch` or `NonemptySteps` that was exported.
        start: Function that runs the exported `steps.start`. It takes arrays as keyword arguments
            and returns a dict of arrays.
        step: Function that runs the exported `steps.step`.
        finish: Function that runs the exported `steps.finish`.

    Returns:
        Function that takes the inputs of the search as keyword arguments and returns a dict of
        arrays.
    """

    def run(length_penalty, **inputs):
        values = start(**inputs)
        values["length_penalty"] = length_penalty
        while not values["done"].all():
            following = step(**{spec.name: values[spec.name] for spec in steps.step_signature})
            values |= {name.removeprefix(NEXT): value for name, value in following.items()}
        return finish(**{spec.name: values[spec.name] for spec in steps.finish_signature})

    return run
