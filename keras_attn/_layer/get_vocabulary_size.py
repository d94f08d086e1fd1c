def get_vocabulary_size(layer: object) -> int | None:
    """Returns an encoder's or decoder's vocabulary size.

    Args:
        layer: Layer with an `embedding` that has an `input_dim`, or with a `vocabulary_size`.

    Returns:
        Int, or `None` if the size is unknown.
    """
    embedding = getattr(layer, "embedding", None)
    return getattr(embedding, "input_dim", getattr(layer, "vocabulary_size", None))
