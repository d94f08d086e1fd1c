"""Decoder-only language models: GPT-2, OPT, Llama, Mistral, Qwen2 and Gemma."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_attn._decoders.causal_language_model import CausalLanguageModel
from keras_attn._positions.learned_positions import LearnedPositions
from keras_attn._transformer.transformer_decoder_block import TransformerDecoderBlock
from keras_attn.convert._activations import activation, check_activation, is_activation
from keras_attn.convert._architecture import Architecture
from keras_attn.convert._config_settings import COMMON, DECODER_ONLY, TRAINING, equals, rate
from keras_attn.convert._rotary_settings import ROTARY, max_positions, rotary_positions
from keras_attn.convert._settings import (
    Setting,
    Settings,
    irrelevant,
    mapped,
    refused,
    refused_unless,
)
from keras_attn.convert._weight_mapping import PROJECTIONS, WeightMapping

OPT_OFFSET = 2
"""Number of rows before the first position in the OPT position table."""


def _start_token(default=None):
    """Returns the `Setting` for `bos_token_id`."""
    return mapped("start token of text prompts", default, None, int, minimum=0, nullable=True)


_CLASSIFIER = irrelevant("only used by heads with a summary")
_IDS = {
    "pad_token_id": irrelevant("the search settings contain it"),
    "bos_token_id": _start_token(),
}


def _build_model(
    settings: Mapping[str, Any],
    size: int,
    features: int,
    num_layers: int,
    block: dict[str, Any],
    **arguments: Any,
) -> CausalLanguageModel:
    """Builds a `CausalLanguageModel`.

    Args:
        settings: `Settings`.
        size: Int, vocabulary size.
        features: Int, vector size.
        num_layers: Int, number of blocks.
        block: Dict, arguments of `TransformerDecoderBlock`.
        **arguments: Arguments of `CausalLanguageModel`.
    """
    embedding = keras.layers.ReversibleEmbedding(size, features)
    is_tied = settings["tie_word_embeddings"]
    head = None if is_tied else keras.layers.Dense(size, use_bias=False, name="head")
    return CausalLanguageModel(
        TransformerDecoderBlock(**block, cross_attention=False),
        embedding,
        head=head,
        num_layers=num_layers,
        name="decoder",
        **arguments,
    )


def _copy_tables(model, table, copy):
    """Maps embedding and output matrix. `table` is the embedding's name in the checkpoint."""
    output = "lm_head.weight"
    copy.copy(model.embedding.embeddings, table)
    if model.head is None:
        copy.check_tied(output, table)
    else:
        copy.copy(model.head.kernel, output, transpose=True)


GPT2_SETTINGS: dict[str, Setting] = {
    **COMMON,
    **DECODER_ONLY,
    **_IDS,
    "bos_token_id": irrelevant("the tokenizer adds no start token"),
    "vocab_size": mapped("size of the embedding", 50257),
    "n_positions": mapped("max_length of the positions", 1024),
    "n_embd": mapped("size of the vectors", 768),
    "n_layer": mapped("num_layers", 12),
    "n_head": mapped("num_heads", 12),
    "n_inner": mapped("intermediate_dim, by default 4 times the size of the vectors", kind=int),
    "activation_function": mapped("activation", "gelu_new", is_activation("activation_function")),
    "layer_norm_epsilon": mapped("epsilon", 1e-5),
    "scale_attn_weights": mapped("scale of the queries", True),
    "scale_attn_by_inverse_layer_idx": mapped("scale of the queries of each block", False),
    "resid_pdrop": rate("dropout, for training", 0.1),
    "embd_pdrop": rate("dropout of the embedding, for training", 0.1),
    "attn_pdrop": rate("attention_dropout, for training", 0.1),
    "reorder_and_upcast_attn": irrelevant("computes the same results in a different order"),
    "initializer_range": TRAINING,
    "n_ctx": equals("n_positions"),
    "n_special": irrelevant("was never read"),
    "predict_special_tokens": irrelevant("was never read"),
    "summary_type": _CLASSIFIER,
    "summary_use_proj": _CLASSIFIER,
    "summary_activation": _CLASSIFIER,
    "summary_proj_to_labels": _CLASSIFIER,
    "summary_first_dropout": _CLASSIFIER,
    "hidden_size": equals("n_embd"),
    "max_position_embeddings": equals("n_positions"),
    "num_attention_heads": equals("n_head"),
    "num_hidden_layers": equals("n_layer"),
}


