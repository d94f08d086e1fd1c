from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from keras_attn._layer.get_vocabulary_size import get_vocabulary_size
from keras_attn._models.generation_model import GenerationModel
from keras_attn.convert._conversion_error import ConversionError, Problems
from keras_attn.convert._from_transformers import SEARCHES, Conversion
from keras_attn.convert._opennmt_checkpoint import OpenNMTCheckpoint
from keras_attn.convert._opennmt_description import (
    DESCRIPTION,
    ModelDescription,
    describe,
    read_description,
)
from keras_attn.convert._opennmt_models import build_opennmt, check_arguments
from keras_attn.convert._opennmt_settings import (
    ARGUMENTS,
    CONFIGS,
    opennmt_search,
    read_config,
    source_controls,
)
from keras_attn.convert._opennmt_tokenizers import (
    Vocabulary,
    find_file,
    opennmt_tokenizer,
    read_vocabulary,
    tokenization_settings,
)
from keras_attn.convert._settings import Settings, check_ignored
from keras_attn.convert._weight_copy import WeightCopy
from keras_attn.training._model_card import ModelCard

SIDES = ("source", "target")


def from_opennmt_tf(
    path: str | PathLike[str],
    *,
    model_type: str | None = None,
    config: str | PathLike[str] | None = None,
    source_vocabulary: str | PathLike[str] | None = None,
    target_vocabulary: str | PathLike[str] | None = None,
    ignore_settings: Sequence[str] = (),
) -> Conversion:
    """Converts an OpenNMT-tf 2 Transformer to a Keras model.

    The model computes the same logits, and greedy search finds the same ids as OpenNMT-tf. Beam
    search finds the same ids as CTranslate2, which can be more probable than those from OpenNMT-tf.
    Only TensorFlow is needed, not OpenNMT-tf. The model description is parsed without running its
    Python code.

    The tokenizer is the SentencePiece model that the configuration names. Without tokenization in
    the configuration, the folder is searched for a SentencePiece model with the vocabulary's
    pieces. If there is none, texts are split at spaces, as in OpenNMT-tf. Other tokenizations are
    not supported: the converted model then has no tokenizer, and reads and writes ids.

    Args:
        path: Path of a model folder, of its subfolder `avg` with averaged checkpoints, or of one
            checkpoint without the suffix `.index`. In a folder, the newest checkpoint is converted,
            which the file `checkpoint` names.
        model_type: String, name in the OpenNMT-tf catalog, such as `"TransformerBase"`, or path of
            a `model_description.py`. Defaults to `None`: the `model_description.py` in the folder,
            or in the folder above.
        config: Path of the YAML configuration. Defaults to `None`: the file `data.yml` or
            `config.yml` beside the checkpoint or `model_description.py`, if it exists.
        source_vocabulary: Path of the source vocabulary, a text file with one token per line.
            Defaults to `None`: the vocabulary that the configuration names.
        target_vocabulary: Path of the target vocabulary. Defaults to `None`: the vocabulary
            that the configuration names.
        ignore_settings: Names of configuration settings to ignore, such as
            `"params/length_penalty"`. Other settings that are unknown or would change results raise
            a `ConversionError`. Defaults to `()`.

    Returns:
        A `Conversion`.

    Raises:
        ConversionError: If the model or a checkpoint setting is not supported, if variables are
            missing, unused or of the wrong shape, or if a vocabulary does not belong to the model.
        ImportError: If a library needed to read the files is not installed.

    Example:

    ```python
    vocabulary = "averaged-ende-ckpt500k-v2/wmtende.vocab"
    converted = from_opennmt_tf(
        "averaged-ende-ckpt500k-v2",
        model_type="TransformerBase",
        source_vocabulary=vocabulary,
        target_vocabulary=vocabulary,
    )
    converted.save("RUN")
    ```
    """
    if isinstance(ignore_settings, str):
        raise ValueError(
            "Expected ignore_settings to be a list of names. Received: "
            f"ignore_settings={ignore_settings!r}. Pass [{ignore_settings!r}]."
        )
    checkpoint = OpenNMTCheckpoint(path)
    folders = _folders(checkpoint.folder)
    description, place = _description(model_type, folders)
    config_path = _config(config, folders)
    configuration = read_config(config_path)
    folders += [] if config_path is None else [config_path.parent]
    arguments = dict(description.arguments)
    if configuration["params/dropout"] is not None:
        names = ("dropout", "attention_dropout", "ffn_dropout")
        arguments |= dict.fromkeys(names, configuration["params/dropout"])
    settings = Settings(place, arguments, ARGUMENTS)
    parts = [settings, configuration, *tokenization_settings(configuration, folders)]
    check_ignored(ignore_settings, *parts)
    problems, reports = Problems(), []
    for part in parts:
        with problems.collect():
            reports += part.check(ignore_settings)
    with problems.collect():
        check_arguments(settings)
    search: Any = None
    with problems.collect():
        search = opennmt_search(configuration)
    problems.raise_all()
    copy = WeightCopy(checkpoint, place)
    controls = source_controls(description.class_name, configuration)
    encoder, decoder = build_opennmt(settings, controls, copy)
    copy.finish([variable for layer in (encoder, decoder) for variable in layer.weights])
    sizes = [get_vocabulary_size(layer) for layer in (encoder, decoder)]
    given = source_vocabulary, target_vocabulary
    vocabularies = [
        _vocabulary(side, file, size, configuration, folders)
        for side, file, size in zip(SIDES, given, sizes, strict=True)
    ]
    tokenizers, note = _tokenizers(vocabularies, configuration, folders)
    model = GenerationModel(encoder, SEARCHES[search.class_name](decoder, **search.arguments))
    shown = ", ".join(f"{name}={value!r}" for name, value in search.arguments.items())
    return Conversion(
        model,
        *tokenizers,
        f"{description.class_name} of OpenNMT-tf",
        f"{search.class_name}({shown})",
        note,
        tuple(reports),
        ModelCard(recipe=f"converted from {description.class_name} of OpenNMT-tf"),
        path=checkpoint.folder if Path(path).is_dir() else None,
    )


