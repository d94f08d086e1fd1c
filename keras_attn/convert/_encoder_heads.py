"""Encoder heads: masked language models, classifiers, and no head."""

from typing import Any

import keras

from keras_attn._drop_ins.dropout import Dropout
from keras_attn._encoders.transformer_encoder import TransformerEncoder
from keras_attn._models.functional_model import functional_model
from keras_attn._models.masked_language_model import MaskedLanguageModel
from keras_attn._output_layers.sequence_pooling import SequencePooling
from keras_attn._output_layers.tied_mlm_head import TiedMLMHead
from keras_attn.convert._activations import activation
from keras_attn.convert._encoder_models import EncoderArchitecture, encoder_prefix
from keras_attn.convert._settings import Settings
from keras_attn.convert._weight_mapping import WeightMapping


def build_model(
    architecture: EncoderArchitecture,
    head: str,
    settings: Settings,
    encoder: TransformerEncoder,
    num_classes: int,
    has_pooler: bool,
) -> keras.Model:
    """Builds a functional model from an encoder and a head.

    Args:
        architecture: `EncoderArchitecture`.
        head: String, `"masked_lm"`, `"sequence"`, `"token"` or `"encoder"`.
        settings: `Settings`.
        encoder: The encoder.
        num_classes: Int, number of classes, for classifiers.
        has_pooler: Bool, whether an encoder without a head has a pooler.

    Returns:
        Functional model with the inputs `token_ids` and, with several token types,
        `token_type_ids`.
    """
    inputs = {"token_ids": keras.Input((None,), dtype="int32", name="token_ids")}
    types = getattr(encoder.token_types, "input_dim", 0)
    if types > 1:
        inputs["token_type_ids"] = keras.Input((None,), dtype="int32", name="token_type_ids")
    layer: Any = None
    if head == "masked_lm":
        layer = _tied_mlm_head(architecture, settings, encoder)
        if types <= 1:
            return MaskedLanguageModel(encoder, layer)
    encoded = encoder(inputs["token_ids"], token_type_ids=inputs.get("token_type_ids"))
    vectors = encoded["encoder_outputs"]  # (B, S, D)
    if head == "masked_lm":
        outputs: Any = layer(vectors)
    elif head == "encoder":
        outputs = dict(encoded)
        if has_pooler:
            outputs["pooled_outputs"] = _pooled(vectors, "tanh")
    else:
        outputs = _classify(architecture, head, settings, vectors, num_classes)
    names = {"masked_lm": "masked_language_model", "encoder": "encoder_model"}
    single = inputs if len(inputs) > 1 else inputs["token_ids"]
    return functional_model(single, outputs, names.get(head, "classifier"))


def pooler_name(architecture: EncoderArchitecture, head: str, copy: WeightMapping) -> str:
    """Returns the pooler's name in the checkpoint.

    The pooler is the dense layer applied to the first position's vector.
    """
    name = "{encoder}pooler.dense" if head == "encoder" else architecture.pooler[0]
    return name.format(encoder=encoder_prefix(architecture, copy))


def copy_head(
    architecture: EncoderArchitecture,
    head: str,
    settings: Settings,
    model: Any,
    copy: WeightMapping,
) -> None:
    """Maps a head's variables to checkpoint weights.

    Args:
        architecture: `EncoderArchitecture`.
        head: String, see `build_model`.
        settings: `Settings`.
        model: Functional model from `build_model`.
        copy: `WeightMapping`.
    """
    # Some checkpoints contain a pooler that the model does not use.
    uses_pooler = architecture.pooler[0].startswith("{encoder}")
    if head in ("masked_lm", "token") or (head == "sequence" and not uses_pooler):
        copy.ignore(rf"{encoder_prefix(architecture, copy)}pooler\..*")
    layers = {layer.name: layer for layer in model.layers}
    if "pooler" in layers:
        copy.dense(layers["pooler"], pooler_name(architecture, head, copy))
    if head == "masked_lm":
        copy.ignore(r"cls\.seq_relationship\..*")
        _copy_tied_mlm_head(architecture, settings, layers["logits"], copy)
    elif head == "sequence":
        copy.dense(layers["logits"], architecture.classifier)
    elif head == "token":
        copy.dense(layers["logits"], "classifier")


def _tied_mlm_head(architecture, settings, encoder):
    size, features = settings["vocab_size"], architecture.value(settings, "features")
    table = encoder.embedding
    if not settings["tie_word_embeddings"]:
        table = keras.layers.ReversibleEmbedding(size, features, name="output_matrix")
    # RoBERTa has no setting for the head's activation, which is always gelu.
    is_roberta = architecture.masked_lm[2].startswith("lm_head")
    name = "gelu" if is_roberta else architecture.value(settings, "activation")
    epsilon = architecture.value(settings, "epsilon")
    head = TiedMLMHead(table, activation(name), epsilon=epsilon, name="logits")
    head.build((None, None, features))
    return head


def _copy_tied_mlm_head(architecture, settings, head, copy):
    dense, norm, output, bias = architecture.masked_lm
    copy.dense(head.dense, dense)
    copy.norm(head.norm, norm)
    # Depending on the release, transformers writes the bias under one of two names, or under both.
    # If the output matrix is not tied to the embedding, transformers uses the bias named like the
    # matrix.
    is_tied = settings["tie_word_embeddings"]
    names = sorted((bias, f"{output}.bias"), key=lambda name: (name not in copy, name != bias))
    first, second = names if is_tied or names[1] not in copy else names[::-1]
    copy.copy(head.bias, first)
    if is_tied and second != first:
        copy.check_tied(second, first)
    elif not is_tied:
        copy.duplicate(head.bias, second)
    if is_tied:
        copy.check_tied(f"{output}.weight", _embedding_name(architecture, copy))
    else:
        copy.copy(head.embedding.embeddings, f"{output}.weight")


def _embedding_name(architecture, copy):
    return f"{encoder_prefix(architecture, copy)}embeddings.word_embeddings.weight"


def _pooled(vectors, function):
    """Applies a pooler's dense layer to the first position. Returns `(B, D)`."""
    first = SequencePooling("first", name="first_position")(vectors)  # (B, D)
    return _dense(first, vectors.shape[-1], "pooler", function)


def _classify(architecture, head, settings, vectors, num_classes):
    rate = architecture.value(settings, "classifier_dropout")
    if head == "token" and architecture.model_type == "distilbert":
        rate = None  # seq_classif_dropout is for sequence classifiers only
    rate = architecture.value(settings, "dropout") if rate is None else rate
    if head == "sequence":
        vectors = _pooled(vectors, architecture.pooler[1])
    vectors = Dropout(rate, name="dropout")(vectors)
    return _dense(vectors, num_classes, "logits")


def _dense(inputs, units, name, function=None):
    dtype = "float32" if name == "logits" else None
    return keras.layers.Dense(units, activation=function, dtype=dtype, name=name)(inputs)
