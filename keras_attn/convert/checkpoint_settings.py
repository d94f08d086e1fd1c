from collections.abc import Mapping
from typing import Any

from keras_attn.convert.architecture import Architecture
from keras_attn.convert.checkpoint import CONFIG, GENERATION_CONFIG
from keras_attn.convert.generation_settings import GENERATION
from keras_attn.convert.settings import Settings, irrelevant


def checkpoint_settings(
    config: Mapping[str, Any],
    generation_config: Mapping[str, Any] | None,
    architecture: Architecture,
) -> tuple[Settings, Settings]:
    """Returns the `Settings` of a model and the `Settings` of its search.

    Args:
        config: Dict, content of `config.json`.
        generation_config: Dict, content of `generation_config.json`, or `None` without this file.
        architecture: `Architecture`.

    Returns:
        Tuple of the `Settings` of the model and the `Settings` of the search.
    """
    if generation_config is not None:
        unused = irrelevant(f"{GENERATION_CONFIG} replaces it")
        table = {**dict.fromkeys(GENERATION, unused), **architecture.settings}
        generation = Settings(GENERATION_CONFIG, generation_config, GENERATION, True)
        return Settings(CONFIG, config, table), generation
    table = {**GENERATION, **architecture.settings}
    settings = Settings(CONFIG, config, table)
    # As in transformers, a missing search setting has the default of `GENERATION`, not the default
    # of the architecture.
    return settings, Settings(CONFIG, config, {**table, **GENERATION}, True)
