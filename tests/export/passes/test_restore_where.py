import numpy as np

from keras_attn.export.passes import restore_where
from tests.export.small_graphs import constant, model, node, operators, run, value

X = np.array([[1, -2], [3, 0.5]], "float32")


def arithmetic_select(order="xy"):
    """where(x > 1, x, -1e30), in the words of tf2onnx."""
    products = {"x": node("Mul", "kept x", "kept_x"), "y": node("Mul", "other never", "other_y")}
    return model(
        [
            node("Greater", "x one", "chosen"),
            node("Not", "chosen", "not_chosen"),
            node("Cast", "chosen", "kept", to=1),
            node("Cast", "not_chosen", "other", to=1),
            *(products[name] for name in order),
            node("Add", "kept_x other_y" if order == "xy" else "other_y kept_x", "y"),
        ],
        [value("x", shape=[None, 2])],
        [value("y", shape=[None, 2])],
        [constant("one", np.float32(1)), constant("never", np.float32(-1e30))],
    )


def test_a_choice_becomes_one_operator_in_either_order():
    for order in ("xy", "yx"):
        made = arithmetic_select(order)
        before = run(made, x=X)[0]
        restore_where(made)
        assert operators(made.graph)[-1] == "Where"
        np.testing.assert_array_equal(run(made, x=X)[0], before)
        np.testing.assert_array_equal(before, np.where(X > 1, X, np.float32(-1e30)))


def test_an_infinity_that_is_not_chosen_does_no_harm():
    made = arithmetic_select()
    infinite = np.array([[-np.inf, 2.0]], "float32")
    assert np.isnan(run(made, x=infinite)[0]).any()
    restore_where(made)
    np.testing.assert_array_equal(run(made, x=infinite)[0], np.array([[-1e30, 2]], "float32"))


def test_another_sum_of_products_stays():
    made = arithmetic_select()
    made.graph.node[1].input[0] = "another"
    made.graph.node.insert(0, node("Less", "x one", "another"))
    restore_where(made)
    assert operators(made.graph)[-1] == "Add"
