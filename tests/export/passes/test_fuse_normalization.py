import keras
import numpy as np
import onnx
import pytest

from keras_attn.export import export_functional_onnx
from keras_attn.export._passes import fuse_normalization
from keras_attn.export._passes.patterns import match
from tests.export.small_graphs import constant, model, node, operators, run, value

NORMS = {
    "layer": (keras.layers.LayerNormalization, ["LayerNormalization"]),
    "rms": (keras.layers.RMSNormalization, ["Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul"]),
}


@pytest.mark.parametrize("kind", NORMS)
def test_the_norms_of_keras_become_what_runs_as_one_operator(kind, tmp_path):
    layer, expected = NORMS[kind]
    inputs = keras.Input((None, 6), name="x")
    norm = layer(epsilon=1e-5)
    keras_model = keras.Model(inputs, norm(inputs))
    for weight in norm.weights:
        weight.assign(np.random.default_rng(0).normal(size=weight.shape))
    path = tmp_path / "norm.onnx"
    x = np.random.default_rng(1).normal(size=(2, 3, 6)).astype("float32")
    export_functional_onnx(keras_model, path, x)
    made = onnx.load(path)
    assert operators(made.graph) == expected
    (received,) = run(made, **{made.graph.input[0].name: x})
    centre = x.mean(axis=-1, keepdims=True) if kind == "layer" else 0.0
    size = np.sqrt(((x - centre) ** 2).mean(axis=-1, keepdims=True) + 1e-5)
    gamma, *beta = [np.asarray(weight) for weight in norm.weights]
    oracle = (x - centre) / size * gamma + (beta[0] if beta else 0.0)
    np.testing.assert_allclose(received, oracle, atol=1e-6)


def test_a_mean_over_another_axis_is_not_that_norm():
    made = model(
        [
            node("Mul", "x x", "squares"),
            node("ReduceMean", "squares axes", "mean"),
            node("Add", "mean epsilon", "sum"),
            node("Sqrt", "sum", "root"),
            node("Reciprocal", "root", "inverse"),
            node("Mul", "x inverse", "y"),
        ],
        [value("x", shape=[2, 3])],
        [value("y", shape=[2, 3])],
        [constant("axes", np.array([0])), constant("epsilon", np.float32(1e-5))],
    )
    before = operators(made.graph)
    fuse_normalization(made)
    assert operators(made.graph) == before


@pytest.mark.parametrize(
    ("gamma", "shape", "keepdims", "columns", "fuses"),
    [
        ([1, 2, 3], [1, 3], 1, 3, True),
        ([1, 2, 3], [3, 1], 1, 3, False),  # a factor for each row
        ([2], [1], 1, 3, False),  # LayerNormalization does not broadcast it
        (2, [], 1, None, False),  # nor a scalar, after an operator of unknown shape
        ([1, 2, 3], [1, 3], 0, 3, False),  # the means of the rows, along the columns
    ],
)
def test_only_what_runs_along_the_last_axis_is_that_norm(gamma, shape, keepdims, columns, fuses):
    made = model(
        [
            node("CumSum", "given zero", "x") if columns is None else node("Abs", "given", "x"),
            node("Reshape", "gamma shape", "factor"),
            node("ReduceMean", "x axes", "mean", keepdims=keepdims),
            node("Sub", "x mean", "difference"),
            node("Mul", "difference difference", "squares"),
            node("ReduceMean", "squares axes", "variance", keepdims=keepdims),
            node("Add", "variance epsilon", "sum"),
            node("Sqrt", "sum", "root"),
            node("Reciprocal", "root", "inverse"),
            node("Mul", "inverse factor", "scale"),
            node("Mul", "x scale", "scaled"),
            node("Neg", "mean", "below"),
            node("Mul", "below scale", "shift"),
            node("Add", "shift factor", "offset"),
            node("Add", "scaled offset", "y"),
        ],
        [value("given", shape=[3, 3])],
        [value("y", shape=[3, 3])],
        [
            constant("zero", np.array(0)),
            constant("axes", np.array([-1])),
            constant("epsilon", np.float32(1e-3)),
            constant("gamma", np.array(gamma, "float32")),
            constant("shape", np.array(shape, "int64")),
        ],
    )
    x = np.random.default_rng(2).normal(size=(3, 3)).astype("float32")
    (before,) = run(made, given=x)
    fuse_normalization(made)
    assert ("LayerNormalization" in operators(made.graph)) == fuses
    np.testing.assert_allclose(run(made, given=x)[0], before, atol=1e-5)


def test_patterns_match_in_either_order_and_bind_variables_once():
    nodes = [
        node("Sigmoid", "a", "s"),
        node("Mul", "s a", "swish"),
        node("Mul", "s b", "other"),
        node("Sub", "s a", "difference"),
    ]
    producers = {name: each for each in nodes for name in each.output}
    pattern = ("Mul", "x", ("Sigmoid", "x"))
    assert match(pattern, "swish", producers) == {"x": "a"}
    assert match(pattern, "other", producers) is None
    assert match(("Sub", "x", ("Sigmoid", "x")), "difference", producers) is None
    assert match("x", "a", producers) == {"x": "a"}
