"""A tiny ONNX file with the interface of an exported text classifier, without Keras.

The logits are the sum of a row of `TABLE` for each unmasked id, divided by `lengths`. The attention
weights are 1 / length. With `reads_padding=True`, the logits of label 0 grow with the number of
columns, as in a model without masks.
"""

import base64
import json

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LABELS = ["bad", "good", "ugly"]
TABLE = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
SOURCE = {
    "vocabulary_size": 64,
    "pad_token_id": 0,
    "end_token_id": 2,
    "add_end": True,
    "tokenizer": "sentencepiece",
    "ignores_padding": True,
}
INPUTS = {
    "ids": {"kind": "ids", "dtype": "int32", "shape": ["batch", "time"]},
    "mask": {"kind": "mask", "dtype": "bool", "shape": ["batch", "time"]},
    "lengths": {"kind": "lengths", "dtype": "int32", "shape": ["batch"]},
}


def settings(labels=LABELS, activation="softmax", **changes):
    """The settings of the file."""
    return {
        "kind": "functional",
        "inputs": INPUTS,
        "outputs": {"logits": {"dtype": "float32", "shape": ["batch", len(labels)]}},
        "source": SOURCE,
        "classes": {"output": "logits", "labels": labels, "activation": activation},
        "attention": "weights",
        **changes,
    }


def write_classifier(path, tokenizer, table=TABLE, reads_padding=False, heads=None, **changes):
    """Writes the file; see `settings` for the other arguments."""
    node, floats, columns = helper.make_node, TensorProto.FLOAT, table.shape[1]
    heads_axis = [] if heads is None else [heads]
    constants = {
        "table": table,
        "time_axis": np.array([1]),
        "end_axis": np.array([-1]),
        "column": np.eye(1, columns, dtype="float32") * reads_padding,
        "heads": np.array([1, *heads_axis, 1]),
    }
    nodes = [
        node("Gather", ["table", "ids"], ["rows"], axis=0),
        node("Cast", ["mask"], ["real"], to=floats),
        node("Unsqueeze", ["real", "end_axis"], ["factors"]),
        node("Mul", ["rows", "factors"], ["unmasked"]),
        node("ReduceSum", ["unmasked", "time_axis"], ["sums"], keepdims=0),
        node("Cast", ["lengths"], ["counts"], to=floats),
        node("Unsqueeze", ["counts", "end_axis"], ["divisor"]),
        node("Div", ["sums", "divisor"], ["means"]),
        node("Shape", ["ids"], ["size"], start=1),
        node("Cast", ["size"], ["width"], to=floats),
        node("Mul", ["width", "column"], ["added"]),
        node("Add", ["means", "added"], ["logits"]),
        node("Div", ["real", "divisor"], ["row"]),
        *([node("Unsqueeze", ["row", "time_axis"], ["one"])] if heads else []),
        node("Tile", ["one" if heads else "row", "heads"], ["weights"]),
    ]
    kinds = {"int32": TensorProto.INT32, "bool": TensorProto.BOOL}
    inputs = [
        helper.make_tensor_value_info(name, kinds[each["dtype"]], each["shape"])
        for name, each in INPUTS.items()
    ]
    outputs = [
        helper.make_tensor_value_info("logits", floats, ["batch", columns]),
        helper.make_tensor_value_info("weights", floats, ["batch", *heads_axis, "time"]),
    ]
    initializers = [numpy_helper.from_array(each, name) for name, each in constants.items()]
    graph = helper.make_graph(nodes, "classifier", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    metadata = {
        "keras_attn.format": "2",
        "keras_attn.settings": json.dumps(settings(**changes)),
        "keras_attn.source_tokenizer": base64.b64encode(tokenizer).decode(),
    }
    helper.set_model_props(model, metadata)
    onnx.save(model, path)
    return path
