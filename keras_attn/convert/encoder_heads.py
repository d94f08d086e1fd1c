"""Heads of encoders: masked language models, classifiers, and no head."""

import re
from typing import Any

import keras

from keras_attn._drop_ins.dropout import Dropout
from keras_attn.convert.activations import activation
from keras_attn.convert.encoder_models import EncoderArchitecture
from keras_attn.convert.settings import Settings
from keras_attn.convert.weight_copy import WeightCopy
from keras_attn.encoders.transformer_encoder import TransformerEncoder
from keras_attn.models.functional_model import functional_model
from keras_attn.models.masked_language_model import MaskedLanguageModel
from keras_attn.output_layers.sequence_pooling import SequencePooling
from keras_attn.output_layers.tied_mlm_head import TiedMLMHead


def build_model(
    architecture: EncoderArchitecture,
    head: str,
    settings: Settings,
    encoder: TransformerEncoder,
    prefix: str,
    num_classes: int,
    copy: WeightCopy,
) -> keras.Model:
    """Builds the functional model of an encoder with a head, and copies the weights of the head.

    Args:
        architecture: `EncoderArchitecture`.
        head: String, `"masked_lm"`, `"sequence"`, `"token"` or `"encoder"`.
        settings: `Settings`.
        encoder: The encoder with its weights.
        prefix: String, beginning of the names of the weights of the encoder.
        num_classes: Int, number of classes of a classifier.
        copy: `WeightCopy`.

    Returns:
        Functional model of `token_ids` and, if tokens have several types, `token_type_ids`.
    """
    inputs = {"token_ids": keras.Input((None,), dtype="int32", name="token_ids")}
    types = getattr(encoder.token_types, "input_dim", 0)
    if types > 1:
        inputs["token_type_ids"] = keras.Input((None,), dtype="int32", name="token_type_ids")
    # Some checkpoints contain a pooler that the model does not use.
    own_pooler = architecture.pooler[0].startswith("{encoder}")
    if head in ("masked_lm", "token") or (head == "sequence" and not own_pooler):
        copy.ignore(rf"{prefix}pooler\..*")
    layer: Any = None
    if head == "masked_lm":
        copy.ignore(r"cls\.seq_relationship\..*")
        layer = _masked_lm_head(architecture, settings, encoder, copy)
        if types <= 1:
            return MaskedLanguageModel(encoder, layer)
    encoded = encoder(inputs["token_ids"], token_type_ids=inputs.get("token_type_ids"))
    vectors = encoded["encoder_outputs"]  # (B, S, D)
    if head == "masked_lm":
        outputs: Any = layer(vectors)
    elif head == "encoder":
        outputs = {**encoded, **_pooled(prefix, vectors, copy)}
    else:
        outputs = _classify(architecture, head, settings, prefix, vectors, num_classes, copy)
    names = {"masked_lm": "masked_language_model", "encoder": "encoder_model"}
    single = inputs if len(inputs) > 1 else inputs["token_ids"]
    return functional_model(single, outputs, names.get(head, "classifier"))


def _masked_lm_head(architecture, settings, encoder, copy):
    dense, norm, output, bias = architecture.masked_lm
    size, features = settings["vocab_size"], architecture.value(settings, "features")
    table = encoder.embedding
    if not settings["tie_word_embeddings"]:
        table = keras.layers.ReversibleEmbedding(size, features, name="output_matrix")
    # The head of RoBERTa has no setting for its activation.
    name = "gelu" if output.startswith("lm_head") else architecture.value(settings, "activation")
    epsilon = architecture.value(settings, "epsilon")
    head = TiedMLMHead(table, activation(name), epsilon, name="logits")
    head.build((None, None, features))
    copy.dense(head.dense, dense)
    copy.norm(head.norm, norm)
    # Depending on the release, transformers writes the bias under one of two names, or under both.
    # If the matrix is not tied, the bias of the matrix is used.
    is_tied = table is encoder.embedding
    names = sorted((bias, f"{output}.bias"), key=lambda name: (name not in copy, name != bias))
    first, second = names if is_tied or names[1] not in copy else names[::-1]
    copy.copy(head.bias, first)
    if is_tied and second != first:
        copy.check_tied(second, first)
    copy.ignore(re.escape(second))
    if is_tied:
        copy.check_tied(f"{output}.weight", _embedding_name(architecture, copy))
    else:
        copy.copy(table.embeddings, f"{output}.weight")
    return head


def _embedding_name(architecture, copy):
    name = "embeddings.word_embeddings.weight"
    return f"{architecture.prefix}.{name}" if f"{architecture.prefix}.{name}" in copy else name


def _pooled(prefix, vectors, copy):
    """Returns the output of the pooler of an encoder without a head, if it has one."""
    name = f"{prefix}pooler.dense"
    if f"{name}.weight" not in copy:
        return {}
    first = SequencePooling("first", name="first_position")(vectors)
    return {"pooled_outputs": _dense(first, vectors.shape[-1], "pooler", name, copy, "tanh")}


def _classify(architecture, head, settings, prefix, vectors, num_classes, copy):
    rate = architecture.value(settings, "classifier_dropout")
    if head == "token" and architecture.model_type == "distilbert":
        rate = None  # its seq_classif_dropout is that of sequence classifiers
    rate = architecture.value(settings, "dropout") if rate is None else rate
    name = architecture.classifier
    if head == "token":
        name = "classifier"
    else:
        pooler, function = architecture.pooler
        pooler = pooler.format(encoder=prefix)
        vectors = SequencePooling("first", name="first_position")(vectors)  # (B, D)
        vectors = _dense(vectors, vectors.shape[-1], "pooler", pooler, copy, function)
    vectors = Dropout(rate, name="dropout")(vectors)
    return _dense(vectors, num_classes, "logits", name, copy)


def _dense(inputs, units, own_name, name, copy, function=None):
    dtype = "float32" if own_name == "logits" else None
    layer = keras.layers.Dense(units, activation=function, dtype=dtype, name=own_name)
    outputs = layer(inputs)
    copy.dense(layer, name)
    return outputs
