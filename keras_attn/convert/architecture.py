import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from keras_attn.convert.settings import Setting, Settings
from keras_attn.convert.weight_mapping import WeightMapping
from keras_attn_checks.model_types import MODEL_CLASSES


@dataclasses.dataclass(frozen=True)
class Architecture:
    """Architecture of transformers that can be converted: one entry of `ARCHITECTURES`.

    Args:
        model_type: String, `model_type` in `config.json`: a key of `MODEL_CLASSES`.
        settings: Dict from the keys of `config.json` to `Setting`s.
        build: Function of `(architecture, settings, copy)` that returns encoder and decoder before
            their weights are created. The encoder is `None` for a language model.
        copy_weights: Function of `(architecture, settings, impossible_token_ids, layers, copy)`
            that maps the variables of encoder and decoder to the weights of a checkpoint, in both
            directions. When weights are read, the output bias of impossible ids is replaced by a
            large negative number.
        is_language_model: Bool, whether the model continues prompts.
        tokenizer: String, kind of the tokenizers, see `TokenizerReader`, or `None`.
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