def build_gpt2(
    architecture: Architecture, settings: Settings, copy: WeightMapping
) -> tuple[None, Any]:
    """Builds a GPT-2 model. See `Architecture`."""
    features, heads, inner = settings["n_embd"], settings["n_head"], settings["n_inner"]
    block = {
        "num_heads": heads,
        "intermediate_dim": 4 * features if inner is None else inner,
        "activation": activation(settings["activation_function"]),
        "epsilon": settings["layer_norm_epsilon"],
        "dropout": settings["resid_pdrop"],
        "attention_dropout": settings["attn_pdrop"],
        "activation_dropout": 0.0,
    }
    model = _build_model(
        settings,
        settings["vocab_size"],
        features,
        settings["n_layer"],
        block,
        positions=LearnedPositions(settings["n_positions"]),
        dropout=settings["embd_pdrop"],
    )
    return None, model


def copy_gpt2(
    architecture: Architecture,
    settings: Settings,
    impossible_token_ids: Sequence[int],
    layers: tuple[Any, Any],
    copy: WeightMapping,
) -> None:
    """Maps the variables to weights. See `Architecture`."""
    prefix = "transformer."
    model = layers[1]
    head_dim = settings["n_embd"] // settings["n_head"]
    _copy_tables(model, f"{prefix}wte.weight", copy)
    copy.copy(model.stack.positions.embeddings, f"{prefix}wpe.weight")
    copy.norm(model.stack.final_norm, f"{prefix}ln_f")
    copy.ignore(rf"{prefix}h\.\d+\.attn\.(bias|masked_bias)")  # the causal mask
    for index, block in enumerate(model.stack.blocks):
        name = f"{prefix}h.{index}"
        attention, hidden = block.self_attention, block.feed_forward
        scale = 1.0 if settings["scale_attn_weights"] else head_dim**0.5
        scale /= index + 1 if settings["scale_attn_by_inverse_layer_idx"] else 1
        for kind, part in (("kernel", "weight"), ("bias", "bias")):
            variables = [getattr(attention, f"{role}_{kind}") for role in ("query", "key", "value")]
            copy.split(variables, f"{name}.attn.c_attn.{part}", (scale, 1.0, 1.0))
        copy.norm(block.attention_norm, f"{name}.ln_1")
        copy.norm(block.feed_forward_norm, f"{name}.ln_2")
        for kernel, bias, part in (
            (attention.output_kernel, attention.output_bias, "attn.c_proj"),
            (hidden.expansion.kernel, hidden.expansion.bias, "mlp.c_fc"),
            (hidden.contraction.kernel, hidden.contraction.bias, "mlp.c_proj"),
        ):
            copy.copy(kernel, f"{name}.{part}.weight")  # (inputs, outputs), as in keras_attn
            copy.copy(bias, f"{name}.{part}.bias")


OPT_SETTINGS: dict[str, Setting] = {
    **COMMON,
    **DECODER_ONLY,
    **_IDS,
    "bos_token_id": _start_token(2),
    "vocab_size": mapped("size of the embedding", 50272),
    "hidden_size": mapped("size of the vectors", 768),
    "num_hidden_layers": mapped("num_layers", 12),
    "ffn_dim": mapped("intermediate_dim", 3072),
    "max_position_embeddings": mapped("max_length of the positions", 2048),
    "num_attention_heads": mapped("num_heads", 12),
    "activation_function": mapped("activation", "relu", is_activation("activation_function")),
    "enable_bias": mapped("use_bias", True),
    "dropout": rate("dropout, for training", 0.1),
    "attention_dropout": rate("attention_dropout, for training", 0.0),
    "activation_dropout": TRAINING,
    "do_layer_norm_before": refused("post-norm blocks of OPT-350m", None, True),
    "_remove_final_layer_norm": refused("no normalization after the last block", None, False),
    "word_embed_proj_dim": refused_unless(
        "an embedding size other than hidden_size, as in OPT-350m",
        lambda value, settings: value in (None, settings["hidden_size"]),
    ),
    "layer_norm_elementwise_affine": refused("normalizations without weights", None, True),
    "layerdrop": TRAINING,
    "init_std": TRAINING,
    "output_projection": irrelevant("not read by transformers: the embedding is the output layer"),
}


def build_opt(
    architecture: Architecture, settings: Settings, copy: WeightMapping
) -> tuple[None, Any]:
    """Builds an OPT model. See `Architecture`."""
    features = settings["hidden_size"]
    block = {
        "num_heads": settings["num_attention_heads"],
        "intermediate_dim": settings["ffn_dim"],
        "activation": activation(settings["activation_function"]),
        "use_bias": settings["enable_bias"],
        "dropout": settings["dropout"],
        "attention_dropout": settings["attention_dropout"],
        "activation_dropout": 0.0,
    }
    model = _build_model(
        settings,
        settings["vocab_size"],
        features,
        settings["num_hidden_layers"],
        block,
        positions=LearnedPositions(settings["max_position_embeddings"], offset=OPT_OFFSET),
    )
    return None, model


