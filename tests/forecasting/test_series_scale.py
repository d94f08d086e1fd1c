import keras
import numpy as np
import pytest

from keras_attn.forecasting._series_scale import checked_scaling, series_scale
from tests.contracts import tensor

NAN = np.nan
SERIES = {
    "complete": [1.0, 2.0, -6.0],
    "missing": [NAN, 4.0, 8.0],
    "constant": [5.0, 5.0, 5.0],
    "zeros": [0.0, 0.0, NAN],
    "all missing": [NAN, NAN, NAN],
    "large and constant": [1e6, 1e6, 1e6],
    "huge": [1e37, -2e38, 2e38],
    "tiny": [1e-30, 2e-30, NAN],
}
EXPECTED = {
    "std": {
        "complete": (-1.0, np.std([1.0, 2.0, -6.0])),
        "missing": (6.0, 2.0),
        "constant": (5.0, 5.0),
        "zeros": (0.0, 1.0),
        "all missing": (0.0, 1.0),
        "large and constant": (1e6, 1e6),
        "huge": (1e37 / 3, np.std([1e37, -2e38, 2e38])),
        "tiny": (1.5e-30, 0.5e-30),
    },
    "mean_abs": {
        "complete": (0.0, 3.0),
        "missing": (0.0, 6.0),
        "constant": (0.0, 5.0),
        "zeros": (0.0, 1.0),
        "all missing": (0.0, 1.0),
        "large and constant": (0.0, 1e6),
        "huge": (0.0, 4.1e38 / 3),
        "tiny": (0.0, 1.5e-30),
    },
    "none": dict.fromkeys(SERIES, (0.0, 1.0)),
    ((3.0,), (2.0,)): dict.fromkeys(SERIES, (3.0, 2.0)),
}


@pytest.mark.parametrize("scaling", EXPECTED, ids=str)
def test_series_scale_reads_observed_values_and_is_never_zero(scaling):
    values = np.array(list(SERIES.values()), "float32")[..., None]
    observed = ~np.isnan(values)
    known = np.where(observed, values, 0)
    found = series_scale(tensor(known), tensor(observed, "float32"), scaling)
    expected = np.array([EXPECTED[scaling][name] for name in SERIES]).T[..., None]
    for each, number in zip(found, expected, strict=True):
        np.testing.assert_allclose(keras.ops.convert_to_numpy(each), number, rtol=2e-5)


@pytest.mark.parametrize("scaling", ["max", None, 3, ((1.0,), (0.0,)), ((1.0,), (1.0, 2.0))])
def test_wrong_scaling_raises_an_error(scaling):
    with pytest.raises(ValueError, match="scaling to be one of"):
        checked_scaling(scaling, num_targets=1)
