from collections.abc import Sequence
from os import PathLike

import keras

from keras_attn.export._types import SampleInputs
from keras_attn.export.formats.export_functional_onnx import write_functional_onnx
from keras_attn.export.formats.forecaster_metadata import ForecasterMetadata


def export_forecaster_onnx(
    model: keras.Model,
    path: str | PathLike[str],
    target_names: Sequence[str] | None = None,
    past_covariate_names: Sequence[str] | None = None,
    future_covariate_names: Sequence[str] | None = None,
    time_column: str | None = None,
    sample_inputs: SampleInputs | None = None,
    tolerance: float = 1e-4,
) -> float:
    """Exports a model that forecasts to one ONNX file, for `keras_attn_runtime.Forecaster`.

    The file contains the scaling of the series, the loop over the time steps and the sampling. The
    export converts and checks the file like `export_functional_onnx`. With equal `seeds`, the file
    and Keras sample equal paths, up to rounding errors. The metadata contain the names of the
    columns, so that the command `keras-attn-runtime forecast` can read CSV files.

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
        time_column: String, name of the column with the times in CSV files. The command reads this
            column by default. Defaults to `None`.
        sample_inputs: Dict of arrays as for `model.predict`, for the comparison with Keras.
            Defaults to random series with missing values.
        tolerance: Float, maximum difference; relative where the absolute value is above 1. Defaults
            to `1e-4`.

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
    metadata = ForecasterMetadata(
        model, target_names, past_covariate_names, future_covariate_names, time_column
    )
    if sample_inputs is None:
        sample_inputs = metadata.random_inputs()
    return write_functional_onnx(model, path, sample_inputs, tolerance, describe=metadata.describe)
