"""Reference implementations of position encodings in NumPy, from the equations of the papers.

They compute one position, or one pair of positions, at a time, in float64 or with exact numbers.
"""

import cmath
import decimal
import math

import numpy as np


def sinusoidal_interleaved(position, features, max_wavelength=10000.0):
    """Vaswani et al. 2017, section 3.5: PE(pos, 2i) = sin, PE(pos, 2i+1) = cos."""
    encoding = np.zeros(features)
    for feature in range(features):
        angle = position / max_wavelength ** ((feature - feature % 2) / features)
        encoding[feature] = math.cos(angle) if feature % 2 else math.sin(angle)
    return encoding


def sinusoidal_halves(position, features, max_wavelength=10000.0):
    """tensor2tensor: wavelengths in geometric progression from 2 pi to 2 pi times the longest."""
    half = features // 2
    increment = math.log(max_wavelength) / (half - 1)
    angles = [position * math.exp(-i * increment) for i in range(half)]
    return np.array([math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles])


def sinusoidal_marian(position, features, max_wavelength=10000.0):
    """Marian NMT: the numbers of Vaswani et al. 2017, all sines before all cosines."""
    encoding = sinusoidal_interleaved(position, features, max_wavelength)
    return np.concatenate([encoding[0::2], encoding[1::2]])


SINUSOIDAL = {
    "interleaved": sinusoidal_interleaved,
    "halves": sinusoidal_halves,
    "marian": sinusoidal_marian,
}


def rotary(vector, position, layout="halves", max_wavelength=10000.0):
    """Su et al. 2021, section 3.2: each pair is a complex number, multiplied by exp(i m theta)."""
    size = len(vector)
    rotated = np.zeros(size)
    for i in range(size // 2):
        a, b = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + size // 2)
        theta = max_wavelength ** (-2 * i / size)
        number = complex(vector[a], vector[b]) * cmath.exp(1j * position * theta)
        rotated[a], rotated[b] = number.real, number.imag
    return rotated


def alibi_slopes(num_heads):
    """Press et al. 2022: a geometric sequence from 2^(-8/n) with that ratio, for n a power of two.

    Otherwise the sequence of the power below, and then every other one of the power above.
    """
    if num_heads & (num_heads - 1) == 0:
        ratio = 2.0 ** (-8.0 / num_heads)
        return [ratio ** (head + 1) for head in range(num_heads)]
    below = 1 << (num_heads.bit_length() - 1)
    return alibi_slopes(below) + alibi_slopes(2 * below)[0::2][: num_heads - below]


def alibi_bias(num_heads, query_positions, key_positions):
    """Biases (H, T, S) of one sequence."""
    return np.array(
        [
            [[-slope * abs(int(t) - int(s)) for s in key_positions] for t in query_positions]
            for slope in alibi_slopes(num_heads)
        ]
    )


def t5_bucket(distance, num_buckets=32, max_distance=128, bidirectional=True):
    """Bucket of `distance` = key position - query position, with logarithms to 60 digits."""
    first = 0
    if bidirectional:
        num_buckets //= 2
        first = num_buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    exact = num_buckets // 2
    if distance < exact:
        return first + distance
    with decimal.localcontext(prec=60):
        log_distance = (decimal.Decimal(distance) / exact).ln()
        log_range = (decimal.Decimal(max_distance) / exact).ln()
        steps = log_distance / log_range * (num_buckets - exact)
        # What is a whole number but for the sixtieth digit is that whole number.
        steps = math.floor(steps + decimal.Decimal("1e-40"))
    return first + min(exact + steps, num_buckets - 1)


def t5_bias(table, query_positions, key_positions, max_distance=128, bidirectional=True):
    """Biases (H, T, S) of one sequence; `table` is (num_buckets, H)."""
    buckets = [
        [t5_bucket(int(s) - int(t), len(table), max_distance, bidirectional) for s in key_positions]
        for t in query_positions
    ]
    return np.moveaxis(table[np.array(buckets)], -1, 0)
