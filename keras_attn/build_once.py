def build_once(layer, *shapes):
    """Builds a layer unless it is built: one that is shared, or that came built from a saved file.

    Args:
        layer: a Keras layer.
        *shapes: arguments of its `build`.
    """
    if not layer.built:
        layer.build(*shapes)
