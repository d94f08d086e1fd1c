import keras
from keras import ops

from keras_attn._drop_ins.dropout import Dropout
from keras_attn._layer.argument_checks import accepts_numpy_numbers
from keras_attn.attention.intra_sentence_attention import IntraSentenceAttention
from keras_attn.attention.soft_alignment import SoftAlignment
from keras_attn.masks import padding_mask
from keras_attn.models.functional_model import functional_model


@accepts_numpy_numbers
def decomposable_attention(
    embedding: keras.layers.Layer,
    num_classes: int,
    units: int = 200,
    max_distance: int | None = None,
    dropout: float = 0.2,
    name: str = "decomposable_attention",
) -> keras.Model:
    """Compares two sentences word by word: a model of attention and small networks, nothing else.

        attend     beta_i, alpha_j    what of the other sentence belongs to a_i and to b_j
        compare    v_1i = G([a_i ; beta_i]),  v_2j = G([b_j ; alpha_j])
        aggregate  y = H([sum_i v_1i ; sum_j v_2j])

    Introduced by [Parikh et al., 2016](https://arxiv.org/abs/1606.01933), equations 1 to 5, for
    whether one sentence follows from another. F, G and H have two layers each, and words are
    projected to `units` features first. Without `max_distance` the order of words does not count.

    To export what it looked at too, take the outputs of its layer `align`, a `SoftAlignment`:
    `keras.Model(model.inputs, {"logits": model.output, "weights":
    model.get_layer("align").output[2]})`.

    Args:
        embedding: layer from ids int32 `(batch, time)` to floats `(batch, time, features)`; id 0 is
            padding. Both sentences are read with it, so they share a vocabulary. The paper begins
            every sentence with a token of its own, for words that have no partner.
        num_classes: int.
        units: int, size of every layer. Default 200.
        max_distance: int, for intra-sentence attention: a word is [a ; a'], where a' is what
            `IntraSentenceAttention` found for it (equations 7 and 8; the paper has 10). Default
            `None`: without.
        dropout: float in [0, 1), before every layer of F, G and H. Default 0.2.
        name: str.

    Returns:
        Functional model from a list of two ids int32 `(batch, first)` and `(batch, second)`, called
        `first_ids` and `second_ids`, to float32 logits `(batch, num_classes)`.

    Raises:
        ValueError: if `max_distance` is neither `None` nor a positive integer.

    Example:

    >>> import numpy as np
    >>> model = decomposable_attention(keras.layers.Embedding(9, 4), num_classes=3, units=8)
    >>> ids = [np.array([[1, 5, 6]]), np.array([[1, 7, 8, 5, 0]])]
    >>> tuple(model(ids).shape)
    (1, 3)
    """
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


def _joined(words, contexts):
    """Each word beside its context, in both sentences."""
    return [ops.concatenate(pair, axis=-1) for pair in zip(words, contexts, strict=True)]


def _two_layers(units, dropout, name):
    layers = [(Dropout(dropout), keras.layers.Dense(units, "relu")) for _ in range(2)]
    return keras.Sequential([layer for pair in layers for layer in pair], name=name)
