from collections.abc import Mapping
from typing import TYPE_CHECKING

from keras_attn.export._passes.graph import defined_names, subgraphs, unused

if TYPE_CHECKING:
    import onnx


def make_names_unique(model: "onnx.ModelProto") -> None:
    """Gives every value of the model a unique name, including values of nested graphs.

    Two loop bodies may each have a value `x`. Other passes move values from one graph to another,
    so a name must mean the same value in all graphs. The names of the main graph do not change.

    Args:
        model: `onnx.ModelProto`; changed in place.
    """
    taken = defined_names(model.graph)
    _rename_inside(model.graph, {name: name for name in taken}, taken)


def _rename_inside(graph: "onnx.GraphProto", scope: Mapping[str, str], taken: set[str]) -> None:
    """Renames values in `graph` with the dict `scope`, and all values of its subgraphs."""

    for node in graph.node:
        node.input[:] = [scope.get(name, name) for name in node.input]
        node.output[:] = [scope.get(name, name) for name in node.output]
        for inner in subgraphs(node):
            inner_scope = dict(scope)
            for name in sorted(defined_names(inner)):
                inner_scope[name] = unused(name, taken)
                taken.add(inner_scope[name])
            for value in [*inner.input, *inner.output, *inner.value_info, *inner.initializer]:
                value.name = inner_scope.get(value.name, value.name)
            _rename_inside(inner, inner_scope, taken)
