"""Parses an OpenNMT-tf model definition without running it."""

import ast
import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_attn.convert._conversion_error import ConversionError

DESCRIPTION = "model_description.py"
"""File that OpenNMT-tf writes to a model folder."""

TRANSFORMER = "Transformer"

POSITIONAL = (
    "source_inputter",
    "target_inputter",
    "num_layers",
    "num_units",
    "num_heads",
    "ffn_inner_dim",
    "dropout",
    "attention_dropout",
    "ffn_dropout",
)
"""The first arguments of `opennmt.models.Transformer`, in order."""

_BIG = {"num_units": 1024, "num_heads": 16, "ffn_inner_dim": 4096}
_RELATIVE = {"position_encoder_class": None, "maximum_relative_position": 20}
_SCALING = {
    **_BIG,
    "pre_norm": False,
    "dropout": 0.3,
    "attention_dropout": 0.1,
    "ffn_dropout": 0.0,
    "share_embeddings": "AUTO",
    "output_layer_bias": False,
}

CATALOG: dict[str, dict[str, Any]] = {
    TRANSFORMER: {},
    "TransformerBase": {},
    "TransformerBaseRelative": _RELATIVE,
    "TransformerBaseSharedEmbeddings": {"share_embeddings": "ALL"},
    "TransformerBig": _BIG,
    "TransformerBigRelative": {**_BIG, **_RELATIVE},
    "TransformerBigSharedEmbeddings": {**_BIG, "share_embeddings": "ALL"},
    "TransformerRelative": _RELATIVE,
    "TransformerTiny": {"num_layers": 2, "num_units": 64, "num_heads": 2, "ffn_inner_dim": 64},
    "ScalingNmtEnDe": _SCALING,
    "ScalingNmtEnFr": {**_SCALING, "dropout": 0.1, "attention_dropout": 0.0},
}
"""Dict from Transformer names in the OpenNMT-tf 2.32 catalog to arguments."""

_UNSUPPORTED = {
    "GPT2Small": "Language models",
    "ListenAttendSpell": "Models with recurrent layers",
    "LstmCnnCrfTagger": "Taggers",
    "LuongAttention": "Models with recurrent layers",
    "NMTBigV1": "Models with recurrent layers",
    "NMTMediumV1": "Models with recurrent layers",
    "NMTSmallV1": "Models with recurrent layers",
}


@dataclasses.dataclass(frozen=True)
class ModelDescription:
    """OpenNMT-tf class and its arguments.

    Args:
        class_name: String, a key in `CATALOG`.
        arguments: Dict, arguments for `opennmt.models.Transformer`. Functions and classes are
            represented by their names, such as `"relu"`.
    """

    class_name: str
    arguments: Mapping[str, Any]


def describe(class_name: str, arguments: Mapping[str, Any] | None = None) -> ModelDescription:
    """Returns the description of a catalog model.

    Args:
        class_name: String, name in the catalog.
        arguments: Dict, arguments that override those in the catalog. Defaults to `None`.

    Raises:
        ConversionError: If the catalog contains no such Transformer.
    """
    expected = f"Expected one of the models {tuple(CATALOG)}. Received: {class_name!r}."
    if class_name in _UNSUPPORTED:
        raise ConversionError(f"{expected} {_UNSUPPORTED[class_name]} cannot be converted.")
    if class_name not in CATALOG:
        raise ConversionError(f"{expected} Pass one of these names, or a {DESCRIPTION}.")
    return ModelDescription(class_name, {**CATALOG[class_name], **(arguments or {})})


def read_description(text: str, file: str) -> ModelDescription:
    """Reads a model description without running it.

    The file must define `model` as a catalog model, as an `opennmt.models.Transformer` call, or as
    a subclass of `opennmt.models.Transformer`. The arguments in this call, or of `super().__init__`
    in the subclass, must be literals, or names of constants in the file.

    Args:
        text: String, file content.
        file: String, file path, for messages.

    Raises:
        ConversionError: If the file cannot be read in this way, or the catalog contains no such
            Transformer.
    """
    try:
        class_name, arguments = _Reader(text).read()
        return describe(str(class_name), arguments)
    except (SyntaxError, ValueError, IndexError) as error:
        if isinstance(error, ConversionError):
            raise
        raise ConversionError(
            f"Expected {file!r} to define model as a model of the catalog or as a call of "
            f"opennmt.models.Transformer with literal arguments. Received: {error}. Write it as "
            "`model = lambda: opennmt.models.Transformer(num_layers=6, num_heads=8)`, with your "
            "values."
        ) from error


class _Reader:
    """Reads the `model` definition in a file's syntax tree."""

    def __init__(self, text):
        self.classes, self.constants, self.model = {}, {}, None
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef):
                self.classes[node.name] = node
            elif isinstance(node, ast.FunctionDef) and node.name == "model":
                returns = [child for child in ast.walk(node) if isinstance(child, ast.Return)]
                self.model = returns[-1].value if returns else None
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if name == "model":
                    self.model = node.value
                else:
                    self.constants[name] = node.value

    def read(self) -> tuple[Any, dict[str, Any]]:
        """Returns the class name and the arguments."""
        if self.model is None:
            raise ValueError(f"definitions of {sorted({*self.classes, *self.constants})}")
        return self._model(self.model)

    def _model(self, node) -> tuple[Any, dict[str, Any]]:
        if isinstance(node, ast.Lambda):
            return self._model(node.body)
        if not isinstance(node, ast.Call):
            name = _last_name(node)
            return self._class(self.classes[name]) if name in self.classes else (name, {})
        name = _last_name(node.func)
        if name == "get_model_from_catalog":
            return self._value(node.args[0] if node.args else node.keywords[0].value), {}
        if name in self.classes:
            if node.args or node.keywords:
                raise ValueError(f"{name} with arguments")
            return self._class(self.classes[name])
        return name, self._arguments(node)

    def _class(self, node):
        """Returns the base class name and the arguments of `super().__init__`."""
        base = _last_name(node.bases[0])
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                if call.func.attr == "__init__" and isinstance(call.func.value, ast.Call):
                    return base, self._arguments(call)
        return base, {}

    def _arguments(self, call):
        arguments = dict(zip(POSITIONAL, map(self._value, call.args), strict=False))
        if len(call.args) > len(POSITIONAL) or any(item.arg is None for item in call.keywords):
            raise ValueError(f"the arguments of {ast.unparse(call)[:60]}")
        return arguments | {str(item.arg): self._value(item.value) for item in call.keywords}

    def _value(self, node):
        """Returns a literal, or the name of a function or class."""
        try:
            return ast.literal_eval(node)
        except ValueError:
            pass
        if isinstance(node, ast.Lambda):
            return self._value(node.body)
        if isinstance(node, ast.Call):
            return _last_name(node.func)
        name = _last_name(node)
        return self._value(self.constants[name]) if name in self.constants else name


def _last_name(node):
    """Returns `"relu"` for `tf.nn.relu`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    raise ValueError(f"{ast.unparse(node)[:60]!r}, which is neither a literal nor a name")
