import numpy as np
import pytest

from keras_attn.export import ExportError
from keras_attn.export._checks.precision_report import PrecisionReport


def compare(outputs, other, **options):
    (report,) = PrecisionReport.compare("int8", lambda: outputs, [lambda: other], [{}], **options)
    return report


@pytest.mark.parametrize(("token_ids", "equal"), [([5, 6, 2, 2, 2], 1.0), ([5, 7, 2, 2], 0.0)])
def test_hypotheses_are_compared_without_their_padding(token_ids, equal):
    outputs = {
        "token_ids": np.array([[[5, 6, 2, 2]]]),  # padded with the end token
        "lengths": np.array([[2]]),
        "log_probs": np.array([[-3.0]]),
    }
    assert compare(outputs, {**outputs, "token_ids": np.array([[token_ids]])}).best_equal == equal


def test_what_is_drawn_is_compared_where_it_is_the_same():
    """After a different token all later tokens differ too, regardless of the precision."""
    outputs = {
        "token_ids": np.array([[[5, 6]], [[5, 7]]]),
        "lengths": np.array([[2], [2]]),
        "log_probs": np.array([[-3.0], [-4.0]]),
    }
    other = {
        **outputs,
        "token_ids": np.array([[[5, 6]], [[8, 8]]]),
        "log_probs": np.array([[-3.1], [-9.0]]),
    }
    report = compare(outputs, other, is_stochastic=True)
    assert report.best_equal == 0.5 and report.mean_difference == pytest.approx(0.05)
    report.check()
    nothing = {**other, "token_ids": np.full((2, 1, 2), 8)}
    with pytest.raises(ExportError, match="int8 changes the outputs of the model too much"):
        compare(outputs, nothing, is_stochastic=True).check()


def test_the_tolerance_of_a_precision_is_that_of_a_token():
    outputs = {
        "token_ids": np.full((1, 1, 20), 5),
        "lengths": np.array([[20]]),
        "log_probs": np.array([[-30.0]]),
        "scores": np.array([[-30.0]]),  # as with a length penalty of 0
    }
    other = {**outputs, "log_probs": np.array([[-31.0]]), "scores": np.array([[-31.0]])}
    report = compare(outputs, other)
    assert report.mean_difference == pytest.approx(1 / 20)
    report.check()
