"""Checks of a model before its export."""

from collections.abc import Mapping

import keras

from keras_attn._layer.flatten_layers import flatten_layers

DTYPES = "float16 float32 float64 bool int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
"""Dtypes that an input of an exported file can have."""


def functional_model(model: keras.Model) -> keras.Model:
    """Returns a model, or the functional form of a `keras.Sequential`.

    Raises:
        ValueError: If the model is not functional, or a layer is stateful.
    """
    if not isinstance(model, keras.Model) or not getattr(model, "inputs", None):
        raise ValueError(f"Expected a functional Keras model. Received: model={model}.")
    if isinstance(model, keras.Sequential):
        model = keras.Model(model.inputs, model.outputs)
    check_stateless(model)
    return model


def check_stateless(*layers: keras.layers.Layer) -> None:
    """Raises an error for stateful layers, because an exported file keeps no state between calls.

    Args:
        layers: Keras layers or models; all nested layers are checked.

    Raises:
        ValueError: If a layer is a recurrent layer with `stateful=True`.
    """
    stateful = [layer.name for layer in flatten_layers(layers) if getattr(layer, "stateful", False)]
    if stateful:
        raise ValueError(
            "Expected layers without a state between calls. Received: stateful=True in the layers "
            f"{stateful}. Set stateful=False, and make the state an input and an output of the "
            "model."
        )


def check_dense_numbers(inputs: Mapping[str, keras.KerasTensor]) -> None:
    """Raises an error for inputs that an ONNX file cannot have.

    Args:
        inputs: Dict from the names of inputs to their symbolic tensors.
    """
    strings = [name for name, value in inputs.items() if value.dtype == "string"]
    if strings:
        raise ValueError(
            f"Expected inputs of numbers. Received: inputs of dtype string, {strings}. An exported "
            "file has no operators for strings. Export the part of the model after its "
            "TextVectorization or StringLookup layer, and apply that layer to the strings before "
            "you run the file."
        )
    received = {name: value.dtype for name, value in inputs.items() if value.dtype not in DTYPES}
    if received:
        raise ValueError(
            f"Expected inputs of the dtypes {', '.join(DTYPES)}. Received: {received}. Make the "
            "input float32, and convert it in the model with keras.ops.cast."
        )
    for kind in ("sparse", "ragged"):
        names = [name for name, value in inputs.items() if getattr(value, kind, False)]
        if names:
            raise ValueError(
                f"Expected dense inputs. Received: {kind} inputs, {names}. Make the model with "
                f"keras.Input(..., {kind}=False)."
            )
