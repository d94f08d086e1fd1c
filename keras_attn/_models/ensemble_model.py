from collections.abc import Sequence

from keras_attn._decoders.ensemble_decoder import EnsembleDecoder
from keras_attn._encoders.ensemble_encoder import EnsembleEncoder
from keras_attn._models.generation_model import GenerationModel, check_generation_model

SPECIAL = ("start_token_id", "end_token_id", "pad_token_id")


def ensemble_model(
    models: Sequence[GenerationModel],
    member_weights: Sequence[float] | None = None,
    *,
    average: str = "arithmetic",
    name: str = "ensemble",
) -> GenerationModel:
    """Returns a generation model that averages the predictions of several models.

        p(y_t) = sum_i w_i p_i(y_t)

    Here p_i(y_t) is the probability that model i predicts for target token y_t. An ensemble of
    separately trained models is usually better than each single model. The search takes about as
    long as all models' searches together ([Sutskever et al.,
    2014](https://arxiv.org/abs/1409.3215), table 1). Recurrent models and Transformers can be
    combined. The models must have the same inputs and the same target ids, so train them with the
    same tokenizers. The ensemble shares the models' layers, and can be exported like any
    `GenerationModel`.

    Args:
        models: List of `GenerationModel`s with one input each. The ensemble uses the first model's
            search settings.
        member_weights: List of positive floats, the models' weights w_i, which are normalized to
            sum to 1. Defaults to `None`: equal weights.
        average: String, `"arithmetic"` (mean of the probabilities, as in the equation) or
            `"geometric"` (mean of the log probabilities). See `EnsembleDecoder`. Defaults to
            `"arithmetic"`.
        name: String, model name. Defaults to `"ensemble"`.

    Returns:
        A `GenerationModel` with the first model's inputs. It returns the search results, see
        `Search`.

    Raises:
        ValueError: If there are no models, an element is not a `GenerationModel` or has several
            inputs, the special ids, vocabularies or inputs of the models differ, `average` is
            unknown, or `member_weights` are not one positive number for each model.

    Example:

    >>> import numpy as np
    >>> from keras_attn import GenerationModel, GreedyDecoder, ensemble_model, rnn_seq2seq
    >>> pairs = [rnn_seq2seq(20, 30, units=8, embedding_dim=8) for _ in range(2)]
    >>> models = [GenerationModel(e, GreedyDecoder(d, max_length=5)) for e, d in pairs]
    >>> results = ensemble_model(models)(np.array([[5, 6, 7, 2]]))
    >>> tuple(results["lengths"].shape)  # (batch, hypotheses)
    (1, 1)
    """
    if not isinstance(models, (list, tuple)) or not models:
        raise ValueError(
            "Expected models to be a list of at least one GenerationModel. Received: "
            f"models={getattr(models, 'name', models)!r}. Pass [first, second]."
        )
    for model in models:
        check_generation_model(model)
        if isinstance(model.source, dict):
            raise ValueError(
                f"Expected models with one input. Received: model {model.name!r} with inputs "
                f"{list(model.source)}. Create an EnsembleEncoder and an EnsembleDecoder instead."
            )
    searches = [model.search for model in models]
    special = [{id_: getattr(search, id_) for id_ in SPECIAL} for search in searches]
    if any(ids != special[0] for ids in special):
        raise ValueError(
            f"Expected searches with the same special token ids. Received: {special}. Train the "
            "models with the same tokenizers."
        )
    decoder = EnsembleDecoder(
        [search.decoder for search in searches], member_weights, average=average, name="decoder"
    )
    arguments = {**searches[0].get_config(), "decoder": decoder, "name": "search"}
    arguments["rules"] = searches[0].rules
    search = type(searches[0])(**arguments)
    encoder = EnsembleEncoder([model.source_encoder for model in models], name="encoder")
    return GenerationModel(encoder, search, inputs=models[0].source, name=name)
