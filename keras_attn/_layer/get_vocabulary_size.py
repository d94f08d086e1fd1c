def get_vocabulary_size(layer: object) -> int | None:
    """Returns the number of ids that an encoder reads or a decoder chooses from.

    Args:
        layer: one with an `embedding` that has an `input_dim`, or with a `vocabulary_size`.

    Returns:
        int, or `None` for a layer that does not know.
    """
    embedding = getattr(layer, "embedding", None)
    return getattr(embedding, "input_dim", getattr(layer, "vocabulary_size", None))
