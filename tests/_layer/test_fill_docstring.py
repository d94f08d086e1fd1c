import inspect

import pytest

from keras_attn import BahdanauAttention, BeamDecoder, GreedyDecoder, SamplingDecoder
from keras_attn._layer.fill_docstring import fill_docstring


class Base:
    """Base.

    Args:
        decoder: Decoder.
            Of any kind.
        size: Int,
            the size.

    Returns:
        Text.
    """


def test_fill_docstring_copies_sections_of_the_base_class():
    @fill_docstring(Base)
    class Subclass(Base):
        """Subclass.

        Args:
            beam: Int.
            {{arguments}}

        Returns:
            {{returns}}
        """

    expected = (
        "Subclass.\n\nArgs:\n    beam: Int.\n    size: Int,\n        the size.\n\n"
        "Returns:\n    Text."
    )
    assert inspect.getdoc(Subclass) == expected


@pytest.mark.parametrize("cls", [BahdanauAttention, BeamDecoder, GreedyDecoder, SamplingDecoder])
def test_fill_docstring_leaves_no_placeholder(cls):
    assert "{{" not in cls.__doc__
