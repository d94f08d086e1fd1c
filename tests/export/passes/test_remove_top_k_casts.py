import numpy as np
import pytest

from keras_attn.export._passes import remove_top_k_casts
from tests.export.small_graphs import FLOAT, INT64, constant, model, node, operators, run, value

INT32 = 6

NUMBERS = np.array([[7, 2, 9, 2, 5], [0, 4, 3, 1, 8]])


def ascending(type_=INT64, extra=(), outputs=(), largest=1):
    """Returns a graph that selects the three smallest numbers of each row, as TensorFlow does."""
    return model(
        [
            node("Cast", "numbers", "floats", to=FLOAT),
            node("Neg", "floats", "below"),
            node("TopK", "below three", "largest places", axis=-1, largest=largest, sorted=1),
            node("Neg", "largest", "smallest"),
            node("Cast", "smallest", "sorted", to=INT64),
            *extra,
        ],
        [value("numbers", type_, ["rows", 5])],
        [value("sorted", INT64, ["rows", 3]), value("places", INT64, ["rows", 3]), *outputs],
        [constant("three", [3])],
    )


def top_k_input(made):
    (top_k,) = [each for each in made.graph.node if each.op_type == "TopK"]
    return top_k.input[0]


def test_integers_are_sorted_by_one_operator():
    made = ascending()
    before = run(made, numbers=NUMBERS)
    remove_top_k_casts(made)
    assert top_k_input(made) == "numbers"
    for received, expected in zip(run(made, numbers=NUMBERS), before, strict=True):
        np.testing.assert_array_equal(received, expected)
    np.testing.assert_array_equal(before[0], np.sort(NUMBERS)[:, :3])
    large = NUMBERS + 2**40  # which are equal as floats
    np.testing.assert_array_equal(run(made, numbers=large)[0], np.sort(large)[:, :3])


def test_the_three_largest_are_those_of_the_integers_themselves():
    made = model(
        [
            node("Cast", "numbers", "floats", to=FLOAT),
            node("TopK", "floats three", "found places"),
            node("Cast", "found", "largest", to=INT64),
        ],
        [value("numbers", INT64, ["rows", 5])],
        [value("largest", INT64, ["rows", 3]), value("places", INT64, ["rows", 3])],
        [constant("three", [3])],
    )
    remove_top_k_casts(made)
    large = NUMBERS + 2**40
    largest, places = run(made, numbers=large)
    np.testing.assert_array_equal(largest, -np.sort(-large)[:, :3])
    np.testing.assert_array_equal(np.take_along_axis(large, places, 1), largest)


def test_what_was_descending_behind_the_negation_stays_so():
    made = ascending(largest=0)
    remove_top_k_casts(made)
    received, _ = run(made, numbers=NUMBERS)
    np.testing.assert_array_equal(received, -np.sort(-NUMBERS)[:, :3])


def test_every_conversion_of_what_was_sorted_gets_it():
    extra = [node("Cast", "smallest", "shorter", to=INT32)]
    made = ascending(extra=extra, outputs=[value("shorter", INT32, ["rows", 3])])
    remove_top_k_casts(made)
    *_, shorter = run(made, numbers=NUMBERS)
    np.testing.assert_array_equal(shorter, np.sort(NUMBERS)[:, :3])
    assert top_k_input(made) == "numbers"


@pytest.mark.parametrize("other", ["read by another", "an output", "negated too", "fractions"])
def test_what_would_become_something_else_stays(other):
    made = {
        "read by another": lambda: ascending(
            extra=[node("Abs", "largest", "absolute")],
            outputs=[value("absolute", shape=["rows", 3])],
        ),
        "negated too": lambda: ascending(outputs=[value("smallest", shape=["rows", 3])]),
        "an output": lambda: ascending(outputs=[value("largest", shape=["rows", 3])]),
        "fractions": lambda: ascending(FLOAT),
    }[other]()
    before = operators(made.graph)
    remove_top_k_casts(made)
    assert operators(made.graph) == before and top_k_input(made) == "below"
