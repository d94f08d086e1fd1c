import re
from os import PathLike
from pathlib import Path

import numpy as np

from keras_attn._backend.tensorflow_checkpoint import TensorFlowCheckpoint
from keras_attn.convert._checkpoint_file import check_file
from keras_attn.convert._conversion_error import ConversionError
from keras_attn.convert._weight_files import FLOATS
from keras_attn_checks.checkpoint_folder import STATE
from keras_attn_checks.message import Argument, Message

_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
_RECURRENT = r"model/(encoder|decoder)/.*(cell|rnn|lstm|gru|bridge).*"


class OpenNMTCheckpoint:
    """OpenNMT-tf 2 checkpoint: model variables, without optimizer variables.

    Args:
        path: Path of a folder, or of a checkpoint without the suffix `.index`. In a folder, the
            newest checkpoint is read, which the file `checkpoint` names. A folder without this file
            must contain a single checkpoint.

    Attributes:
        folder: `Path`, the folder.
        name: String, checkpoint name, such as `"ckpt-50000"`.
        shapes: Dict from variable names, such as `"model/encoder/layer_norm/gamma"`, to shapes.

    Raises:
        ConversionError: If there is no such checkpoint, or it is not an OpenNMT-tf 2 Transformer.
        ImportError: If TensorFlow is not installed.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        path = Path(path)
        self.folder, self.name = (path, _newest(path)) if path.is_dir() else _split(path)
        if self.name.startswith("model.ckpt"):
            raise ConversionError(
                f"Expected a checkpoint of OpenNMT-tf 2. Received: {self.name}, the name that "
                "OpenNMT-tf 1 gives. Load it once with OpenNMT-tf 2, which saves the new format."
            )
        for pattern in (f"{self.name}.index", f"{self.name}.data-*"):
            for file in self.folder.glob(pattern):
                check_file(file)
        try:
            self._file = TensorFlowCheckpoint(self.folder / self.name)
        except OSError as error:
            raise ConversionError(str(error)) from error
        self.shapes = {
            name.removesuffix(_SUFFIX): shape
            for name, shape in self._file.shapes.items()
            if name.startswith("model/") and "/.OPTIMIZER_SLOT/" not in name
        }
        self._check()

    def read(self, name: str) -> np.ndarray:
        """Returns a variable as float32."""
        try:
            array = self._file.read(name + _SUFFIX)
        except OSError as error:
            raise ConversionError(str(error)) from error
        if array.dtype.name not in FLOATS:
            raise ConversionError(
                f"Expected variables of the dtypes {FLOATS}. Received: {name} of dtype "
                f"{array.dtype.name}. Use a checkpoint that the training wrote."
            )
        return array.astype("float32")

    def _check(self):
        """Raises an error if the variables do not belong to a Transformer."""
        place = str(self.folder / self.name)
        if not self.shapes:
            raise ConversionError(
                f"Expected variables of OpenNMT-tf 2, such as model/encoder/layer_norm/gamma, in "
                f"{place!r}. Received: {sorted(self._file.shapes)[:3]}. Convert the folder that "
                "OpenNMT-tf wrote."
            )
        recurrent = sorted(name for name in self.shapes if re.fullmatch(_RECURRENT, name))
        if recurrent:
            raise ConversionError(
                f"Expected a Transformer in {place!r}. Received: {recurrent[0]}. Models with "
                "recurrent layers cannot be converted, because their cells and "
                "attention differ from those of this library."
            )
        missing = [side for side in ("encoder", "decoder") if not self._has_attention(side)]
        if missing:
            raise ConversionError(
                f"Expected an encoder and a decoder with self-attention in {place!r}. Received: "
                f"variables without model/{missing[0]}/layers/0/self_attention. Only translators "
                "can be converted, not language models, taggers and models with several sources."
            )

    def _has_attention(self, side):
        prefix = f"model/{side}/layers/0/self_attention/"
        return any(name.startswith(prefix) for name in self.shapes)


def _newest(folder):
    """Returns the name of the newest checkpoint in a folder."""
    names = sorted(path.stem for path in folder.glob("*.index"))
    if (folder / STATE).is_file():
        text = (folder / STATE).read_text(encoding="utf-8")
        match = re.search(r'^model_checkpoint_path: "(.*)"', text, re.MULTILINE)
        # The folder in this path may only exist on the machine that trained the model.
        name = re.split(r"[/\\]", match[1])[-1] if match else None
        if name in names:
            return name
        raise ConversionError(
            f"Expected the checkpoint that {str(folder / STATE)!r} names. Received: "
            f"{name or 'no name'}, and a folder with the checkpoints {names}. Copy the missing "
            "files, or pass the path of one checkpoint without its suffix."
        )
    if len(names) == 1:
        return names[0]
    raise ConversionError(
        Message(
            f"Expected a folder with one checkpoint, or with the file {STATE} that names the "
            "newest. Received: ",
            Argument("path", str(folder)),
            f" with the checkpoints {names}. Pass the path of one checkpoint without its suffix "
            ".index.",
        )
    )


def _split(path):
    """Returns a checkpoint's folder and name."""
    path = path.with_suffix("") if path.suffix == ".index" else path
    if not path.with_name(f"{path.name}.index").is_file():
        raise ConversionError(
            Message(
                "Expected the path of a folder, or of a checkpoint. Received: ",
                Argument("path", str(path)),
                ", which does not exist. Check the path.",
            )
        )
    return path.parent, path.name
