import pytest

from keras_attn.text import Language


def test_entries_are_the_lists_that_are_not_empty():
    language = Language(source_end=(5, 6), target_start=[7])
    assert language.entries() == {"source_end": [5, 6], "target_start": [7]}
    assert Language(**language.entries()).entries() == language.entries()


@pytest.mark.parametrize("ids", [5, [-1], ["a"], [1.5]], ids=str)
def test_wrong_ids_are_refused(ids):
    with pytest.raises(ValueError, match="source_start to be a list of ids.*Received"):
        Language(source_start=ids)
