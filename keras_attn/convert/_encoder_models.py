"""Encoders: BERT, RoBERTa, XLM-RoBERTa, CamemBERT, DistilBERT, and their weight names."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras

from keras_attn._encoders.transformer_encoder import TransformerEncoder
from keras_attn._positions.learned_positions import LearnedPositions
from keras_attn._transformer.transformer_encoder_block import TransformerEncoderBlock
from keras_attn.convert._activations import activation, is_activation
from keras_attn.convert._config_settings import COMMON, DECODER_ONLY, TRAINING, rate, source_id
from keras_attn.convert._settings import Setting, Settings, irrelevant, mapped, refused
from keras_attn.convert._weight_mapping import WeightMapping
from keras_attn_checks.model_types import ENCODER_CLASSES

EPSILON = 1e-12
"""Normalization epsilon in DistilBERT. Its `config.json` has no key for it."""

HEADS = {
    "ForMaskedLM": "masked_lm",
    "ForPreTraining": "masked_lm",
    "ForSequenceClassification": "sequence",
    "ForTokenClassification": "token",
    "Model": "encoder",
}
"""Dict from class name suffixes in transformers to head kinds."""


@dataclasses.dataclass(frozen=True)
class EncoderArchitecture:
    """Convertible transformers encoder, one entry in `ENCODERS`.

    Args:
        model_type: String, `model_type` in `config.json`, a key in `ENCODER_CLASSES`.
        settings: Dict from `config.json` keys to `Setting`s.
        keys: Dict from argument names in keras_attn to `config.json` keys.
        prefix: String, prefix of the encoder weight names.
        layer: String, the part between `prefix` and the layer index in weight names.
        attention: Names of a layer's query, key, value and output projections.
        norms: Names of a layer's two normalizations.
        feed_forward: Names of a layer's two dense layers.
        masked_lm: Names of the dense layer, normalization, output matrix and output bias in the
            masked-language-model head.
        pooler: Names of the pooler, the dense layer applied to the first position's vector, and of
            its activation.
        classifier: Name of a sequence classifier's output layer.
        start, end: Strings, default tokens around a text.
        has_position_offset: Bool, whether the first position is `pad_token_id + 1`, as in RoBERTa.
    """

    model_type: str
    settings: Mapping[str, Setting]
    keys: Mapping[str, str]
    prefix: str
    layer: str
    attention: tuple[str, ...]
    norms: tuple[str, str]
    feed_forward: tuple[str, str]
    masked_lm: tuple[str, str, str, str]
    pooler: tuple[str, str]
    classifier: str
    start: str
    end: str
    has_position_offset: bool = False

    @property
    def class_name(self) -> str:
        """String, prefix of class names in transformers, such as `"Bert"`."""
        return ENCODER_CLASSES[self.model_type]

    def value(self, settings: Settings, name: str) -> Any:
        """Returns a setting by its argument name in keras_attn."""
        return settings[self.keys[name]] if name in self.keys else EPSILON

    def head(self, class_name: str) -> str | None:
        """Returns the head kind of a class in transformers, or `None`."""
        return HEADS.get(class_name.removeprefix(self.class_name))

    @property
    def classes(self) -> list[str]:
        """Names of the convertible classes in transformers."""
        return [self.class_name + suffix for suffix in HEADS if suffix != "ForPreTraining"]


def build_encoder(
    architecture: EncoderArchitecture, settings: Settings, start: int | None, end: int | None
) -> TransformerEncoder:
    """Builds an encoder.

    Args:
        architecture: `EncoderArchitecture`.
        settings: `Settings`.
        start, end: Ids of the tokens around a text, or `None`.

    Returns:
        The encoder.
    """

    def value(name):
        return architecture.value(settings, name)

    pad, features = settings["pad_token_id"], value("features")
    types = settings["type_vocab_size"] if "type_vocab_size" in settings else 0
    offset = pad + 1 if architecture.has_position_offset else 0
    block = TransformerEncoderBlock(
        value("num_heads"),
        value("intermediate_dim"),
        activation=activation(value("activation")),
        normalize_first=False,
        dropout=value("dropout"),
        attention_dropout=value("attention_dropout"),
        activation_dropout=0.0,
        epsilon=value("epsilon"),
    )
    encoder = TransformerEncoder(
        block,
        keras.layers.ReversibleEmbedding(settings["vocab_size"], features, name="embedding"),
        num_layers=value("num_layers"),
        positions=LearnedPositions(settings["max_position_embeddings"] - offset, offset=offset),
        dropout=value("dropout"),
        pad_token_id=pad,
        start_token_id=start,
        end_token_id=end,
        embedding_norm=True,
        token_types=keras.layers.Embedding(types, features, name="token_types") if types else None,
        name="encoder",
    )
    encoder.build((None, None))
    return encoder


def encoder_prefix(architecture: EncoderArchitecture, copy: WeightMapping) -> str:
    """Returns the prefix of the encoder weight names in a checkpoint."""
    prefix = f"{architecture.prefix}."
    # A checkpoint without a head has no prefix.
    return prefix if f"{prefix}embeddings.word_embeddings.weight" in copy else ""


def copy_encoder(
    architecture: EncoderArchitecture, encoder: TransformerEncoder, copy: WeightMapping
) -> None:
    """Maps encoder variables to checkpoint weights.

    Args:
        architecture: `EncoderArchitecture`.
        encoder: The encoder.
        copy: `WeightMapping`.
    """
    prefix = encoder_prefix(architecture, copy)
    stack, embeddings = encoder.stack, f"{prefix}embeddings"
    table: Any = encoder.embedding
    copy.copy(table.embeddings, f"{embeddings}.word_embeddings.weight")
    copy.copy(stack.positions.embeddings, f"{embeddings}.position_embeddings.weight")
    if encoder.token_types is not None:
        copy.copy(encoder.token_types.embeddings, f"{embeddings}.token_type_embeddings.weight")
    copy.norm(stack.embedding_norm, f"{embeddings}.LayerNorm")
    copy.ignore(rf"{prefix}embeddings\.(position_ids|token_type_ids)")
    for index, block in enumerate(stack.blocks):
        name = f"{prefix}{architecture.layer}.{index}"
        copy.attention(block.self_attention, name, architecture.attention)
        for layer, part in zip(
            (block.attention_norm, block.feed_forward_norm), architecture.norms, strict=True
        ):
            copy.norm(layer, f"{name}.{part}")
        for layer, part in zip(
            (block.feed_forward.expansion, block.feed_forward.contraction),
            architecture.feed_forward,
            strict=True,
        ):
            copy.dense(layer, f"{name}.{part}")


_LABELS: dict[str, Setting] = {
    "id2label": mapped("number and names of the classes"),
    "label2id": irrelevant("the same as id2label"),
    "num_labels": irrelevant("the length of id2label"),
    "_num_labels": irrelevant("the length of id2label"),
    "architectures": mapped("the class of the model, which determines the head"),
    "use_return_dict": irrelevant("the form of the outputs in Python"),
}
_IDS: dict[str, Setting] = {
    "bos_token_id": irrelevant("the tokenizer has the token before a text"),
    "eos_token_id": irrelevant("the tokenizer has the token after a text"),
    "pad_token_id": source_id("pad_token_id", "pad_token_id", 0),
    "vocab_size": mapped("size of the embedding", 30522),
    "max_position_embeddings": mapped("max_length of the positions", 512),
}

BERT_SETTINGS: dict[str, Setting] = {
    **COMMON,
    **DECODER_ONLY,
    **_LABELS,
    **_IDS,
    "hidden_size": mapped("size of the vectors", 768),
    "num_hidden_layers": mapped("num_layers", 12),
    "num_attention_heads": mapped("num_heads", 12),
    "intermediate_size": mapped("intermediate_dim", 3072),
    "hidden_act": mapped("activation", "gelu", is_activation("hidden_act")),
    "hidden_dropout_prob": rate("dropout, for training", 0.1),
    "attention_probs_dropout_prob": rate("attention_dropout, for training", 0.1),
    "type_vocab_size": mapped("number of token types", 2, minimum=0),
    "layer_norm_eps": mapped("epsilon", 1e-12),
    "classifier_dropout": rate("dropout of the classifier, for training"),
    "initializer_range": TRAINING,
    "position_embedding_type": refused("relative positions", None, "absolute"),
    "directionality": irrelevant("was never read"),
    **dict.fromkeys(
        (
            "pooler_fc_size",
            "pooler_num_attention_heads",
            "pooler_num_fc_layers",
            "pooler_size_per_head",
            "pooler_type",
        ),
        irrelevant("was never read"),
    ),
}
XLM_ROBERTA_SETTINGS = {
    **BERT_SETTINGS,
    "pad_token_id": source_id("pad_token_id", "pad_token_id", 1),
}
ROBERTA_SETTINGS = {**XLM_ROBERTA_SETTINGS, "vocab_size": mapped("size of the embedding", 50265)}
DISTILBERT_SETTINGS: dict[str, Setting] = {
    **COMMON,
    **DECODER_ONLY,
    **_LABELS,
    **_IDS,
    "dim": mapped("size of the vectors", 768),
    "n_layers": mapped("num_layers", 6),
    "n_heads": mapped("num_heads", 12),
    "hidden_dim": mapped("intermediate_dim", 3072),
    "activation": mapped("activation", "gelu", is_activation("activation")),
    "dropout": rate("dropout, for training", 0.1),
    "attention_dropout": rate("attention_dropout, for training", 0.1),
    "seq_classif_dropout": rate("dropout of the classifier, for training", 0.2),
    "qa_dropout": TRAINING,
    "initializer_range": TRAINING,
    "sinusoidal_pos_embds": irrelevant("the positions are among the weights"),
    "tie_weights_": irrelevant("a second name of tie_word_embeddings"),
}

_BERT_KEYS = {
    "features": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "intermediate_dim": "intermediate_size",
    "activation": "hidden_act",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "epsilon": "layer_norm_eps",
    "classifier_dropout": "classifier_dropout",
}
_QKV = ("query", "key", "value")

BERT = EncoderArchitecture(
    "bert",
    BERT_SETTINGS,
    _BERT_KEYS,
    prefix="bert",
    layer="encoder.layer",
    attention=(*(f"attention.self.{name}" for name in _QKV), "attention.output.dense"),
    norms=("attention.output.LayerNorm", "output.LayerNorm"),
    feed_forward=("intermediate.dense", "output.dense"),
    masked_lm=(
        "cls.predictions.transform.dense",
        "cls.predictions.transform.LayerNorm",
        "cls.predictions.decoder",
        "cls.predictions.bias",
    ),
    pooler=("{encoder}pooler.dense", "tanh"),
    classifier="classifier",
    start="[CLS]",
    end="[SEP]",
)
ROBERTA = dataclasses.replace(
    BERT,
    model_type="roberta",
    settings=ROBERTA_SETTINGS,
    prefix="roberta",
    masked_lm=("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.bias"),
    pooler=("classifier.dense", "tanh"),
    classifier="classifier.out_proj",
    start="<s>",
    end="</s>",
    has_position_offset=True,
)
XLM_ROBERTA = dataclasses.replace(
    ROBERTA,
    model_type="xlm-roberta",
    settings=XLM_ROBERTA_SETTINGS,
)
CAMEMBERT = dataclasses.replace(XLM_ROBERTA, model_type="camembert")
DISTILBERT = EncoderArchitecture(
    "distilbert",
    DISTILBERT_SETTINGS,
    {
        "features": "dim",
        "num_layers": "n_layers",
        "num_heads": "n_heads",
        "intermediate_dim": "hidden_dim",
        "activation": "activation",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
        "classifier_dropout": "seq_classif_dropout",
    },
    prefix="distilbert",
    layer="transformer.layer",
    attention=(*(f"attention.{name}_lin" for name in ("q", "k", "v")), "attention.out_lin"),
    norms=("sa_layer_norm", "output_layer_norm"),
    feed_forward=("ffn.lin1", "ffn.lin2"),
    masked_lm=("vocab_transform", "vocab_layer_norm", "vocab_projector", "vocab_projector.bias"),
    pooler=("pre_classifier", "relu"),
    classifier="classifier",
    start="[CLS]",
    end="[SEP]",
)
_ENCODERS = BERT, ROBERTA, XLM_ROBERTA, CAMEMBERT, DISTILBERT
ENCODERS = {architecture.model_type: architecture for architecture in _ENCODERS}
"""Dict from `model_type` to the encoder architecture."""
