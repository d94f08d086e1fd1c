"""Uses of undocumented names of Keras, TensorFlow and tf2onnx, and patches of these packages.

No other module imports `keras.src`, `tensorflow.python`, `tensorflow.core` or `tf2onnx`;
`tests/check_layout.py` checks this. `tests/_backend/test_private_names.py` fails if a name in the
table changes, or if a workaround is no longer necessary.

| name | purpose | version | removable when |
|---|---|---|---|
| `Operation._remat_mode` | recomputation of our layers | Keras 3.15 | `rematerialized_call` passes on keyword arguments |
| `Optimizer._clip_gradients` | clipping of the gradients after they are summed over replicas | Keras 3.15 | Keras clips after the sum, or has a public hook |
| `Adam._momentums`, `_velocities`, `_get_variable_index` | Adam update with one operator | Keras 3.15 | Keras' Adam uses `ResourceApplyAdam` |
| `Optimizer._trainable_variables` | detection of weights that were frozen after the first step | Keras 3.15 | Keras on JAX raises its error before it takes the weights out of the model |
| `tensor._keras_mask` | implicit masks in the export of a step | Keras 3.15 | a public function returns implicit masks |
| `CompileLoss._flat_losses`, `Trainer._compile_loss`, `_loss_tracker` | losses over the rows of all replicas | Keras 3.15 | Keras reduces losses over the global batch |
| `Layer._flatten_layers` | layers that combine the rows of a batch | Keras 3.15 | a public method returns nested layers |
| `Node`, `Tracker`, `_inbound_nodes`, `_outbound_nodes` | copies of layers for an export | Keras 3.15 | Keras copies layers that share variables |
| `Layer._tracker`, `_untrack_variable` | weights that are added to a built layer or removed from it (LoRA) | Keras 3.15 | `add_weight` of a built layer is allowed, and `delattr` does not run the garbage collector |
| `Layer._post_build` | low-rank updates of a copied layer (LoRA) | Keras 3.15 | a public method is called after `build` |
| `Model.quantize`, patched | models with our layers are not quantized | Keras 3.15 | Keras asks layers with sublayers before it quantizes these |
| `Functional._run_through_graph` | shared layers in `clone_model` | Keras 3.15 | `clone_model` keeps shared layers shared |
| `CompileLoss._user_loss_weights` | a model with loss weights must not fuse the loss | Keras 3.15 | `Model` shows the weights of its losses |
| `Metric._direction`, `CompileMetrics._flat_metrics`, `_flat_weighted_metrics` | whether a monitored value is better when it is lower or higher | Keras 3.15 | `Metric` has a public direction |
| `Trainer._compile_metrics`, `CompileMetrics._user_metrics`, `_user_weighted_metrics` | attributes of users' metrics before the first step | Keras 3.15 | `Model.metrics` contains the metrics that are not built |
| `Model._symbolic_build` | variables of a model, its metrics and optimizer before its saved state is restored and before uneven batches | Keras 3.15 | a public method builds the model, its metrics and its optimizer |
| `global_seed_generator` | the state of unseeded `keras.random` functions | Keras 3.15 | a public function returns it |
| attributes in `CALLBACK_ATTRIBUTES` | the state of Keras' callbacks | Keras 3.15 | these callbacks return their state |
| `DataAdapter` | batches of any shapes that `model.fit` reads without further arguments | Keras 3.15 | a `PyDataset` can state the shapes of its batches, and a generator can yield single arrays |
| `RNN.inner_loop`, replaced on copies | LSTM and GRU operators in ONNX | Keras 3.15 | tf2onnx converts masked LSTM and every GRU |
| `TimeDistributed.call`, replaced on copies | merging of the time axis and the batch axis | Keras 3.15 | Keras traces an unknown number of steps correctly |
| `in_symbolic_scope` | search loops are left out of the shape inference; unknown sizes, for which PyTorch gets placeholders | Keras 3.15 | a public function returns whether shapes are inferred |
| `DropoutRNNCell.get_dropout_mask` | detection of cells with dropout | Keras 3.15 | Keras samples no masks in inference |
| `torch._C._are_functorch_transforms_active` | functions with their own gradient in `torch.func` | PyTorch 2.13 | `torch.func` has a public function |
| `control_flow_util.GraphOrParentsInXlaContext` | detection of XLA, which needs static shapes | TensorFlow 2.21 | a public function returns whether XLA compiles |
| `tf_optimizer.OptimizeGraph`, protobuf messages | inlining of compiled functions | TensorFlow 2.21 | tf2onnx inlines functions with `jit_compile=True` |
| `saved_model_pb2` | operators that LiteRT computes wrongly are replaced before the conversion | TensorFlow 2.21 | LiteRT computes the operators of `litert_operators` as TensorFlow does |
| `tf_loader`, `tfonnx.process_tf_graph`, `optimizer` | conversion | tf2onnx 1.17 | `convert.from_function` takes optimizers and a traced function |
| `Graph.extract_sub_graph_nodes`, patched | conversion in half the time | tf2onnx 1.17 | tf2onnx traverses the graph once for all outputs |
| `utils.make_name`, `utils.map_onnx_to_numpy_type` | our converters of operators | tf2onnx 1.17 | these functions are public |
| converters of single operators, see `CONVERTERS` | cases that our converters do not support | tf2onnx 1.17 | a converter can call the converter that it replaces |
| logger `tf2onnx` | detection of errors that tf2onnx only logs | tf2onnx 1.17 | tf2onnx raises these errors |
"""  # noqa: E501

