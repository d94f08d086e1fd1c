import datetime

import numpy as np

from keras_attn.forecasting._series import Series


def generate_series(number: int = 200, length: int = 180, seed: int = 1) -> list[Series]:
    """Generates monthly series with a level, a trend, a season of 12 and correlated noise.

    The levels differ by factors of up to 1,000 between the series, so a model must scale them.

    Args:
        number: Positive int, number of series. Defaults to `200`.
        length: Positive int, number of months, from January 2010. Defaults to `180`.
        seed: Int. Equal seeds give equal series. Defaults to `1`.

    Returns:
        List of `Series` with one target.

    Example:

    >>> from keras_attn.forecasting import generate_series
    >>> series = generate_series(number=2, length=36)
    >>> len(series), series[0].targets.shape, str(series[0].times[-1])
    (2, (36, 1), '2012-12-01')
    """
    generator = np.random.default_rng(seed)
    time = np.arange(length)
    times = [datetime.date(2010 + month // 12, month % 12 + 1, 1) for month in time.tolist()]
    return [
        Series(
            times, _values(generator, time)[:, None], np.zeros((length, 0), "float32"), f"{name}"
        )
        for name in range(1, number + 1)
    ]


def _values(generator, time, season=12):
    level = 10 ** generator.uniform(0, 3)
    slope = generator.normal(0, 0.5) / len(time)
    pattern = np.zeros(len(time))
    for harmonic in (1, 2, 3):
        angle = 2 * np.pi * (harmonic * time / season + generator.uniform())
        pattern += generator.normal(0, 0.25 / harmonic) * np.sin(angle)
    noise, spread = np.zeros(len(time)), generator.uniform(0.02, 0.12)
    correlation = generator.uniform(0.0, 0.8)
    for step in range(1, len(time)):
        noise[step] = correlation * noise[step - 1] + spread * generator.normal()
    return (level * (2 + slope * time + pattern + noise)).astype("float32")
