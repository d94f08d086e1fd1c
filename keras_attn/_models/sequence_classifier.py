import keras

from keras_attn._drop_ins.dropout import Dropout
from keras_attn._layer.argument_checks import (
    accepts_numpy_numbers,
    check_dropout,
    check_positive_integer,
)
from keras_attn._models.functional_model import functional_model
from keras_attn._models.model_inputs import input_tensor
from keras_attn._output_layers.attention_pooling import AttentionPooling
from keras_attn._output_layers.sequence_pooling import POOLINGS as LAYER_POOLINGS
from keras_attn._output_layers.sequence_pooling import SequencePooling

POOLINGS = (*LAYER_POOLINGS, "attention")


@accepts_numpy_numbers
def sequence_classifier(
    encoder: keras.layers.Layer,
    num_classes: int,
    *,
    pooling: str = "mean",
    dropout: float = 0.1,
    return_attention_scores: bool = False,
    inputs: keras.KerasTensor | None = None,
    name: str = "classifier",
) -> keras.Model:
    """Returns a classifier for sentences, images or time series: an encoder and an output layer.

        logits = W pool(encoder(x)) + b

    To fine-tune a pretrained encoder, pass the encoder of a model such as `masked_language_model`
    ([Devlin et al., 2019](https://arxiv.org/abs/1810.04805), section 3.2). The classifier shares
    the encoder's weights.

    Args:
        encoder: Layer that returns a dict with `encoder_outputs` and `encoder_mask`, such as
            `TransformerEncoder` or `RNNEncoder`.
        num_classes: Positive int, number of classes.
        pooling: String, `"mean"` (mean over the unmasked positions) or `"first"` (first position),
            see `SequencePooling`; or `"attention"`, see `AttentionPooling`, whose `units` are the
            features of the encoder. Defaults to `"mean"`.
        dropout: Float in [0, 1), dropout rate for the pooled vector. Defaults to `0.1`.
        return_attention_scores: Bool, whether the model also returns the weights of
            `pooling="attention"`. Defaults to `False`.
        inputs: `keras.Input` for the encoder, if its inputs are not ids, for example
            `keras.Input((32, 32, 3), name="images")`. Defaults to `token_ids`, int32 of shape
            `(batch, source)`.
        name: String, model name. Defaults to `"classifier"`.

    Returns:
        Functional model that maps `inputs` to float32 logits of shape `(batch, num_classes)`. If
        `return_attention_scores=True`, it returns a dict of `logits` and `attention`, the weights
        of shape `(batch, source)`. To train it, create
        `keras.Model(classifier.input, classifier.output["logits"])`, which has the same layers.

    Raises:
        ValueError: If `pooling` is unknown, `dropout` is out of range, or `return_attention_scores`
            is `True` with a different pooling.

    Example:

    >>> import numpy as np
    >>> from keras_attn import rnn_seq2seq, sequence_classifier
    >>> encoder, _ = rnn_seq2seq(20, 30, units=8, embedding_dim=8)
    >>> classifier = sequence_classifier(encoder, num_classes=3)
    >>> tuple(classifier(np.array([[5, 6, 7, 2]])).shape)
    (1, 3)
    """
    check_positive_integer("num_classes", num_classes)
    check_dropout("dropout", dropout)
    if pooling not in POOLINGS:
        raise ValueError(
            f"Expected pooling to be one of {POOLINGS}. Received: pooling={pooling!r}."
        )
    if return_attention_scores and pooling != "attention":
        raise ValueError(
            "Expected pooling='attention' with return_attention_scores=True. Received: "
            f"pooling={pooling!r}."
        )
    if inputs is None:
        inputs = input_tensor("token_ids")
    encoded = encoder(inputs)
    outputs, mask = encoded["encoder_outputs"], encoded["encoder_mask"]  # (B, S, D), (B, S)
    weights = None
    if pooling == "attention":
        pool = AttentionPooling(outputs.shape[-1], name="pooling")
        pooled, weights = pool(outputs, mask=mask, return_attention_scores=True)
    else:
        pooled = SequencePooling(pooling, name="pooling")(outputs, mask)
    pooled = Dropout(dropout, name="dropout")(pooled)
    logits = keras.layers.Dense(num_classes, dtype="float32", name="logits")(pooled)
    if return_attention_scores:
        logits = {"logits": logits, "attention": weights}
    return functional_model(inputs, logits, name)