def copy_opt(
    architecture: Architecture,
    settings: Settings,
    impossible_token_ids: Sequence[int],
    layers: tuple[Any, Any],
    copy: WeightMapping,
) -> None:
    """Maps the variables to weights. See `Architecture`."""
    prefix, model = "model.decoder", layers[1]
    _copy_tables(model, f"{prefix}.embed_tokens.weight", copy)
    copy.copy(model.stack.positions.embeddings, f"{prefix}.embed_positions.weight")
    copy.norm(model.stack.final_norm, f"{prefix}.final_layer_norm")
    for index, block in enumerate(model.stack.blocks):
        name = f"{prefix}.layers.{index}"
        copy.attention(block.self_attention, f"{name}.self_attn")
        copy.norm(block.attention_norm, f"{name}.self_attn_layer_norm")
        copy.norm(block.feed_forward_norm, f"{name}.final_layer_norm")
        copy.dense(block.feed_forward.expansion, f"{name}.fc1")
        copy.dense(block.feed_forward.contraction, f"{name}.fc2")


LLAMA_SETTINGS: dict[str, Setting] = {
    **COMMON,
    **DECODER_ONLY,
    **_IDS,
    "bos_token_id": _start_token(1),
    "vocab_size": mapped("size of the embedding", 32000),
    "hidden_size": mapped("size of the vectors", 4096),
    "intermediate_size": mapped("intermediate_dim", 11008),
    "num_hidden_layers": mapped("num_layers", 32),
    "num_attention_heads": mapped("num_heads", 32),
    "num_key_value_heads": mapped("num_key_value_heads", kind=int),
    "head_dim": mapped("key_dim", kind=int),
    "hidden_act": mapped("activation of the gate", "silu", is_activation("hidden_act", True)),
    "rms_norm_eps": mapped("epsilon", 1e-6),
    "tie_word_embeddings": mapped("whether the output layer uses the embedding", False),
    **ROTARY,
    "attention_dropout": rate("attention_dropout, for training", 0.0),
    "pretraining_tp": irrelevant("computes the same results in slices"),
    "is_llama_config": irrelevant("the origin of the checkpoint"),
    "max_sequence_length": irrelevant("rotary positions have no limit"),
    "rope_interleaved": refused("rotary positions of adjacent features", None, False),
    "initializer_range": TRAINING,
}
_BIASES = {
    "attention_bias": mapped("use_bias", False),
    "mlp_bias": mapped("use_bias", False),
}
_WINDOW = {"sliding_window": mapped("sliding_window", 4096, nullable=True)}


def build_llama(
    architecture: Architecture, settings: Settings, copy: WeightMapping
) -> tuple[None, Any]:
    """Builds a Llama family model. See `Architecture`."""
    options, features = architecture.options, settings["hidden_size"]
    heads, key_value_heads = settings["num_attention_heads"], settings["num_key_value_heads"]
    head_dim = settings["head_dim"]
    gate = _gemma_gate(settings) if options["is_gemma"] else settings["hidden_act"]
    block = {
        "num_heads": heads,
        "intermediate_dim": settings["intermediate_size"],
        "key_dim": features // heads if head_dim is None else head_dim,
        "num_key_value_heads": heads if key_value_heads is None else key_value_heads,
        "activation": activation(gate, gated=True),
        "normalization": "rms",
        "use_bias": bool(_attention_biases(options, settings)) or _has_mlp_bias(settings),
        "rotary": rotary_positions(settings),
        "sliding_window": settings["sliding_window"] if "sliding_window" in settings else None,
        "epsilon": settings["rms_norm_eps"],
        "attention_dropout": settings["attention_dropout"],
    }
    model = _build_model(
        settings,
        settings["vocab_size"],
        features,
        settings["num_hidden_layers"],
        block,
        scale_embedding=options["is_gemma"],
    )
    return None, model


