from typing import Any

import keras


def functional_model(inputs: Any, outputs: Any, name: str | None) -> keras.Model:
    """Returns `keras.Model(inputs, outputs, name=name)`, created outside of any `keras.RematScope`.

    Keras 3.15 cannot recompute a model as a whole, because the checkpoint functions of the backends
    do not accept the keyword argument `training`. The layers of the model keep the scope in which
    they were created.
    """
    no_mode: Any = None  # which Keras accepts, but does not annotate
    with keras.RematScope(no_mode):
        return keras.Model(inputs, outputs, name=name)
