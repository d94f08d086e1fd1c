"""Encoder conversion: a checkpoint's settings, tokenizer, encoder and head."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_attn.convert._checkpoint import CONFIG, Checkpoint
from keras_attn.convert._conversion_error import ConversionError, Problems
from keras_attn.convert._encoder_heads import build_model, copy_head, pooler_name
from keras_attn.convert._encoder_models import (
    ENCODERS,
    EncoderArchitecture,
    build_encoder,
    copy_encoder,
)
from keras_attn.convert._generation_settings import GENERATION
from keras_attn.convert._json_tokenizers import build_json_tokenizer
from keras_attn.convert._settings import SettingReport, Settings, check_ignored, irrelevant
from keras_attn.convert._tokenizer_files import TOKENIZER_JSON, TokenizerFiles
from keras_attn.convert._tokenizers import TokenizerIds, TokenizerReader
from keras_attn.convert._weight_copy import WeightCopy
from keras_attn.convert._weight_names import BASE_MODELS, RenamedWeights
from keras_attn.convert._weight_sizes import check_sizes, encoder_sizes

KINDS = {
    "masked_lm": "masked_language_model",
    "sequence": "classification",
    "token": "tagging",
    "encoder": "encoder",
}
"""Dict from heads to run directory `kind`s."""


@dataclasses.dataclass(frozen=True)
class ConvertedEncoder:
    """Parts of an encoder's `Conversion`.

    Args:
        model: Functional model.
        tokenizer: Tokenizer, or `None`.
        note: String, the tokenizer found.
        class_name: String, the class in transformers.
        kind: String, the run directory's `kind`.
        labels: Tuple of strings, class names.
        settings: Tuple of `SettingReport`s.
    """

    model: keras.Model
    tokenizer: Any
    note: str
    class_name: str
    kind: str
    labels: tuple[str, ...]
    settings: tuple[SettingReport, ...]


def convert_encoder(
    checkpoint: Checkpoint, ignore_settings: Sequence[str], parse_special_tokens: bool = False
) -> ConvertedEncoder:
    """Converts a checkpoint whose `model_type` is in `ENCODERS`.

    Args:
        checkpoint: `Checkpoint`.
        ignore_settings: Names of checkpoint settings to ignore. Other settings that are unknown or
            would change results raise a `ConversionError`.
        parse_special_tokens: Bool, see `from_transformers`. Defaults to `False`.

    Returns:
        `ConvertedEncoder`.

    Raises:
        ConversionError: If the model class or a checkpoint setting is not supported, or if weights
            are missing, unused or of the wrong shape.
    """
    architecture = ENCODERS[checkpoint.config["model_type"]]
    class_name, head = encoder_head(architecture, checkpoint.config)
    settings = encoder_settings(architecture, checkpoint.config)
    settings.check_types()
    reader = TokenizerReader("json", checkpoint, parse_special_tokens)
    parts = [settings, *reader.settings]
    check_ignored(ignore_settings, *parts)
    problems, reports, labels = Problems(), [], ()
    for part in parts:
        with problems.collect():
            reports += part.check(ignore_settings)
    with problems.collect():
        labels = class_labels(settings) if head in ("sequence", "token") else ()
    problems.raise_all()
    special, around = _text_ids(architecture, checkpoint, settings["vocab_size"])
    base = BASE_MODELS[architecture.model_type]
    copy = WeightCopy(RenamedWeights(checkpoint.weights, base))
    check_sizes(encoder_sizes(architecture, settings), copy, CONFIG)
    encoder = build_encoder(architecture, settings, *around)
    has_pooler = f"{pooler_name(architecture, head, copy)}.weight" in copy
    model = build_model(architecture, head, settings, encoder, len(labels), has_pooler)
    copy_encoder(architecture, encoder, copy)
    copy_head(architecture, head, settings, model, copy)
    copy.finish(model.weights)
    tokenizer, note = None, "none, because the folder has no complete tokenizer.json"
    if special is not None:
        size = settings["vocab_size"]
        tokenizers = reader.read(TokenizerIds(size, size, settings["pad_token_id"], *special))
        tokenizer, note = tokenizers.source, tokenizers.note
    return ConvertedEncoder(model, tokenizer, note, class_name, KINDS[head], labels, tuple(reports))


def encoder_settings(architecture: EncoderArchitecture, config: Mapping[str, Any]) -> Settings:
    """Returns the `Settings` in a `config.json`."""
    without_search = irrelevant("the model has no search")
    table = {**dict.fromkeys(GENERATION, without_search), **architecture.settings}
    return Settings(CONFIG, config, table)


def encoder_head(architecture: EncoderArchitecture, config: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the class in transformers and its head kind."""
    classes = config.get("architectures") or [f"{architecture.class_name}Model"]
    for name in classes if isinstance(classes, list) else ():
        head = architecture.head(str(name))
        if head is not None:
            return name, head
    raise ConversionError(
        f"Expected one of the classes {architecture.classes} among architectures in config.json. "
        f"Received: architectures={classes}. Convert a checkpoint of one of these classes."
    )


def class_labels(settings: Settings) -> tuple[str, ...]:
    """Returns the class names in id order.

    As in transformers, the default is two classes.
    """
    names = settings["id2label"] or {0: "LABEL_0", 1: "LABEL_1"}
    try:
        by_id = {int(id_): str(name) for id_, name in names.items()}
    except (AttributeError, TypeError, ValueError):
        by_id = {}
    if sorted(by_id) != list(range(len(by_id))) or not by_id:
        raise ConversionError(
            f"Expected id2label in config.json to name the classes 0, 1, 2 ... Received: "
            f"id2label={names!r}. Correct id2label in the file."
        )
    return tuple(by_id[id_] for id_ in range(len(by_id)))


def _text_ids(architecture, checkpoint, size):
    """Returns the start and end token ids, and the ids added around a text.

    The tokenizer's post-processor determines the tokens around a text. If it adds none, the start
    and end token are those that the files name. The ids are `None` without a tokenizer.
    """
    files = TokenizerFiles(checkpoint)
    if files.json is None:
        return None, (None, None)
    built = build_json_tokenizer(files, size)
    if len(built.start) > 1 or len(built.end) > 1:
        raise ConversionError(
            f"Expected a post_processor in {TOKENIZER_JSON} that adds at most one token before a "
            f"text, and one after it. Received: the ids {built.start} before and {built.end} after "
            "a text. The tokenizer cannot be converted."
        )
    around = next(iter(built.start), None), next(iter(built.end), None)
    special = []
    for id_, name, default in (
        (around[0], "cls_token", architecture.start),
        (around[1], "sep_token", architecture.end),
    ):
        special.append(built.ids.get(files.content(name) or default) if id_ is None else id_)
    return (None if None in special else tuple(special)), around
