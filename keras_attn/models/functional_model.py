import keras


def functional_model(inputs, outputs, name):
    """`keras.Model(inputs, outputs, name=name)`, outside of any `keras.RematScope`.

    Keras 3.15 cannot recompute a model as a whole: neither backend's checkpoint takes the keyword
    argument `training`. The layers of the model keep the scope in which they were created.
    """
    with keras.RematScope(None):
        return keras.Model(inputs, outputs, name=name)
