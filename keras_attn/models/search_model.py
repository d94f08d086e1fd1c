import keras

from keras_attn.search.search import Search


def search_model(encoder, search, name="translator"):
    """The model that is deployed: source ids to the ids of the best hypotheses.

    It shares encoder and decoder with the model that is trained, so that it needs no weights of its
    own.

    Args:
        encoder: layer that turns `source_ids` into the keyword arguments of a decoder.
        search: a `Search`, for instance `BeamDecoder(decoder)`.
        name: str.

    Returns:
        Functional model from `source_ids` int32 `(batch, source)` to the dict that the search
        returns.
    """
    source_ids = keras.Input((None,), dtype="int32", name="source_ids")
    return keras.Model(source_ids, search(**encoder(source_ids)), name=name)


def encoder_and_search(model):
    """The two layers that a search model is made of.

    Args:
        model: as `search_model` makes it.

    Returns:
        Tuple of the encoder and the `Search`.

    Raises:
        ValueError: for a model of other parts.
    """
    # Not the layers: an operation such as `ids[:, ::-1]` is none.
    is_functional = hasattr(model, "operations")
    parts = model.operations if is_functional else getattr(model, "layers", [model])
    parts = [part for part in parts if not isinstance(part, keras.layers.InputLayer)]
    searches = [part for part in parts if isinstance(part, Search)]
    encoders = [part for part in parts if not isinstance(part, Search)]
    if not is_functional or len(searches) != 1 or len(encoders) != 1:
        names = [f"{getattr(part, 'name', repr(part))} ({type(part).__name__})" for part in parts]
        raise ValueError(
            "Expected a functional search model: source_ids -> encoder -> Search layer "
            f"(BeamDecoder or GreedyDecoder), and nothing else. Received: model with the parts "
            f"{names}."
        )
    return encoders[0], searches[0]
