from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np

from keras_attn.export.formats.export_functional_onnx import write_functional_onnx
from keras_attn.export.formats.file_format import describe_series
from keras_attn.forecasting.path_sampler import PathSampler


def export_forecaster_onnx(
    model: Any,
    path: str | PathLike[str],
    target_names: Sequence[str] | None = None,
    past_covariate_names: Sequence[str] | None = None,
    future_covariate_names: Sequence[str] | None = None,
    time_column: str | None = None,
    sample_inputs: Any = None,
    tolerance: float = 1e-4,
) -> Any:
    """Exports a model that forecasts to one ONNX file, for `keras_attn_runtime.Forecaster`.

    The file contains the scaling of the series, the loop over the time steps and the sampling. It
    is converted and checked in the same way as by `export_functional_onnx`; equal `seeds` result in
    equal paths, up to rounding errors. The metadata contain the names of the columns, so that the
    command `keras-attn-runtime forecast` can read CSV files.

    Args:
        model: Functional model with a `PathSampler`, see
            `keras_attn.forecasting.forecast_model`.
        path: Path of the file; an existing file is replaced.
        target_names: List of D strings, names of the targets. Defaults to `target_0`, ...
        past_covariate_names: List of strings, names of the past covariates. Defaults to
            `past_covariate_0`, ...
        future_covariate_names: List of strings, names of the future covariates. A covariate that is
            known in the past and in the future has the same name in both lists. Defaults to
            `future_covariate_0`, ...
        time_column: String, name of the column with the times in CSV files, the default of the
            command. Defaults to `None`.
        sample_inputs: Dict of arrays as for `model.predict`, for the comparison with Keras.
            Defaults to random series with missing values.
        tolerance: Float, maximum difference, relative for values above 1. Defaults to `1e-4`.

    Returns:
        Float, the largest difference.

    Raises:
        ExportError: If a check fails. No file is written, and an existing file is unchanged.
        ImportError: If tf2onnx, onnx or onnxruntime is not installed.
        ValueError: If `model` has no `PathSampler`, or the number of names is wrong.

    Example:

    ```python
    model = forecast_model(PathSampler(forecaster))
    export_forecaster_onnx(model, "forecaster.onnx", target_names=["temperature"])
    ```
    """
    layers = getattr(model, "layers", [])
    samplers = [layer for layer in layers if isinstance(layer, PathSampler)]
    if len(samplers) != 1 or not isinstance(model.input, dict):
        raise ValueError(
            "Expected a functional model with one PathSampler, and a dict of inputs. Received: "
            f"model={model}. Create it with keras_attn.forecasting.forecast_model(sampler)."
        )
    (sampler,) = samplers
    forecaster = sampler.forecaster
    given = {
        "targets": (target_names, forecaster.num_targets),
        "past_covariates": (past_covariate_names, forecaster.num_past_covariates),
        "future_covariates": (future_covariate_names, forecaster.num_future_covariates),
    }
    names = {kind: _names(kind, *each) for kind, each in given.items()}
    both = {*names["targets"]} & {*names["past_covariates"], *names["future_covariates"]}
    if both:
        raise ValueError(
            f"Expected names of covariates that are not names of targets. Received: {sorted(both)} "
            "in both. Rename them."
        )
    inputs = {name: each for name, each in model.input.items() if name != "seeds"}
    if sample_inputs is None:
        sample_inputs = _random_inputs(model.input, forecaster)
    return write_functional_onnx(
        model,
        path,
        sample_inputs,
        tolerance,
        describe=lambda dimensions: describe_series(
            sampler, {**names, "time_column": time_column}, inputs.values(), dimensions
        ),
    )


def _names(kind, names, number):
    """Returns the given names as a list, or default names."""
    singular = kind.removesuffix("s")
    names = [f"{singular}_{index}" for index in range(number)] if names is None else [*names]
    if len(names) != number or len(set(names)) != number or not all(names):
        raise ValueError(
            f"Expected {number} different names of {kind}, one for each column of the model. "
            f"Received: {singular}_names={names}."
        )
    return names


def _random_inputs(inputs, forecaster):
    """Returns three random series, one of which has missing values."""
    generator = np.random.default_rng(0)
    window = inputs["past_targets"].shape[1] or max([*forecaster.lags, 2 * forecaster.horizon])
    arrays = {}
    for name, value in inputs.items():
        shape = (3, *(window if size is None else size for size in value.shape[1:]))
        arrays[name] = generator.normal(size=shape).astype("float32")
    arrays["seeds"] = np.array([1, 2, 3], "int32")
    arrays["past_targets"][1, ::3] = np.nan
    return arrays
