from typing import Any

from keras_attn.convert.architecture import Architecture
from keras_attn.convert.conversion_error import ConversionError
from keras_attn.convert.encoder_models import ENCODERS
from keras_attn.convert.fairseq_models import FAIRSEQ_MODELS
from keras_attn.convert.language_models import LANGUAGE_MODELS
from keras_attn.convert.t5_models import MT5, T5

ARCHITECTURES: dict[str, Architecture] = {
    each.model_type: each for each in (*FAIRSEQ_MODELS, T5, MT5, *LANGUAGE_MODELS)
}
"""Dict from `model_type` to the architecture."""


def find_architecture(config: dict[str, Any]) -> Architecture:
    """Returns the architecture of a `config.json`.

    Raises:
        ConversionError: If the model type is not supported, or `architectures` does not contain the
            class of the architecture.
    """
    model_type = config.get("model_type")
    architecture = ARCHITECTURES.get(str(model_type))
    if architecture is None:
        raise ConversionError(
            "Expected model_type in config.json to be one of "
            f"{(*ARCHITECTURES, *ENCODERS)}. Received: "
            f"model_type={model_type!r}. Models of this type cannot be converted."
        )
    classes = config.get("architectures") or [architecture.model_class]
    if architecture.model_class not in classes:
        raise ConversionError(
            f"Expected the class {architecture.model_class} among architectures in config.json. "
            f"Received: architectures={classes}. Convert a checkpoint of this class."
        )
    return architecture
