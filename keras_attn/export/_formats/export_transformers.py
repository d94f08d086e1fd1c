import dataclasses
import importlib
import json
import types
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

import keras

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn.convert._checkpoint import CONFIG, GENERATION_CONFIG
from keras_attn.convert._conversion_error import ConversionError
from keras_attn.convert._generation_settings import GENERATION
from keras_attn.convert._original_files import read_original_files
from keras_attn.convert._tokenizer_files import TOKENIZER_JSON
from keras_attn.convert._transformers_target import TransformersTarget, find_config, find_target
from keras_attn.convert._verify import Verification, verify
from keras_attn.convert._weight_comparison import WeightComparison
from keras_attn.convert._weight_files import SAFETENSORS, WeightFiles
from keras_attn.export._checks.check_finite import check_finite
from keras_attn.export._export_error import ExportError
from keras_attn.export._options import TransformersArguments
from keras_attn.export._report import ExportReport
from keras_attn.export._types import ExportTokenizer
from keras_attn_checks.export_options import TransformersOptions
from keras_attn_checks.message import Argument, Message
from keras_attn_checks.options import list_options
from keras_attn_checks.progress import report_phase
from keras_attn_checks.separate_paths import require_separate_paths

REPORT = "export.txt"

KEPT = (
    *("output_attentions", "output_hidden_states", "transformers_version", "use_cache"),
    *(name for name in GENERATION if name.endswith("token_id")),
)
"""Keys of `generation_config.json` that `config.json` keeps. All other keys are search settings."""


@dataclasses.dataclass
class TransformersReport(ExportReport):
    """Result of `export_transformers`.

    Args:
        class_name: String, the class in transformers.
        num_weights: Int, number of weights.
        files: Tuple of strings, names of all files except the weights.
        verification: `Verification`, the comparison with transformers. Defaults to `None`, without
            a comparison.
        largest_difference: Float, largest difference between a logit in transformers and in Keras.
            Defaults to `0.0`, also without a comparison.

    Example:

    >>> from keras_attn.export import TransformersReport
    >>> report = TransformersReport("MarianMTModel", 258, ("config.json",))
    >>> str(report).split(",")[0]
    'A MarianMTModel of transformers with 258 weights'
    """

    class_name: str
    num_weights: int
    files: tuple[str, ...]
    verification: Verification | None = None

    def summary(self) -> str:
        text = (
            f"A {self.class_name} of transformers with {self.num_weights} weights, read back and "
            f"compared with Keras. Other files: {', '.join(self.files)}."
        )
        return text if self.verification is None else f"{text} The model was {self.verification}."


@list_options(TransformersOptions)
def export_transformers(
    model: keras.Model,
    path: str | PathLike[str],
    source_tokenizer: ExportTokenizer | None = None,
    target_tokenizer: ExportTokenizer | None = None,
    **options: Unpack[TransformersArguments],
) -> TransformersReport:
    """Writes a model as a checkpoint folder of Hugging Face's transformers.

    The folder has `config.json`, `model.safetensors` in float32, the files of the tokenizers, and
    `generation_config.json` for a model with a search. `from_pretrained` of transformers loads the
    folder and computes the same logits; `generate` finds the same ids as the search. The model may
    be fine-tuned. Low-rank updates (LoRA) are merged in the folder, but not in the model.

    The architecture is that of the checkpoint from which the model was converted. If the
    `generation_config.json` of this checkpoint describes the search of the model, the folder gets
    the same file; otherwise the export writes a new one. The export reads the weights back from the
    folder and compares them with the variables.

    Args:
        model: `GenerationModel`, or the functional model of an encoder, see
            `keras_attn.convert.from_transformers`.
        path: Path of the folder. An earlier export is replaced.
        source_tokenizer: Not used, because the tokenizer files are copied from `original`. Defaults
            to `None`.
        target_tokenizer: Tokenizer of the targets. Only its languages are used, for the search
            settings. Defaults to `None`.
        {{options}}

    Returns:
        `TransformersReport`.

    Raises:
        ExportError: If transformers cannot represent the model or its search, or weights are not
            finite.
        FileExistsError: If the path is a directory with other content, or if it is `original`,
            contains it or is in it.
        ImportError: If safetensors is not installed.

    Example:

    ```python
    converted = from_transformers("opus-mt-en-de")
    # fine-tune converted.model
    export_transformers(converted.model, "tuned", original=converted.original)
    ```
    """
    chosen = TransformersOptions.of(options)
    if isinstance(chosen.original, str | PathLike):
        require_separate_paths({"path": Path(path)}, {"original": Path(chosen.original)})
    check_finite(model.weights, chosen.allow_nonfinite)
    files = {} if chosen.original is None else _original_files(chosen.original)
    generation = _json(files, GENERATION_CONFIG) if GENERATION_CONFIG in files else None
    languages = getattr(target_tokenizer, "languages", {})
    try:
        config = _json(files, CONFIG) if files else find_config(model, languages)
        target = find_target(model, config, generation, languages, TOKENIZER_JSON in files)
        with atomic_replace(path, is_file=False) as partial:
            partial.mkdir()
            report_phase("Writing and reading the weights")
            written = _write(target, partial, config, files)
            names = tuple(sorted(path.name for path in partial.iterdir()))
            if chosen.compare:
                report_phase("Comparing the model with transformers")
            verification = verify(partial, model) if chosen.compare else None
            others = tuple(name for name in names if name != SAFETENSORS)
            report = TransformersReport(target.class_name, written, others, verification)
            if verification is not None:
                report.largest_difference = verification.largest_difference
            (partial / REPORT).write_text(f"{report}\n", encoding="utf-8")
    except ConversionError as error:
        raise ExportError(*error.args) from error
    return report


