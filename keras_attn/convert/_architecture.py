import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from keras_attn.convert._settings import Setting, Settings
from keras_attn.convert._weight_mapping import WeightMapping
from keras_attn_checks.model_types import MODEL_CLASSES


@dataclasses.dataclass(frozen=True)
class Architecture:
    """Convertible transformers architecture, one entry in `ARCHITECTURES`.

    Args:
        model_type: String, `model_type` in `config.json`, a key in `MODEL_CLASSES`.
        settings: Dict from `config.json` keys to `Setting`s.
        build: Function `(architecture, settings, copy)` that returns an unbuilt encoder and
            decoder. Language models have `None` as encoder.
        copy_weights: Function `(architecture, settings, impossible_token_ids, layers, copy)` that
            maps encoder and decoder variables to checkpoint weights, in both directions. When
            weights are read, impossible ids get a large negative output bias.
        is_language_model: Bool, whether the model continues prompts.
        tokenizer: String, tokenizer kind, see `TokenizerReader`, or `None`.
        options: Dict of architecture-specific values for `build` and `copy_weights`.
    """

    model_type: str
    settings: Mapping[str, Setting]
    build: Callable[["Architecture", Settings, WeightMapping], tuple[Any, Any]]
    copy_weights: Callable[
        ["Architecture", Settings, Sequence[int], tuple[Any, Any], WeightMapping], None
    ]
    is_language_model: bool = False
    tokenizer: str | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def model_class(self) -> str:
        """String, the class in transformers."""
        return MODEL_CLASSES[self.model_type]
