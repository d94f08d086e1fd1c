import dataclasses
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn._layer.get_vocabulary_size import get_vocabulary_size
from keras_attn._models.generation_model import GenerationModel
from keras_attn.convert._architectures import find_architecture
from keras_attn.convert._checkpoint import Checkpoint
from keras_attn.convert._checkpoint_settings import checkpoint_settings
from keras_attn.convert._conversion_error import ConversionError, Problems
from keras_attn.convert._encoder_conversion import convert_encoder
from keras_attn.convert._encoder_models import ENCODERS
from keras_attn.convert._generation_config import SEARCHES
from keras_attn.convert._original_files import read_original_files
from keras_attn.convert._search_settings import search_settings, with_languages
from keras_attn.convert._settings import SettingReport, check_ignored
from keras_attn.convert._tokenizers import TokenizerIds, TokenizerReader
from keras_attn.convert._weight_copy import WeightCopy
from keras_attn.convert._weight_names import BASE_MODELS, RenamedWeights
from keras_attn.convert._weight_sizes import check_sizes, weight_sizes
from keras_attn.training._model_card import ModelCard
from keras_attn.training._run_directory import RunDirectory
from keras_attn_checks.progress import report_phase
from keras_attn_checks.separate_paths import require_separate_paths

REPORT, LABELS, ORIGINAL = "conversion.txt", "labels.txt", "original"


@dataclasses.dataclass(frozen=True)
class Conversion:
    """Result of a checkpoint conversion.

    Args:
        model: `GenerationModel`. For an encoder, functional model with the inputs `token_ids` and,
            if tokens have types, `token_type_ids`.
        source_tokenizer: Source tokenizer, or `None`.
        target_tokenizer: Target tokenizer. `None` if the targets use `source_tokenizer`, or if they
            have no tokenizer.
        architecture: String, the class in transformers or OpenNMT-tf.
        search: String, the search and its arguments.
        tokenizers: String, the tokenizers converted.
        settings: Tuple of `SettingReport`s, the treatment of each setting.
        model_card: `ModelCard`.
        kind: String, the run directory's `kind`. Defaults to `"generation"`.
        labels: Tuple of strings, a classifier's class names. Defaults to `()`.
        original: Dict from file names to contents, the checkpoint files except the weights.
            `keras_attn.export.export_transformers` uses these files to write the model back.
            Defaults to an empty dict.
        path: Checkpoint path, which `save` does not replace. Defaults to `None`.
    """

    model: Any
    source_tokenizer: Any
    target_tokenizer: Any
    architecture: str
    search: str
    tokenizers: str
    settings: tuple[SettingReport, ...]
    model_card: ModelCard
    kind: str = "generation"
    labels: tuple[str, ...] = ()
    original: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    path: Path | None = None

    def report(self) -> str:
        """Returns the architecture, the search, the tokenizers, and a line for each setting."""
        lines = [
            f"architecture: {self.architecture}",
            f"search: {self.search}",
            f"tokenizers: {self.tokenizers}",
        ]
        return "\n".join([*lines, *map(str, self.settings)]) + "\n"

    def count(self, treatment: str) -> int:
        """Returns the number of settings with a treatment, see `SettingReport`."""
        return sum(setting.treatment == treatment for setting in self.settings)

    def save(self, path: str | PathLike[str]) -> RunDirectory:
        """Atomically writes a run directory, which all commands of `keras-attn` read.

        Args:
            path: Directory path. An earlier conversion is replaced.

        Returns:
            The `RunDirectory`.

        Raises:
            FileExistsError: If the path is a directory with other content, is the checkpoint
                folder, contains it or is in it.
        """
        require_separate_paths({"path": Path(path)}, {"the checkpoint": self.path})
        tokenizers = (self.source_tokenizer, self.target_tokenizer)
        with atomic_replace(path, is_file=False) as partial:
            files = {"conversion": REPORT} | ({"labels": LABELS} if self.labels else {})
            files |= {"original": ORIGINAL} if self.original else {}
            run = RunDirectory.create(partial, self.kind, *tokenizers, files, self.model_card)
            run.files["conversion"].write_text(self.report(), encoding="utf-8")
            if self.labels:
                text = "".join(f"{label}\n" for label in self.labels)
                run.files["labels"].write_text(text, encoding="utf-8")
            if self.original:
                run.files["original"].mkdir()
                for name, content in self.original.items():
                    (run.files["original"] / name).write_bytes(content)
            run.save_model(self.model)
        return RunDirectory(path)


