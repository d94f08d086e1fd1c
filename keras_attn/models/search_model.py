import keras

from keras_attn.models.functional_model import functional_model
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

    Raises:
        ValueError: `search` is no `Search`.
    """
    if not isinstance(search, Search):
        raise ValueError(
            "Expected an encoder and then a search, such as BeamDecoder(decoder). Received: "
            f"search={type(search).__name__}."
        )
    source_ids = keras.Input((None,), dtype="int32", name="source_ids")
    return functional_model(source_ids, search(**encoder(source_ids)), name)
