"""Parametrizations of which only some cases are run by `make test`."""

import pytest


def all_slow_but(*fast, cases):
    """Returns cases for `pytest.mark.parametrize`, all marked `slow` except some.

    Args:
        *fast: Cases without the mark.
        cases: Iterable of all cases.
    """
    cases = list(cases)
    missing = [each for each in fast if each not in cases]
    assert not missing, f"Expected fast cases among {cases}. Received: {missing}."
    return [each if each in fast else _slow(each) for each in cases]


def _slow(case):
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.slow)
