"""The options of the searches, from which signatures, docstrings and configurations are made."""

import dataclasses
import inspect
import json
import re
from typing import Any, get_type_hints

import keras
import pytest

import keras_attn
from keras_attn import BeamDecoder, GreedyDecoder
from keras_attn._layer.fill_docstring import fill_docstring
from keras_attn_checks import search_options
from keras_attn_checks.options import (
    POSITIVE_INTEGER,
    LayerArguments,
    argument_type,
    checked_options,
    list_options,
    option,
)
from keras_attn_checks.search_options import OPTIONS, BeamOptions
from tests.search.table_decoder import TableDecoder


@pytest.mark.parametrize(
    "name", ["SearchOptions", "BeamOptions", "SamplingOptions", "AlternativesOptions"]
)
def test_typed_dict_has_the_names_and_types_of_the_options(name):
    options = getattr(search_options, name)
    arguments = getattr(search_options, name.replace("Options", "Arguments"))
    expected = {each.name: argument_type(each) for each in dataclasses.fields(options)}
    assert get_type_hints(arguments) == get_type_hints(LayerArguments) | expected


@pytest.mark.parametrize("name", OPTIONS)
def test_signature_docstring_and_config_have_each_option(name):
    search_class = getattr(keras_attn, name)
    config = search_class(TableDecoder()).get_config()
    parameters = inspect.signature(search_class).parameters
    for each in dataclasses.fields(OPTIONS[name]):
        default = parameters[each.name].default
        assert default == each.default
        assert parameters[each.name].annotation == argument_type(each)
        if argument_type(each) == each.type:
            assert config[each.name] == default
        title = re.escape(each.metadata["kind"].title)
        shown = json.dumps(default) if isinstance(default, str) else repr(default)
        entry = rf"    {each.name}: {title}[,.] [^:]*?Defaults\s+to\s+`{re.escape(shown)}`"
        assert re.search(entry, inspect.getdoc(search_class).replace("://", "//"))


@keras.saving.register_keras_serializable(package="tests")
class ShiftedBeamDecoder(BeamDecoder):
    """A search of a user."""

    def __init__(self, decoder, shift=0, **kwargs):
        super().__init__(decoder, **kwargs)
        self.shift = shift

    def get_config(self):
        return {**super().get_config(), "shift": self.shift}


def test_subclass_with_kwargs_keeps_all_options():
    search = ShiftedBeamDecoder(TableDecoder(), shift=3, beam_width=2, dtype="float32", name="own")
    config = keras.saving.serialize_keras_object(search)
    copy = keras.saving.deserialize_keras_object(config)
    assert (copy.shift, copy.beam_width, copy.max_length, copy.name) == (3, 2, 256, "own")
    assert list(inspect.signature(ShiftedBeamDecoder).parameters) == ["decoder", "shift", "kwargs"]
    with pytest.raises(ValueError, match="shift, beam_width, .*max_length, .*Received: beams=2"):
        ShiftedBeamDecoder(TableDecoder(), beams=2)


def test_subclass_declares_an_option():
    @dataclasses.dataclass(init=False, repr=False, eq=False)
    class WideOptions(BeamOptions):
        width_factor: int = option(2, POSITIVE_INTEGER, "factor of the width.")

    @fill_docstring(BeamDecoder)
    class WideDecoder(BeamDecoder, WideOptions):
        """Beam search with more beams.

        Args:
            decoder: `StepDecoder`.
            {{options}}
            {{arguments}}
        """

        @list_options(WideOptions)
        def __init__(self, decoder, **options: Any):
            super().__init__(decoder, **options)

    search = WideDecoder(TableDecoder(), width_factor=3)
    assert search.get_config()["width_factor"] == 3
    assert list(inspect.signature(WideDecoder).parameters)[1:3] == ["width_factor", "beam_width"]
    lines = inspect.getdoc(WideDecoder).splitlines()
    assert "    width_factor: Positive int, factor of the width. Defaults to `2`." in lines
    with pytest.raises(ValueError, match="to be a positive integer. Received: width_factor=0"):
        WideDecoder(TableDecoder(), width_factor=0)


def test_values_become_python_objects():
    found = checked_options(BeamOptions, {"max_length": 8.0, "patience": 2, "score_prefix": 1})
    assert json.dumps([found[name] for name in ("max_length", "patience", "score_prefix")]) == (
        "[8, 2.0, true]"
    )
    with pytest.raises(ValueError, match="suppressed_token_ids to be a list of ids.* Use .. for"):
        checked_options(BeamOptions, {"suppressed_token_ids": "34"})
    with pytest.raises(ValueError, match="suppressed_token_ids to be a list of ids"):
        checked_options(BeamOptions, {"suppressed_token_ids": [-1]})


def test_search_without_beams_has_one_hypothesis():
    search = GreedyDecoder(TableDecoder())
    assert (search.beam_width, search.num_hypotheses) == (1, 1)
    assert "beam_width" not in search.get_config()
