import numpy as np
import pytest

from keras_attn.export._checks.cuda_report import CUDA_KERNELS, CudaReport
from keras_attn.export._checks.onnx_operator_check import ALLOWED_OPERATORS
from tests.export.small_graphs import BOOL, FLOAT, INT64, constant, graph, model, node, value

INT32 = 6


def test_the_table_has_every_operator_that_a_file_may_hold():
    assert set(CUDA_KERNELS) == ALLOWED_OPERATORS


@pytest.mark.parametrize(
    ("type_", "missing"), [(INT32, {"GatherND of int32": 1}), (INT64, {}), (FLOAT, {})]
)
@pytest.mark.parametrize("in_loop", [False, True])
def test_a_node_without_a_kernel_is_named(type_, missing, in_loop):
    nodes = [node("GatherND", "x zeros", "y")]
    if in_loop:
        body = graph(
            [node("Identity", "c", "c_out"), node("GatherND", "x zeros", "y_out")],
            [value("i", INT64, []), value("c", BOOL, []), value("s", type_)],
            [value("c_out", BOOL, []), value("y_out", type_)],
            name="body",
        )
        nodes = [node("Loop", "trips yes x", "y", body=body)]
    made = model(
        nodes,
        [value("x", type_, [3])],
        [value("y", type_, [1])],
        [constant("zeros", [[0]]), constant("trips", 3), constant("yes", np.array(True))],
    )
    report = CudaReport.of(made)
    assert report.nodes == (3 if in_loop else 1)
    assert report.missing == missing
    assert report.missing_in_loops == (missing if in_loop else {})
    assert ("lacks kernels for 1 of" in str(report)) == bool(missing)


def test_what_is_computed_from_shapes_alone_needs_no_kernel():
    """ReduceProd of int64 has no CUDA kernel, but needs one only if it computes values."""
    made = model(
        [
            node("Shape", "x", "sizes"),
            node("ReduceProd", "sizes", "size"),
            node("Reshape", "x size", "flat"),
            node("ReduceProd", "numbers", "product"),
        ],
        [value("x", shape=[None, 3]), value("numbers", INT64, [4])],
        [value("flat", shape=[None]), value("product", INT64, [1])],
    )
    report = CudaReport.of(made)
    assert (report.nodes, report.shapes) == (4, 2)
    assert report.missing == {"ReduceProd of int64": 1}


def test_the_type_that_decides_is_that_of_the_values():
    made = model(
        [node("Where", "mask words words", "chosen")],
        [value("mask", BOOL, [2]), value("words", BOOL, [2])],
        [value("chosen", BOOL, [2])],
    )
    assert CudaReport.of(made).missing == {"Where of bool": 1}
