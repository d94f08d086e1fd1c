from keras_attn.decoders.ensemble_decoder import EnsembleDecoder
from keras_attn.encoders.ensemble_encoder import EnsembleEncoder
from keras_attn.models.encoder_and_search import encoder_and_search
from keras_attn.models.search_model import search_model

SPECIAL = ("start_token_id", "end_token_id", "pad_token_id")


def ensemble_model(models, member_weights=None, average="arithmetic", name="translator"):
    """One search model of several that were trained alone: they choose each token together.

    The models may be of any kinds, recurrent or Transformers, but must read the same ids and choose
    from the same ones: their tokenizers must be equal. The ensemble is deployed like each of them,
    and shares its layers.

        translators = [keras.models.load_model(path) for path in paths]
        export_onnx(ensemble_model(translators), "translator.onnx")

    Args:
        models: list of search models, see `search_model`. The settings of the search are those of
            the first.
        member_weights, average: see `EnsembleDecoder`.
        name: str.

    Returns:
        Functional model as from `search_model`, with the layers "encoder" and "search".

    Raises:
        ValueError: for no models, models of another form, special ids or vocabularies that differ.
    """
    if not isinstance(models, (list, tuple)) or not models:
        raise ValueError(
            "models must be a list of at least one search model. "
            f"Received: models={getattr(models, 'name', models)!r}."
        )
    encoders, searches = zip(*map(encoder_and_search, models), strict=True)
    special = [{id_: getattr(search, id_) for id_ in SPECIAL} for search in searches]
    if any(each != special[0] for each in special):
        raise ValueError(f"Expected searches with the same special token ids. Received: {special}.")
    decoders = [search.decoder for search in searches]
    decoder = EnsembleDecoder(decoders, member_weights, average, name="decoder")
    arguments = {**searches[0].get_config(), "decoder": decoder, "name": "search"}
    search = type(searches[0])(**arguments)
    return search_model(EnsembleEncoder(encoders, name="encoder"), search, name)
