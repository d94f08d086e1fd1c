from typing import Any


def with_new_names(config: dict[str, Any], new_names: dict[str, str]) -> dict[str, Any]:
    """Returns a configuration in which former argument names are replaced.

    Args:
        config: Dict, the configuration of a layer, which may have been saved before the renaming.
        new_names: Dict from the former names to the new names.
    """
    return {new_names.get(name, name): value for name, value in config.items()}
