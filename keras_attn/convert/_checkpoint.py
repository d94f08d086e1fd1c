import functools
from os import PathLike
from pathlib import Path
from typing import Any

from keras_attn.convert import _checkpoint_file as checkpoint_file
from keras_attn.convert._conversion_error import ConversionError
from keras_attn.convert._weight_files import WeightFiles
from keras_attn_checks.checkpoint_folder import folder_problem
from keras_attn_checks.path_kind import CONFIG

GENERATION_CONFIG = "generation_config.json"


class Checkpoint:
    """Checkpoint folder in Hugging Face's transformers format.

    Args:
        path: Path of the folder.

    Attributes:
        path: `Path`, the folder.
        config: Dict, `config.json`.
        generation_config: Dict, `generation_config.json`, or `None` without this file.
        weights: `WeightFiles`.

    Raises:
        ConversionError: If the folder or one of its files is missing or damaged.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        problem = folder_problem(self.path)
        if problem is not None:
            raise ConversionError(problem)
        self.config = self.read_json(CONFIG) or {}
        self.generation_config = self.read_json(GENERATION_CONFIG)

    @functools.cached_property
    def weights(self) -> WeightFiles:
        """`WeightFiles`, opened at the first access."""
        return WeightFiles(self.path)

    def read_bytes(self, name: str) -> bytes | None:
        """Returns a file's content, see `checkpoint_file.read_bytes`."""
        return checkpoint_file.read_bytes(self.path, name)

    def read_json(self, name: str) -> dict[str, Any] | None:
        """Returns the object in a JSON file, or `None` without this file."""
        return checkpoint_file.read_json(self.path, name)
