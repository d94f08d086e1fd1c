"""Runs LiteRT models, for the comparison with Keras."""

from collections.abc import Sequence

import numpy as np

from keras_attn.export._export_error import ExportError
from keras_attn.export._trace.litert_conversion import SIGNATURE
from keras_attn.export._types import Arrays, Run


def litert_runner(model: bytes, signature: str = SIGNATURE) -> Run:
    """Returns a function that runs a signature of a LiteRT model.

    Args:
        model: Bytes of the model.
        signature: String, name of the signature.

    Returns:
        Function that takes arrays as keyword arguments and returns a dict of arrays. The arrays
        must have the batch size of the model. The function raises an `ExportError` if LiteRT fails.
    """
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(model_content=model, num_threads=1).get_signature_runner(signature)
    shapes: list[tuple[int, ...]] = []
    longest = 0  # size of the largest output since the inputs have their shapes

    def run(**inputs: np.ndarray) -> Arrays:
        nonlocal longest
        try:
            outputs = runner(**inputs)
            size = sum(map(np.size, outputs.values()))
            is_other = shapes != [np.shape(each) for each in inputs.values()]
            # With LiteRT 2.3 and XNNPACK, a run with other shapes or with more memory than before
            # can read memory that was never written. Hosts must repeat it, see docs/litert.md.
            is_repeated = signature == SIGNATURE and (is_other or size > longest)
            shapes[:] = [np.shape(each) for each in inputs.values()]
            longest = size if is_other else max(size, longest)
            return runner(**inputs) if is_repeated else outputs
        except (RuntimeError, ValueError) as error:
            raise ExportError(f"LiteRT cannot run the file: {error}") from error

    return run


def run_in_batches(
    run: Run,
    batch_size: int,
    inputs: Arrays,
    pad_token_id: int = 0,
) -> Arrays:
    """Runs a model of a fixed batch size on a batch of any size.

    The last batch is filled with copies of its first row. The results of the copies are dropped.

    Args:
        run: Function that takes and returns arrays by name, see `litert_runner`.
        batch_size: Int, batch size of the model.
        inputs: Dict of arrays of shape `(batch, ...)` or `()`. Scalars are passed to each call.
        pad_token_id: Int, value with which `token_ids` is padded to the longest result. Other
            results are padded with 0.

    Returns:
        Dict of arrays of shape `(batch, ...)`.
    """
    count = max(len(array) for array in inputs.values() if np.ndim(array))
    results = []
    for begin in range(0, count, batch_size):
        rows = np.arange(begin, begin + batch_size)
        rows = np.where(rows < count, rows, begin)
        outputs = run(
            **{name: array[rows] if np.ndim(array) else array for name, array in inputs.items()}
        )
        results.append({name: output[: count - begin] for name, output in outputs.items()})
    return {
        name: _concatenate(
            [result[name] for result in results], pad_token_id if name == "token_ids" else 0
        )
        for name in results[0]
    }


def _concatenate(arrays: Sequence[np.ndarray], value: int) -> np.ndarray:
    """Joins arrays on the first axis, padded at the end of the other axes."""
    shape = np.max([array.shape[1:] for array in arrays], axis=0, initial=0)
    padded = [
        np.pad(
            array,
            [(0, 0), *((0, new - old) for new, old in zip(shape, array.shape[1:], strict=True))],
            constant_values=value,
        )
        for array in arrays
    ]
    return np.concatenate(padded)
