import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_attn.convert._architecture import Architecture
from keras_attn.convert._checkpoint import CONFIG, GENERATION_CONFIG
from keras_attn.convert._config_settings import FORCES_START
from keras_attn.convert._conversion_error import ConversionError
from keras_attn.convert._generation_settings import GENERATION
from keras_attn.convert._search_refusals import is_id
from keras_attn.convert._settings import Settings, irrelevant


def checkpoint_settings(
    config: Mapping[str, Any],
    generation_config: Mapping[str, Any] | None,
    architecture: Architecture,
    replaced: Mapping[str, Any] | None = None,
) -> tuple[Settings, Settings]:
    """Returns the `Settings` of a model and of its search.

    Args:
        config: Dict, `config.json`.
        generation_config: Dict, `generation_config.json`, or `None` without this file.
        architecture: `Architecture`.
        replaced: Dict from search setting names to values that replace those in the file. The id
            of a special token also replaces a list of ids in `config.json`, from which sources need
            one. Defaults to `None`: none.

    Returns:
        Tuple `(model, search)` of `Settings`.

    Raises:
        ConversionError: If `replaced` contains a name that is no search setting.
    """
    replaced = _check_replaced(replaced)
    if generation_config is not None:
        unused = irrelevant(f"{GENERATION_CONFIG} replaces it")
        table = {**dict.fromkeys(GENERATION, unused), **architecture.settings}
        before = {name: generation_config.get(name) for name in replaced}
        values = {**generation_config, **replaced}
        generation = Settings(GENERATION_CONFIG, values, GENERATION, True, before)
        chosen = {
            name: value
            for name, value in replaced.items()
            if name in architecture.settings and isinstance(config.get(name), list) and is_id(value)
        }
        before = {name: config[name] for name in chosen}
        return Settings(CONFIG, {**config, **chosen}, table, replaced=before), generation
    # Files from transformers 4.46 and later contain null for search settings.
    nullable = {key: dataclasses.replace(item, nullable=True) for key, item in GENERATION.items()}
    table = {**nullable, **architecture.settings}
    values = dict(config)
    if values.get(FORCES_START) is True and FORCES_START in table:
        start = config.get("bos_token_id", table["bos_token_id"].default)
        values["forced_bos_token_id"] = start
    before, values = {name: config.get(name) for name in replaced}, {**values, **replaced}
    settings = Settings(CONFIG, values, table, replaced=before)
    # As in transformers, a missing search setting has the default in `GENERATION`, not in the
    # architecture.
    return settings, Settings(CONFIG, values, {**table, **GENERATION}, True, before)


def _check_replaced(replaced):
    replaced = dict(replaced or {})
    names = [name for name, item in GENERATION.items() if item.treatment != "irrelevant"]
    unknown = [name for name in replaced if name not in names]
    if unknown:
        raise ConversionError(
            f"Expected settings of the search, which are {names}. Received: settings={replaced!r}, "
            f"with {unknown[0]!r}. Settings of the model belong to its weights and cannot be "
            "replaced."
        )
    return replaced
