"""A tiny ONNX file with the inputs, outputs and metadata of an exported forecaster, without Keras.

It repeats the last value of each target. The quantiles are this value - 1, + 0 and + seed.
"""

import json

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HORIZON = 3


def settings(window="past_targets_1", past=(), future=(), targets=("a", "b"), **series):
    """The settings of the file."""
    shapes = {"past_targets": ["batch", window, len(targets)]}
    if past:
        shapes["past_covariates"] = ["batch", window, len(past)]
    if future:
        shapes["future_covariates"] = ["batch", HORIZON, len(future)]
    return {
        "kind": "series",
        "inputs": {
            name: {"kind": "series", "dtype": "float32", "shape": shape}
            for name, shape in shapes.items()
        },
        "series": {
            "targets": [*targets],
            "past_covariates": [*past],
            "future_covariates": [*future],
            "time_column": None,
            "horizon": HORIZON,
            "min_window": 2,
            "num_paths": 1,
            "quantiles": [0.1, 0.5, 0.9],
            **series,
        },
    }


def write_forecaster(path, properties=None, **arguments):
    """Writes the file; see `settings` for the arguments."""
    entries = settings(**arguments)
    shapes = {name: each["shape"] for name, each in entries["inputs"].items()}
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    ]
    inputs.append(helper.make_tensor_value_info("seeds", TensorProto.INT32, ["batch"]))
    targets = shapes["past_targets"][2]
    constants = {
        "last": np.array([-1]),
        "repeats": np.array([1, HORIZON, 1]),
        "end": np.array([-1]),
        "shape": np.array([-1, 1, 1, 1]),
        "below": np.array([-1, 0, 0], "float32"),
        "above": np.array([0, 0, 1], "float32"),
    }
    nodes = [
        helper.make_node("Gather", ["past_targets", "last"], ["values"], axis=1),
        helper.make_node("Tile", ["values", "repeats"], ["mean"]),
        helper.make_node("Unsqueeze", ["mean", "end"], ["column"]),
        helper.make_node("Cast", ["seeds"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["numbers", "shape"], ["seed"]),
        helper.make_node("Mul", ["seed", "above"], ["added"]),
        helper.make_node("Add", ["added", "below"], ["differences"]),
        helper.make_node("Add", ["column", "differences"], ["quantiles"]),
    ]
    sizes = {"mean": ["batch", HORIZON, targets], "quantiles": ["batch", HORIZON, targets, 3]}
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in sizes.items()
    ]
    initializers = [numpy_helper.from_array(each, name) for name, each in constants.items()]
    graph = helper.make_graph(nodes, "forecaster", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    metadata = {"keras_attn.format": "2", "keras_attn.settings": json.dumps(entries)}
    helper.set_model_props(model, metadata | (properties or {}))
    onnx.save(model, path)
    return path