def _original_files(original: str | PathLike[str] | Mapping[str, bytes]) -> dict[str, bytes]:
    """Returns the contents of the files of a checkpoint without its weights, by name."""
    if isinstance(original, Mapping):
        found, place = dict(original), "original"
    else:
        path = Path(original)
        run = path / "original"
        found = read_original_files(run if (run / CONFIG).is_file() else path)
        place = str(path)
    if CONFIG not in found:
        raise ExportError(
            Message(
                "Expected ",
                Argument("original"),
                f" to have {CONFIG}. Received: {place!r} without this file. Pass the checkpoint "
                "folder from which the model was converted, or the run directory that keras-attn "
                "convert wrote.",
            )
        )
    return found


def _json(files: Mapping[str, bytes], name: str) -> dict[str, Any]:
    try:
        content = json.loads(files[name])
    except (ValueError, RecursionError) as error:
        raise ExportError(
            Message(
                f"Expected JSON in {name} of ",
                Argument("original"),
                f". Received: {error}. Copy the file again.",
            )
        ) from error
    if not isinstance(content, dict):
        raise ExportError(
            Message(
                f"Expected a JSON object in {name} of ",
                Argument("original"),
                f". Received: {type(content).__name__}. Copy the file again.",
            )
        )
    return content


def _write(
    target: TransformersTarget,
    folder: Path,
    config: Mapping[str, object],
    files: Mapping[str, bytes],
) -> int:
    """Writes the files, and compares the weights. Returns the number of weights."""
    numpy_files = _safetensors()
    writer = target.new_writer()
    target.copy_weights(writer)
    variables = writer.merged(target.variables)
    writer.finish(variables)
    numpy_files.save_file(writer.weights, folder / SAFETENSORS, metadata={"format": "pt"})
    count = len(writer.weights)
    writer.weights = {}  # the arrays are as large as the model
    comparison = WeightComparison(WeightFiles(folder), writer.value)
    target.copy_weights(comparison)
    comparison.finish(variables)
    if comparison.differing:
        raise ExportError(
            "Expected the weights of the model in the written file. Received: different values of "
            f"{', '.join(comparison.differing[:8])}. This is a bug in the export; please report it."
        )
    for name in files:
        if name not in (CONFIG, GENERATION_CONFIG):
            (folder / name).write_bytes(files[name])
    _write_json(folder / CONFIG, _written_config(config, target))
    if target.generation_config is not None:
        _write_json(folder / GENERATION_CONFIG, target.generation_config)
    return count


def _written_config(config: Mapping[str, object], target: TransformersTarget) -> dict[str, object]:
    """Returns the `config.json` of the folder."""
    config = {**config, "architectures": [target.class_name], "dtype": "float32"}
    config.pop("torch_dtype", None)  # an earlier name of dtype
    if target.class_name.endswith("ForPreTraining"):  # the second head is not converted
        name = target.class_name.replace("ForPreTraining", "ForMaskedLM")
        config["architectures"] = [name]
    if target.generation_config is None:
        return config
    # Old checkpoints have search settings in config.json. The folder has them in
    # generation_config.json instead.
    return {name: value for name, value in config.items() if name not in GENERATION or name in KEPT}


def _write_json(path: Path, content: Mapping[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _safetensors() -> types.ModuleType:
    try:
        return importlib.import_module("safetensors.numpy")
    except ImportError as error:
        raise ImportError(
            f"Expected safetensors, to write {SAFETENSORS}. Received: {error}. Install it with "
            "`pip install '.[convert]'` in a checkout."
        ) from error
