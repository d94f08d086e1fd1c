import numpy as np

from keras_attn.export._trace.nonempty_steps import NonemptySteps
from keras_attn.export._trace.stepped_search import NEXT, SteppedSearch
from keras_attn.export._types import Arrays, Run


def stepped_runner(steps: SteppedSearch | NonemptySteps, start: Run, step: Run, finish: Run) -> Run:
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

    def run(**inputs: np.ndarray) -> Arrays:
        names = [spec.name for spec in steps.start_signature]
        values = {**inputs, **start(**{name: inputs[name] for name in names})}
        while not values["done"].all():
            following = step(**{spec.name: values[spec.name] for spec in steps.step_signature})
            values |= {name.removeprefix(NEXT): value for name, value in following.items()}
        return finish(**{spec.name: values[spec.name] for spec in steps.finish_signature})

    return run
