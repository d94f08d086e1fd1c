import keras

from keras_attn.models.encoder_and_search import encoder_and_search
from keras_attn.models.search_model import search_model


def with_search_settings(model, **settings):
    """A search model that searches otherwise: the same encoder and decoder, other settings.

        faster = with_search_settings(translator, beam_width=2, num_hypotheses=1)

    Args:
        model: as `search_model` makes it; it stays as it is.
        **settings: arguments of its `Search` in the place of those it was made with. With fewer
            beams than there were hypotheses there are as many hypotheses as beams. If the default
            tokens were suppressed, those of the new special ids are.

    Returns:
        Functional model as from `search_model`, with the same layers but for the search.

    Raises:
        ValueError: for a model of other parts, an argument that the search does not have, or a
            value that is out of range; `TypeError` for some of another type.
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
    default = {search.pad_token_id, search.start_token_id} - {search.end_token_id}
    if search.suppressed_token_ids == sorted(default):
        del arguments["suppressed_token_ids"]
    beam_width = settings.get("beam_width")
    if isinstance(beam_width, int):
        arguments["num_hypotheses"] = min(arguments["num_hypotheses"], beam_width)
    return search_model(encoder, type(search)(**{**arguments, **settings}), model.name)
