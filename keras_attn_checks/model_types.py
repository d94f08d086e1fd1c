import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_attn_checks.path_kind import CONFIG

MODEL_CLASSES = {
    "marian": "MarianMTModel",
    "bart": "BartForConditionalGeneration",
    "mbart": "MBartForConditionalGeneration",
    "m2m_100": "M2M100ForConditionalGeneration",
    "pegasus": "PegasusForConditionalGeneration",
    "fsmt": "FSMTForConditionalGeneration",
    "t5": "T5ForConditionalGeneration",
    "mt5": "MT5ForConditionalGeneration",
    "gpt2": "GPT2LMHeadModel",
    "opt": "OPTForCausalLM",
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "gemma": "GemmaForCausalLM",
}
"""Dict from `model_type` in `config.json` to the class in transformers, of all translators and
language models that can be converted."""

ENCODER_CLASSES = {
    "bert": "Bert",
    "roberta": "Roberta",
    "xlm-roberta": "XLMRoberta",
    "camembert": "Camembert",
    "distilbert": "DistilBert",
}
"""Dict from `model_type` of all encoders that can be converted to the prefix of their classes in
transformers, such as `"Bert"` of `BertForMaskedLM`."""


BASE_CLASSES = {
    "marian": "MarianModel",
    "bart": "BartModel",
    "mbart": "MBartModel",
    "m2m_100": "M2M100Model",
    "pegasus": "PegasusModel",
    "gpt2": "GPT2Model",
    "opt": "OPTModel",
    "llama": "LlamaModel",
    "mistral": "MistralModel",
    "qwen2": "Qwen2Model",
    "gemma": "GemmaModel",
}
"""Dict from `model_type` to the class without an output layer. transformers loads such a
checkpoint, for example BART-base, into the class of `MODEL_CLASSES`, with the embedding as output
layer."""


def model_type_problem(config: Mapping[str, Any]) -> str | None:
    """Returns an error message if a model cannot be converted because of its type or its class.

    Args:
        config: Dict, the content of `config.json`.

    Returns:
        String, an error message. `None` if `model_type` is supported and `architectures` contains
        the class of this type, with or without the output layer. The classes of encoders are not
        checked.
    """
    model_type = config.get("model_type")
    if str(model_type) in ENCODER_CLASSES:
        return None
    model_class = MODEL_CLASSES.get(str(model_type))
    if model_class is None:
        return (
            f"Expected model_type in {CONFIG} to be one of {(*MODEL_CLASSES, *ENCODER_CLASSES)}. "
            f"Received: model_type={model_type!r}. Models of this type cannot be converted."
        )
    classes = config.get("architectures") or [model_class]
    known = {model_class, BASE_CLASSES.get(str(model_type), model_class)}
    if not isinstance(classes, list) or not known.intersection(map(str, classes)):
        return (
            f"Expected the class {model_class} among architectures in {CONFIG}. Received: "
            f"architectures={classes}. Convert a checkpoint of this class."
        )
    return None


def checkpoint_type_problem(folder: Path) -> str | None:
    """Returns the `model_type_problem` of a checkpoint folder.

    Args:
        folder: Path of a folder with a `config.json`. If this file is damaged, the result is
            `None`: the conversion raises the error.
    """
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return None
    return model_type_problem(config) if isinstance(config, dict) else None
