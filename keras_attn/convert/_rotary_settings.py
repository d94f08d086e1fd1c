"""Rotary positions in the Llama family: `rope_parameters`, or `rope_theta` and `rope_scaling`."""

from collections.abc import Mapping
from typing import Any

from keras_attn._positions.rotary_positions import RotaryPositions
from keras_attn._positions.rotary_scaling import (
    LinearRotaryScaling,
    Llama3RotaryScaling,
    RotaryScaling,
    YarnRotaryScaling,
)
from keras_attn.convert._conversion_error import ConversionError
from keras_attn.convert._settings import Setting, Settings, mapped

LENGTH_DEPENDENT = ("dynamic", "longrope", "su")
"""`rope_type` values whose frequencies depend on the text length."""

_NAMES: dict[str, tuple[type[RotaryScaling], dict[str, str]]] = {
    "linear": (LinearRotaryScaling, {"factor": "factor"}),
    "llama3": (
        Llama3RotaryScaling,
        {
            "factor": "factor",
            "low_freq_factor": "low_frequency_factor",
            "high_freq_factor": "high_frequency_factor",
            "original_max_position_embeddings": "original_length",
        },
    ),
    "yarn": (
        YarnRotaryScaling,
        {
            "factor": "factor",
            "original_max_position_embeddings": "original_length",
            "beta_fast": "beta_fast",
            "beta_slow": "beta_slow",
            "truncate": "truncate",
            "attention_factor": "attention_factor",
        },
    ),
}
"""Dict from `rope_type` to the class and its arguments by their names in transformers."""


def rotary_positions(settings: Settings) -> RotaryPositions:
    """Returns the rotary positions that a `config.json` describes.

    As in transformers, `rope_scaling` from earlier releases replaces `rope_parameters`, and
    `rope_theta` is used if neither contains it.

    Args:
        settings: `Settings` with the keys `ROTARY`.

    Raises:
        ConversionError: If the frequencies depend on the text length, or a parameter is unknown,
            missing or out of range.
    """
    key = "rope_scaling" if settings["rope_scaling"] else "rope_parameters"
    parameters = {name: value for name, value in (settings[key] or {}).items() if value is not None}
    old_type = parameters.pop("type", "default")
    kind = parameters.pop("rope_type", old_type)
    theta = parameters.pop("rope_theta", settings["rope_theta"])
    if parameters.get("partial_rotary_factor") == 1:
        del parameters["partial_rotary_factor"]
    try:
        if kind == "default" and not parameters:
            return RotaryPositions(float(theta))
        if kind in _NAMES:
            scaling = _scaling(kind, parameters, settings)
            return RotaryPositions(float(theta), scaling=scaling)
    except (TypeError, ValueError) as error:
        raise _error(settings, key, f"{error}") from error
    if kind in LENGTH_DEPENDENT:
        reason = f"The frequencies of {kind!r} depend on the length of the text."
        raise _error(settings, key, reason)
    raise _error(settings, key, "Other rotary positions cannot be converted.")


def rope_parameters(rotary: Any) -> dict[str, Any]:
    """Returns the `rope_parameters` for `RotaryPositions` or no positions."""
    scaling = getattr(rotary, "scaling", None)
    theta = float(getattr(rotary, "max_wavelength", 10000.0))
    for kind, (scaling_class, names) in _NAMES.items():
        if isinstance(scaling, scaling_class):
            values = {theirs: getattr(scaling, ours) for theirs, ours in names.items()}
            values = {name: value for name, value in values.items() if value is not None}
            return {"rope_theta": theta, "rope_type": kind, **values}
    return {"rope_theta": theta, "rope_type": "default"}


def max_positions(default: int) -> dict[str, Setting]:
    """Returns the `Setting` for `max_position_embeddings`, with its default."""
    note = "original_length of scaled rotary positions, by default"
    return {"max_position_embeddings": mapped(note, default)}


ROTARY: dict[str, Setting] = {
    "rope_parameters": mapped("rotary positions", check=rotary_positions, kind=dict),
    "rope_theta": mapped("max_wavelength of the rotary positions", 10000.0),
    "rope_scaling": mapped("scaling of the rotary positions", kind=dict),
    **max_positions(2048),
    "original_max_position_embeddings": mapped(
        "original_length of scaled rotary positions", kind=int
    ),
}
"""`config.json` keys for rotary positions."""


def _scaling(kind: str, parameters: Mapping[str, Any], settings: Settings) -> RotaryScaling:
    scaling_class, names = _NAMES[kind]
    values = dict(parameters)
    if "original_max_position_embeddings" in names:
        original = settings["original_max_position_embeddings"]
        limit = settings["max_position_embeddings"]
        if original is not None:
            values["original_max_position_embeddings"] = original
        values.setdefault("original_max_position_embeddings", limit)
        if kind == "yarn":
            values.setdefault("factor", limit / values["original_max_position_embeddings"])
            _use_magnitudes(values)
    unknown = sorted(values.keys() - names.keys())
    if unknown:
        raise ValueError(f"The parameter {unknown[0]!r} is unknown.")
    return scaling_class(**{names[name]: value for name, value in values.items()})


def _use_magnitudes(values):
    """Replaces `mscale` and `mscale_all_dim`, a quotient of magnitudes, by `attention_factor`."""
    scales = values.pop("mscale", None), values.pop("mscale_all_dim", None)
    if "attention_factor" in values or not all(scales):
        return
    basic = YarnRotaryScaling(values["factor"], 1).magnitude - 1
    values["attention_factor"] = (scales[0] * basic + 1) / (scales[1] * basic + 1)


def _error(settings, key, reason):
    kinds = ("default", *_NAMES)
    return ConversionError(
        f"Expected {key} in {settings.file} with a rope_type among {kinds} and its parameters. "
        f"Received: {key}={settings[key]!r}. {reason}"
    )
