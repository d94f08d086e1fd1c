import numpy as np
import pytest
from scipy.stats import t

from keras_attn.forecasting.student_t_quantile import student_t_quantile
from tests.contracts import numpy, tensor

DEGREES = np.array([2.0, 2.3, 3.0, 4.9, 8.0, 30.0, 1000.0], "float32")


@pytest.mark.parametrize("level", [0.001, 0.05, 0.3, 0.5, 0.9, 0.975, 0.999])
def test_student_t_quantile_equals_scipy(level):
    found = numpy(student_t_quantile(level, tensor(DEGREES)))
    np.testing.assert_allclose(found, t.ppf(level, DEGREES), rtol=2e-3, atol=2e-3)
