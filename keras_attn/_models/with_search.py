import inspect
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from keras_attn._layer.argument_checks import accepts_numpy_numbers
from keras_attn._models.generation_model import GenerationModel, check_generation_model
from keras_attn._search.search import Search
from keras_attn_checks.search_names import unknown_arguments_problem

MOST_KEPT = 8
"""Number of models with other settings that are kept for each model, because each compiles."""

_KEPT: WeakKeyDictionary[GenerationModel, dict[str, GenerationModel]] = WeakKeyDictionary()


@accepts_numpy_numbers
def with_search(
    model: GenerationModel, search_class: type[Search] | None = None, **settings: Any
) -> GenerationModel:
    """Returns a generation model with the same layers and a different search.

    Use this function to change search settings, such as `beam_width`, in a trained or loaded model,
    or to sample from a model that was saved with beam search. The argument `model` is not modified.

    Args:
        model: `GenerationModel`.
        search_class: Class of the new search, a subclass of `Search`. The new search keeps all
            current settings that its constructor accepts. Defaults to `None`: the current search's
            class.
        **settings: Arguments of the search to change. If the new `beam_width` is less than the
            current `num_hypotheses`, `num_hypotheses` is reduced to `beam_width`, unless you pass
            `num_hypotheses`. The new search keeps changed `suppressed_token_ids`, but computes
            default ones from its own special ids.

    Returns:
        A `GenerationModel` that shares the encoder and the decoder with `model`.

    Raises:
        ValueError: If `model` is not a `GenerationModel`, `search_class` is not a subclass of
            `Search`, an argument is unknown, or a value is out of range.
        TypeError: If a value has a wrong type.

    Example:

    >>> from keras_attn import (
    ...     BeamDecoder, GenerationModel, SamplingDecoder, rnn_seq2seq, with_search,
    ... )
    >>> encoder, decoder = rnn_seq2seq(20, 30, units=8, embedding_dim=8)
    >>> model = GenerationModel(encoder, BeamDecoder(decoder, beam_width=4, max_length=5))
    >>> with_search(model, beam_width=2).search.beam_width
    2
    >>> sampler = with_search(model, SamplingDecoder, temperature=0.8)
    >>> sampler.search.max_length, sampler.search.temperature
    (5, 0.8)
    """
    check_generation_model(model)
    return GenerationModel(
        model.encoder,
        new_search(model.search, search_class, settings),
        inputs=model.source,
        source_start_token_id=model.source_start_token_id,
        name=model.name,
    )


def new_search(
    search: Search,
    search_class: type[Search] | None = None,
    settings: Mapping[str, object] | None = None,
) -> Search:
    """Returns a search with the same decoder that was not called yet, see `with_search`."""
    search_class = type(search) if search_class is None else search_class
    settings = settings or {}
    if not (inspect.isclass(search_class) and issubclass(search_class, Search)):
        raise ValueError(
            f"Expected search_class to be a subclass of Search. Received: {search_class=}. Pass a "
            "class, such as BeamDecoder."
        )
    allowed = _arguments(search_class)
    unknown = sorted(set(settings) - allowed)
    if unknown:
        raise ValueError(unknown_arguments_problem(search_class.__name__, unknown, allowed))
    config = search.get_config()
    arguments = {name: value for name, value in config.items() if name in allowed}
    arguments["rules"] = search.rules
    if search.suppressed_token_ids == search.default_suppressed_token_ids:
        del arguments["suppressed_token_ids"]
    parameter = inspect.signature(search_class.__init__).parameters.get("beam_width")
    widths = {"beam_width": parameter and parameter.default, **arguments, **settings}
    beam_width = widths["beam_width"]
    if isinstance(beam_width, int) and "num_hypotheses" in arguments:
        arguments["num_hypotheses"] = min(arguments["num_hypotheses"], beam_width)
    same = {name: config[name] for name in ("name", "dtype")}
    arguments = {**same, **arguments}
    arguments.update(settings)
    return search_class(search.decoder, **arguments)


def kept_with_search(model: GenerationModel, settings: Mapping[str, object]) -> GenerationModel:
    """Returns a model with other settings of the search, and keeps it for the next calls."""
    if not settings:
        return model
    kept = _KEPT.setdefault(model, {})
    key = repr(sorted(settings.items()))
    if key not in kept:
        new = with_search(model, None, **settings)
        if len(kept) == MOST_KEPT:
            del kept[next(iter(kept))]
        kept[key] = new
    return kept[key]


def _arguments(search_class: type[Search]) -> set[str]:
    """Returns the names of the constructor arguments of a search class, except `decoder`."""
    parameters = {
        name
        for class_ in search_class.__mro__
        if issubclass(class_, Search)
        for name, parameter in inspect.signature(class_.__init__).parameters.items()
        if parameter.kind
        in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    }
    return parameters - {"self", "decoder"}