import contextlib
import functools
import importlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import keras

from keras_attn._types import Tensor

# Keras


def remat_mode(layer: keras.layers.Layer) -> Any:
    """Returns the settings of the `keras.RematScope` of a layer, or `None`."""
    return layer._remat_mode


def end_remat(layer: keras.layers.Layer) -> None:
    """Disables the rematerialization of a layer that was created in a `keras.RematScope`."""
    layer._remat_mode = None


class BuildHook:
    """Base class of layers with a method that runs after `build`."""

    def after_build(self) -> None:
        """Is called when the layer and its sublayers are built."""

    def _post_build(self):
        parent: Any = super()
        parent._post_build()
        self.after_build()


class GradientClipping:
    """Base class of optimizers that transform the gradients before each update."""

    def clip_gradients(self, gradients: list[Any]) -> list[Any]:
        """Returns the gradients for the update. By default, they are clipped as in Keras."""
        parent: Any = super()
        return parent._clip_gradients(gradients)

    def _clip_gradients(self, grads):
        return self.clip_gradients(grads)


def trained_variables(optimizer: Any) -> list[Any]:
    """Returns the variables that an optimizer was built for."""
    return optimizer._trainable_variables


def adam_moments(optimizer: Any, variable: Any) -> tuple[Any, Any]:
    """Returns the Adam variables for the first and second moment of a variable's gradient."""
    index = optimizer._get_variable_index(variable)
    return optimizer._momentums[index], optimizer._velocities[index]


def implicit_mask(tensor: Tensor) -> Any:
    """Returns the implicit mask that Keras attached to a tensor, or `None`."""
    return getattr(tensor, "_keras_mask", None)


def set_implicit_mask(tensor: Any, mask: Any) -> None:
    """Attaches an implicit mask to a tensor."""
    tensor._keras_mask = mask


def copy_layers_in(model_class: Any, scope: Any) -> Any:
    """Makes `keras.models.clone_model` copy the layers of a functional subclass in a scope.

    Args:
        model_class: Subclass of `keras.Model`.
        scope: Function that returns a context manager.
    """

    def _run_through_graph(self, *args, **kwargs):
        with scope():
            return super(model_class, self)._run_through_graph(*args, **kwargs)

    model_class._run_through_graph = _run_through_graph


def check_before_quantization(check: Callable[[keras.Model, Any, Any], None]) -> None:
    """Patches `keras.Model.quantize` so that it first calls `check(model, mode, filters)`.

    Keras quantizes every leaf layer directly, and the layer that contains it cannot prevent this.

    Args:
        check: Function that raises an error for models that cannot be quantized.
    """
    original = keras.Model.quantize

    @functools.wraps(original)
    def quantize(self, mode=None, config=None, filters=None, **kwargs):
        check(self, mode, filters)
        return original(self, mode=mode, config=config, filters=filters, **kwargs)

    keras.Model.quantize = quantize


def loss_weights(model: keras.Model) -> Any:
    """Returns the `loss_weights` with which a model was compiled, or `None`."""
    return getattr(getattr(model, "_compile_loss", None), "_user_loss_weights", None)


BUILD_METHOD = "_symbolic_build"
"""Method with which `model.fit` calls a model on a symbolic batch before the first step."""


def compiled_losses(model: keras.Model) -> list[Any]:
    """Returns the list of the losses of a built model: named tuples with the field `loss`."""
    losses: Any = getattr(model, "_compile_loss", None)
    return [] if losses is None else losses._flat_losses


