"""Cases of a test that only `make test-slow` runs, because others cover nearly as much."""

import keras
import pytest


def all_slow_but(*fast, cases, on_jax=None):
    """Cases for `pytest.mark.parametrize`.

    Args:
        *fast: the cases that every run has.
        cases: iterable of all cases.
        on_jax: list, the fast cases on JAX, which compiles each operation of a new shape. Defaults
            to `fast`.
    """
    cases = list(cases)
    if keras.backend.backend() == "jax" and on_jax is not None:
        fast = on_jax
    missing = [each for each in fast if each not in cases]
    assert not missing, f"Expected fast cases among {cases}. Received: {missing}."
    return [each if each in fast else _slow(each) for each in cases]


def slow_on_jax(test):
    """Marks a test as slow on JAX only, where compiling takes most of its time.

    Use it for code that has no branches for backends and is tested on TensorFlow.
    """
    return pytest.mark.slow(test) if keras.backend.backend() == "jax" else test


def _slow(case):
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.slow)
