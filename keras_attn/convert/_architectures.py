from typing import Any

from keras_attn.convert._architecture import Architecture
from keras_attn.convert._conversion_error import ConversionError
from keras_attn.convert._fairseq_models import FAIRSEQ_MODELS
from keras_attn.convert._language_models import LANGUAGE_MODELS
from keras_attn.convert._t5_models import MT5, T5
from keras_attn_checks.model_types import model_type_problem

ARCHITECTURES: dict[str, Architecture] = {
    architecture.model_type: architecture
    for architecture in (*FAIRSEQ_MODELS, T5, MT5, *LANGUAGE_MODELS)
}
"""Dict from `model_type` to the architecture."""


def find_architecture(config: dict[str, Any]) -> Architecture:
    """Returns the architecture that a `config.json` describes.

    Raises:
        ConversionError: If the model type is not supported, or `architectures` does not contain its
            class.
    """
    problem = model_type_problem(config)
    if problem is not None:
        raise ConversionError(problem)
    return ARCHITECTURES[str(config["model_type"])]
