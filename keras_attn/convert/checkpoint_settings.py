import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_attn.convert.architecture import Architecture
from keras_attn.convert.checkpoint import CONFIG, GENERATION_CONFIG
from keras_attn.convert.config_settings import FORCES_START
from keras_attn.convert.conversion_error import ConversionError
from keras_attn.convert.generation_settings import GENERATION
from keras_attn.convert.settings import Settings, irrelevant


def checkpoint_settings(
    config: Mapping[str, Any],
    generation_config: Mapping[str, Any] | None,
    architecture: Architecture,
    replaced: Mapping[str, Any] | None = None,
) -> tuple[Settings, Settings]:
    """Returns the `Settings` of a model and the `Settings` of its search.

    Args:
        config: Dict, content of `config.json`.
        generation_config: Dict, content of `generation_config.json`, or `None` without this file.
        architecture: `Architecture`.
        replaced: Dict from names of search settings to values that replace those in the file.
            Defaults to `None`: none.

    Returns:
        Tuple of the `Settings` of the model and the `Settings` of the search.

    Raises:
        ConversionError: If `replaced` has a name that is no setting of the search.
    """
    replaced = _check_replaced(replaced)
    if generation_config is not None:
        unused = irrelevant(f"{GENERATION_CONFIG} replaces it")
        table = {**dict.fromkeys(GENERATION, unused), **architecture.settings}
        before = {name: generation_config.get(name) for name in replaced}
        values = {**generation_config, **replaced}
        generation = Settings(GENERATION_CONFIG, values, GENERATION, True, before)
        return Settings(CONFIG, config, table), generation
    # Files of transformers 4.46 and later contain null for search settings.
    nullable = {name: dataclasses.replace(each, nullable=True) for name, each in GENERATION.items()}
    table = {**nullable, **architecture.settings}
    values = dict(config)
    if values.get(FORCES_START) is True and FORCES_START in table:
        start = config.get("bos_token_id", table["bos_token_id"].default)
        values["forced_bos_token_id"] = start
    before, values = {name: config.get(name) for name in replaced}, {**values, **replaced}
    settings = Settings(CONFIG, values, table, replaced=before)
    # As in transformers, a missing search setting has the default of `GENERATION`, not the default
    # of the architecture.
    return settings, Settings(CONFIG, values, {**table, **GENERATION}, True, before)


def _check_replaced(replaced):
    replaced = dict(replaced or {})
    known = [name for name, each in GENERATION.items() if each.treatment != "irrelevant"]
    unknown = [name for name in replaced if name not in known]
    if unknown:
        raise ConversionError(
            f"Expected settings of the search, which are {known}. Received: settings={replaced!r}, "
            f"with {unknown[0]!r}. Settings of the model belong to its weights and cannot be "
            "replaced."
        )
    return replaced
