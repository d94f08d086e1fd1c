import contextlib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import keras

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn.training._image_format import ImageFormat
from keras_attn.training._model_card import ModelCard
from keras_attn.training._series_columns import SeriesColumns
from keras_attn.training._tokenizer_file import TokenizerFile, describe_tokenizer
from keras_attn_checks.run_folder import file_checksum, read_run, require_kind, require_part

if TYPE_CHECKING:
    from keras_attn.training._tokenizer_file import RunTokenizer

FORMAT = 1
DESCRIPTION = "run.json"
MODEL = "model.keras"
SIDES = ("source", "target")
CHECKSUMS = "checksums"

Checksums: TypeAlias = dict[str, list[str]]
"""Dict from file names to their permitted SHA-256 checksums."""


class RunDirectory:
    """Training run directory: a model, its tokenizers, and `run.json`.

    Training programs write the directory, and `keras-attn` commands read it. The directory
    contains:

        run.json                  kind, file names, special token ids, model card
        model.keras               the model
        source.spm, target.spm    the tokenizers, if any; .json for a HuggingFaceTokenizer

    `run.json` is a JSON object with the keys `format` (1), `kind`, `model` (a file name), `source`,
    `target`, `files` (names of other files by their purpose) and `card` (see `ModelCard`). If the
    model reads images, the object has the key `image_format` (see `ImageFormat`). For a forecaster,
    the object can have the key `series` (see `SeriesColumns`), for a classifier `labels` (a list of
    strings). `source` and `target` are objects
    with the keys `tokenizer` (`"sentencepiece"` or `"tokenizers"`), `file`, `pad_token_id`,
    `start_token_id` and `end_token_id`, and optionally `vocabulary_size`, `languages` and the other
    arguments of the tokenizer; or `{"tokenizer": "none"}`. `checksums` maps the names of the model,
    the tokenizers and the other files to lists of permitted SHA-256 checksums. `RunDirectory`
    ignores other keys.

    A directory contains files from one training only. `create` removes another training's model,
    and files with a different checksum are rejected. Directories of earlier versions have no
    checksums, and their files are not compared.

    Args:
        path: Path of the directory.

    Attributes:
        path: `Path` of the directory.
        kind: String, model type: `"generation"` for a `GenerationModel`, `"series"` for a
            forecaster, `"classification"` for a classifier, or any other string. `keras-attn
            export` accepts the first two, and classifiers with `labels`.
        model_path: `Path` of the model. Training programs write this file with `save_model` or
            `BestCheckpoint(run)`.
        source_tokenizer: `SentencePieceTokenizer` or `HuggingFaceTokenizer`, or `None`.
        target_tokenizer: `SentencePieceTokenizer` or `HuggingFaceTokenizer`, or `None` if the run
            has no target tokenizer or the target uses `source_tokenizer`.
        files: Dict from the purposes of additional files to their `Path`s.
        model_card: `ModelCard`.
        image_format: `ImageFormat`, or `None`.
        series: `SeriesColumns`, or `None`.
        labels: List of strings, the class names, or `None`.

    Raises:
        FileNotFoundError: If the directory, its `run.json` or a tokenizer is missing.
        ValueError: If `run.json` or a tokenizer is damaged, or from another training.

    Example:

    ```python
    run = RunDirectory.create("run", "generation", source_tokenizer, target_tokenizer)
    run.save_model(translator)
    # later
    run = RunDirectory("run")
    translator = run.load_model()
    export_onnx(translator, "en-de.onnx", run.source_tokenizer, run.target_tokenizer)
    ```
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        description = read_run(self.path)
        try:
            self.kind = _string(description["kind"])
            self.model_path = self.path / _string(description["model"])
            files = description.get("files", {})
            self._file_names = [_string(file) for file in files.values()]
            self.files = {name: self.path / file for name, file in files.items()}
            card = description.get("card", {})
            self.model_card = ModelCard(**{name: card.get(name) for name in vars(ModelCard())})
            image = description.get("image_format")
            self.image_format = None if image is None else ImageFormat.from_entries(image)
            self._checksums = _checksums(description)
            series = description.get("series")
            self.series = None if series is None else SeriesColumns.from_entries(series)
            labels = description.get("labels")
            self.labels = None if labels is None else [_string(label) for label in labels]
            tokenizer_files = [
                TokenizerFile.from_description(description.get(side, {})) for side in SIDES
            ]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"Expected a description of a training run in {str(self.path / DESCRIPTION)!r}. "
                f"Received: {error!r}. Write it with keras_attn.training.RunDirectory.create."
            ) from error
        for file in tokenizer_files:
            if file is not None:
                require_part(self.path, file.name, self._checksums)
        self.source_tokenizer, self.target_tokenizer = (
            None if file is None else file.load(self.path) for file in tokenizer_files
        )

    @classmethod
    def create(
        cls,
        path: str | PathLike[str],
        kind: str,
        source_tokenizer: "RunTokenizer | None" = None,
        target_tokenizer: "RunTokenizer | None" = None,
        files: Mapping[str, str] | None = None,
        model_card: ModelCard | None = None,
        image_format: ImageFormat | None = None,
        series: SeriesColumns | None = None,
        labels: Sequence[str] | None = None,
    ) -> Self:
        """Writes the tokenizers and `run.json`. Call `save_model` afterwards to save the model.

        If the directory contains a run with a different kind, different tokenizers or different
        files, its model is removed. Otherwise the model is kept: an interrupted training resumes.
        If the process is killed at any moment, the directory contains the old run, or a new run
        that is rejected because it is incomplete.

        Args:
            path: Path of the directory. It is created if it does not exist.
            kind: String, model type, see the attributes.
            source_tokenizer: `SentencePieceTokenizer` or `HuggingFaceTokenizer`. Defaults to
                `None`: no tokenizer.
            target_tokenizer: `SentencePieceTokenizer` or `HuggingFaceTokenizer`. Defaults to
                `None`: no tokenizer, or the target uses `source_tokenizer`.
            files: Dict from the purposes of additional files to their names in the directory, for
                example `{"vocabulary": "vocabulary.txt"}`. Defaults to `None`: no additional files.
            model_card: `ModelCard`. Defaults to `None`: an empty card.
            image_format: `ImageFormat` for the exported file, if the model reads images. Defaults
                to `None`.
            series: `SeriesColumns` for the exported file, if the model is a forecaster. Defaults to
                `None`.
            labels: Sequence of strings, the class names for the exported file, if the model is a
                classifier. Defaults to `None`.

        Returns:
            The `RunDirectory`.
        """
        path = Path(path)
        path.mkdir(parents=True, exist_ok=True)
        description: dict[str, Any] = {"format": FORMAT, "kind": kind, "model": MODEL}
        tokenizers: dict[str, RunTokenizer] = {}
        for side, tokenizer in zip(SIDES, (source_tokenizer, target_tokenizer), strict=True):
            description[side] = {"tokenizer": "none"}
            if tokenizer is not None:
                file = f"{side}{tokenizer.suffix}"
                tokenizers[file] = tokenizer
                description[side] = describe_tokenizer(tokenizer, file)
        description["files"] = dict(files or {})
        description["card"] = {} if model_card is None else model_card.entries()
        if image_format is not None:
            description["image_format"] = image_format.entries()
        if series is not None:
            description["series"] = series.entries()
        if labels is not None:
            description["labels"] = list(labels)
        checksums = {
            file: [hashlib.sha256(tokenizer.model).hexdigest()]
            for file, tokenizer in tokenizers.items()
        }
        kept = _checksums_of_kept_model(path, description, checksums)
        description[CHECKSUMS] = checksums | kept
        # First of all, replace the description. From then on, the files of an earlier run do not
        # have the expected checksums.
        _write_description(path, description)
        for file, tokenizer in tokenizers.items():
            tokenizer.save(path / file)
        if not kept:
            (path / MODEL).unlink(missing_ok=True)
        return cls(path)

    def save_model(self, model: keras.Model) -> None:
        """Saves the model atomically, and records the checksums of all files."""
        with self.replace_model() as partial:
            model.save(partial)

    @contextlib.contextmanager
    def replace_model(self) -> Iterator[Path]:
        """Context manager that yields a temporary path, whose content becomes the new model.

        If the block raises an exception or the process is killed, the directory contains the old or
        the new model, and `run.json` permits it.

        Yields:
            `Path` that ends with `.keras`. The block must write a file to this path.
        """
        model = self.model_path.name
        files = {
            name: [file_checksum(self.path / name)]
            for name in self._file_names
            if (self.path / name).is_file()
        }
        with atomic_replace(self.model_path) as partial:
            yield partial
            new = [file_checksum(partial)]
            self._record({**files, model: self._checksums_on_disk().get(model, []) + new})
        self._record({**files, model: new})

    def _checksums_on_disk(self) -> Checksums:
        return _checksums(read_run(self.path)) or {}

    def _record(self, checksums: Checksums) -> None:
        """Adds checksums to `run.json`, unless the directory is of an earlier version."""
        description = read_run(self.path)
        if _checksums(description) is not None:
            description[CHECKSUMS] |= checksums
            _write_description(self.path, description)
            self._checksums = description[CHECKSUMS]

    def load_model(self, kind: str | None = None) -> Any:
        """Loads the model, without its optimizer and loss.

        Args:
            kind: String, the required `kind` of the run. Defaults to `None`: any kind.

        Returns:
            The Keras model.

        Raises:
            FileNotFoundError: If the model does not exist, for example because the training has not
                ended.
            ValueError: If the run has a different kind, the file is damaged, the model or another
                file is from another training, or the model contains a class that Python has not
                imported.
        """
        if kind is not None:
            require_kind(self.path, self.kind, kind)
        require_part(self.path, self.model_path.name, self._checksums)
        for name in self._file_names:
            if name in (self._checksums or {}):
                require_part(self.path, name, self._checksums)
        try:
            return keras.saving.load_model(self.model_path, compile=False)
        except TypeError as error:
            name = re.search(r"Could not locate class '([^']+)'", str(error))
            if name is None:
                raise
            raise ValueError(
                f"Expected only classes that Python has imported in {str(self.model_path)!r}. "
                f"Received: {name[1]}. Import its module before you load the model. The commands "
                "import it with --import MODULE, the path of a Python file or the name of a module."
            ) from error


def _checksums(description: dict[str, Any]) -> Checksums | None:
    """Returns the checksums by file name, or `None` in a directory of an earlier version."""
    checksums = description.get(CHECKSUMS)
    if checksums is None:
        return None
    return {name: [_string(checksum) for checksum in values] for name, values in checksums.items()}


def _checksums_of_kept_model(
    path: Path, description: dict[str, Any], checksums: Checksums
) -> Checksums:
    """Returns the checksums of an existing model with the same tokenizers, kind and files.

    Returns:
        Dict with the checksums of the model, and of the files of its training; empty if the
        directory has no such model.
    """
    try:
        old = read_run(path)
        old_checksums = _checksums(old)
        if old_checksums is None:
            old_checksums = {name: [file_checksum(path / name)] for name in (MODEL, *checksums)}
    except (AttributeError, OSError, TypeError, ValueError):  # no run, or a damaged one
        return {}
    is_same = (
        MODEL in old_checksums
        and (path / MODEL).is_file()
        and all(old_checksums.get(file) == values for file, values in checksums.items())
        and all(
            description.get(name) == old.get(name)
            for name in (description.keys() | old.keys()) - {"card", CHECKSUMS}
        )
    )
    kept = {MODEL, *description["files"].values()} if is_same else ()
    return {name: values for name, values in old_checksums.items() if name in kept}


def _write_description(path: Path, description: dict[str, Any]) -> None:
    with atomic_replace(path / DESCRIPTION) as partial:
        partial.write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"Expected a string. Received: {value!r}.")
    return value
