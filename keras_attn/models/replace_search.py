import inspect
from typing import Any

from keras_attn._layer.argument_checks import accepts_numpy_numbers
from keras_attn.models.generation_model import GenerationModel, check_generation_model
from keras_attn.search.search import Search


@accepts_numpy_numbers
def replace_search(
    model: GenerationModel, search_class: type[Search] | None = None, **settings: Any
) -> GenerationModel:
    """Returns a generation model with other settings of the search, of the same layers.

        faster = replace_search(translator, beam_width=2, num_hypotheses=1)
        sampler = replace_search(translator, SamplingDecoder, temperature=0.8)

    Args:
        model: a `GenerationModel`, which is not changed.
        search_class: another class of `Search`, which takes over the arguments that it has too.
            Defaults to the class of the search of the model.
        **settings: arguments of the search that differ. With fewer beams than there were hypotheses
            there are as many hypotheses as beams. If the default tokens were suppressed, those of
            the new special ids are.

    Returns:
        A `GenerationModel` with the same layers but for the search.

    Raises:
        ValueError: for a model of another type, an argument that the search does not have, or a
            value that is out of range; `TypeError` for some of another type.
    """
    check_generation_model(model)
    search = model.search
    search_class = type(search) if search_class is None else search_class
    if not (inspect.isclass(search_class) and issubclass(search_class, Search)):
        raise ValueError(f"search_class must be a class of Search. Received: {search_class!r}.")
    known = _arguments(search_class)
    unknown = sorted(set(settings) - known)
    if unknown:
        raise ValueError(
            f"Expected arguments of {search_class.__name__}: {', '.join(sorted(known))}. "
            f"Received: {', '.join(unknown)}."
        )
    config = search.get_config()
    arguments = {name: value for name, value in config.items() if name in known}
    default = {search.pad_token_id, search.start_token_id} - {search.end_token_id}
    if search.suppressed_token_ids == sorted(default):
        del arguments["suppressed_token_ids"]
    parameter = inspect.signature(search_class.__init__).parameters.get("beam_width")
    widths = {"beam_width": parameter and parameter.default, **arguments, **settings}
    beam_width = widths["beam_width"]
    if isinstance(beam_width, int) and "num_hypotheses" in arguments:
        arguments["num_hypotheses"] = min(arguments["num_hypotheses"], beam_width)
    same = {name: config[name] for name in ("name", "dtype")}
    arguments = {**same, **arguments, **settings}
    return GenerationModel(
        model.encoder,
        search_class(search.decoder, **arguments),
        inputs=model.source,
        source_start_token_id=model.source_start_token_id,
        name=model.name,
    )


def _arguments(search_class):
    """The names of what a search is made with, besides its decoder."""
    parameters = {
        name
        for each in search_class.__mro__
        if issubclass(each, Search)
        for name, parameter in inspect.signature(each.__init__).parameters.items()
        if parameter.kind
        in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    }
    return parameters - {"self", "decoder"}
