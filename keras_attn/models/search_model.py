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


def with_search_settings(model, **settings):
    """A search model that searches otherwise: the same encoder and decoder, other settings.

        faster = with_search_settings(translator, beam_width=2, num_hypotheses=1)

    Args:
        model: as `search_model` makes it; it stays as it is.
        **settings: arguments of its `Search` in the place of those it was made with.

    Returns:
        Functional model as from `search_model`, with the same layers but for the search.

    Raises:
        ValueError: for a model of other parts, an argument that the search does not have, or a
            value that is out of range.
    """
    encoder, search = encoder_and_search(model)
    arguments = {**search.get_config(), "decoder": search.decoder}
    known = set(arguments) - {*keras.layers.Layer.get_config(search), "decoder"}
    unknown = sorted(set(settings) - known)
    if unknown:
        raise ValueError(
            f"Expected arguments of {type(search).__name__}: {', '.join(sorted(known))}. "
            f"Received: {', '.join(unknown)}."
        )
    return search_model(encoder, type(search)(**{**arguments, **settings}), model.name)


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
