from collections.abc import Sequence

from keras_attn.decoders.ensemble_decoder import EnsembleDecoder
from keras_attn.encoders.ensemble_encoder import EnsembleEncoder
from keras_attn.models.generation_model import GenerationModel, check_generation_model

SPECIAL = ("start_token_id", "end_token_id", "pad_token_id")


def ensemble_model(
    models: Sequence[GenerationModel],
    member_weights: Sequence[float] | None = None,
    average: str = "arithmetic",
    name: str = "ensemble",
) -> GenerationModel:
    """A generation model of several that were trained separately: they predict each token together.

    The models may be of any kinds, recurrent or Transformers, but must read the same input and have
    the same target ids: their tokenizers must be equal. The ensemble is deployed like each of them,
    and shares its layers.

        translators = [keras.saving.load_model(path) for path in paths]
        export_onnx(ensemble_model(translators), "translator.onnx")

    Args:
        models: list of `GenerationModel`s. The settings of the search are those of the first.
        member_weights, average: see `EnsembleDecoder`.
        name: str. Defaults to `"ensemble"`.

    Returns:
        A `GenerationModel`.

    Raises:
        ValueError: for no models, models of another type, or models whose special ids,
            vocabularies or inputs differ.
    """
    if not isinstance(models, (list, tuple)) or not models:
        raise ValueError(
            "Expected models to be a list of at least one GenerationModel. "
            f"Received: models={getattr(models, 'name', models)!r}."
        )
    for model in models:
        check_generation_model(model)
        if isinstance(model.source, dict):
            raise ValueError(
                "Expected models with one input. Received: a model with the inputs "
                f"{list(model.source)}."
            )
    searches = [model.search for model in models]
    special = [{id_: getattr(search, id_) for id_ in SPECIAL} for search in searches]
    if any(each != special[0] for each in special):
        raise ValueError(f"Expected searches with the same special token ids. Received: {special}.")
    decoder = EnsembleDecoder(
        [search.decoder for search in searches], member_weights, average, name="decoder"
    )
    arguments = {**searches[0].get_config(), "decoder": decoder, "name": "search"}
    search = type(searches[0])(**arguments)
    encoder = EnsembleEncoder([model.source_encoder for model in models], name="encoder")
    return GenerationModel(encoder, search, inputs=models[0].source, name=name)
