from collections.abc import Sequence

import keras
from keras import ops

from keras_attn._attention.intra_sentence_attention import IntraSentenceAttention
from keras_attn._attention.soft_alignment import SoftAlignment
from keras_attn._drop_ins.dropout import Dropout
from keras_attn._layer.argument_checks import (
    accepts_numpy_numbers,
    check_dropout,
    check_positive_integer,
)
from keras_attn._masks import padding_mask
from keras_attn._models.functional_model import functional_model
from keras_attn._types import Tensor


@accepts_numpy_numbers
def decomposable_attention_classifier(
    embedding: keras.layers.Layer,
    num_classes: int,
    *,
    units: int = 200,
    max_distance: int | None = None,
    dropout: float = 0.2,
    name: str = "decomposable_attention",
) -> keras.Model:
    """Returns a sentence pair classifier with attention and feed-forward networks.

        attend     beta_i = sum_j softmax_j(e_ij) b_j,  alpha_j = sum_i softmax_i(e_ij) a_i,
                   with e_ij = F(a_i)^T F(b_j)
        compare    v_1i = G([a_i ; beta_i]),  v_2j = G([b_j ; alpha_j])
        aggregate  y = H([sum_i v_1i ; sum_j v_2j])

    Here a_i and b_j are the words in the two sentences, projected to `units` features. F, G and H
    are feed-forward networks with two layers. The model was introduced by [Parikh et al.,
    2016](https://arxiv.org/abs/1606.01933), equations 1 to 5, for natural language inference, that
    is, to predict whether one sentence follows from the other. Without `max_distance`, word order
    has no effect.

    To export attention weights as well, add the third output of the `SoftAlignment` layer `align`:
    `keras.Model(model.inputs, {"logits": model.output, "weights":
    model.get_layer("align").output[2]})`.

    Args:
        embedding: Layer that maps int32 ids `(batch, time)` to vectors `(batch, time, features)`;
            id 0 is padding. Both sentences use this embedding, so they share a vocabulary. In the
            paper, every sentence begins with a special token, so that words without a counterpart
            can attend to it.
        num_classes: Positive int, number of classes.
        units: Positive int, output size of every hidden layer. Defaults to `200`.
        max_distance: Positive int, maximum distance of the intra-sentence attention in words
            (equations 7 and 8; the paper uses 10). Each word a is replaced by [a ; a'], where a' is
            the output of `IntraSentenceAttention`. Defaults to `None`: no intra-sentence attention.
        dropout: Float in [0, 1), dropout rate before every layer of F, G and H. Defaults to `0.2`.
        name: String, model name. Defaults to `"decomposable_attention"`.

    Returns:
        Functional model. Its inputs are a list with two int32 id tensors, `first_ids` of shape
        `(batch, first)` and `second_ids` of shape `(batch, second)`. Its outputs are float32 logits
        of shape `(batch, num_classes)`.

    Raises:
        ValueError: If `max_distance` is neither `None` nor a positive integer.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attn import decomposable_attention_classifier
    >>> embedding = keras.layers.Embedding(9, 4)
    >>> model = decomposable_attention_classifier(embedding, num_classes=3, units=8)
    >>> ids = [np.array([[1, 5, 6]]), np.array([[1, 7, 8, 5, 0]])]
    >>> tuple(model(ids).shape)
    (1, 3)
    """
    check_positive_integer("num_classes", num_classes)
    check_positive_integer("units", units)
    check_dropout("dropout", dropout)
    sides = ("first_ids", "second_ids")
    inputs = [keras.Input((None,), dtype="int32", name=side) for side in sides]  # (B, T)
    masks = [padding_mask(ids) for ids in inputs]  # (B, T)
    project = keras.layers.Dense(units, use_bias=False, name="project")
    words = [project(embedding(ids)) for ids in inputs]  # (B, T, U)
    if max_distance is not None:
        transform = _two_layers(units, dropout, "intra_transform")
        intra = IntraSentenceAttention(transform, max_distance, name="intra")
        words = _joined(words, intra(*words, *masks))  # (B, T, 2 U)

    align = SoftAlignment(_two_layers(units, dropout, "transform"), name="align")
    beta, alpha, *_ = align(*words, *masks, return_attention_scores=True)
    compare = _two_layers(units, dropout, "compare")
    sums = [
        ops.sum(compare(pairs) * ops.cast(mask, pairs.dtype)[:, :, None], axis=1)  # (B, U)
        for pairs, mask in zip(_joined(words, [beta, alpha]), masks, strict=True)
    ]
    hidden = _two_layers(units, dropout, "aggregate")(ops.concatenate(sums, axis=-1))  # (B, U)
    logits = keras.layers.Dense(num_classes, dtype="float32", name="logits")(hidden)
    return functional_model(inputs, logits, name)


def _joined(words: Sequence[Tensor], contexts: Sequence[Tensor]) -> list[Tensor]:
    """Concatenates each word with its context, in both sentences."""
    return [ops.concatenate(pair, axis=-1) for pair in zip(words, contexts, strict=True)]


def _two_layers(units: int, dropout: float, name: str) -> keras.Sequential:
    layers = [(Dropout(dropout), keras.layers.Dense(units, "relu")) for _ in range(2)]
    return keras.Sequential([layer for pair in layers for layer in pair], name=name)
