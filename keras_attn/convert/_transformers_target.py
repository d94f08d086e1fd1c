"""Finds an architecture in transformers that computes the same results as a model."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import keras

from keras_attn._drop_ins.dropout import Dropout
from keras_attn._models.generation_model import GenerationModel
from keras_attn.convert._architectures import find_architecture
from keras_attn.convert._checkpoint_settings import checkpoint_settings
from keras_attn.convert._conversion_error import ConversionError
from keras_attn.convert._describe_model import possible_configs
from keras_attn.convert._encoder_conversion import (
    class_labels,
    encoder_head,
    encoder_settings,
)
from keras_attn.convert._encoder_heads import build_model, copy_head
from keras_attn.convert._encoder_models import ENCODERS, build_encoder, copy_encoder
from keras_attn.convert._generation_config import generation_config, search_differences
from keras_attn.convert._layer_differences import layer_differences
from keras_attn.convert._search_settings import search_settings, with_languages
from keras_attn.convert._weight_mapping import WeightMapping
from keras_attn.convert._weight_writer import WeightWriter

_SHOWN = 6
"""Maximum number of differences shown in a message."""

_NO_BIAS = "use_output_bias=False instead of True"
"""Accepted difference: transformers uses an output bias of 0 if the checkpoint has none."""


@dataclasses.dataclass(frozen=True)
class TransformersTarget:
    """Mapping from a model's weights to a transformers checkpoint.

    Args:
        class_name: String, the class in transformers.
        layers: List, layers with weights.
        copy_weights: Function that receives a `WeightMapping` and maps all variables to weights.
        new_writer: Function `()` that returns a new `WeightWriter`.
        generation_config: Dict, `generation_config.json`, or `None` without a search.
    """

    class_name: str
    layers: list[Any]
    copy_weights: Callable[[WeightMapping], None]
    new_writer: Callable[[], WeightWriter]
    generation_config: dict[str, Any] | None = None

    @property
    def variables(self) -> list[Any]:
        """The layers' variables."""
        return [variable for layer in self.layers for variable in layer.weights]


class _DifferentModel(ConversionError):
    def __init__(self, message, count):
        super().__init__(message)
        self.count = count


