import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from keras_attn.convert.search_settings import SearchSettings
from keras_attn.convert.settings import Setting, Settings
from keras_attn.convert.weight_copy import WeightCopy


@dataclasses.dataclass(frozen=True)
class Architecture:
    """Architecture of transformers that can be converted: one entry of `ARCHITECTURES`.

    Args:
        model_type: String, `model_type` in `config.json`.
        model_class: String, the class in transformers.
        settings: Dict from the keys of `config.json` to `Setting`s.
        build: Function of `(architecture, settings, search, copy)` that returns encoder and decoder
            with the weights of the checkpoint. The encoder is `None` for a language model.
        is_language_model: Bool, whether the model continues prompts.
        tokenizer: String, see `read_tokenizers`, or `None`.
        options: Dict, further differences for `build`.
    """

    model_type: str
    model_class: str
    settings: Mapping[str, Setting]
    build: Callable[["Architecture", Settings, SearchSettings, WeightCopy], tuple[Any, Any]]
    is_language_model: bool = False
    tokenizer: str | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
