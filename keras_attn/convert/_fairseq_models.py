"""Encoder-decoder models that transformers adopted from fairseq and Marian."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_attn._decoders.transformer_decoder import TransformerDecoder
from keras_attn._encoders.transformer_encoder import TransformerEncoder
from keras_attn._positions.learned_positions import LearnedPositions
from keras_attn._positions.sinusoidal_positions import SinusoidalPositions
from keras_attn._transformer.transformer_decoder_block import TransformerDecoderBlock
from keras_attn._transformer.transformer_encoder_block import TransformerEncoderBlock
from keras_attn.convert._activations import activation, is_activation
from keras_attn.convert._architecture import Architecture
from keras_attn.convert._config_settings import (
    CLASSIFIER,
    COMMON,
    ENCODER_DECODER,
    FORCES_START,
    TRAINING,
    equals,
    rate,
    source_id,
)
from keras_attn.convert._settings import Setting, Settings, irrelevant, mapped, refused
from keras_attn.convert._weight_mapping import WeightMapping

LEARNED_OFFSET = 2
"""Number of rows before the first position in BART and mBART position tables."""

IMPOSSIBLE_BIAS = -1e4
"""Bias for tokens of probability 0. Float16 can represent -1e4, and exp(-1e4) is 0."""


SETTINGS: dict[str, Setting] = {
    **COMMON,
    **ENCODER_DECODER,
    "vocab_size": mapped("size of the embedding", 50265),
    "d_model": mapped("size of the vectors", 1024),
    "encoder_layers": mapped("num_layers of the encoder", 12),
    "encoder_ffn_dim": mapped("intermediate_dim of the encoder", 4096),
    "encoder_attention_heads": mapped("num_heads of the encoder", 16),
    "decoder_layers": mapped("num_layers of the decoder", 12),
    "decoder_ffn_dim": mapped("intermediate_dim of the decoder", 4096),
    "decoder_attention_heads": mapped("num_heads of the decoder", 16),
    "activation_function": mapped("activation", "gelu", is_activation("activation_function")),
    "scale_embedding": mapped("scale_embedding", False),
    "max_position_embeddings": mapped("limit of learned positions and of the default length", 1024),
    "pad_token_id": source_id("pad_token_id", "pad_token_id of the sources", 1),
    "eos_token_id": source_id("eos_token_id", "end_token_id of the sources", 2),
    "dropout": rate("dropout, for training", 0.1),
    "attention_dropout": rate("attention_dropout, for training", 0.0),
    "activation_dropout": rate("activation_dropout, for training", 0.0),
    "encoder_layerdrop": TRAINING,
    "decoder_layerdrop": TRAINING,
    "init_std": TRAINING,
    **dict.fromkeys(
        ("replacing_rate", "student_encoder_layers", "student_decoder_layers"), TRAINING
    ),
    "classifier_dropout": CLASSIFIER,
    "classif_dropout": CLASSIFIER,
    "num_hidden_layers": equals("encoder_layers"),
    "num_attention_heads": equals("encoder_attention_heads"),
    "hidden_size": equals("d_model"),
    # Keys that transformers reads in releases before 4.0. Current releases ignore them and compute
    # the same as with the harmless values.
    "add_bias_logits": refused("an output bias of a different form", None, False),
    "do_blenderbot_90_layernorm": refused("normalizations in a different order", None, False),
    "extra_pos_embeddings": irrelevant("the offset of the positions is known"),
    FORCES_START: mapped("forced_bos_token_id, without generation_config.json", False),
}
"""`config.json` keys shared by these architectures, with the most common defaults."""


def _old_keys(final_norm, normalize_before, normalize_embedding, static_positions):
    """Returns `Setting`s for keys from releases before 4.0, which accept only the given values."""
    return {
        "add_final_layer_norm": refused("a normalization after the layers", None, final_norm),
        "normalize_before": refused("the place of the normalizations", None, normalize_before),
        "normalize_embedding": refused(
            "the normalization of the embedding", None, normalize_embedding
        ),
        "static_position_embeddings": refused("the type of positions", None, static_positions),
    }


def build(architecture: Architecture, settings: Settings, copy: WeightMapping) -> tuple[Any, Any]:
    """Builds encoder and decoder. See `Architecture`."""
    features, options = settings["d_model"], architecture.options
    tables = embedding_tables(architecture, settings, copy)
    layers: dict[str, Any] = {}  # by name in the checkpoint, so that equal names share a layer
    for table, size in tables.values():
        if table not in layers:
            layers[table] = keras.layers.ReversibleEmbedding(size, features)
    source, target, output = (table for table, _ in tables.values())
    has_bias = options["has_output_bias"]
    head = None
    if output != target:
        head = keras.layers.Dense(tables["output"][1], use_bias=has_bias, name="head")
        layers.pop(output)
    block = {
        "activation": activation(settings["activation_function"]),
        "normalize_first": options["normalize_first"],
        "dropout": settings["dropout"],
        "attention_dropout": settings["attention_dropout"],
        "activation_dropout": settings["activation_dropout"],
    }
    stack = {
        "scale_embedding": bool(settings["scale_embedding"]),
        "embedding_norm": options["embedding_norm"],
        "dropout": settings["dropout"],
    }
    encoder = TransformerEncoder(
        TransformerEncoderBlock(
            settings["encoder_attention_heads"], settings["encoder_ffn_dim"], **block
        ),
        layers[source],
        num_layers=settings["encoder_layers"],
        positions=_positions(options, settings),
        pad_token_id=settings["pad_token_id"],
        start_token_id=settings["bos_token_id"] if options["adds_start"] else None,
        end_token_id=settings["eos_token_id"],
        name="encoder",
        **stack,
    )
    decoder = TransformerDecoder(
        TransformerDecoderBlock(
            settings["decoder_attention_heads"], settings["decoder_ffn_dim"], **block
        ),
        layers[target],
        head=head,
        num_layers=settings["decoder_layers"],
        positions=_positions(options, settings),
        name="decoder",
        use_output_bias=has_bias and head is None,
        **stack,
    )
    return encoder, decoder


def copy_weights(
    architecture: Architecture,
    settings: Settings,
    impossible_token_ids: Sequence[int],
    layers: tuple[Any, Any],
    copy: WeightMapping,
) -> None:
    """Maps the variables to weights. See `Architecture`."""
    encoder, decoder = layers
    options = architecture.options
    _copy_embeddings(architecture, settings, encoder, decoder, copy)
    if options["has_output_bias"]:
        _copy_output_bias(decoder, impossible_token_ids, copy)
    for side, layer in (("encoder", encoder), ("decoder", decoder)):
        _copy_positions(side, layer.stack, copy, options, settings)
        _copy_stack(side, layer.stack, copy)
    copy.ignore(r"(model\.)?(encoder|decoder)\.version")


def embedding_tables(architecture: Any, settings: Any, copy: Any) -> dict[str, tuple[str, int]]:
    """Returns name and number of rows of the source, target and output embeddings."""
    sizes = architecture.options["sizes"]
    size, target_size = settings[sizes[0]], settings[sizes[-1]]
    is_tied, is_shared = _sharing(architecture, settings)
    target_size = size if is_shared or target_size is None else target_size
    source, target, output, shared = _names(architecture)
    if is_tied and is_shared:
        names = (*shared, target, source)
        source = target = output = next((name for name in names if name in copy), names[0])
    elif is_tied:
        output = target
    else:
        if is_shared and any(name in copy for name in shared):
            # If encoder and decoder share an embedding, older releases save it once. Newer releases
            # save three copies and read those of encoder and decoder.
            source, target = (name if name in copy else shared[0] for name in (source, target))
        if copy.are_equal(output, target):
            output = target  # equal weights share one variable
    return {
        "source": (source, size),
        "target": (target, target_size),
        "output": (output, target_size),
    }


def _names(architecture):
    """Returns the source, target, output and shared embedding weight names."""
    names = (f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder"))
    return *names, architecture.options["output"], architecture.options["shared"]


def _sharing(architecture, settings):
    """Returns `(is_tied, is_shared)`. Tied: output and target. Shared: source and target."""
    is_tied = settings["tie_word_embeddings"]  # in FSMT, this key ties all three embeddings
    shares = "share_encoder_decoder_embeddings"
    if shares in architecture.settings:
        return is_tied, settings[shares]
    return is_tied, is_tied or len(architecture.options["sizes"]) == 1


def _copy_embeddings(architecture, settings, encoder, decoder, copy):
    tables = embedding_tables(architecture, settings, copy)
    source, target, output = (name for name, _ in tables.values())
    copy.copy(encoder.embedding.embeddings, source)
    if decoder.embedding is not encoder.embedding or target != source:
        copy.copy(decoder.embedding.embeddings, target)
    if output != target:
        copy.copy(decoder.head.kernel, output, transpose=True)
    is_tied, is_shared = _sharing(architecture, settings)
    *names, saved_output, shared = _names(architecture)
    if is_tied:
        tied_names = {*names, saved_output, *shared} if is_shared else {saved_output}
        for name in sorted(tied_names - {target}):
            copy.check_tied(name, target)
        return
    for name in shared if is_shared and source not in shared else ():
        copy.duplicate(encoder.embedding.embeddings, name)
    if output == target:
        copy.duplicate(decoder.embedding.embeddings, saved_output)


def _positions(options, settings):
    """Returns the position layer for encoder or decoder."""
    if options["positions"] == "learned":
        return LearnedPositions(settings["max_position_embeddings"], offset=LEARNED_OFFSET)
    offset = settings["pad_token_id"] + 1 if options["positions"] == "halves" else 0
    return SinusoidalPositions(options["positions"], offset=offset)


def _copy_positions(side, stack, copy, options, settings):
    """Copies learned positions, or checks that saved sinusoids equal the computed ones."""
    name = f"model.{side}.embed_positions.weight"
    if options["positions"] == "learned":
        copy.copy(stack.positions.embeddings, name)
    else:
        offset = stack.positions.offset

        def compute(rows):
            zeros = np.zeros((1, rows, settings["d_model"]), "float32")
            return keras.ops.convert_to_numpy(stack.positions(zeros))[0]  # (rows, D)

        rows = settings["max_position_embeddings"] + offset if options["saves_positions"] else 0
        copy.check_constant(name, compute, rows, first_row=offset)
        # The first M2M100 releases saved the sinusoids under this name.
        copy.check_constant(f"{name}s", compute, 0, first_row=offset)
    copy.ignore(rf"model\.{side}\.embed_positions\._float_tensor")


def _copy_output_bias(decoder, impossible, copy):
    bias = decoder.output_bias if decoder.head is None else decoder.head.bias
    name = "final_logits_bias"
    if bias is None:
        return  # an exported model can have no output bias; transformers then uses 0
    if name in copy:
        copy.copy(bias, name, shape=(1, bias.shape[0]))
    else:  # a missing bias is 0, as in transformers
        copy.zero(bias, name)
    copy.replace(bias, impossible, IMPOSSIBLE_BIAS)


def _copy_stack(side, stack, copy):
    prefix = f"model.{side}"
    if stack.embedding_norm is not None:
        copy.norm(stack.embedding_norm, f"{prefix}.layernorm_embedding")
    if stack.final_norm is not None:
        copy.norm(stack.final_norm, f"{prefix}.layer_norm")
    for index, block in enumerate(stack.blocks):
        name = f"{prefix}.layers.{index}"
        copy.attention(block.self_attention, f"{name}.self_attn")
        copy.norm(block.attention_norm, f"{name}.self_attn_layer_norm")
        if side == "decoder":
            copy.attention(block.cross_attention_layer, f"{name}.encoder_attn")
            copy.norm(block.memory_norm, f"{name}.encoder_attn_layer_norm")
        copy.dense(block.feed_forward.expansion, f"{name}.fc1")
        copy.dense(block.feed_forward.contraction, f"{name}.fc2")
        copy.norm(block.feed_forward_norm, f"{name}.final_layer_norm")


def _entry(model_type, changed, old_keys, tokenizer=None, **options):
    """Returns an `Architecture` with `SETTINGS`, `old_keys` and `changed` as settings."""
    defaults = {
        "output": "lm_head.weight",
        "shared": ("model.shared.weight",),
        "sizes": ("vocab_size",),
        "adds_start": False,
        "saves_positions": False,
    }
    settings = {**SETTINGS, **_old_keys(*old_keys), **changed}
    return Architecture(
        model_type,
        settings,
        build,
        copy_weights,
        tokenizer=tokenizer,
        options={**defaults, **options},
    )


MARIAN = _entry(
    "marian",
    {
        "vocab_size": mapped("size of the embedding of the source", 58101),
        "decoder_vocab_size": mapped("size of the embedding of the target", kind=int),
        "share_encoder_decoder_embeddings": mapped("one embedding for both sides", True),
        "pad_token_id": source_id("pad_token_id", "pad_token_id of the sources", 58100),
        "eos_token_id": source_id("eos_token_id", "end_token_id of the sources", 0),
    },
    (False, False, False, True),
    tokenizer="marian",
    normalize_first=False,
    embedding_norm=False,
    positions="marian",
    has_output_bias=True,
    sizes=("vocab_size", "decoder_vocab_size"),
)
BART = _entry(
    "bart",
    {"bos_token_id": source_id("bos_token_id", "start_token_id of the sources", 0)},
    (False, False, True, False),
    tokenizer="json",
    adds_start=True,
    normalize_first=False,
    embedding_norm=True,
    positions="learned",
    has_output_bias=True,
)
MBART = _entry(
    "mbart",
    {},
    (True, True, True, False),
    tokenizer="mbart",
    normalize_first=True,
    embedding_norm=True,
    positions="learned",
    has_output_bias=True,
)
M2M_100 = _entry(
    "m2m_100",
    {
        "vocab_size": mapped("size of the embedding", 128112),
        "activation_function": mapped("activation", "relu", is_activation("activation_function")),
        "scale_embedding": mapped("scale_embedding", True),
        "attention_dropout": rate("attention_dropout, for training", 0.1),
    },
    (True, True, False, True),
    tokenizer="m2m_100",
    normalize_first=True,
    embedding_norm=False,
    positions="halves",
    has_output_bias=False,
)
PEGASUS = _entry(
    "pegasus",
    {
        "pad_token_id": source_id("pad_token_id", "pad_token_id of the sources", 0),
        "eos_token_id": source_id("eos_token_id", "end_token_id of the sources", 1),
    },
    (True, True, False, True),
    tokenizer="pegasus",
    normalize_first=True,
    embedding_norm=False,
    positions="marian",
    saves_positions=True,
    has_output_bias=True,
)
FSMT = _entry(
    "fsmt",
    {
        "src_vocab_size": mapped("size of the embedding of the source", 42024),
        "tgt_vocab_size": mapped("size of the embedding of the target", 42024),
        "vocab_size": equals("tgt_vocab_size"),
        "langs": irrelevant("only used by the tokenizer"),
        "activation_function": mapped("activation", "relu", is_activation("activation_function")),
        "scale_embedding": mapped("scale_embedding", True),
        "tie_word_embeddings": mapped("whether all three embeddings are one", False),
        "decoder": irrelevant(
            "transformers computes these settings of the decoder from the other keys"
        ),
    },
    (False, False, False, True),
    normalize_first=False,
    embedding_norm=False,
    positions="halves",
    saves_positions=True,
    has_output_bias=False,
    shared=(),
    output="model.decoder.output_projection.weight",
    sizes=("src_vocab_size", "tgt_vocab_size"),
)
FAIRSEQ_MODELS = (MARIAN, BART, MBART, M2M_100, PEGASUS, FSMT)
