"""Weight sizes described by each architecture's settings.

They are compared with the weight file's header before a model is built, because a damaged or
malicious `config.json` may describe a model that is too large for the memory.
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from keras_attn.convert._architecture import Architecture
from keras_attn.convert._conversion_error import ConversionError
from keras_attn.convert._encoder_models import EncoderArchitecture
from keras_attn.convert._fairseq_models import FAIRSEQ_MODELS, LEARNED_OFFSET, embedding_tables
from keras_attn.convert._language_models import OPT_OFFSET
from keras_attn.convert._settings import Settings
from keras_attn.convert._t5_models import activation_name
from keras_attn.convert._weight_copy import WeightCopy

Size = tuple[str, int]
"""Setting name, or an expression of several names, and its value."""


@dataclasses.dataclass(frozen=True)
class WeightSizes:
    """Sizes that a `config.json` describes.

    Args:
        shapes: Dict from weight names to the `Size`s of their axes: at least one weight for each
            setting that determines a variable's shape.
        layers: Dict from a stack's weight name prefix, such as `"model.layers"`, to the `Size` with
            the number of layers.
        heads: List of pairs of `Size`s: a number of attention heads, and a number that must be
            divisible by it or divide it, such as the number of features or of key heads.
    """

    shapes: Mapping[str, tuple[Size, ...]]
    layers: Mapping[str, Size]
    heads: list[tuple[Size, Size]]


def check_sizes(sizes: WeightSizes, copy: WeightCopy, file: str) -> None:
    """Compares the sizes with the weight file's header.

    Args:
        sizes: `WeightSizes`.
        copy: `WeightCopy`.
        file: String, name of the settings file.

    Raises:
        ConversionError: If the weights do not have these sizes, or the heads do not divide their
            features. The message names the settings.
    """
    for (name, heads), (features_name, features) in sizes.heads:
        if features % heads:
            raise ConversionError(
                f"Expected {name} in {file} to divide {features_name}={features}. Received: "
                f"{name}={heads}. Copy the file again."
            )
    missing, wrong = [], []
    for name, axes in sizes.shapes.items():
        expected, shape = tuple(value for _, value in axes), copy.shape(name)
        described = ", ".join(f"{label}={value}" for label, value in dict(axes).items())
        if shape is None:
            missing.append(name)
        elif shape != expected:
            wrong.append(f"{name} of shape {shape} instead of {expected} ({described})")
    for name, (setting, count) in sizes.layers.items():
        first_missing = _count_layers(copy, name)
        if first_missing < count:
            missing.append(f"{name}.{first_missing} to {name}.{count - 1} ({setting}={count})")
    parts = {"missing": missing, "wrong": wrong}
    problems = [f"{kind}: {', '.join(names)}" for kind, names in parts.items() if names]
    if problems:
        raise ConversionError(
            f"Expected the weights that the settings describe. Received: weights that are "
            f"{'; '.join(problems)}. Check that {file} belongs to these weights."
        )


def weight_sizes(architecture: Architecture, settings: Settings, copy: WeightCopy) -> WeightSizes:
    """Returns the `WeightSizes` for a translator or a language model."""
    return _FUNCTIONS[architecture.model_type](architecture, settings, copy)


def encoder_sizes(architecture: EncoderArchitecture, settings: Settings) -> WeightSizes:
    """Returns the `WeightSizes` for an encoder."""

    def size(name):
        return architecture.keys[name], architecture.value(settings, name)

    features, embeddings = size("features"), f"{architecture.prefix}.embeddings"
    layers = f"{architecture.prefix}.{architecture.layer}"
    tables = {"word": "vocab_size", "position": "max_position_embeddings"}
    if settings.get("type_vocab_size"):
        tables["token_type"] = "type_vocab_size"
    shapes = {
        f"{embeddings}.{table}_embeddings.weight": ((name, settings[name]), features)
        for table, name in tables.items()
    }
    network = f"{layers}.0.{architecture.feed_forward[0]}.weight"
    shapes[network] = (size("intermediate_dim"), features)
    return WeightSizes(shapes, {layers: size("num_layers")}, [(size("num_heads"), features)])


def _fairseq(architecture, settings, copy):
    features = ("d_model", settings["d_model"])
    names = architecture.options["sizes"]
    names = {"source": names[0], "target": names[-1], "output": names[-1]}
    shapes: dict[str, tuple[Size, ...]] = {}
    for place, (table, size) in embedding_tables(architecture, settings, copy).items():
        shapes.setdefault(table, ((names[place], size), features))
    layers, heads = {}, []
    for side in ("encoder", "decoder"):
        stack = f"model.{side}.layers"
        network = (f"{side}_ffn_dim", settings[f"{side}_ffn_dim"])
        shapes[f"{stack}.0.fc1.weight"] = (network, features)
        layers[stack] = (f"{side}_layers", settings[f"{side}_layers"])
        name = f"{side}_attention_heads"
        heads.append(((name, settings[name]), features))
        if architecture.options["positions"] == "learned":
            shapes[f"model.{side}.embed_positions.weight"] = (
                _positions(settings, "max_position_embeddings", LEARNED_OFFSET),
                features,
            )
    return WeightSizes(shapes, layers, heads)


def _t5(architecture, settings, copy):
    features, heads = ("d_model", settings["d_model"]), settings["num_heads"]
    inner = ("num_heads * d_kv", heads * settings["d_kv"])
    first = "wi_0" if activation_name(settings)[1] else "wi"
    buckets = "relative_attention_num_buckets"
    shapes = {"shared.weight": (("vocab_size", settings["vocab_size"]), features)}
    for side in ("encoder", "decoder"):
        attention = f"{side}.block.0.layer.0.SelfAttention"
        network = f"{side}.block.0.layer.{1 if side == 'encoder' else 2}.DenseReluDense"
        shapes |= {
            f"{attention}.q.weight": (inner, features),
            f"{attention}.relative_attention_bias.weight": (
                (buckets, settings[buckets]),
                ("num_heads", heads),
            ),
            f"{network}.{first}.weight": (("d_ff", settings["d_ff"]), features),
        }
    layers = settings["num_layers"]
    decoder_layers = settings["num_decoder_layers"]
    counts = {
        "encoder.block": ("num_layers", layers),
        "decoder.block": ("num_layers", layers)
        if decoder_layers is None
        else ("num_decoder_layers", decoder_layers),
    }
    return WeightSizes(shapes, counts, [])


def _gpt2(architecture, settings, copy):
    features, inner = ("n_embd", settings["n_embd"]), settings["n_inner"]
    network = ("4 * n_embd", 4 * features[1]) if inner is None else ("n_inner", inner)
    shapes = {
        "transformer.wte.weight": (("vocab_size", settings["vocab_size"]), features),
        "transformer.wpe.weight": (_positions(settings, "n_positions", 0), features),
        "transformer.h.0.mlp.c_fc.weight": (features, network),
    }
    heads = [(("n_head", settings["n_head"]), features)]
    return WeightSizes(shapes, {"transformer.h": ("n_layer", settings["n_layer"])}, heads)


def _opt(architecture, settings, copy):
    features, prefix = ("hidden_size", settings["hidden_size"]), "model.decoder"
    positions = _positions(settings, "max_position_embeddings", OPT_OFFSET)
    shapes = {
        f"{prefix}.embed_tokens.weight": (("vocab_size", settings["vocab_size"]), features),
        f"{prefix}.embed_positions.weight": (positions, features),
        f"{prefix}.layers.0.fc1.weight": (("ffn_dim", settings["ffn_dim"]), features),
    }
    heads = [(("num_attention_heads", settings["num_attention_heads"]), features)]
    layers = {f"{prefix}.layers": ("num_hidden_layers", settings["num_hidden_layers"])}
    return WeightSizes(shapes, layers, heads)


def _llama(architecture, settings, copy):
    features = ("hidden_size", settings["hidden_size"])
    heads = ("num_attention_heads", settings["num_attention_heads"])
    key_heads = ("num_key_value_heads", settings["num_key_value_heads"])
    key_heads = heads if key_heads[1] is None else key_heads
    divided: list[tuple[Size, Size]] = [(key_heads, heads)]
    head_dim = ("head_dim", settings["head_dim"])
    if head_dim[1] is None:
        divided.append((heads, features))
        head_dim = ("hidden_size / num_attention_heads", features[1] // heads[1])
    first = "model.layers.0"
    shapes: dict[str, Any] = {
        "model.embed_tokens.weight": (("vocab_size", settings["vocab_size"]), features),
        f"{first}.mlp.up_proj.weight": (
            ("intermediate_size", settings["intermediate_size"]),
            features,
        ),
    }
    for part, (name, count) in (("q", heads), ("k", key_heads)):
        inner = (f"{name} * {head_dim[0]}", count * head_dim[1])
        shapes[f"{first}.self_attn.{part}_proj.weight"] = (inner, features)
    layers = {"model.layers": ("num_hidden_layers", settings["num_hidden_layers"])}
    return WeightSizes(shapes, layers, divided)


def _positions(settings, name, offset):
    """Returns the size of a learned position table, with the rows before the first position."""
    return (f"{name} + {offset}" if offset else name), settings[name] + offset


def _count_layers(copy, prefix):
    """Returns 1 plus the largest layer index in the weight names."""
    pattern = re.compile(rf"{re.escape(prefix)}\.(\d+)\.")
    matches = (pattern.match(name) for name in copy.names)
    return 1 + max((int(match[1]) for match in matches if match), default=-1)


_FUNCTIONS: dict[str, Any] = {
    **{architecture.model_type: _fairseq for architecture in FAIRSEQ_MODELS},
    **dict.fromkeys(("t5", "mt5"), _t5),
    "gpt2": _gpt2,
    "opt": _opt,
    **dict.fromkeys(("llama", "mistral", "qwen2", "gemma"), _llama),
}
"""Dict from `model_type` to a function `(architecture, settings, copy)`."""