def compute_compiled_loss(model: keras.Model, *args: Any) -> Any:
    """Returns the loss of `compile`, without the losses of layers and weights."""
    trainer: Any = model
    return trainer._compile_loss(*args)


def loss_tracker(model: keras.Model) -> Any:
    """Returns the `keras.metrics.Mean` of the loss of a compiled model."""
    trainer: Any = model
    return trainer._loss_tracker


def metrics_of_losses(model: keras.Model) -> list[Any]:
    """Returns the metrics of the losses of single outputs."""
    losses: Any = getattr(model, "_compile_loss", None)
    return [] if losses is None else losses.metrics


def nested_layers(model: keras.Model) -> list[Any]:
    """Returns all layers of a model, including the layers of layers."""
    trainer: Any = model
    return list(trainer._flatten_layers(include_self=False))


def set_direction(metric: Any, direction: str) -> None:
    """Tells the callbacks of Keras whether a metric improves `"up"` or `"down"`."""
    metric._direction = direction


def compiled_metrics(model: keras.Model) -> list[keras.Metric]:
    """Returns the metrics that were passed to `compile`, also before the first step."""
    compiled = model._compile_metrics
    if compiled is None:
        return []
    metrics = keras.tree.flatten([compiled._user_metrics, compiled._user_weighted_metrics])
    return [metric for metric in metrics if isinstance(metric, keras.Metric)]


def metric_directions(model: keras.Model) -> Iterator[tuple[str, str | None]]:
    """Yields the keys of a model's metrics in its logs, with `"up"`, `"down"` or `None`."""
    for metric in model.metrics:
        groups = [
            (group, prefix)
            for name, prefix in (("_flat_metrics", ""), ("_flat_weighted_metrics", "weighted_"))
            for group in getattr(metric, name, ())
            if group is not None
        ]
        yield metric.name, getattr(metric, "_direction", None)
        for group, prefix in groups:
            output = f"{group.output_name}_" if group.output_name else ""
            for user_metric in group.metrics:
                for key in {f"{output}{user_metric.name}", f"{output}{prefix}{user_metric.name}"}:
                    yield key, getattr(user_metric, "_direction", None)


def build_symbolically(model: keras.Model, batch: Any) -> None:
    """Creates the variables of a compiled model, its metrics and its optimizer.

    Args:
        model: Compiled `keras.Model`.
        batch: Nested arrays or `KerasTensor`s, a batch such as `(x, y)`.
    """
    untyped: Any = model
    untyped._symbolic_build(data_batch=batch)


def global_seed_state() -> Any:
    """Returns the variable of Keras' global random generator, or `None` before its first use."""
    from keras.src.backend.common import global_state
    from keras.src.random import seed_generator

    generator = global_state.get_global_attribute(seed_generator.GLOBAL_SEED_GENERATOR)
    return None if generator is None else generator.state


def set_global_seed_state(state: Any) -> None:
    """Sets Keras' global random generator to a state. `None`: Its first use creates it."""
    from keras.src.backend.common import global_state
    from keras.src.random import seed_generator

    if state is None:
        global_state.set_global_attribute(seed_generator.GLOBAL_SEED_GENERATOR, None)
    else:
        seed_generator.global_seed_generator().state.assign(state)


CALLBACK_ATTRIBUTES = {
    "EarlyStopping": ("wait", "stopped_epoch", "best", "best_epoch", "best_weights"),
    "ReduceLROnPlateau": ("best", "wait", "cooldown_counter"),
    "ModelCheckpoint": ("best", "_batches_seen_since_last_saving", "_last_batch_seen"),
    "SwapEMAWeights": ("_ema_weights_in_model",),
    "TensorBoard": ("_global_train_batch", "_global_test_batch"),
    "CSVLogger": ("keys",),
}
"""Attributes that each callback of Keras changes during training and reads in later epochs."""


NODE_LISTS = ("_inbound_nodes", "_outbound_nodes")
"""Attributes of an operation that list its nodes in all functional models."""


def graph_record_classes() -> Any:
    """Returns the classes of Keras objects that are not layers but have references to layers."""
    from keras.src.ops.node import Node
    from keras.src.utils.tracking import Tracker

    return Node, Tracker


def forget_original_parts(value: Any) -> None:
    """Updates the object ids in the copy of a `Tracker` to the ids of the copied parts."""
    if hasattr(value, "stored_ids"):
        value.stored_ids = {
            name: {id(part) for part in parts} for name, (_, parts) in value.config.items()
        }


