import numpy as np

from keras_attn._random.uniform_numbers import uniform_numbers
from tests.contracts import assert_identical, numpy, tensor

BITS = 2**32 - 1


def mix(bits):
    """The finalizer of MurmurHash3, in whole numbers without an end."""
    bits = (bits ^ bits >> 16) * 0x85EBCA6B & BITS
    bits = (bits ^ bits >> 13) * 0xC2B2AE35 & BITS
    return bits ^ bits >> 16


def expected(bits, *place):
    for index in (0, *place):
        bits = mix(bits + (index + 1) * 0x9E3779B9 & BITS)
    return (bits >> 8) * 2.0**-24


def test_they_are_those_of_the_definition():
    seeds = np.array([0, 1, -1, 12345, 2**31 - 1, -(2**31)], "int32")
    numbers = numpy(uniform_numbers(tensor(seeds), 3, 2))
    assert numbers.shape == (6, 3, 2) and numbers.dtype == np.float32
    for place, number in np.ndenumerate(numbers):
        assert number == expected(int(seeds[place[0]]) & BITS, *place[1:]), place


def test_they_do_not_depend_on_how_many_there_are():
    few, many = (
        numpy(uniform_numbers(tensor(np.arange(2, dtype="int32")), size, 3)) for size in (2, 9)
    )
    assert_identical(few, many[:, :2])


def test_neighbours_are_independent():
    """Of seeds, and along each axis: all cells of a grid of pairs are met equally often."""
    numbers = numpy(uniform_numbers(tensor(np.arange(100, dtype="int32")), 60, 60))
    assert numbers.min() >= 0 and numbers.max() < 1
    for axis in range(3):
        rows = np.moveaxis(numbers, axis, 0)
        pairs = rows[:-1].ravel(), rows[1:].ravel()
        counts, _, _ = np.histogram2d(*pairs, bins=16, range=[[0, 1]] * 2)
        wanted = counts.sum() / 16**2
        distance = ((counts - wanted) ** 2 / wanted).sum()
        assert 170 < distance < 350  # the 1e-5 quantiles of 255 degrees of freedom, about
