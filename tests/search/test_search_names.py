"""Names that other libraries have for arguments of a search."""

import pytest

import keras_attn
from keras_attn import BeamDecoder, GreedyDecoder
from keras_attn._models.with_search import _arguments
from keras_attn.convert._generation_settings import GENERATION
from keras_attn_checks.search_names import OTHER_NAMES, SEARCH_ARGUMENTS
from tests.search.table_decoder import TableDecoder


@pytest.mark.parametrize("name", SEARCH_ARGUMENTS)
def test_arguments_are_those_of_the_class(name):
    assert SEARCH_ARGUMENTS[name] == _arguments(getattr(keras_attn, name))


def test_each_setting_of_generate_that_changes_results_has_a_counterpart():
    own = frozenset().union(*SEARCH_ARGUMENTS.values())
    mapped = {name for name, each in GENERATION.items() if each.treatment == "mapped"}
    assert mapped <= own | OTHER_NAMES.keys()
    assert not own & OTHER_NAMES.keys()
    for hint in filter(None, OTHER_NAMES.values()):
        assert any(name in hint for name in own) or "SamplingDecoder" in hint


def test_a_search_names_its_own_argument():
    with pytest.raises(ValueError, match="num_beams=4. Instead of num_beams, use beam_width."):
        BeamDecoder(TableDecoder(), num_beams=4)
    with pytest.raises(ValueError, match="Instead of top_logprobs, use return_top_tokens."):
        GreedyDecoder(TableDecoder(), top_logprobs=5)
    with pytest.raises(ValueError, match="No search has a setting such as typical_p."):
        GreedyDecoder(TableDecoder(), typical_p=0.5)
