"""Search setting keys in `generation_config.json`, or else in `config.json`."""

from keras_attn.convert._settings import Setting, irrelevant, mapped, refused, refused_unless

_SPEED = irrelevant("selects an implementation with the same results")
_OUTPUTS = irrelevant("selects outputs that the converted model does not have")


def _for_sampling(note, *harmless):
    """Returns the `Setting` for a key that changes results only if `do_sample` is true."""
    return refused_unless(
        note, lambda value, settings: value in (None, *harmless) or not settings["do_sample"]
    )


GENERATION: dict[str, Setting] = {
    # Special tokens.
    "bos_token_id": mapped("start token, if there is no decoder_start_token_id"),
    "decoder_start_token_id": mapped("start_token_id"),
    "eos_token_id": mapped("end_token_id, or end_token_id and other_end_token_ids"),
    "pad_token_id": mapped("pad_token_id"),
    "forced_bos_token_id": mapped("forced_prefix_ids"),
    "forced_eos_token_id": mapped("force_end_token"),
    "bad_words_ids": mapped("suppressed_token_ids or suppressed_sequences", kind=list),
    "suppress_tokens": mapped("suppressed_token_ids", kind=list),
    "begin_suppress_tokens": refused("tokens that may not come first", None, []),
    # Lengths.
    "max_length": mapped("max_length, without the start token", kind=int, minimum=0),
    "max_new_tokens": mapped("max_length", kind=int, minimum=0),
    "min_length": mapped("min_length, without the start token", 0, minimum=0),
    "min_new_tokens": mapped("min_length", kind=int, minimum=0),
    # Beam search.
    "num_beams": mapped("beam_width; 1 is greedy search", 1),
    "early_stopping": mapped("stop", False, kind=object),
    "length_penalty": mapped("length_penalty", 1.0),
    "num_return_sequences": mapped("num_hypotheses", 1),
    "no_repeat_ngram_size": mapped("no_repeat_ngram_size", 0, minimum=0),
    "repetition_penalty": mapped("repetition_penalty, without beams", 1.0),
    "renormalize_logits": mapped("suppressed tokens get no probability", False),
    # Sampling.
    "do_sample": mapped("SamplingDecoder", False),
    "temperature": mapped("temperature, with do_sample", 1.0),
    "top_k": mapped("top_k, with do_sample", 50, minimum=0),
    "top_p": mapped("top_p, with do_sample", 1.0),
    "min_p": _for_sampling("min-p sampling"),
    "top_h": _for_sampling("top-h sampling"),
    "typical_p": _for_sampling("typical sampling", 1.0),
    "epsilon_cutoff": _for_sampling("epsilon sampling", 0.0),
    "eta_cutoff": _for_sampling("eta sampling", 0.0),
    # Other score changes.
    "encoder_repetition_penalty": refused("a penalty that reads the source", None, 1.0),
    "encoder_no_repeat_ngram_size": refused("blocks n-grams of the source", None, 0),
    "exponential_decay_length_penalty": refused("a length penalty of a different form", None),
    "guidance_scale": refused("classifier-free guidance", None, 1.0, 1),
    "sequence_bias": refused("a bias of token sequences", None, {}),
    "token_healing": refused("changes the end of a prompt", None, False),
    "watermarking_config": refused("a watermark in the scores", None),
    # Other searches.
    "constraints": refused("constrained beam search", None, []),
    "diversity_penalty": refused("diverse beam search of a different form", None, 0.0),
    "dola_layers": refused("contrastive decoding of layers (DoLa)", None),
    "force_words_ids": refused("constrained beam search", None, []),
    "num_beam_groups": refused("diverse beam search of a different form", None, 1),
    "penalty_alpha": refused("contrastive search", None, 0.0),
    # When a search stops.
    "max_time": refused("a time limit, which makes results depend on the machine", None),
    "stop_strings": refused("strings that end a text", None, []),
    # Without influence on the results.
    "remove_invalid_values": irrelevant("only changes NaN and infinite logits"),
    "transformers_version": irrelevant("the version that wrote the file"),
    "_from_model_config": irrelevant("how the file was written"),
    "output_attentions": _OUTPUTS,
    "output_hidden_states": _OUTPUTS,
    "output_logits": _OUTPUTS,
    "output_scores": _OUTPUTS,
    "return_dict_in_generate": _OUTPUTS,
    "use_cache": irrelevant("the converted model always caches keys and values"),
    **dict.fromkeys(
        (
            "assistant_confidence_threshold",
            "assistant_early_exit",
            "assistant_ensemble_weight",
            "assistant_lookbehind",
            "cache_config",
            "cache_implementation",
            "compile_config",
            "continuous_batching_config",
            "disable_compile",
            "is_assistant",
            "low_memory",
            "max_cache_len",
            "max_matching_ngram_size",
            "num_assistant_tokens",
            "num_assistant_tokens_schedule",
            "prefill_chunk_size",
            "prompt_lookup_num_tokens",
            "speculation_type",
            "target_lookbehind",
            "use_mtp",
        ),
        _SPEED,
    ),
}
"""Keys in transformers' `GenerationConfig`."""
