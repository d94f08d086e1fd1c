import functools
import json
from os import PathLike
from pathlib import Path
from typing import Any

from keras_attn.convert.conversion_error import ConversionError
from keras_attn.convert.weight_files import WeightFiles

CONFIG = "config.json"
GENERATION_CONFIG = "generation_config.json"


class Checkpoint:
    """Folder of a checkpoint in the format of Hugging Face's transformers.

    Args:
        folder: Path of the folder.

    Attributes:
        path: `Path` of the folder.
        config: Dict, the content of `config.json`.
        generation_config: Dict, the content of `generation_config.json`, or `None` if there is no
            such file.
        weights: `WeightFiles`.

    Raises:
        ConversionError: If the folder or one of its files is missing or damaged.
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.path = Path(folder)
        if not self.path.is_dir():
            raise ConversionError(_missing_folder(folder))
        config = self.read_json(CONFIG)
        if config is None:
            raise ConversionError(
                f"Expected a folder with {CONFIG}. Received: folder={str(folder)!r}, "
                f"{_describe_folder(self.path)}"
            )
        self.config = config
        self.generation_config = self.read_json(GENERATION_CONFIG)

    @functools.cached_property
    def weights(self) -> WeightFiles:
        """`WeightFiles` of the folder, opened at the first access."""
        return WeightFiles(self.path)

    def read_json(self, name: str) -> dict[str, Any] | None:
        """Returns the object in a JSON file of the folder, or `None` if there is no such file."""
        path = self.path / name
        if not path.is_file():
            return None
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ConversionError(
                f"Expected JSON in {str(path)!r}. Received: {error}. Copy the file again."
            ) from error
        if not isinstance(content, dict):
            raise ConversionError(
                f"Expected a JSON object in {str(path)!r}. Received: {type(content).__name__}. "
                "Copy the file again."
            )
        return content


def _describe_folder(path):
    """Returns the end of an error message about a folder without `config.json`."""
    if (path / "run.json").is_file():
        return "a run directory, which is already converted. Pass it to `keras-attn export`."
    return f"in which {CONFIG} is missing. Copy the whole folder of the checkpoint."


def _missing_folder(folder):
    name = str(folder)
    if Path(name).exists():
        return (
            f"Expected the path of a folder. Received: folder={name!r}, a file. Pass the folder "
            f"that contains {CONFIG}, the weights and the tokenizers."
        )
    if not Path(name).is_absolute() and name.count("/") <= 1 and not name.startswith("."):
        return (
            f"Expected the path of a folder. Received: folder={name!r}, which does not exist. If "
            "this is the name of a model on the Hugging Face Hub, download it first: `pip install "
            f"huggingface_hub`, then `hf download {name} --local-dir {Path(name).name}`, and "
            f"convert the folder {Path(name).name!r}."
        )
    return (
        f"Expected the path of a folder. Received: folder={name!r}, which does not exist. Check "
        "the path."
    )
