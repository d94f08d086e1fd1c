from typing import Any

import keras
import numpy as np

from keras_attn._layer.flatten_layers import flatten_layers


class CarryStates(keras.callbacks.Callback):
    """Resets and restores the states of recurrent layers with `stateful=True` during training.

    Within an epoch, such a layer starts each batch from its final states of the previous batch. The
    callback sets the states to zero at the beginning of each epoch and of each validation. If `fit`
    resumes an interrupted epoch, the callback restores the states. (`fit` alone does not restore
    the states, because Keras does not count them as variables of the model.) Use it with
    `ConsecutiveWindows`. JAX is not supported, because a training step that JAX has compiled cannot
    change these states.

    Raises:
        ValueError: If the model has no layer with `stateful=True`.
        RuntimeError: If the backend is JAX.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> inputs = keras.Input((None, 2), batch_size=1)
    >>> model = keras.Model(inputs, keras.layers.GRU(3, stateful=True)(inputs))
    >>> model.compile("sgd", "mse")
    >>> x, y = np.ones((1, 4, 2)), np.ones((1, 3))
    >>> history = model.fit(x, y, batch_size=1, verbose=0, callbacks=[CarryStates()])
    >>> [float(abs(state).max()) for state in CarryStates.states(model)]
    [0.0]
    """

    model: Any

    @staticmethod
    def states(model: keras.Model) -> list[np.ndarray]:
        """Returns the states of all layers with `stateful=True`, arrays `(batch, units)`."""
        return [keras.ops.convert_to_numpy(variable) for variable in _variables(model)]

    def set_model(self, model: keras.Model) -> None:
        super().set_model(model)
        if keras.backend.backend() == "jax":
            raise RuntimeError(
                "Expected a backend that carries the states of recurrent layers. On JAX, Keras "
                "compiles the states into the training step as constants. Received: "
                "backend='jax'. Use TensorFlow."
            )
        if not _stateful_layers(model):
            raise ValueError(
                "Expected a model with a recurrent layer with stateful=True. Received: "
                f"model={model}. Pass stateful=True to the recurrent layers."
            )

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._reset()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._reset()

    def get_state(self) -> dict[str, Any]:
        """Returns the states of the layers as nested lists, for `TrainingCheckpoint`."""
        return {"states": [state.tolist() for state in self.states(self.model)]}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores states that `get_state` returned."""
        for variable, value in zip(_variables(self.model), state["states"], strict=True):
            variable.assign(np.asarray(value, variable.dtype))

    def _reset(self):
        for variable in _variables(self.model):
            variable.assign(np.zeros(variable.shape, variable.dtype))


def _stateful_layers(model):
    layers = (each for each in flatten_layers([model]) if isinstance(each, keras.layers.RNN))
    return [each for each in layers if each.stateful]


def _variables(model):
    layers = _stateful_layers(model)
    return [state for layer in layers for state in keras.tree.flatten(layer.states)]
