import math

import numpy as np

from keras_attn.forecasting.log_gamma_ratio import log_gamma_ratio
from tests.contracts import numpy, tensor


def test_log_gamma_ratio_equals_the_difference_of_log_gammas():
    values = np.array([1.0, 1.3, 2.0, 7.5, 100.0, 1e4], "float32")
    expected = [math.lgamma(x + 0.5) - math.lgamma(x) for x in map(float, values)]
    np.testing.assert_allclose(
        numpy(log_gamma_ratio(tensor(values))), expected, rtol=1e-6, atol=2e-7
    )
