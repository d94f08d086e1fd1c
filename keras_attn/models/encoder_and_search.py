import inspect
import itertools

import keras

from keras_attn.search.search import Search


def encoder_and_search(model):
    """The two layers that a search model is made of.

    What they compute together is then all that the model does: one with a part, an input or an
    argument more is refused, since whoever takes it apart would lose it in silence.

    Args:
        model: as `search_model` makes it.

    Returns:
        Tuple of the encoder and the `Search`.

    Raises:
        ValueError: for a model of other parts, with other calls of them than
            `search(**encoder(source_ids))`, or of something else than ids.
    """
    # Not the layers: an operation such as `ids[:, ::-1]` is none.
    is_functional = hasattr(model, "operations")
    parts = model.operations if is_functional else getattr(model, "layers", [model])
    parts = [part for part in parts if not isinstance(part, keras.layers.InputLayer)]
    searches = [part for part in parts if isinstance(part, Search)]
    encoders = [part for part in parts if not isinstance(part, Search)]
    if not is_functional or len(searches) != 1 or len(encoders) != 1:
        names = [f"{getattr(part, 'name', repr(part))} ({type(part).__name__})" for part in parts]
        raise ValueError(
            "Expected a functional search model: source_ids -> encoder -> Search layer "
            "(BeamDecoder, GreedyDecoder or SamplingDecoder), and nothing else. Received: model "
            f"with the parts {names}. Export other models with `export_functional_onnx`."
        )
    if len(model.inputs) == 1 and len(model.inputs[0].shape) != 2:
        raise ValueError(
            "Expected a search model of ids, (batch, source). Received: a model with an input of "
            f"shape {model.inputs[0].shape}. Make another search with its encoder and decoder, and "
            "export it with `export_functional_onnx`."
        )
    _check_calls(model, encoders[0], searches[0])
    return encoders[0], searches[0]


def _check_calls(model, encoder, search):
    """Refuses calls with other arguments than `search(**encoder(source_ids))`."""
    try:
        layers = {layer["name"]: layer for layer in model.get_config()["layers"]}
    except NotImplementedError as error:
        raise ValueError(
            f"Expected layers that can be saved, with a `get_config`. Received: {error}"
        ) from error
    (node,) = layers[search.name]["inbound_nodes"]
    _check_call_of_search(model, encoder, search, node)
    for node in layers[encoder.name]["inbound_nodes"]:
        _check_call_of_encoder(model, encoder, node)


def _check_call_of_encoder(model, encoder, node):
    parameters = inspect.signature(encoder.call).parameters
    arguments = {**dict(zip(parameters, node["args"], strict=False)), **node["kwargs"]}
    _, *others = [name for name, value in arguments.items() if _tensors(value)]
    for name, value in arguments.items():
        default = parameters[name].default if name in parameters else None
        is_default = type(value) is type(default) and value == default
        is_inference = name == "training" and not value
        if not (_tensors(value) or is_default or is_inference):
            others.append(name)
    if len(model.inputs) != 1 or len(_tensors(list(arguments.values()))) != 1 or others:
        raise ValueError(
            "Expected an encoder that is called with the source_ids alone. Received: a model "
            f"with {len(model.inputs)} inputs, and a call of {encoder.name!r} with "
            f"{others} besides."
        )


def _check_call_of_search(model, encoder, search, node):
    if node["kwargs"].get("prefix_ids") is not None:
        raise ValueError(
            "Expected a search that is called with what its encoder returns. Received: a call with "
            "prefix_ids. Leave them out of the model and export it with target_prefix=True, which "
            "makes them an input."
        )
    if node["kwargs"].get("seeds") is not None:
        raise ValueError(
            "Expected a search that is called with what its encoder returns. Received: a call with "
            "seeds. Leave them out of the model: an export has them as an input."
        )
    # Limits and penalties that are part of the model: here they are inputs.
    given = [
        name for name in ("max_length", "length_penalty") if node["kwargs"].get(name) is not None
    ]
    if given or len(node["args"]) > 3:
        raise ValueError(
            "Expected a search that is called with what its encoder returns. Received: a call with "
            f"{given or 'positional arguments behind encoder_state'}. Pass them to "
            f"{type(search).__name__}(...) instead."
        )
    names = ("encoder_outputs", "encoder_mask", "encoder_state")
    arguments = {**dict(zip(names, node["args"], strict=False)), **node["kwargs"]}
    passed = {name: found for name in arguments if (found := _tensors(arguments[name]))}
    returned, numbers = {}, itertools.count()
    structure = encoder.compute_output_spec(model.inputs[0])
    if isinstance(structure, dict):
        for (name, *_), _ in keras.tree.flatten_with_path(structure):
            returned.setdefault(name, []).append((encoder.name, next(numbers)))
    if passed != returned:
        raise ValueError(
            "Expected a search that is called with all that its encoder returns, each under its "
            f"name: search(**encoder(source_ids)). Received: a call with {sorted(passed)}, and an "
            f"encoder that returns {sorted(returned) or type(structure).__name__}."
        )


def _tensors(argument):
    """Layer and number of each tensor in the argument of a layer's serialized call."""
    if isinstance(argument, dict):
        if argument.get("class_name") == "__keras_tensor__":
            layer, _, number = argument["config"]["keras_history"]
            return [(layer, number)]
        argument = [part for _, part in sorted(argument.items())]
    if isinstance(argument, (list, tuple)):
        return [tensor for part in argument for tensor in _tensors(part)]
    return []
