import inspect
from dataclasses import fields

import pytest
from keras_attn_runtime import Translator
from keras_attn_runtime.options import CallOptions, Options

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
    with pytest.raises(TypeError, match="'num_hypotheses'.*Received: beam_width"):
        Options.of({"beam_width": 4})