def from_transformers(
    path: str | PathLike[str],
    ignore_settings: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    parse_special_tokens: bool = False,
) -> Conversion:
    """Converts a Hugging Face transformers checkpoint to a Keras model.

    The folder is read from disk: `config.json`, `generation_config.json`, `model.safetensors` or
    its shards, and the tokenizer files. PyTorch is only needed for weights in `.bin` files.
    Translators and language models become a `GenerationModel`. It computes the same logits as
    transformers, and its search finds the same ids as `generate` in transformers with the
    checkpoint's settings. Encoders such as BERT become a functional model with the same outputs: a
    masked language model, a sequence or token classifier, or an encoder without a head.

    Args:
        path: Path of the checkpoint folder.
        ignore_settings: Names of checkpoint settings to ignore. Other settings that are
            unknown or would change results raise a `ConversionError`. Defaults to `()`.
        settings: Dict from search setting names in `generation_config.json` to values that replace
            those in the file, for example `{"num_beams": 4}`. Defaults to `None`: the values in the
            file.
        parse_special_tokens: Bool, whether special tokens typed in a text, such as `"</s>"`, become
            their ids, as in transformers by default. By default here, they are ordinary characters,
            because texts can come from strangers. Pass `True` only for texts that you wrote
            yourself, such as chat template prompts. Defaults to `False`.

    Returns:
        A `Conversion`.

    Raises:
        ConversionError: If the architecture or a checkpoint setting is not supported, or if weights
            are missing, unused or of the wrong shape.
        ImportError: If a library needed to read the files is not installed.

    Example:

    ```python
    converted = from_transformers("opus-mt-en-de")
    converted.model.generate(
        ["How are you?"], converted.source_tokenizer, converted.target_tokenizer
    )
    converted.save("RUN")
    ```
    """
    if isinstance(ignore_settings, str):
        raise ValueError(
            "Expected ignore_settings to be a list of names. Received: "
            f"ignore_settings={ignore_settings!r}. Pass [{ignore_settings!r}]."
        )
    checkpoint = Checkpoint(path)
    if str(checkpoint.config.get("model_type")) in ENCODERS:
        if settings:
            raise ConversionError(
                "Expected no settings, because an encoder has no search. Received: settings="
                f"{dict(settings)!r}. Omit them."
            )
        return _encoder(checkpoint, ignore_settings, parse_special_tokens)
    return _generator(checkpoint, ignore_settings, settings, parse_special_tokens)


def _generator(checkpoint, ignore_settings, replaced, parse_special_tokens):
    """Returns the `Conversion` for a translator or a language model."""
    architecture = find_architecture(checkpoint.config)
    settings, generation = checkpoint_settings(
        checkpoint.config, checkpoint.generation_config, architecture, replaced
    )
    parts = [settings] if generation.file == settings.file else [settings, generation]
    reader = TokenizerReader(architecture.tokenizer, checkpoint, parse_special_tokens)
    parts += reader.settings
    check_ignored(ignore_settings, *parts)
    problems, reports = Problems(), []
    for part in (settings, generation):
        with problems.collect():
            part.check_types()
    problems.raise_all()
    for part in parts:
        with problems.collect():
            reports += part.check(ignore_settings)
    max_positions = None
    if "max_position_embeddings" in settings:
        max_positions = settings["max_position_embeddings"]
    search: Any = None
    with problems.collect():
        search = search_settings(generation, max_positions, architecture.is_language_model)
    problems.raise_all()
    base = BASE_MODELS[architecture.model_type]
    copy = WeightCopy(RenamedWeights(checkpoint.weights, base))
    check_sizes(weight_sizes(architecture, settings, copy), copy, settings.file)
    report_phase("Copying the weights")
    encoder, decoder = architecture.build(architecture, settings, copy)
    _create_weights(encoder, decoder)
    impossible = search.impossible_token_ids
    architecture.copy_weights(architecture, settings, impossible, (encoder, decoder), copy)
    layers = [layer for layer in (encoder, decoder) if layer is not None]
    copy.finish([variable for layer in layers for variable in layer.weights])
    report_phase("Reading the tokenizers")
    tokenizers = reader.read(_tokenizer_ids(encoder, decoder, search))
    search = with_languages(search, getattr(tokenizers.target, "languages", {}))
    adds_start = architecture.is_language_model and architecture.options["adds_start"]
    start = settings["bos_token_id"] if adds_start else None
    if tokenizers.around is not None:
        start = _follow_tokenizer(encoder, tokenizers.around)
    search_layer = SEARCHES[search.class_name](decoder, **search.arguments)
    model = GenerationModel(encoder, search_layer, source_start_token_id=start)
    arguments = ", ".join(f"{name}={value!r}" for name, value in search.arguments.items())
    return Conversion(
        model,
        tokenizers.source,
        tokenizers.target,
        architecture.model_class,
        f"{search.class_name}({arguments})",
        tokenizers.note,
        tuple(reports),
        ModelCard(
            *tokenizers.languages,
            recipe=f"converted from {architecture.model_class} of transformers",
        ),
        original=read_original_files(checkpoint.path),
        path=checkpoint.path,
    )


def _follow_tokenizer(encoder, around):
    """Sets the encoder's start and end tokens, or returns the start token of prompts."""
    start, end = around
    if encoder is not None:
        encoder.start_token_id, encoder.end_token_id = around
        return None
    if end is not None:
        raise ConversionError(
            "Expected a post_processor in tokenizer.json that adds no token after a prompt. "
            f"Received: the id {end} after a prompt. Remove it from the post_processor."
        )
    return start


def _encoder(checkpoint, ignore_settings, parse_special_tokens):
    """Returns the `Conversion` for an encoder."""
    converted = convert_encoder(checkpoint, ignore_settings, parse_special_tokens)
    return Conversion(
        converted.model,
        converted.tokenizer,
        None,
        converted.class_name,
        "none, because the model is an encoder",
        converted.note,
        converted.settings,
        ModelCard(recipe=f"converted from {converted.class_name} of transformers"),
        converted.kind,
        converted.labels,
        read_original_files(checkpoint.path),
        checkpoint.path,
    )


def _create_weights(encoder, decoder):
    if encoder is None:
        decoder.build((None, None))
    else:
        encoder.build((None, None))
        decoder.build((None, None), (None, None, encoder.stack.output_dim))


def _tokenizer_ids(encoder, decoder, search):
    sizes: Any = [get_vocabulary_size(layer) for layer in (encoder or decoder, decoder)]
    names = ("pad_token_id", "start_token_id", "end_token_id")
    pad, start, end = (search.arguments[name] for name in names)
    return TokenizerIds(sizes[0], sizes[1], pad, start, end)
