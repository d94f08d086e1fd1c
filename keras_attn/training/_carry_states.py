from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from numpy.typing import ArrayLike

from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn._types import TensorDict


class CarryStates(keras.callbacks.Callback):
    """Resets and restores states of recurrent layers with `stateful=True` during training.

    Within an epoch, such a layer starts each batch from the final states of the previous one. The
    callback sets the states to zero at the beginning and end of each epoch, and at the beginning of
    each validation. A validation within an epoch does not change the training states. If
    `keras_attn.training.fit` resumes an interrupted epoch from a checkpoint, the layers continue
    with the states in the checkpoint. List the callback after callbacks that call the model at the
    beginning of an epoch. Within an epoch, a callback must not call the model itself, because that
    changes the states: let it call a second model with the same weights. Use `CarryStates` with
    `ConsecutiveWindows`. JAX is not supported, because a training step that JAX has compiled cannot
    change these states. On PyTorch, Keras cannot train an LSTM or GRU with `stateful=True`.

    Raises:
        ValueError: If the model has no layer with `stateful=True`.
        RuntimeError: If the backend is JAX.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attn.training import CarryStates
    >>> inputs = keras.Input((None, 2), batch_size=1)
    >>> model = keras.Model(inputs, keras.layers.GRU(3, stateful=True)(inputs))
    >>> model.compile("sgd", "mse")
    >>> x, y = np.ones((1, 4, 2)), np.ones((1, 3))
    >>> history = model.fit(x, y, batch_size=1, verbose=0, callbacks=[CarryStates()])
    >>> [float(abs(state).max()) for state in CarryStates.states(model)]
    [0.0]
    """

    model: Any

    def __init__(self) -> None:
        super().__init__()
        self._in_epoch = False
        self._restored: Sequence[ArrayLike] | None = None
        self._before_validation: list[np.ndarray] | None = None

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

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self._in_epoch = False  # still `True` if the previous training was interrupted

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self._assign(self._restored)
        self._in_epoch = True

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self._assign(None)
        self._restored = None
        self._in_epoch = False

    def on_test_begin(self, logs: dict[str, float] | None = None) -> None:
        self._before_validation = self.states(self.model) if self._in_epoch else None
        self._assign(None)

    def on_test_end(self, logs: dict[str, float] | None = None) -> None:
        self._assign(self._before_validation)

    def get_state(self) -> TensorDict:
        """Returns a dict: `states` are nested lists, or `None` between two epochs."""
        states = [state.tolist() for state in self.states(self.model)] if self._in_epoch else None
        return {"states": states}

    def set_state(self, state: TensorDict) -> None:
        """Restores a result of `get_state` now, and again at the beginning of the next epoch."""
        self._restored = state["states"]
        self._assign(self._restored)

    def _assign(self, states: Sequence[ArrayLike] | None) -> None:
        """Sets the states of the layers to arrays, or to zero if `states` is `None`."""
        variables = _variables(self.model)
        if states is None:
            states = [np.zeros(variable.shape) for variable in variables]
        for variable, state in zip(variables, states, strict=True):
            variable.assign(np.asarray(state, variable.dtype))


def _stateful_layers(model: keras.Model) -> list[keras.layers.RNN]:
    layers = flatten_layers([model])
    return [layer for layer in layers if isinstance(layer, keras.layers.RNN) and layer.stateful]


def _variables(model: keras.Model) -> list[keras.Variable]:
    layers = _stateful_layers(model)
    # The layers of a model that is not built have no states.
    built = [layer.states for layer in layers if layer.states is not None]
    return keras.tree.flatten(built)
