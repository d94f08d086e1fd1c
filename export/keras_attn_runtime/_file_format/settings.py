"""Settings in files of the kind "generation", which contain a search."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

from keras_attn_runtime._errors import ModelFileError
from keras_attn_runtime._file_format.inputs import Input, read_input
from keras_attn_runtime._file_format.metadata_entries import KIND, describe_kind, read_entries
from keras_attn_runtime._file_format.settings_reader import SettingsReader
from keras_attn_runtime._file_format.vocabulary_side import Side, read_side

CONSTRAINT_IDS, CONSTRAINTS_IN_ORDER = "constraint_ids", "constraints_in_order"

TOKEN_BIAS_IDS, TOKEN_BIAS_VALUES = "token_bias_ids", "token_bias_values"

OTHER_INPUTS = (
    "prefix_ids",
    "seeds",
    CONSTRAINT_IDS,
    CONSTRAINTS_IN_ORDER,
    TOKEN_BIAS_IDS,
    TOKEN_BIAS_VALUES,
)
"""Inputs of a search that are not settings with a default in the metadata."""

MAX_HYPOTHESES = 4096
"""Largest number of hypotheses in a call, for a search without beams."""


class RuleInput(TypedDict):
    """Type and default of an input of a rule of the search.

    The default and the shape include the batch axis, unless the input is a scalar.
    """

    dtype: str
    shape: list[int | str]
    default: Any


RULE_INPUT = set(RuleInput.__annotations__)


@dataclass(frozen=True)
class Settings:
    """Metadata of an exported file.

    Attributes:
        format: int, file format version.
        inputs: dict from encoder input names to `Input`s.
        source: `Side`, or `None` for a model without ids as input.
        target: `Side`.
        search: dict, the search settings. Its entries include the following four attributes,
            "class", and "inputs", the list of file inputs that belong to the search.
        beam_width: int, number of open hypotheses in the search.
        num_hypotheses: int, number of hypotheses that the file returns per sentence, or the default
            of its input `num_hypotheses`.
        max_length: int, default maximum number of output tokens, including the end token.
        length_penalty: float, default length penalty exponent.
        versions: dict, versions of the libraries that wrote the file.
        card: dict, information about the model: "license", "data", "recipe", "parity".
    """

    format: int
    inputs: dict[str, Input]
    source: Side | None
    target: Side
    search: dict[str, Any]
    beam_width: int
    num_hypotheses: int
    max_length: int
    length_penalty: float
    versions: dict[str, Any] = field(default_factory=dict)
    card: dict[str, Any] = field(default_factory=dict)

    @property
    def search_inputs(self) -> list[str]:
        """List of input names that belong to the search."""
        return self.search["inputs"]

    @property
    def rule_inputs(self) -> dict[str, RuleInput]:
        """Dict from the inputs of rules of the search to their types and defaults."""
        return self.search.get("rule_inputs", {})

    @property
    def runtime_settings(self) -> dict[str, float]:
        """Dict from the settings of the search that a call can choose to their values."""
        others = ("max_length", "length_penalty", *OTHER_INPUTS, *self.rule_inputs)
        return {name: self.search[name] for name in self.search_inputs if name not in others}

    @property
    def most_hypotheses(self) -> int:
        """int, largest number of hypotheses that a call can choose."""
        if "num_hypotheses" not in self.search_inputs:
            return self.num_hypotheses
        return self.beam_width if "patience" in self.search else MAX_HYPOTHESES

    @property
    def forced_prefix_ids(self) -> list[int]:
        """List of ids with which every hypothesis begins, before a call's prefix."""
        return self.search.get("forced_prefix_ids", [])

    @property
    def end_token_ids(self) -> list[int | None]:
        """List of the ids that end a hypothesis: that of the target, then the others."""
        return [self.target.end_token_id, *self.search.get("other_end_token_ids", [])]

    @property
    def suppressed_token_ids(self) -> list[int]:
        """List of ids that the search never generates."""
        return self.search.get("suppressed_token_ids", [])

    @property
    def suppressed_sequences(self) -> list[list[int]]:
        """List of id sequences that the search never generates."""
        return self.search.get("suppressed_sequences", [])

    @property
    def stop_sequences(self) -> list[list[int]]:
        """List of id sequences that end a hypothesis."""
        return self.search.get("stop_sequences", [])

    @property
    def scores_prefix(self) -> bool:
        """bool, whether a prefix's log probabilities are part of the score."""
        return self.search.get("score_prefix", True)

    @classmethod
    def from_metadata(
        cls, metadata: Mapping[str, str], input_names: Iterable[str] = ()
    ) -> "Settings":
        """Reads a file's metadata.

        Args:
            metadata: dict of strings, an ONNX file's `metadata_props`.
            input_names: the file's input names, for metadata in format 1, which do not contain
                them.

        Returns:
            `Settings`.

        Raises:
            ModelFileError: if the metadata is missing, malformed, or in an unknown format.
        """
        return _settings(*read_entries(metadata, input_names))


def _settings(number: int, entries: dict[str, Any], card: dict[str, Any]) -> Settings:
    """Converts a dict in format 2 to `Settings`; ignores unknown keys."""
    root = SettingsReader("", entries)
    kind = root.get("kind", str)
    if kind != KIND:
        what, how = describe_kind(entries)
        raise ModelFileError(
            f"Expected a file of the kind {KIND!r}, with a search inside. Received: kind={kind!r}, "
            f"{what}. Run it with {how}."
        )
    inputs = root.part("inputs")
    search = root.part("search")
    names = search.get("inputs", list)
    if not all(isinstance(name, str) for name in names):
        search.refuse("inputs", "that is a list of strings")
    rule_inputs = search.get("rule_inputs", dict, {})
    for name in names:
        if name in rule_inputs:
            if not isinstance(rule_inputs[name], dict) or not RULE_INPUT <= set(rule_inputs[name]):
                search.refuse("rule_inputs", f"whose items have the keys {sorted(RULE_INPUT)}")
        elif name not in OTHER_INPUTS:
            search.number(name)
    has_source = root.get("source", (dict, type(None)), None) is not None
    return Settings(
        format=number,
        inputs={name: read_input(inputs.part(name)) for name in inputs.entries},
        source=read_side(root.part("source"), number) if has_source else None,
        target=read_side(root.part("target"), number),
        search=search.entries,
        beam_width=search.integer("beam_width", least=1),
        num_hypotheses=search.integer("num_hypotheses", least=1),
        max_length=search.integer("max_length", least=0),
        length_penalty=search.number("length_penalty"),
        versions=root.get("versions", dict, {}),
        card=card,
    )
