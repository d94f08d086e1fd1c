from typing import get_args

import numpy as np
import pytest

from keras_attn._search import length_penalty
from keras_attn.testing import _search_oracles as search_oracles
from keras_attn_checks.search_options import LengthPenaltyForm
from tests.contracts import assert_close, numpy, tensor


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.0, 2.0, -0.5])
@pytest.mark.parametrize("form", get_args(LengthPenaltyForm))
def test_divisor_equals_its_formula(form, exponent):
    lengths = np.array([[0, 1, 2], [5, 10, 200]], "int32")
    for has_end in (np.array([[True, True, False], [False, True, False]]), True, False):
        received = numpy(length_penalty.divisor(lengths + has_end, has_end, exponent, form))
        assert received.dtype == "float32"
        expected = [
            search_oracles.length_divisor(length, exponent, form, ended)
            for length, ended in zip(
                lengths.ravel().tolist(), np.broadcast_to(has_end, (2, 3)).ravel(), strict=True
            )
        ]
        assert_close(received, np.reshape(expected, (2, 3)), 1e-6)


@pytest.mark.parametrize("exponent", [0.0, 0.6, 2.0, -0.5])
@pytest.mark.parametrize("form", get_args(LengthPenaltyForm))
def test_best_attainable_is_reached_and_not_exceeded(form, exponent):
    log_probs, max_lengths = np.array([-1.0, -3.0, 0.0], "float32"), np.array([4, 9, 6], "int32")
    attained = length_penalty.best_attainable(
        tensor(log_probs), 3, tensor(max_lengths), exponent, form
    )
    for best, log_prob, limit in zip(numpy(attained), log_probs, max_lengths, strict=True):
        attainable = [
            log_prob / search_oracles.length_divisor(length, exponent, form, length < limit)
            for length in range(3, limit + 1)
        ]
        assert_close(best, max(attainable), 1e-6)