@contextlib.contextmanager
def unlocked(layer: keras.layers.Layer) -> Iterator[None]:
    """Context in which weights can be added to a layer after it is built."""
    tracker = layer._tracker
    was_locked = tracker.locked
    tracker.unlock()
    try:
        yield
    finally:
        if was_locked:
            tracker.locked = True


def remove_weight(layer: keras.layers.Layer, name: str, new: Any = None) -> None:
    """Replaces the weight in an attribute of a layer by another weight or `None`.

    `delattr` also removes a weight, but runs the garbage collector, which takes a second.
    """
    with unlocked(layer):
        layer._untrack_variable(getattr(layer, name))
        setattr(layer, name, new)


def has_dropout_masks(layer: keras.layers.Layer) -> bool:
    """Returns whether a layer is a recurrent cell with dropout masks."""
    return hasattr(layer, "get_dropout_mask")


def infers_shapes() -> bool:
    """Returns whether Keras calls the code to infer the shapes of symbolic outputs."""
    from keras.src.backend.common.symbolic_scope import in_symbolic_scope

    return in_symbolic_scope()


def data_adapter_class() -> Any:
    """Returns the base class of data that `model.fit` reads as they are."""
    from keras.src.trainers.data_adapters.data_adapter import DataAdapter

    return DataAdapter


# TensorFlow


def is_compiled_by_xla() -> bool:
    """Returns whether the calling code is traced for XLA. `False` if this is unknown."""
    import tensorflow as tf

    try:
        from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext
    except ImportError:
        return False
    return GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


def in_torch_func() -> bool:
    """Returns whether a transformation of `torch.func`, such as `grad` or `vmap`, is active."""
    import torch  # pyright: ignore[reportMissingImports]

    return torch._C._are_functorch_transforms_active()


def inline_compiled_functions(graph_def: Any, input_names: Any, output_names: Any) -> Any:
    """Inlines functions with `jit_compile=True`, such as the grouped convolutions of Keras.

    Args:
        graph_def: `GraphDef`, modified in place.
        input_names: List of names of tensors that must remain.
        output_names: List of names of tensors that must remain.

    Returns:
        `GraphDef`.
    """
    import tensorflow as tf
    from tensorflow.core.protobuf import config_pb2, meta_graph_pb2, rewriter_config_pb2
    from tensorflow.python.grappler import tf_optimizer

    functions = graph_def.library.function
    nodes = [*graph_def.node, *(node for function in functions for node in function.node_def)]
    if not any(node.op in ("PartitionedCall", "StatefulPartitionedCall") for node in nodes):
        return graph_def
    for holder in (*nodes, *functions):
        for attribute in ("_XlaMustCompile", "_noinline"):
            if attribute in holder.attr:
                del holder.attr[attribute]
    with tf.Graph().as_default():
        tf.import_graph_def(graph_def, name="")
        meta_graph = tf.compat.v1.train.export_meta_graph(graph_def=graph_def)
    fetched = meta_graph_pb2.CollectionDef()
    fetched.node_list.value.extend([*input_names, *output_names])
    meta_graph.collection_def["train_op"].CopyFrom(fetched)
    config = config_pb2.ConfigProto()
    options = config.graph_options.rewrite_options
    options.min_graph_nodes = -1
    options.optimizers.append("function")
    options.function_optimization = rewriter_config_pb2.RewriterConfig.AGGRESSIVE
    return tf_optimizer.OptimizeGraph(config, meta_graph)


# tf2onnx


def read_saved_model(content: bytes) -> Any:
    """Returns the protobuf message of a `saved_model.pb` file."""
    from tensorflow.core.protobuf import saved_model_pb2

    return saved_model_pb2.SavedModel.FromString(content)


def freeze_function(concrete: Any, input_names: Any, output_names: Any) -> Any:
    """Returns the `GraphDef` of a concrete function, including its constants."""
    from tf2onnx import tf_loader

    return tf_loader.from_function(concrete, input_names, output_names)


def to_onnx(
    tf_graph: Any, opset: int, handlers: Any, input_names: Any, output_names: Any, renamed: Any
) -> Any:
    """Converts a TensorFlow graph to ONNX and applies optimizers of tf2onnx.

    Args:
        tf_graph: `tf.Graph`.
        opset: Int, opset of the ONNX model.
        handlers: Dict from operator names to `(function, [])`.
        input_names: List of names of tensors.
        output_names: List of names of tensors.
        renamed: Dict from the input and output names to the names in the ONNX model.

    Returns:
        `onnx.ModelProto`. It is invalid if tf2onnx logs errors, see `logged_errors`.
    """
    from tf2onnx import tfonnx
    from tf2onnx.optimizer import optimize_graph

    graph = tfonnx.process_tf_graph(
        tf_graph,
        continue_on_error=True,
        opset=opset,
        custom_op_handlers=handlers,
        input_names=input_names,
        output_names=output_names,
        tensors_to_rename=renamed,
    )
    graph = optimize_graph(graph, catch_errors=False, optimizers=_optimizers())
    return graph.make_model("keras_attn")


