from collections.abc import Sequence

import keras
import numpy as np

from keras_attn.export._formats.file_metadata import describe_series
from keras_attn.export._types import Arrays, Dimensions
from keras_attn.forecasting._autoregressive_forecaster import AutoregressiveForecaster
from keras_attn.forecasting._path_sampler import PathSampler
from keras_attn_checks.calendar_columns import check_calendar_columns
from keras_attn_checks.export_options import ForecasterOnnxOptions


class ForecasterMetadata:
    """The metadata of an exported forecaster: the names of its columns and its inputs.

    Args:
        model: Functional model with a `PathSampler`.
        options: `ForecasterOnnxOptions`.

    Attributes:
        parity_inputs: Dict of arrays, the inputs for the comparison with Keras.

    Raises:
        ValueError: If `model` has no `PathSampler`, or the number of names is wrong.
    """

    def __init__(self, model: keras.Model, options: ForecasterOnnxOptions) -> None:
        layers = getattr(model, "layers", [])
        samplers = [layer for layer in layers if isinstance(layer, PathSampler)]
        if len(samplers) != 1 or not isinstance(model.input, dict):
            raise ValueError(
                "Expected a functional model with one PathSampler, and a dict of inputs. Received: "
                f"model={model}. Create it with keras_attn.forecasting.forecast_model(sampler)."
            )
        (self._sampler,) = samplers
        self._inputs = model.input
        forecaster = self._sampler.forecaster
        given = {
            "targets": (options.target_names, forecaster.num_targets),
            "past_covariates": (options.past_covariate_names, forecaster.num_past_covariates),
            "future_covariates": (
                options.future_covariate_names,
                forecaster.num_future_covariates,
            ),
        }
        names = {kind: _names(kind, *each) for kind, each in given.items()}
        both = {*names["targets"]} & {*names["past_covariates"], *names["future_covariates"]}
        if both:
            raise ValueError(
                "Expected names of covariates that are not names of targets. Received: "
                f"{sorted(both)} in both lists. Rename these covariates."
            )
        calendar = [*(options.calendar_columns or ())]
        check_calendar_columns(calendar, [*names["past_covariates"], *names["future_covariates"]])
        self._names = {
            **names,
            "calendar_columns": calendar,
            "time_column": options.time_column,
            "series_column": options.series_column,
        }
        sample = options.parity_inputs
        self.parity_inputs = self._random_inputs() if sample is None else sample

    def describe(self, dimensions: Dimensions) -> dict[str, str]:
        """Returns the metadata of the exported file.

        Args:
            dimensions: Dict from the name of each input and output to its axes.
        """
        inputs = [each for name, each in self._inputs.items() if name != "seeds"]
        return describe_series(self._sampler, self._names, inputs, dimensions)

    def _random_inputs(self) -> Arrays:
        """Returns three random series in the units of the model's scalings.

        One series has missing values.
        """
        generator = np.random.default_rng(0)
        forecaster = self._sampler.forecaster
        window = self._inputs["past_targets"].shape[1]
        window = window or max([*forecaster.lags, 2 * forecaster.horizon])
        arrays = {}
        for name, value in self._inputs.items():
            shape = (3, *(window if size is None else size for size in value.shape[1:]))
            shift, scale = _fixed_scaling(forecaster, name)
            values = shift + scale * generator.normal(size=shape)
            arrays[name] = values.astype("float32")
        arrays["seeds"] = np.array([1, 2, 3], "int32")
        arrays["past_targets"][1, ::3] = np.nan
        return arrays


def _fixed_scaling(
    forecaster: AutoregressiveForecaster, name: str
) -> tuple[float | np.ndarray, float | np.ndarray]:
    """Returns shift and scale of an input of the model; 0 and 1 if the model has no fixed ones."""
    scaling = {
        "past_targets": forecaster.scaling,
        "past_covariates": forecaster.past_covariate_scaling,
        "future_covariates": forecaster.future_covariate_scaling,
    }.get(name)
    if scaling is None or isinstance(scaling, str):
        return 0.0, 1.0
    return np.array(scaling[0]), np.array(scaling[1])


def _names(kind: str, names: Sequence[str] | None, number: int) -> list[str]:
    """Returns the given names as a list, or default names."""
    singular = kind.removesuffix("s")
    names = [f"{singular}_{index}" for index in range(number)] if names is None else [*names]
    if len(names) != number or len(set(names)) != number or not all(names):
        raise ValueError(
            f"Expected {number} different names of {kind}, one for each column of the model. "
            f"Received: {singular}_names={names}."
        )
    return names
