import inspect
from dataclasses import fields
from fractions import Fraction

import numpy as np
import pytest
from keras_attn_runtime import Translator
from keras_attn_runtime._calls.options import CallOptions, Options

METHODS = (
    "__call__",
    "translate",
    "translate_iterable",
    "translate_ids",
    "generate",
    "score",
    "score_iterable",
)


@pytest.mark.parametrize("method", METHODS)
def test_translator_methods_list_all_options_as_keywords(method):
    parameters = inspect.signature(getattr(Translator, method)).parameters
    for option in fields(Options):
        assert parameters[option.name].kind is inspect.Parameter.KEYWORD_ONLY
        assert parameters[option.name].default == option.default
    assert not any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def test_call_options_have_the_names_of_options():
    assert set(CallOptions.__annotations__) == {option.name for option in fields(Options)}


def test_options_with_unknown_name_list_the_valid_ones():
    with pytest.raises(TypeError, match="'num_hypotheses'.*Received: num_beams"):
        Options.of({"num_beams": 4})


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int8, np.uint64, Fraction])
def test_numbers_of_numpy_become_numbers_of_python(kind):
    options = Options(length_penalty=kind(1), timeout=kind(60))
    assert (options.length_penalty, options.timeout) == (1, 60)
    assert type(options.length_penalty) is type(options.timeout) is float


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint64])
def test_integers_of_numpy_become_integers_of_python(kind):
    names = ("max_length", "num_hypotheses", "batch_size", "window", "seed")
    options = Options(**{name: kind(100) for name in names})
    assert all(type(getattr(options, name)) is int for name in names)
    assert options.window_size == 100 and Options(batch_size=kind(100)).window_size == 1600


def test_bool_of_numpy_becomes_a_bool_of_python():
    assert Options(alignments=np.bool_(False)).alignments is False


@pytest.mark.parametrize(
    "option",
    [
        *(
            {"timeout": each}
            for each in (True, np.bool_(True), "5", 5 + 0j, np.nan, np.float32(-1))
        ),
        *({"timeout": each} for each in (np.array([5.0]), np.timedelta64(5, "s"), 2**31)),
        *({"seed": each} for each in (np.float32(5), 5.0, np.bool_(True), np.array(5), 2**31, -1)),
        *({"alignments": each} for each in (0, 1, np.int8(1), "yes", None)),
    ],
)
def test_options_of_wrong_types_raise_an_error(option):
    with pytest.raises(ValueError, match=f"Expected {next(iter(option))} to be"):
        Options(**option)


@pytest.mark.parametrize("name", ["max_length", "min_length"])
@pytest.mark.parametrize("value", [30, 1.5 * 20, np.float32(30), np.int64(30), Fraction(60, 2)])
def test_lengths_can_be_whole_floats(name, value):
    length = getattr(Options(**{name: value}), name)
    assert length == 30 and type(length) is int


@pytest.mark.parametrize("name", ["max_length", "min_length"])
@pytest.mark.parametrize("value", [2.5, np.nan, np.inf, -1.0, 2.0**31, True, "2", np.array(2.0)])
def test_other_lengths_are_errors(name, value):
    with pytest.raises(ValueError, match=rf"Expected {name} to be an integer in \[0, 2147483647\]"):
        Options(**{name: value})


@pytest.mark.parametrize("name", ["beam_width", "no_repeat_ngram_size", "top_k", "num_hypotheses"])
def test_counts_are_integers(name):
    with pytest.raises(ValueError, match=f"Expected {name} to be an integer"):
        Options(**{name: 2.0})
