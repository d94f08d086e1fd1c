from typing import Any

import keras

from keras_attn._drop_ins.dropout import Dropout
from keras_attn._layer.argument_checks import accepts_numpy_numbers
from keras_attn.models.functional_model import functional_model
from keras_attn.output_layers.sequence_pooling import SequencePooling


@accepts_numpy_numbers
def sequence_classifier(
    encoder: keras.layers.Layer,
    num_classes: int,
    pooling: str = "mean",
    dropout: float = 0.1,
    inputs: Any = None,
    name: str = "classifier",
) -> keras.Model:
    """Classifies what an encoder reads: a sentence, an image, a series of measurements.

    It shares the encoder, for instance with the `masked_language_model` that trained it before
    ([Devlin et al., 2019](https://arxiv.org/abs/1810.04805), section 3.2).

    Args:
        encoder: layer that returns `encoder_outputs` and `encoder_mask`, such as
            `TransformerEncoder` or `RNNEncoder`.
        num_classes: int.
        pooling: `"mean"` or `"first"`, see `SequencePooling`. Default `"mean"`.
        dropout: float in [0, 1), on the pooled vector. Default 0.1.
        inputs: `keras.Input` of an encoder that reads something else than ids, for instance
            `keras.Input((32, 32, 3), name="images")`. Default: ids.
        name: str.

    Returns:
        Functional model from `token_ids` int32 `(batch, source)`, or `inputs`, to float32 logits
        `(batch, num_classes)`.
    """
    if inputs is None:
        inputs = keras.Input((None,), dtype="int32", name="token_ids")
    encoded = encoder(inputs)
    pooled = SequencePooling(pooling, name="pooling")(
        encoded["encoder_outputs"], encoded["encoder_mask"]
    )
    pooled = Dropout(dropout, name="dropout")(pooled)
    logits = keras.layers.Dense(num_classes, dtype="float32", name="logits")(pooled)
    return functional_model(inputs, logits, name)