def _folders(folder):
    """Returns the folder and, if it is a subfolder such as `avg`, the model folder."""
    above = folder.absolute().parent
    is_average = not (folder / DESCRIPTION).is_file() and (above / DESCRIPTION).is_file()
    return [folder, above] if is_average else [folder]


def _description(model_type, folders) -> tuple[ModelDescription, str]:
    """Returns the `ModelDescription`, and the file or catalog entry that contains it."""
    path = next((f / DESCRIPTION for f in folders if (f / DESCRIPTION).is_file()), None)
    if model_type is not None and not str(model_type).endswith(".py"):
        return describe(str(model_type)), str(model_type)
    if model_type is not None:
        path = Path(model_type)
    if path is None or not path.is_file():
        raise ConversionError(
            f"Expected the file {DESCRIPTION} in {str(folders[0])!r}, because a checkpoint does "
            "not contain the number of heads. Received: "
            f"model_type={model_type!r}. Pass the name of the model in the catalog of OpenNMT-tf "
            "with --model-type or model_type=, such as TransformerBase."
        )
    return read_description(path.read_text(encoding="utf-8"), str(path)), path.name


def _config(config, folders):
    if config is not None:
        return Path(config)
    paths = (folder / name for folder in folders for name in CONFIGS)
    return next((path for path in paths if path.is_file()), None)


def _vocabulary(side, given, size, configuration, folders) -> Vocabulary | None:
    if given is not None:
        return read_vocabulary(Path(given), size)
    key = f"data/{side}_vocabulary"
    name = configuration[key] or configuration["data/vocabulary"]
    if name is None:
        return None
    path = find_file(str(name), folders)
    if path is None:
        raise ConversionError(
            f"Expected the file that {key} of {configuration.file} names. Received: {str(name)!r}, "
            f"which does not exist. Pass its path with --{side}-vocabulary or {side}_vocabulary=."
        )
    return read_vocabulary(path, size)


def _tokenizers(vocabularies, configuration, folders) -> tuple[tuple[Any, Any], str]:
    """Returns source and target tokenizers, and a note for the report."""
    tokenizers, notes = [], []
    for side, vocabulary in zip(SIDES, vocabularies, strict=True):
        tokenization = configuration[f"data/{side}_tokenization"]
        tokenization = tokenization or configuration["data/tokenization"]
        tokenizer, note = opennmt_tokenizer(vocabulary, tokenization, folders)
        tokenizers.append(tokenizer)
        notes.append(note)
    if None in tokenizers:  # a model reads and writes texts, or reads and writes ids
        missing = tokenizers.index(None)
        return (None, None), notes[missing]
    source, target = tokenizers
    if source.model == target.model:
        return (source, None), notes[0]
    return (source, target), notes[0] if notes[0] == notes[1] else " and ".join(notes)