def _optimizers():
    """Returns the optimizers of tf2onnx that modify our graphs. Speed: omits all others."""
    from tf2onnx.optimizer.const_fold_optimizer import ConstFoldOptimizer
    from tf2onnx.optimizer.identity_optimizer import IdentityOptimizer
    from tf2onnx.optimizer.loop_optimizer import LoopOptimizer
    from tf2onnx.optimizer.merge_duplicated_nodes_optimizer import MergeDuplicatedNodesOptimizer

    return {
        "fold_constants": ConstFoldOptimizer,
        "loop_optimizer": LoopOptimizer,
        "merge_duplication": MergeDuplicatedNodesOptimizer,
        "remove_identity": IdentityOptimizer,
    }


@contextlib.contextmanager
def one_walk_for_all_outputs() -> Iterator[None]:
    """Halves the time of a conversion by a patch of the search for used nodes in tf2onnx.

    tf2onnx searches dozens of times, and each search traverses the graph once per output. A loop
    passes each weight through its body, so a loop with hundreds of weights has hundreds of outputs.
    The patched search traverses the graph only once, starting at all outputs, and finds the same
    nodes. The patch affects all threads, so only one thread may use this function at a time.
    """
    from tf2onnx import graph as tf2onnx_graph

    Graph: Any = tf2onnx_graph.Graph
    original = Graph.extract_sub_graph_nodes

    def used_nodes(graph, outputs_name, input_checker=None, remove_unused_inputs=True):
        if input_checker is not None:
            return original(graph, outputs_name, input_checker, remove_unused_inputs)
        open_names, nodes = list(outputs_name), {}
        if not remove_unused_inputs:
            open_names += [node.output[0] for node in graph.inputs]
        while open_names:
            node = graph.get_node_by_output(open_names.pop(), search_in_parent_graphs=False)
            if node is not None and node.name not in nodes:
                nodes[node.name] = node
                open_names += [*node.input, *node.get_implicit_inputs()]
        return list(nodes.values())

    Graph.extract_sub_graph_nodes = used_nodes
    try:
        yield
    finally:
        Graph.extract_sub_graph_nodes = original


@contextlib.contextmanager
def logged_errors() -> Any:
    """Collects the errors that tf2onnx only logs.

    Yields:
        List of strings. Each logged error appends its message.
    """
    messages = []

    class Collector(logging.Handler):
        def emit(self, record):
            error = record.exc_info[1] if record.exc_info else None
            messages.append(record.getMessage() + ("" if error is None else f"\n{error}"))

    collector = Collector(level=logging.ERROR)
    logger = logging.getLogger("tf2onnx")
    propagates = logger.propagate
    logger.addHandler(collector)
    logger.propagate = False
    try:
        yield messages
    finally:
        logger.removeHandler(collector)
        logger.propagate = propagates


CONVERTERS = {
    "CTCGreedyDecoder": ("nn", "CTCGreedyDecoder", "version_11"),
    "FloorDiv": ("math", "FloorDiv", "version_6"),
    "FloorMod": ("math", "FloorMod", "version_7"),
    "Pad": ("nn", "Pad", "version_11"),
    "Resize": ("nn", "Resize", "version_11"),
}
"""Module, class and method of the tf2onnx converter of each operator."""


def convert_by_default(operator: str, graph: Any, node: Any) -> None:
    """Converts a node with the converter of tf2onnx instead of the converter of this package.

    Args:
        operator: String, a key of `CONVERTERS`.
        graph: Graph of tf2onnx, modified in place.
        node: Node of this graph.
    """
    module, name, method = CONVERTERS[operator]
    converters = importlib.import_module(f"tf2onnx.onnx_opset.{module}")
    getattr(getattr(converters, name), method)(graph, node)


def unique_node_name(prefix: str) -> str:
    """Returns a unique name for a node of a tf2onnx graph."""
    from tf2onnx.utils import make_name

    return make_name(prefix)


def numpy_type(onnx_type: Any) -> Any:
    """Returns the NumPy type for an ONNX element type (an int of `onnx.TensorProto`)."""
    from tf2onnx.utils import map_onnx_to_numpy_type

    return map_onnx_to_numpy_type(onnx_type)
