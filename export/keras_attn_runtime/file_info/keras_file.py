"""Class, inputs and versions of a `.keras` file."""

import json
import zipfile
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Self

from keras_attn_runtime.errors import ModelFileError
from keras_attn_runtime.file_info.tensor_value import TensorValue

MEMBERS = ("metadata.json", "config.json")


@dataclass
class KerasFile:
    """The configuration of a Keras model.

    Attributes:
        class_name: string, class of the model.
        name: string, name of the model, perhaps empty.
        inputs: list of `TensorValue`, empty unless the model is functional.
        versions: dict, `keras_version` and `date_saved`.
    """

    class_name: str
    name: str = ""
    inputs: list[TensorValue] = field(default_factory=list[TensorValue])
    versions: dict[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def from_path(cls, path: str | PathLike[str]) -> Self:
        """Reads the configuration in a Keras archive, but not the weights.

        Raises:
            ModelFileError: if the file is not a Keras archive.
        """
        try:
            with zipfile.ZipFile(path) as archive:
                metadata, model = (json.loads(archive.read(name)) for name in MEMBERS)
            config = model.get("config", {})
            layers = config.get("layers", [])
            return cls(
                class_name=str(model["class_name"]),
                name=str(config.get("name", "")),
                inputs=[_input(each) for each in layers if each["class_name"] == "InputLayer"],
                versions=dict(metadata),
            )
        except (KeyError, TypeError, ValueError, AttributeError, zipfile.BadZipFile) as error:
            raise ModelFileError(
                f"Expected a Keras file. Received: {str(path)!r}, whose configuration cannot be "
                f"read ({error!r}). Save the model again."
            ) from error


def _input(layer: dict[str, Any]) -> TensorValue:
    config = layer["config"]
    dtype = config.get("dtype")
    policy: dict[str, Any] = {} if dtype is None or isinstance(dtype, str) else dtype
    return TensorValue(
        str(config.get("name", "")),
        dtype if isinstance(dtype, str) else str(policy.get("config", {}).get("name", "?")),
        tuple(config.get("batch_shape") or ()),
    )
