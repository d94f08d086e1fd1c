"""Models whose search never ends for some sentences, and a time limit for tests that may hang."""

import threading

import onnx
from onnx import TensorProto, helper

from tests.runtime.fake_model import build_model, metadata

ENDLESS_ID = 63
"""A sentence with this id, which no text has, is translated for ever."""

SECONDS = 60


def endless_model(tokenizer, endless_id=ENDLESS_ID, prefix=False):
    """Returns the model of `build_model` with an endless loop for one id, as first operator.

    With a prefix input, it copies only the prefix, so that it can score complete translations.

    Args:
        tokenizer: Bytes of a SentencePiece model.
        endless_id: Int, the id.
        prefix: Bool, whether the model has a prefix input.
    """
    model = build_model(metadata(tokenizer, ["prefix_ids"] * prefix), prefix=prefix)
    graph = model.graph
    for node in graph.node:
        copied = "looped_padding" if prefix and node.op_type == "Concat" else "looped"
        node.input[:] = [copied if name == "source_ids" else name for name in node.input]
    ids = ["batch", "source_length"]
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go_on"], ["still"]),
            helper.make_node("Identity", ["ids"], ["same_ids"]),
        ],
        "for_ever",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("ids", TensorProto.INT32, ids),
        ],
        [
            helper.make_tensor_value_info("still", TensorProto.BOOL, []),
            helper.make_tensor_value_info("same_ids", TensorProto.INT32, ids),
        ],
    )
    nodes = [
        helper.make_node("Equal", ["source_ids", "endless_id"], ["is_endless"]),
        helper.make_node("Cast", ["is_endless"], ["endless_numbers"], to=TensorProto.INT32),
        helper.make_node("ReduceMax", ["endless_numbers"], ["any_endless"], keepdims=0),
        helper.make_node("Cast", ["any_endless"], ["is_any_endless"], to=TensorProto.BOOL),
        helper.make_node("Loop", ["", "is_any_endless", "source_ids"], ["looped"], body=body),
        helper.make_node("Mul", ["looped", "zero"], ["looped_padding"]),
    ]
    for node in reversed(nodes):
        graph.node.insert(0, node)
    graph.initializer.append(helper.make_tensor("endless_id", TensorProto.INT32, [], [endless_id]))
    onnx.checker.check_model(model)
    return model


def write_endless_steps(directory, tokenizer):
    """Writes the three files of a stepped search that never ends and only returns padding."""
    directory.mkdir()
    ids, rows, numbers = ["batch", "source_length"], ["batch"], ["batch", 2]
    info, integers = helper.make_tensor_value_info, TensorProto.INT32

    def write(name, nodes, inputs, outputs, properties):
        axis = helper.make_tensor("axis", TensorProto.INT64, [1], [1])
        zero = helper.make_tensor("zero", integers, [], [0])
        graph = helper.make_graph(nodes, name, inputs, outputs, [axis, zero])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
        helper.set_model_props(model, properties)
        onnx.save(model, directory / f"{name}.onnx")

    node = helper.make_node
    write(
        "start",
        [
            node("ReduceMax", ["source_ids", "axis"], ["largest"], keepdims=0),
            node("Less", ["largest", "zero"], ["done"]),  # never
        ],
        [
            info("source_ids", integers, ids),
            info("max_length", integers, []),
            info("length_penalty", TensorProto.FLOAT, []),
        ],
        [info("done", TensorProto.BOOL, rows)],
        metadata(tokenizer),
    )
    same = [
        node("Identity", ["done"], ["next/done"]),
        node("Mul", ["source_ids", "zero"], ["partial"]),
    ]
    write(
        "step",
        same,
        [info("done", TensorProto.BOOL, rows), info("source_ids", integers, ids)],
        [info("next/done", TensorProto.BOOL, rows), info("partial", integers, ids)],
        {"keras_attn.start": "any"},
    )
    zeros = helper.make_tensor("nothing", TensorProto.FLOAT, [1], [0.0])
    lengths = helper.make_tensor("no_length", integers, [1], [0])
    both = helper.make_tensor("both", TensorProto.INT64, [2], [1, 2])
    finish = [
        node("ConstantOfShape", ["both"], ["scores"], value=zeros),
        node("ConstantOfShape", ["both"], ["log_probs"], value=zeros),
        node("ConstantOfShape", ["both"], ["lengths"], value=lengths),
        node("ConstantOfShape", ["three"], ["token_ids"], value=lengths),
        node("Identity", ["done"], ["was_done"]),
    ]
    three = helper.make_tensor("three", TensorProto.INT64, [3], [1, 2, 1])
    graph = helper.make_graph(
        finish,
        "finish",
        [info("done", TensorProto.BOOL, rows)],
        [
            info("token_ids", integers, [*numbers, "time"]),
            info("lengths", integers, numbers),
            info("scores", TensorProto.FLOAT, numbers),
            info("log_probs", TensorProto.FLOAT, numbers),
        ],
        [both, three],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    helper.set_model_props(model, {"keras_attn.start": "any"})
    onnx.save(model, directory / "finish.onnx")


def within_a_minute(function):
    """Returns the result of a function, or its error; fails if it takes longer than a minute."""
    results, errors = [], []

    def run():
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert not thread.is_alive(), f"the call did not return within {SECONDS} seconds"
    if errors:
        raise errors[0]
    return results[0]
