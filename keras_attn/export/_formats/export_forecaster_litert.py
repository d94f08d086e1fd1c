from collections.abc import Sequence
from os import PathLike

import keras

from keras_attn.export._formats.export_functional_litert import write_functional_litert
from keras_attn.export._formats.forecaster_metadata import ForecasterMetadata
from keras_attn.export._report import ExportReport
from keras_attn.export._types import ParityInputs
from keras_attn_checks.export_options import ForecasterLiteRTOptions, FunctionalLiteRTOptions
from keras_attn_checks.options import list_options


@list_options(ForecasterLiteRTOptions)
def export_forecaster_litert(
    model: keras.Model,
    path: str | PathLike[str],
    target_names: Sequence[str] | None = None,
    past_covariate_names: Sequence[str] | None = None,
    future_covariate_names: Sequence[str] | None = None,
    time_column: str | None = None,
    parity_inputs: ParityInputs | None = None,
    tolerance: float = 1e-3,
    *,
    calendar_columns: Sequence[str] | None = None,
    series_column: str | None = None,
    batch_size: int = 1,
) -> ExportReport:
    """Exports a model that forecasts to one LiteRT file, for `keras_attn_runtime.Forecaster`.

    The file contains the scaling of the series, the loop over the time steps and the sampling. The
    export converts and checks the file like `export_functional_litert`. With equal `seeds`, the
    file and Keras sample equal paths, up to rounding errors. The metadata contain the names of the
    columns, so that the command `keras-attn-runtime forecast` can read CSV files.

    Args:
        model: Functional model with a `PathSampler`, see
            `keras_attn.forecasting.forecast_model`.
        path: Path of the file; an existing file is replaced.
        {{options}}

    Returns:
        An `ExportReport`, with the largest difference.

    Raises:
        ExportError: If LiteRT lacks an operator of the model, the weights have more than 2 GB, or
            the file disagrees with Keras. No file is written, and an existing file is unchanged.
        ImportError: If ai-edge-litert is not installed.
        ValueError: If `model` has no `PathSampler`, or the number of names is wrong.

    Example:

    ```python
    model = forecast_model(PathSampler(forecaster))
    export_forecaster_litert(model, "forecaster.tflite", target_names=["temperature"])
    ```
    """
    options = ForecasterLiteRTOptions(
        target_names=target_names,
        past_covariate_names=past_covariate_names,
        future_covariate_names=future_covariate_names,
        time_column=time_column,
        calendar_columns=calendar_columns,
        series_column=series_column,
        parity_inputs=parity_inputs,
        tolerance=tolerance,
        batch_size=batch_size,
    )
    metadata = ForecasterMetadata(model, options)
    functional = FunctionalLiteRTOptions(
        parity_inputs=metadata.parity_inputs,
        tolerance=options.tolerance,
        batch_size=options.batch_size,
    )
    return write_functional_litert(model, path, functional, metadata.describe)
