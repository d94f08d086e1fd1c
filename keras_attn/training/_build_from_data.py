import contextlib
from contextlib import AbstractContextManager

import keras

from keras_attn._backend.private_names import build_symbolically
from keras_attn._backend.random_state import draw_loader_seeds
from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn._types import StaticShape, Tensor
from keras_attn.training._dataset_batches import Batches, DatasetBatches


def build_from_data(model: keras.Model, batches: Batches) -> None:
    """Builds a model and its optimizer like the first step in `model.fit`.

    Afterwards, a saved state can be restored. The weights have the same initial values as in
    `model.fit`. Layers that are built do not change.

    Args:
        model: Compiled `keras.Model`.
        batches: Object with `dataset(start_step)` or `stream(start_step)`, see
            `keras_attn.training.fit`.

    Raises:
        ValueError: If the model cannot be built without values of its inputs, or if it has no
            `call` and its layers are not built.
    """
    if only_has_parts(model):
        _reject_unbuilt_parts(model)
    if not all(layer.built for layer in flatten_layers([model]) if not only_has_parts(layer)):
        _build_layers(model, batches)
    build_optimizer(model)


def build_optimizer(model: keras.Model) -> None:
    """Creates the variables of a model's optimizer if they do not exist."""
    if not model.optimizer.built:  # LossScaleOptimizer.build does not check this itself
        with scope_of(model):
            model.optimizer.build(model.trainable_variables)


def _build_layers(model: keras.Model, batches: Batches) -> None:
    try:
        with scope_of(model):
            build_symbolically(model, _symbolic_batch(batches))
            draw_loader_seeds(getattr(batches, "loader_seeds", 0))  # Keras reads the first batch
    except Exception as error:  # `call` of a subclass can raise any error
        if model.built:
            return  # a layer that the model did not use when it was called
        raise ValueError(
            "Expected a built model, or one that Keras can build from the shapes of a batch. "
            f"Received: model={model.name!r}, built=False ({error}). Call the model once with a "
            "batch of inputs before the training, or remove the directory."
        ) from error


def _reject_unbuilt_parts(model: keras.Model) -> None:
    unbuilt = sorted(
        layer.name
        for layer in flatten_layers([model])
        if not layer.built
        and not isinstance(layer, keras.Model)  # its layers follow
        and type(layer).build is not keras.layers.Layer.build
    )
    if unbuilt:
        raise ValueError(
            "Expected built layers in a model without `call`, so that a saved state can be "
            f"restored before the first step. Received: model={model.name!r} with unbuilt layers "
            f"{unbuilt}. Call each of these layers once before the training, or remove the "
            "directory."
        )


def scope_of(model: keras.Model) -> AbstractContextManager:
    """Returns the scope of the model's strategy, in which its variables must be created."""
    if keras.backend.backend() == "tensorflow":
        return model.distribute_strategy.scope()
    return contextlib.nullcontext()


def only_has_parts(layer: keras.layers.Layer) -> bool:
    """Returns whether a layer is a model without `call`, such as a GAN, which has built parts."""
    return isinstance(layer, keras.Model) and type(layer).call is keras.Model.call


def _symbolic_batch(batches: Batches) -> object:
    """Returns the first batch as nested `KerasTensor`s."""
    if keras.backend.backend() == "tensorflow" and not isinstance(batches, DatasetBatches):
        batch = batches.dataset(0).element_spec
    else:
        batch = next(batches.stream(0))

    def symbolic(value: Tensor | None) -> keras.KerasTensor | None:
        if value is None:
            return None
        shape: StaticShape = tuple(value.shape)
        return keras.KerasTensor(shape, keras.backend.standardize_dtype(value.dtype))

    return keras.tree.map_structure(symbolic, batch)