def copy_llama(
    architecture: Architecture,
    settings: Settings,
    impossible_token_ids: Sequence[int],
    layers: tuple[Any, Any],
    copy: WeightMapping,
) -> None:
    """Maps the variables to weights. See `Architecture`."""
    options, model = architecture.options, layers[1]
    biases = _attention_biases(options, settings)
    _copy_tables(model, "model.embed_tokens.weight", copy)
    copy.ignore(r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq")
    # Gemma stores normalization scales minus 1.
    added = 1.0 if options["is_gemma"] else 0.0
    copy.norm(model.stack.final_norm, "model.norm", added)
    for index, block in enumerate(model.stack.blocks):
        name = f"model.layers.{index}"
        parts = ("q_proj", "k_proj", "v_proj", "o_proj")
        copy.attention(block.self_attention, f"{name}.self_attn", parts, biases=biases)
        copy.norm(block.attention_norm, f"{name}.input_layernorm", added)
        copy.norm(block.feed_forward_norm, f"{name}.post_attention_layernorm", added)
        expansion, contraction = block.feed_forward.expansion, block.feed_forward.contraction
        gates = [f"{name}.mlp.{part}" for part in ("gate_proj", "up_proj")]
        copy.joined(expansion.kernel, [f"{gate}.weight" for gate in gates])
        copy.copy(contraction.kernel, f"{name}.mlp.down_proj.weight", transpose=True)
        if _has_mlp_bias(settings):
            copy.joined(expansion.bias, [f"{gate}.bias" for gate in gates])
            copy.copy(contraction.bias, f"{name}.mlp.down_proj.bias")
        elif expansion.bias is not None:
            copy.zero(expansion.bias, f"{name}.mlp.up_proj.bias")
            copy.zero(contraction.bias, f"{name}.mlp.down_proj.bias")


def _attention_biases(options, settings):
    """Returns the names of attention projections with a bias."""
    if options["has_bias"]:
        return PROJECTIONS[:3]
    return PROJECTIONS if settings.get("attention_bias", False) else ()


def _has_mlp_bias(settings):
    return bool(settings.get("mlp_bias", False))


def _has_full_attention(layer_types):
    """Returns whether no layer has a sliding window."""
    return isinstance(layer_types, list) and all(kind == "full_attention" for kind in layer_types)


def _gemma_gate(settings):
    """Returns the gate activation. In Gemma configurations, gelu means the tanh form."""
    gate = settings["hidden_act"]
    return "gelu_pytorch_tanh" if gate == "gelu" else gate


def _llama(model_type, settings, has_bias=False, is_gemma=False, adds_start=True):
    options = {"has_bias": has_bias, "is_gemma": is_gemma, "adds_start": adds_start}
    table = {**LLAMA_SETTINGS, **settings}
    return Architecture(model_type, table, build_llama, copy_llama, True, "json", options)


GPT2 = Architecture(
    "gpt2", GPT2_SETTINGS, build_gpt2, copy_gpt2, True, "json", {"adds_start": False}
)
OPT = Architecture("opt", OPT_SETTINGS, build_opt, copy_opt, True, "json", {"adds_start": True})
LLAMA = _llama("llama", _BIASES)
MISTRAL = _llama(
    "mistral",
    {
        **_WINDOW,
        **max_positions(4096 * 32),
        "intermediate_size": mapped("intermediate_dim", 14336),
        "num_key_value_heads": mapped("num_key_value_heads", 8, nullable=True),
    },
)
QWEN2 = _llama(
    "qwen2",
    {
        **max_positions(32768),
        "vocab_size": mapped("size of the embedding", 151936),
        "intermediate_size": mapped("intermediate_dim", 22016),
        "num_key_value_heads": mapped("num_key_value_heads", 32),
        "bos_token_id": irrelevant("the tokenizer adds no start token"),
        "use_mrope": refused("rotary positions of pictures", None, False),
        "use_sliding_window": refused("sliding windows in some layers only", None, False),
        "sliding_window": irrelevant("only used with use_sliding_window"),
        "max_window_layers": irrelevant("only used with use_sliding_window"),
        "layer_types": refused_unless(
            "sliding windows in some layers only",
            lambda value, _: value is None or _has_full_attention(value),
        ),
    },
    has_bias=True,
    adds_start=False,
)
GEMMA = _llama(
    "gemma",
    {
        **max_positions(8192),
        "vocab_size": mapped("size of the embedding", 256000),
        "hidden_size": mapped("size of the vectors", 3072),
        "intermediate_size": mapped("intermediate_dim", 24576),
        "num_hidden_layers": mapped("num_layers", 28),
        "num_attention_heads": mapped("num_heads", 16),
        "num_key_value_heads": mapped("num_key_value_heads", 16),
        "head_dim": mapped("key_dim", 256),
        "hidden_act": mapped(
            "activation of the gate",
            "gelu_pytorch_tanh",
            lambda settings: check_activation(
                settings, "hidden_act", _gemma_gate(settings), gated=True
            ),
        ),
        "hidden_activation": refused("a different gate activation", None, "gelu_pytorch_tanh"),
        "tie_word_embeddings": mapped("whether the output layer uses the embedding", True),
        "bos_token_id": _start_token(2),
        "attention_bias": mapped("use_bias", False),
        "use_bidirectional_attention": refused("attention to later tokens", None, False),
    },
    is_gemma=True,
)
LANGUAGE_MODELS = (GPT2, OPT, LLAMA, MISTRAL, QWEN2, GEMMA)