def find_config(model: Any, languages: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns a `config.json` for a model that was not converted from a checkpoint.

    Args:
        model: `GenerationModel`.
        languages: See `find_target`.

    Raises:
        ConversionError: If no architecture computes the same results as the model.
    """
    errors = []
    for config in possible_configs(model):
        try:
            find_target(model, config, None, languages)
            return config
        except _DifferentModel as error:
            errors.append(error)
    nearest = min(errors, key=lambda error: error.count)
    raise ConversionError(f"{nearest} Other architectures of transformers differ more.")


def find_target(
    model: Any,
    config: Mapping[str, Any],
    generation: Mapping[str, Any] | None = None,
    languages: Mapping[str, Any] | None = None,
    has_tokenizer: bool = False,
) -> TransformersTarget:
    """Returns the mapping from a model's weights to a checkpoint with a given `config.json`.

    Args:
        model: `GenerationModel`, or functional model with an encoder.
        config: Dict, `config.json`.
        generation: Dict, `generation_config.json`. Defaults to `None`: a new one.
        languages: Dict, the target tokenizer's `languages`. Defaults to `None`: no languages.
        has_tokenizer: Bool, whether the folder contains a `tokenizer.json`, which determines the
            start and end tokens of sources and prompts. Defaults to `False`: they must equal the
            architecture's tokens.

    Returns:
        `TransformersTarget`.

    Raises:
        ConversionError: If the architecture does not compute the same results as the model.
    """
    if config.get("model_type") in ENCODERS:
        return _encoder(model, dict(config))
    return _generator(model, dict(config), generation, languages or {}, has_tokenizer)


def _generator(model, config, generation, languages, has_tokenizer):
    architecture = find_architecture(config)
    class_name = architecture.model_class
    if not isinstance(model, GenerationModel):
        raise ConversionError(
            f"Expected a GenerationModel, because config.json belongs to a {class_name}. "
            f"Received: {type(model).__name__}. Pass the model with its search."
        )
    settings, search_source = checkpoint_settings(config, generation, architecture)
    layers = (model.encoder, model.decoder)
    is_tied = getattr(model.decoder, "head", None) is None

    def new_writer():
        return WeightWriter([layer for layer in layers if layer is not None], is_tied)

    expected = architecture.build(architecture, settings, new_writer())
    if has_tokenizer and None not in (model.encoder, expected[0]):
        for name in ("start_token_id", "end_token_id"):
            setattr(expected[0], name, getattr(model.encoder, name, None))
    differences = []
    for side, layer, other in zip(("encoder", "decoder"), layers, expected, strict=True):
        if (layer is None) != (other is None):
            differences.append(f"{side}={layer and type(layer).__name__}")
        elif layer is not None:
            texts = layer_differences(layer, other)
            differences += [f"{side}: {text}" for text in texts if text != _NO_BIAS]
    is_language_model = architecture.is_language_model
    adds_start = is_language_model and architecture.options["adds_start"]
    start = settings["bos_token_id"] if adds_start else None
    if not differences and not has_tokenizer and model.source_start_token_id != start:
        differences.append(
            f"source_start_token_id={model.source_start_token_id} instead of {start}"
        )
    _refuse(class_name, differences)
    positions = None
    if "max_position_embeddings" in settings:
        positions = settings["max_position_embeddings"]
    search = _original_search(search_source, positions, is_language_model)
    with_codes = None if search is None else with_languages(search, languages)
    if (
        generation is None
        or with_codes is None
        or search_differences(model.search, with_codes, is_language_model)
    ):
        arguments = (model.search, is_language_model, languages, positions)
        generation = generation_config(*arguments)
    impossible = () if search is None else search.impossible_token_ids
    return TransformersTarget(
        class_name,
        [layer for layer in layers if layer is not None],
        lambda copy: architecture.copy_weights(architecture, settings, impossible, layers, copy),
        new_writer,
        dict(generation),
    )


def _original_search(settings, positions, is_language_model):
    """Returns a checkpoint's search, or `None` if it is not supported."""
    try:
        return search_settings(settings, positions, is_language_model)
    except ConversionError:
        return None


def _encoder(model, config):
    architecture = ENCODERS[config["model_type"]]
    class_name, head = encoder_head(architecture, config)
    if isinstance(model, GenerationModel) or not hasattr(model, "layers"):
        raise ConversionError(
            f"Expected a functional model of an encoder, because config.json belongs to a "
            f"{class_name}. Received: {type(model).__name__}. Pass the converted or fine-tuned "
            "model."
        )
    settings = encoder_settings(architecture, config)
    labels = class_labels(settings) if head in ("sequence", "token") else ()
    layers = _named_layers(model)
    encoder: Any = layers.get("encoder")
    ids = (getattr(encoder, name, None) for name in ("start_token_id", "end_token_id"))
    other = build_encoder(architecture, settings, *ids)
    has_pooler = "pooler" in layers
    expected = _named_layers(
        build_model(architecture, head, settings, other, len(labels), has_pooler)
    )
    differences = [
        f"{'no' if name in expected else 'the'} layer {name!r}"
        for name in sorted(expected.keys() ^ layers.keys())
    ]
    for name in sorted(expected.keys() & layers.keys()):
        texts = layer_differences(layers[name], expected[name])
        differences += [f"{name}: {text}" for text in texts]
    _refuse(class_name, differences)
    prefix = (f"{architecture.prefix}.",) if head == "encoder" else ()

    def copy_weights(copy):
        copy_encoder(architecture, encoder, copy)
        copy_head(architecture, head, settings, model, copy)

    return TransformersTarget(
        class_name,
        [model],
        copy_weights,
        lambda: WeightWriter(list(layers.values()), settings["tie_word_embeddings"], prefix),
    )


def _named_layers(model):
    """Returns a functional model's layers that compute something in inference."""
    without = (keras.layers.InputLayer, keras.layers.Dropout, Dropout)
    return {layer.name: layer for layer in model.layers if not isinstance(layer, without)}


def _refuse(class_name, differences):
    if differences:
        more = len(differences) - _SHOWN
        rest = f" and {more} more" if more > 0 else ""
        raise _DifferentModel(
            f"Expected a model that computes the same as {class_name} of transformers with its "
            f"config.json. Received: {'; '.join(differences[:_SHOWN])}{rest}. The class cannot "
            "hold this model.",
            len(differences),
        )
