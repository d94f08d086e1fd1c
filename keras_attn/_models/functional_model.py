from typing import Any

import keras

from keras_attn._models.model_inputs import Symbolic


def functional_model(inputs: Symbolic, outputs: Symbolic, name: str | None) -> keras.Model:
    """Returns `keras.Model(inputs, outputs, name=name)`, created outside of any `keras.RematScope`.

    Keras 3.15 cannot rematerialize a whole model, because the backends' rematerialization functions
    do not accept the keyword argument `training`. Layers that were created in a `keras.RematScope`
    are still rematerialized.
    """
    no_mode: Any = None  # Keras accepts None, but its annotation does not
    with keras.RematScope(no_mode):
        return keras.Model(inputs, outputs, name=name)
