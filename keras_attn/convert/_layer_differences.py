"""Differences between two layers' configurations."""

from collections.abc import Iterator
from typing import Any

import keras

from keras_attn._layer.low_rank_settings import LORA

IGNORED = {
    "activation_dropout",
    "attention_dropout",
    "autocast",
    "build_config",
    "cache_block_size",
    "dropout",
    "dtype",
    "flash_attention",
    "growing_cache",
    LORA,  # merged in written weights
    "module",
    "name",
    "registered_name",
    "reverse_dtype",
    "seed",
    "shared_object_id",
    "trainable",
}
"""Arguments that do not change inference results."""

_MISSING = object()


def layer_differences(found: keras.layers.Layer, expected: keras.layers.Layer) -> list[str]:
    """Lists the differences between two layers' arguments.

    Arguments that do not change inference results are ignored, such as names, dropout rates and
    initializers.

    Args:
        found: Layer.
        expected: Layer.

    Returns:
        List of strings, such as `"block.normalize_first=True instead of False"`.
    """
    if type(found).__name__ != type(expected).__name__:
        return [f"the class {type(found).__name__} instead of {type(expected).__name__}"]
    return list(_differences(_config(found), _config(expected), ""))


def _config(layer):
    """Returns the layer's configuration with unset head sizes filled in."""
    config = layer.get_config()
    if (config.get("embedding") or {}).get("class_name") in ("Embedding", "ReversibleEmbedding"):
        # A ReversibleEmbedding that only embeds is an Embedding.
        arguments = {"logit_soft_cap": None, "tie_weights": True, **config["embedding"]["config"]}
        config["embedding"] = {"class_name": "Embedding", "config": arguments}
    block = (config.get("block") or {}).get("config", {})
    embedding = getattr(layer, "embedding", None)
    if "key_dim" in block and embedding is not None:
        heads = block["num_heads"]
        defaults = {"key_dim": embedding.output_dim // heads, "num_key_value_heads": heads}
        for name, value in defaults.items():
            if block[name] is None:
                block[name] = value
    return config


def _differences(found: Any, expected: Any, path: str) -> Iterator[str]:
    if isinstance(found, dict) and isinstance(expected, dict):
        for name in sorted({*found, *expected}):
            if name in IGNORED or name.endswith(("_initializer", "_regularizer", "_constraint")):
                continue
            # The key "config" contains a serialized layer's arguments. Omit it in the path.
            inner = path if name == "config" else f"{path}.{name}".lstrip(".")
            yield from _differences(found.get(name, _MISSING), expected.get(name, _MISSING), inner)
    elif _plain(found) != _plain(expected):
        yield f"{path}={_shown(found)} instead of {_shown(expected)}"


def _plain(value):
    return list(value) if isinstance(value, tuple) else value


def _shown(value):
    if value is _MISSING:
        return "nothing"
    return value["class_name"] if isinstance(value, dict) and "class_name" in value else repr(value)
