"""`config.json` for a model that was not converted from a checkpoint."""

from collections.abc import Mapping
from typing import Any

from keras_attn._decoders.causal_language_model import CausalLanguageModel
from keras_attn._decoders.transformer_decoder import TransformerDecoder
from keras_attn._encoders.transformer_encoder import TransformerEncoder
from keras_attn._models.generation_model import GenerationModel
from keras_attn._transformer.feed_forward import get_activation
from keras_attn.convert._activations import ACTIVATIONS, GATED
from keras_attn.convert._conversion_error import ConversionError
from keras_attn.convert._fairseq_models import BART, M2M_100, MARIAN, MBART, PEGASUS
from keras_attn.convert._language_models import GPT2, LLAMA, OPT
from keras_attn.convert._rotary_settings import rope_parameters

MAX_POSITIONS = 512
"""`max_position_embeddings` for models with unlimited positions."""


def possible_configs(model: Any) -> list[dict[str, Any]]:
    """Returns one `config.json` for each architecture that could describe the model.

    Args:
        model: `GenerationModel`.

    Returns:
        List of dicts in `config.json` form.

    Raises:
        ConversionError: If no architecture consists of these encoder and decoder classes.
    """
    encoder, decoder = getattr(model, "encoder", None), getattr(model, "decoder", None)
    if type(encoder) is TransformerEncoder and type(decoder) is TransformerDecoder:
        candidates = MARIAN, BART, MBART, M2M_100, PEGASUS
        return [_seq2seq(architecture, model) for architecture in candidates]
    if encoder is None and type(decoder) is CausalLanguageModel:
        if decoder.stack.blocks[0].normalization == "rms":
            return [_llama(model)]
        return [_gpt2(model), _opt(model)]
    kind = type(model).__name__
    if isinstance(model, GenerationModel):
        kind = f"{type(encoder).__name__} and {type(decoder).__name__}"
    raise ConversionError(
        "Expected a GenerationModel with a TransformerEncoder and a TransformerDecoder, or with a "
        f"CausalLanguageModel. Received: {kind}. transformers has no equal model. To export an "
        "encoder, pass original, a folder with the config.json of the encoder."
    )


def _seq2seq(architecture, model) -> dict[str, Any]:
    encoder, decoder = model.encoder, model.decoder
    sides, config = {"encoder": encoder, "decoder": decoder}, _common(architecture, model)
    for side, layer in sides.items():
        block = layer.stack.blocks[0]
        config |= {
            f"{side}_layers": layer.stack.num_layers,
            f"{side}_attention_heads": block.num_heads,
            f"{side}_ffn_dim": block.intermediate_dim,
        }
    block = decoder.stack.blocks[0]
    size, target_size = encoder.embedding.input_dim, decoder.embedding.input_dim
    config |= {
        "is_encoder_decoder": True,
        "vocab_size": size,
        "d_model": encoder.stack.output_dim,
        "activation_function": _activation(block, ACTIVATIONS),
        "scale_embedding": bool(encoder.stack.scale_embedding),
        "max_position_embeddings": _max_positions(encoder),
        "pad_token_id": encoder.pad_token_id,
        "eos_token_id": encoder.end_token_id,
        "bos_token_id": encoder.start_token_id,
        "decoder_start_token_id": model.search.start_token_id,
        "dropout": block.dropout,
        "attention_dropout": _rate(block.attention_dropout, block),
        "activation_dropout": _rate(block.activation_dropout, block),
    }
    if architecture is MARIAN:
        config["share_encoder_decoder_embeddings"] = encoder.embedding is decoder.embedding
        config["decoder_vocab_size"] = target_size
    return config


def _gpt2(model) -> dict[str, Any]:
    stack = model.decoder.stack
    block = stack.blocks[0]
    return {
        **_common(GPT2, model),
        "vocab_size": model.decoder.embedding.input_dim,
        "n_positions": _max_positions(model.decoder),
        "n_embd": stack.output_dim,
        "n_layer": stack.num_layers,
        "n_head": block.num_heads,
        "n_inner": block.intermediate_dim,
        "activation_function": _activation(block, ACTIVATIONS),
        "layer_norm_epsilon": block.epsilon,
        "resid_pdrop": block.dropout,
        "embd_pdrop": stack.dropout,
        "attn_pdrop": _rate(block.attention_dropout, block),
        "bos_token_id": model.search.start_token_id,
        "eos_token_id": model.search.end_token_id,
        "pad_token_id": model.search.pad_token_id,
    }


def _opt(model) -> dict[str, Any]:
    stack = model.decoder.stack
    block = stack.blocks[0]
    return {
        **_common(OPT, model),
        "vocab_size": model.decoder.embedding.input_dim,
        "hidden_size": stack.output_dim,
        "word_embed_proj_dim": stack.output_dim,
        "num_hidden_layers": stack.num_layers,
        "ffn_dim": block.intermediate_dim,
        "max_position_embeddings": _max_positions(model.decoder),
        "num_attention_heads": block.num_heads,
        "activation_function": _activation(block, ACTIVATIONS),
        "enable_bias": block.use_bias,
        "dropout": block.dropout,
        "attention_dropout": _rate(block.attention_dropout, block),
        "bos_token_id": model.source_start_token_id,
        "eos_token_id": model.search.end_token_id,
        "pad_token_id": model.search.pad_token_id,
    }


def _llama(model) -> dict[str, Any]:
    stack = model.decoder.stack
    block = stack.blocks[0]
    heads, rotary = block.num_heads, block.rotary
    key_value_heads = block.num_key_value_heads
    scaling = rope_parameters(rotary)
    theta = scaling.pop("rope_theta")
    gates = {theirs: GATED[ours] for theirs, ours in ACTIVATIONS.items() if ours in GATED}
    return {
        **_common(LLAMA, model),
        "vocab_size": model.decoder.embedding.input_dim,
        "hidden_size": stack.output_dim,
        "intermediate_size": block.intermediate_dim,
        "num_hidden_layers": stack.num_layers,
        "num_attention_heads": heads,
        "num_key_value_heads": heads if key_value_heads is None else key_value_heads,
        "head_dim": block.self_attention.key_dim,
        "hidden_act": _activation(block, gates),
        "rms_norm_eps": block.epsilon,
        "rope_theta": theta,
        # All releases of transformers read the earlier key.
        "rope_scaling": None if scaling["rope_type"] == "default" else scaling,
        "attention_bias": block.use_bias,
        "mlp_bias": block.use_bias,
        "attention_dropout": _rate(block.attention_dropout, block),
        "max_position_embeddings": MAX_POSITIONS,
        "bos_token_id": model.source_start_token_id,
        "eos_token_id": model.search.end_token_id,
        "pad_token_id": model.search.pad_token_id,
    }


def _common(architecture, model):
    return {
        "model_type": architecture.model_type,
        "architectures": [architecture.model_class],
        "tie_word_embeddings": model.decoder.head is None,
    }


def _activation(block: Any, names: Mapping[str, str]) -> str:
    """Returns an activation's name in transformers, or any name if there is none."""
    network = block.feed_forward
    for theirs, ours in names.items():
        same = network.activation == ours if network.is_gated else _is_function(network, ours)
        if same:
            return theirs
    return next(iter(names))  # `find_target` reports the difference


def _is_function(network, name):
    return network.activation is get_activation(name)


def _max_positions(layer):
    limit = layer.stack.max_length
    return MAX_POSITIONS if limit is None else limit


def _rate(rate, block):
    return block.dropout if rate is None else rate
