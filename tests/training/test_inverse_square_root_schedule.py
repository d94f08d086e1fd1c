import keras
import numpy as np
import pytest

from keras_attn.training import InverseSquareRootSchedule


def test_rises_to_the_peak_and_falls_with_the_inverse_square_root():
    schedule = InverseSquareRootSchedule(0.5, warmup_steps=4)
    rates = [float(schedule(step)) for step in range(36)]
    np.testing.assert_allclose(rates[:4], [0.125, 0.25, 0.375, 0.5])
    np.testing.assert_allclose([rates[15], rates[35]], [0.25, 0.5 / 3], rtol=1e-6)


def test_noam_is_the_formula_of_the_paper():
    schedule = InverseSquareRootSchedule.noam(model_dim=512, warmup_steps=4000, scale=2.0)
    for step in (0, 10, 3999, 4000, 100_000):
        s = step + 1
        expected = 2.0 * 512**-0.5 * min(s**-0.5, s * 4000**-1.5)
        assert float(schedule(step)) == pytest.approx(expected, rel=1e-5)


def test_decays_to_zero_at_the_end():
    plain = InverseSquareRootSchedule(1.0, 10)
    decayed = InverseSquareRootSchedule(1.0, 10, total_steps=100, decay_steps=20)
    for step in (0, 50, 80):
        assert float(decayed(step)) == float(plain(step))
    assert float(decayed(90)) == pytest.approx(0.5 * float(plain(90)))
    assert 0 < float(decayed(99)) < float(plain(99)) / 10
    assert float(decayed(100)) == float(decayed(500)) == 0.0


def test_travels_in_the_optimizer():
    schedule = InverseSquareRootSchedule(0.1, 5, total_steps=50, decay_steps=10)
    optimizer = keras.optimizers.Adam(schedule)
    copy = keras.optimizers.Adam.from_config(optimizer.get_config())
    assert copy._learning_rate.get_config() == schedule.get_config()


@pytest.mark.parametrize(
    "arguments",
    [
        dict(peak_learning_rate=0, warmup_steps=5),
        dict(peak_learning_rate=0.1, warmup_steps=0),
        dict(peak_learning_rate=0.1, warmup_steps=5, total_steps=10),
        dict(peak_learning_rate=0.1, warmup_steps=5, decay_steps=10),
        dict(peak_learning_rate=0.1, warmup_steps=5, total_steps=10, decay_steps=11),
        dict(peak_learning_rate=0.1, warmup_steps=5, total_steps=10, decay_steps=0),
    ],
)
def test_arguments_out_of_range(arguments):
    with pytest.raises(ValueError, match="Received: "):
        InverseSquareRootSchedule(**arguments)
