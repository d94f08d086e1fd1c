"""Compares the settings of a call with those that a file accepts."""

from keras_attn_runtime._calls.search_settings import NUM_HYPOTHESES, SEARCH_OF, SIZES
from keras_attn_runtime._file_format import Settings


def check_num_hypotheses(count: int, settings: Settings) -> None:
    """Raises ValueError if a file cannot return so many hypotheses."""
    most = settings.most_hypotheses
    if count <= most:
        return
    if NUM_HYPOTHESES not in settings.search_inputs:
        limit = "the number that the file returns"
        advice = "Export the model with a larger num_hypotheses."
    elif most == settings.beam_width:
        limit = "the beam width of the file"
        advice = "Export the model with a larger beam_width."
    else:
        limit, advice = "for one call", "Pass a smaller number."
    raise ValueError(
        f"Expected num_hypotheses of at most {most}, {limit}. Received: num_hypotheses={count}. "
        f"{advice}"
    )


def check_setting(name: str, value: float, settings: Settings) -> None:
    """Raises ValueError for a setting that a file does not have, or that is too large."""
    values = settings.runtime_settings
    if name not in values:
        has = ", ".join(values) or "none"
        advice = f"`--runtime-settings {name}`, or `runtime_settings=[{name!r}]`"
        search = SEARCH_OF.get(name)
        if search not in (None, settings.search.get("class")):
            advice = f"`--search-class {search}`, because a file has one search"
        raise ValueError(
            f"Expected settings that the file has as inputs: {has}. Received: {name}={value}. "
            f"Export the model with {advice}."
        )
    if name in SIZES and value > values[name] > 0:
        raise ValueError(
            f"Expected {name} of at most {values[name]}, the value in the file. Received: "
            f"{name}={value}. Export the model with a larger {name}."
        )
