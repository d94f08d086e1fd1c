"""`config.json` keys that all architectures share."""

import dataclasses

from keras_attn.convert._search_refusals import is_id, refusal, single_id
from keras_attn.convert._settings import Setting, irrelevant, mapped, refused, refused_unless

_TRAINING = irrelevant("only used in training")
_CLASSIFIER = irrelevant("only used by classification heads")
_OUTPUTS = irrelevant("selects outputs that the converted model does not have")
_DESCRIPTION = irrelevant("describes the checkpoint")

COMMON: dict[str, Setting] = {
    "model_type": mapped("the architecture"),
    "architectures": mapped("the class of the model, which must support generate"),
    "tie_word_embeddings": mapped("whether the output layer uses the embedding", True),
    "_attn_implementation_autoset": irrelevant("selects an implementation with the same results"),
    "_commit_hash": irrelevant("the version of the checkpoint"),
    "_name_or_path": irrelevant("the origin of the checkpoint"),
    "_num_labels": _CLASSIFIER,
    "add_cross_attention": refused("cross-attention in a model without an encoder", None, False),
    "auto_map": refused("Python code in the checkpoint", None, {}),
    "antemplate": irrelevant("only used by KoboldAI"),
    "attn_implementation": irrelevant("selects an implementation with the same results"),
    "author": _DESCRIPTION,
    "chunk_size_feed_forward": irrelevant("computes the same results in chunks"),
    "cross_attention_hidden_size": refused("encoder outputs of a different size", None),
    "dtype": irrelevant("the weights have the dtype of their file, and are converted to float32"),
    "eos_token_ids": irrelevant("was only used by generate of transformers 2"),
    "finetuning_task": irrelevant("the name of a task"),
    "gradient_checkpointing": _TRAINING,
    "neftune_noise_alpha": _TRAINING,
    "xla_device": irrelevant("was only used on TPUs"),
    "id2label": _CLASSIFIER,
    "is_decoder": refused("a decoder without an encoder", None, False),
    "kobart_version": _DESCRIPTION,
    "kobert_version": _DESCRIPTION,
    "label2id": _CLASSIFIER,
    "language": _DESCRIPTION,
    "name": _DESCRIPTION,
    "num_labels": _CLASSIFIER,
    "output_attentions": _OUTPUTS,
    "output_hidden_states": _OUTPUTS,
    "output_past": _OUTPUTS,
    "prefix": irrelevant("only used by pipelines, not by generate"),
    "problem_type": _CLASSIFIER,
    "pruned_heads": refused("attention heads that were removed", None, {}),
    "quantization_config": refused("quantized weights", None),
    "return_dict": _OUTPUTS,
    "cls_token_id": irrelevant("only used by the tokenizer"),
    "sep_token_id": irrelevant("only used by the tokenizer"),
    "task_specific_params": irrelevant("only used by pipelines, not by generate"),
    "tf_legacy_loss": _TRAINING,
    "tie_encoder_decoder": refused("an encoder and a decoder with the same weights", None, False),
    "tokenizer_class": irrelevant("only used by the tokenizer"),
    "torch_dtype": irrelevant("the weights have the dtype of their file"),
    "torchscript": irrelevant("selects an implementation with the same results"),
    "total_flos": _TRAINING,
    "transformers_version": irrelevant("the version that wrote the checkpoint"),
    "transformers.js_config": irrelevant("only used by transformers.js"),
    "unk_token_id": irrelevant("only used by the tokenizer"),
    "unsloth_fixed": irrelevant("the origin of the checkpoint"),
    "unsloth_version": irrelevant("the version that wrote the checkpoint"),
    "use_bfloat16": irrelevant("was only used on TPUs"),
    "use_cache": irrelevant("the converted model always caches keys and values"),
    "welcome": irrelevant("only used by KoboldAI"),
}
"""Keys shared by all configurations, in transformers 5 and earlier releases."""

FORCES_START = "force_bos_token_to_be_generated"
"""Key from the first BART releases. `GenerationConfig.from_model_config` in transformers still
reads it and sets `forced_bos_token_id` to `bos_token_id`. It has no effect if there is a
`generation_config.json`."""

ENCODER_DECODER: dict[str, Setting] = {
    "is_encoder_decoder": refused("a model without an encoder", None, True),
}

DECODER_ONLY: dict[str, Setting] = {
    "is_encoder_decoder": refused("a model with an encoder", None, False),
}

TRAINING = _TRAINING
CLASSIFIER = _CLASSIFIER


def equals(other: str) -> Setting:
    """Returns the `Setting` for a second name of the key `other`."""
    return refused_unless(
        f"must equal {other}", lambda value, settings: value in (None, settings[other])
    )


def rate(note: str, default: float | None = None) -> Setting:
    """Returns the `Setting` for a dropout rate."""
    return dataclasses.replace(mapped(note, default, kind=float), is_rate=True)


def source_id(name: str, note: str, default: int) -> Setting:
    """Returns the `Setting` for a special source token id."""

    def check(settings):
        value = single_id(settings, name)
        if not is_id(settings[name]) or value < 0:
            raise refusal(settings, name, settings[name], "one id of at least 0", "Correct it.")

    return mapped(note, default, check, object)
