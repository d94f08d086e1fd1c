"""Settings of published checkpoints: the keys of their JSON files, and where they were read.

The tables contain the keys and values of `config.json` and `generation_config.json`, without names,
versions and `task_specific_params`, which do not change results. A source is the repository on
GitHub with a copy of the files. Files of a fine-tuned model have the settings of its base model.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

LABELS = {
    "id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"},
    "label2id": {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2},
}
QUOTED = "quoted in a repository on GitHub"
NOT_FOUND = "no copy found"


@dataclasses.dataclass(frozen=True)
class Published:
    """Settings of a checkpoint.

    Args:
        source: String, the copy of the files.
        config: Dict, the keys of `config.json`.
        generation: Dict, the keys of `generation_config.json`. `None` if the checkpoint has no such
            file, or if no copy was found.
        settings: Dict, choices that the caller must make, see `from_transformers`.
    """

    source: str
    config: Mapping[str, Any]
    generation: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def _sides(layers, heads, inner, decoder_layers=None):
    """Sizes of both sides of an encoder-decoder model."""
    return {
        "encoder_layers": layers,
        "decoder_layers": layers if decoder_layers is None else decoder_layers,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": inner,
        "decoder_ffn_dim": inner,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "init_std": 0.02,
        "dropout": 0.1,
        "activation_dropout": 0.0,
        "attention_dropout": 0.0,
        "num_hidden_layers": layers,
        "is_encoder_decoder": True,
        "use_cache": True,
    }


def _marian(size, beams, **changed):
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        **_sides(6, 8, 2048),
        **LABELS,
        "activation_function": "swish",
        "add_bias_logits": False,
        "add_final_layer_norm": False,
        "bad_words_ids": [[size - 1]],
        "bos_token_id": 0,
        "classif_dropout": 0.0,
        "d_model": 512,
        "decoder_start_token_id": size - 1,
        "eos_token_id": 0,
        "max_length": 512,
        "max_position_embeddings": 512,
        "normalize_before": False,
        "normalize_embedding": False,
        "num_beams": beams,
        "pad_token_id": size - 1,
        "scale_embedding": True,
        "static_position_embeddings": True,
        "vocab_size": size,
        **changed,
    }


def _bart(layers, heads, features, **changed):
    return {
        "model_type": "bart",
        "architectures": ["BartForConditionalGeneration"],
        **_sides(layers, heads, 4 * features),
        **LABELS,
        "activation_function": "gelu",
        "add_final_layer_norm": False,
        "bos_token_id": 0,
        "classif_dropout": 0.0,
        "classifier_dropout": 0.0,
        "d_model": features,
        "decoder_start_token_id": 2,
        "early_stopping": True,
        "eos_token_id": 2,
        "forced_bos_token_id": 0,
        "forced_eos_token_id": 2,
        "gradient_checkpointing": False,
        "max_position_embeddings": 1024,
        "no_repeat_ngram_size": 3,
        "normalize_before": False,
        "num_beams": 4,
        "pad_token_id": 1,
        "scale_embedding": False,
        **changed,
    }


def _kobart():
    """The file names no settings of the search, no first token and no last token."""
    search = ("decoder_start_token_id", "early_stopping", "forced_bos_token_id")
    search += ("forced_eos_token_id", "gradient_checkpointing", "no_repeat_ngram_size", "num_beams")
    settings = _bart(
        *(6, 16, 768),
        author="the name of a person",
        classif_dropout=0.1,
        classifier_dropout=0.1,
        do_blenderbot_90_layernorm=False,
        eos_token_id=1,
        extra_pos_embeddings=2,
        force_bos_token_to_be_generated=False,
        id2label={"0": "NEGATIVE", "1": "POSITIVE"},
        label2id={"NEGATIVE": 0, "POSITIVE": 1},
        max_position_embeddings=1026,
        normalize_embedding=True,
        pad_token_id=3,
        static_position_embeddings=False,
        vocab_size=30000,
    )
    return {name: value for name, value in settings.items() if name not in search}


def _m2m(layers=12, decoder_layers=12, **changed):
    return {
        "model_type": "m2m_100",
        "architectures": ["M2M100ForConditionalGeneration"],
        **_sides(layers, 16, 4096, decoder_layers),
        "activation_function": "relu",
        "attention_dropout": 0.1,
        "bos_token_id": 0,
        "d_model": 1024,
        "decoder_start_token_id": 2,
        "eos_token_id": 2,
        "max_position_embeddings": 1024,
        "pad_token_id": 1,
        "scale_embedding": True,
        **changed,
    }


def _mbart(**changed):
    return {
        "model_type": "mbart",
        "architectures": ["MBartForConditionalGeneration"],
        **_sides(12, 16, 4096),
        **LABELS,
        "_num_labels": 3,
        "activation_function": "relu",
        "add_bias_logits": False,
        "add_final_layer_norm": True,
        "bos_token_id": 0,
        "classif_dropout": 0.0,
        "classifier_dropout": 0.0,
        "d_model": 1024,
        "decoder_start_token_id": 2,
        "early_stopping": True,
        "eos_token_id": 2,
        "forced_eos_token_id": 2,
        "gradient_checkpointing": False,
        "max_length": 200,
        "max_position_embeddings": 1024,
        "normalize_before": True,
        "normalize_embedding": True,
        "num_beams": 5,
        "output_past": True,
        "pad_token_id": 1,
        "scale_embedding": True,
        "static_position_embeddings": False,
        "vocab_size": 250054,
        **changed,
    }


def _pegasus(**changed):
    return {
        "model_type": "pegasus",
        "architectures": ["PegasusForConditionalGeneration"],
        **_sides(16, 16, 4096),
        **LABELS,
        "activation_dropout": 0.1,
        "activation_function": "relu",
        "add_bias_logits": False,
        "add_final_layer_norm": True,
        "attention_dropout": 0.1,
        "bos_token_id": 0,
        "classif_dropout": 0.0,
        "classifier_dropout": 0.0,
        "d_model": 1024,
        "decoder_start_token_id": 0,
        "eos_token_id": 1,
        "extra_pos_embeddings": 0,
        "force_bos_token_to_be_generated": False,
        "forced_eos_token_id": 1,
        "gradient_checkpointing": False,
        "length_penalty": 0.6,
        "max_length": 64,
        "max_position_embeddings": 512,
        "normalize_before": True,
        "normalize_embedding": False,
        "num_beams": 8,
        "pad_token_id": 0,
        "scale_embedding": True,
        "static_position_embeddings": True,
        "vocab_size": 96103,
        **changed,
    }


def _marian_big(size, end, **changed):
    """Models of the Tatoeba challenge, which OPUS-MT names tc-big."""
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        **_sides(6, 16, 4096),
        "activation_function": "relu",
        "bad_words_ids": [[size - 1]],
        "bos_token_id": 0,
        "classifier_dropout": 0.0,
        "d_model": 1024,
        "decoder_start_token_id": size - 1,
        "decoder_vocab_size": size,
        "eos_token_id": end,
        "forced_eos_token_id": end,
        "max_length": 512,
        "max_position_embeddings": 1024,
        "normalize_embedding": False,
        "num_beams": 4,
        "pad_token_id": size - 1,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "static_position_embeddings": True,
        "vocab_size": size,
        **changed,
    }


def _fsmt(**changed):
    return {
        "model_type": "fsmt",
        "architectures": ["FSMTForConditionalGeneration"],
        **_sides(6, 16, 8192),
        "activation_function": "relu",
        "attention_dropout": 0.1,
        "bos_token_id": 0,
        "d_model": 1024,
        "decoder": {"bos_token_id": 2, "model_type": "fsmt_decoder", "vocab_size": 42024},
        "decoder_ffn_dim": 4096,
        "decoder_start_token_id": 2,
        "dropout": 0.2,
        "early_stopping": False,
        "eos_token_id": 2,
        "forced_eos_token_id": 2,
        "langs": ["en", "de"],
        "length_penalty": 1.15,
        "max_length": 200,
        "max_position_embeddings": 1024,
        "num_beams": 5,
        "pad_token_id": 1,
        "scale_embedding": True,
        "src_vocab_size": 42024,
        "tgt_vocab_size": 42024,
        "tie_word_embeddings": False,
        **changed,
    }


def _t5(model_type="t5", **changed):
    return {
        "model_type": model_type,
        "architectures": [f"{model_type.upper()}ForConditionalGeneration"],
        "classifier_dropout": 0.0,
        "d_ff": 2048,
        "d_kv": 64,
        "d_model": 512,
        "decoder_start_token_id": 0,
        "dense_act_fn": "relu",
        "dropout_rate": 0.1,
        "eos_token_id": 1,
        "feed_forward_proj": "relu",
        "initializer_factor": 1.0,
        "is_encoder_decoder": True,
        "is_gated_act": False,
        "layer_norm_epsilon": 1e-6,
        "n_positions": 512,
        "num_decoder_layers": 6,
        "num_heads": 8,
        "num_layers": 6,
        "output_past": True,
        "pad_token_id": 0,
        "relative_attention_max_distance": 128,
        "relative_attention_num_buckets": 32,
        "use_cache": True,
        "vocab_size": 32128,
        **changed,
    }


def _gpt2(layers, heads, features, **changed):
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "activation_function": "gelu_new",
        "attn_pdrop": 0.1,
        "bos_token_id": 50256,
        "embd_pdrop": 0.1,
        "eos_token_id": 50256,
        "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-5,
        "n_ctx": 1024,
        "n_embd": features,
        "n_head": heads,
        "n_layer": layers,
        "n_positions": 1024,
        "resid_pdrop": 0.1,
        "summary_activation": None,
        "summary_first_dropout": 0.1,
        "summary_proj_to_labels": True,
        "summary_type": "cls_index",
        "summary_use_proj": True,
        "vocab_size": 50257,
        **changed,
    }


def _opt(layers, heads, features, **changed):
    return {
        "model_type": "opt",
        "architectures": ["OPTForCausalLM"],
        "activation_dropout": 0.0,
        "activation_function": "relu",
        "attention_dropout": 0.0,
        "bos_token_id": 2,
        "do_layer_norm_before": True,
        "dropout": 0.1,
        "eos_token_id": 2,
        "ffn_dim": 4 * features,
        "hidden_size": features,
        "init_std": 0.02,
        "layerdrop": 0.0,
        "max_position_embeddings": 2048,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "pad_token_id": 1,
        "prefix": "</s>",
        "use_cache": True,
        "vocab_size": 50272,
        "word_embed_proj_dim": features,
        **changed,
    }


def _llama(model_type="llama", class_name="LlamaForCausalLM", **changed):
    return {
        "model_type": model_type,
        "architectures": [class_name],
        "bos_token_id": 1,
        "eos_token_id": 2,
        "hidden_act": "silu",
        "hidden_size": 4096,
        "initializer_range": 0.02,
        "intermediate_size": 11008,
        "max_position_embeddings": 4096,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "use_cache": True,
        "vocab_size": 32000,
        **changed,
    }


BIASES = {"attention_bias": False, "mlp_bias": False, "attention_dropout": 0.0, "pretraining_tp": 1}
LLAMA3_ROPE = {
    "factor": 32.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}


def _llama3(**changed):
    return _llama(
        **BIASES,
        **{
            "bos_token_id": 128000,
            "eos_token_id": 128009,
            "intermediate_size": 14336,
            "max_position_embeddings": 131072,
            "num_key_value_heads": 8,
            "rope_theta": 500000.0,
            "vocab_size": 128256,
            **changed,
        },
    )


def _qwen2(features, heads, key_heads, inner, layers, **changed):
    return _llama(
        "qwen2",
        "Qwen2ForCausalLM",
        **{
            "attention_dropout": 0.0,
            "bos_token_id": 151643,
            "eos_token_id": 151645,
            "hidden_size": features,
            "intermediate_size": inner,
            "max_position_embeddings": 32768,
            "max_window_layers": layers,
            "num_attention_heads": heads,
            "num_hidden_layers": layers,
            "num_key_value_heads": key_heads,
            "rms_norm_eps": 1e-6,
            "rope_theta": 1000000.0,
            "sliding_window": 32768,
            "tie_word_embeddings": True,
            "use_sliding_window": False,
            "vocab_size": 151936,
            **changed,
        },
    )


QWEN_CHAT = {
    "bos_token_id": 151643,
    "do_sample": True,
    "eos_token_id": [151645, 151643],
    "pad_token_id": 151643,
    "repetition_penalty": 1.05,
    "temperature": 0.7,
    "top_k": 20,
    "top_p": 0.8,
}


def _bert(model_type, class_name, **changed):
    return {
        "model_type": model_type,
        "architectures": [class_name],
        "attention_probs_dropout_prob": 0.1,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "hidden_size": 768,
        "initializer_range": 0.02,
        "intermediate_size": 3072,
        "max_position_embeddings": 512,
        "num_attention_heads": 12,
        "num_hidden_layers": 12,
        "type_vocab_size": 2,
        **changed,
    }


def _roberta(model_type, class_name, **changed):
    common = {
        "bos_token_id": 0,
        "eos_token_id": 2,
        "layer_norm_eps": 1e-5,
        "max_position_embeddings": 514,
        "pad_token_id": 1,
        "type_vocab_size": 1,
    }
    return _bert(model_type, class_name, **{**common, **changed})


BART_CNN = {
    "bos_token_id": 0,
    "decoder_start_token_id": 2,
    "early_stopping": True,
    "eos_token_id": 2,
    "forced_bos_token_id": 0,
    "forced_eos_token_id": 2,
    "length_penalty": 2.0,
    "max_length": 142,
    "min_length": 56,
    "no_repeat_ngram_size": 3,
    "num_beams": 4,
    "pad_token_id": 1,
}
BART_CNN_KEYS = {
    "_num_labels": 3,
    "force_bos_token_to_be_generated": True,
    "length_penalty": 2.0,
    "max_length": 142,
    "min_length": 56,
    "output_past": True,
    "prefix": " ",
    "vocab_size": 50264,
}
NLLB = {
    "bos_token_id": 0,
    "decoder_start_token_id": 2,
    "eos_token_id": 2,
    "max_length": 200,
    "pad_token_id": 1,
}
NLLB_LARGE = {
    **dict.fromkeys(("encoder_layerdrop", "decoder_layerdrop"), 0),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 8192),
}
MBART50 = {**NLLB, "early_stopping": True, "forced_eos_token_id": 2, "num_beams": 5}
OPUS = {
    "bad_words_ids": [[59513]],
    "bos_token_id": 0,
    "decoder_start_token_id": 59513,
    "eos_token_id": 0,
    "forced_eos_token_id": 0,
    "max_length": 512,
    "num_beams": 4,
    "pad_token_id": 59513,
}
MT5 = {
    "d_ff": 1024,
    "dense_act_fn": "gelu_new",
    "feed_forward_proj": "gated-gelu",
    "is_gated_act": True,
    "num_decoder_layers": 8,
    "num_heads": 6,
    "num_layers": 8,
    "tie_word_embeddings": False,
    "tokenizer_class": "T5Tokenizer",
    "vocab_size": 250112,
}
FLAN = {
    "d_ff": 2816,
    "d_model": 1024,
    "dense_act_fn": "gelu_new",
    "feed_forward_proj": "gated-gelu",
    "is_gated_act": True,
    "num_decoder_layers": 24,
    "num_heads": 16,
    "num_layers": 24,
    "tie_word_embeddings": False,
}
XSUM = {
    "bos_token_id": 0,
    "decoder_start_token_id": 0,
    "eos_token_id": 1,
    "forced_eos_token_id": 1,
    "length_penalty": 0.6,
    "max_length": 64,
    "num_beams": 8,
    "pad_token_id": 0,
}
SMOL = {
    "bos_token_id": 0,
    "eos_token_id": 0,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "is_llama_config": True,
    "num_attention_heads": 9,
    "num_hidden_layers": 30,
    "num_key_value_heads": 3,
    "pretraining_tp": 1,
    "rope_interleaved": False,
    "rope_scaling": None,
    "tie_word_embeddings": True,
    "vocab_size": 49152,
}
MISTRAL = {
    "attention_dropout": 0.0,
    "intermediate_size": 14336,
    "max_position_embeddings": 32768,
    "num_key_value_heads": 8,
}
DISTILBART = {
    "extra_pos_embeddings": 2,
    "replacing_rate": 0,
    "static_position_embeddings": False,
    "student_decoder_layers": None,
    "student_encoder_layers": None,
}
TC_BIG = {
    "decoder_start_token_id": 53016,
    "eos_token_id": 43311,
    "forced_eos_token_id": 43311,
    "pad_token_id": 53016,
}
ARXIV = {**XSUM, "length_penalty": 0.8, "max_length": 256, "min_length": 32}
YARN = {"factor": 4.0, "original_max_position_embeddings": 32768, "type": "yarn"}

PUBLISHED = {
    "Helsinki-NLP/opus-mt-zh-en": Published(
        "percent4/huggingface_translation_model: opus-mt-zh-en",
        _marian(65001, 6, extra_pos_embeddings=65001),
    ),
    "Helsinki-NLP/opus-mt-en-fr": Published(
        "Karthik-MP/hugging_face_translations (saved by transformers 4.46)",
        _marian(
            *(59514, None),
            _num_labels=3,
            bad_words_ids=None,
            max_length=None,
            decoder_vocab_size=59514,
            forced_eos_token_id=0,
            gradient_checkpointing=False,
            share_encoder_decoder_embeddings=True,
        ),
        OPUS,
    ),
    "Helsinki-NLP/opus-mt-en-de": Published(
        QUOTED,
        _marian(
            *(58101, 4), _num_labels=3, gradient_checkpointing=False, sep_token_id=None, prefix=None
        ),
    ),
    "Helsinki-NLP/opus-mt-tc-big-fr-en": Published(
        "chakra1166/hski_fr_en_model",
        _marian_big(53017, 43311),
        {**OPUS, **TC_BIG, "bad_words_ids": [[53016]]},
    ),
    "Helsinki-NLP/opus-mt-tc-big-en-pt": Published(
        "Westron-AI/translation-en-pt",
        _marian_big(54776, 44670),
        {
            **{**OPUS, "bad_words_ids": [[54775]], "decoder_start_token_id": 54775},
            **{"eos_token_id": 44670, "forced_eos_token_id": 44670, "pad_token_id": 54775},
            "renormalize_logits": True,
        },
    ),
    "facebook/wmt19-en-de": Published(
        "written by convert_fsmt_original_pytorch_checkpoint_to_pytorch.py in "
        f"huggingface/transformers; {QUOTED}",
        _fsmt(),
    ),
    "sshleifer/distilbart-cnn-12-6": Published(
        "Suraj28295/News_Summerization_App: model",
        _bart(
            *(12, 16, 1024),
            **BART_CNN_KEYS,
            **DISTILBART,
            normalize_embedding=True,
            decoder_layers=6,
        ),
    ),
    "gogamza/kobart-base-v1": Published("J0SEOYOUNG/repo", _kobart()),
    "fnlp/bart-base-chinese": Published(
        "Hamletlx/BART_Modern_Classical_Chinese_Translation: bart_base_chinese",
        _bart(
            *(6, 12, 768),
            activation_dropout=0.1,
            attention_dropout=0.1,
            bos_token_id=101,
            classif_dropout=0.1,
            decoder_start_token_id=102,
            early_stopping=None,
            eos_token_id=102,
            forced_bos_token_id=None,
            forced_eos_token_id=None,
            no_repeat_ngram_size=None,
            num_beams=None,
            pad_token_id=0,
            tokenizer_class="BertTokenizer",
            vocab_size=51271,
        ),
        {
            "decoder_start_token_id": 101,
            "early_stopping": True,
            "eos_token_id": 102,
            "forced_eos_token_id": 102,
            "no_repeat_ngram_size": 3,
            "num_beams": 4,
            "pad_token_id": 0,
        },
        {"no_repeat_ngram_size": 0},
    ),
    "facebook/bart-large-cnn": Published(
        "Praneeth2002/finetuning-LLM-for-summarization: facebook/bart-large-cnn; "
        "CodingYodha/Legal_TExt_summarizer",
        _bart(12, 16, 1024, **BART_CNN_KEYS),
        BART_CNN,
    ),
    "facebook/bart-large-cnn, without generation_config.json": Published(
        "Praneeth2002/finetuning-LLM-for-summarization: facebook/bart-large-cnn",
        _bart(12, 16, 1024, **BART_CNN_KEYS),
    ),
    "facebook/bart-base": Published(
        "ibmm-unibe-ch/SMILES_or_SELFIES: bart-base",
        _bart(
            *(6, 12, 768),
            architectures=["BartModel"],
            activation_dropout=0.1,
            add_bias_logits=False,
            attention_dropout=0.1,
            classif_dropout=0.1,
            normalize_embedding=True,
            vocab_size=50265,
        ),
    ),
    "facebook/mbart-large-50-many-to-many-mmt": Published(
        "wusongbai139/AnyCaption: mbart-large-50-many-to-many-mmt",
        _mbart(tokenizer_class="MBart50Tokenizer"),
        MBART50,
    ),
    "Babelscape/mrebel-large": Published(
        "eiAlex/mrebel-large",
        _mbart(decoder_start_token_id=0, early_stopping=None, vocab_size=250071),
    ),
    "facebook/m2m100_418M": Published(
        "GiorgosPapado/m2m_onnx_with_combined_sessions",
        _m2m(
            encoder_layerdrop=0.05,
            decoder_layerdrop=0.05,
            early_stopping=True,
            gradient_checkpointing=False,
            max_length=200,
            num_beams=5,
            vocab_size=128112,
        ),
        {**NLLB, "early_stopping": True, "num_beams": 5},
    ),
    "alirezamsh/small100": Published(
        "417-Panachai/SMALL-100-Fine-tune",
        _m2m(12, 3, max_length=256, num_beams=5, vocab_size=128112),
    ),
    "facebook/nllb-200-distilled-600M": Published(
        "Higasa-Yumetaka/PyVoiceTranslate: nllb-200-distilled-600M; 6yuru99/MedNLLB-200",
        _m2m(tokenizer_class="NllbTokenizer", max_length=200, vocab_size=256206),
        NLLB,
    ),
    "facebook/nllb-200-distilled-600M, of transformers 4.56": Published(
        "L-Semakale/sesotho-medical-mt",
        _m2m(dtype="float32", tokenizer_class="NllbTokenizer", max_length=None, vocab_size=256206),
        NLLB,
    ),
    "facebook/nllb-200-1.3B": Published(
        "bigdataai-lab/nllb-200-1.3B",
        {**_m2m(24, 24, max_length=200, vocab_size=256206), **NLLB_LARGE},
        NLLB,
    ),
    "google/pegasus-xsum": Published(
        "AtharvNawal/Legal_Document_Summarization",
        _pegasus(do_blenderbot_90_layernorm=False),
        XSUM,
    ),
    "google/pegasus-large": Published(
        QUOTED,
        _pegasus(
            extra_pos_embeddings=1, length_penalty=0.8, max_length=256, max_position_embeddings=1024
        ),
    ),
    "google/pegasus-arxiv": Published(
        "Praneeth2002/finetuning-LLM-for-summarization: google/pegasus-arxiv/checkpoint-210",
        _pegasus(
            extra_pos_embeddings=1,
            length_penalty=0.8,
            max_length=256,
            max_position_embeddings=1024,
            min_length=32,
        ),
        ARXIV,
    ),
    "tuner007/pegasus_paraphrase": Published(
        "Daniyal2mil/Paraphraser: model",
        _pegasus(
            extra_pos_embeddings=1,
            length_penalty=None,
            max_length=None,
            max_position_embeddings=60,
            num_beams=None,
        ),
        {**XSUM, "length_penalty": 0.8, "max_length": 60},
    ),
    "t5-small": Published("10844110/t5-summarization-demo", _t5()),
    "Salesforce/codet5-small": Published(
        "mltrev23/google-flan-t5-small",
        _t5(
            bos_token_id=1,
            eos_token_id=2,
            gradient_checkpointing=False,
            id2label={"0": "LABEL_0"},
            label2id={"LABEL_0": 0},
            vocab_size=32100,
        ),
    ),
    "VietAI/envit5-translation": Published(
        "your1name/clone-envit5",
        _t5(
            d_model=768,
            dense_act_fn="gelu_new",
            feed_forward_proj="gated-gelu",
            is_gated_act=True,
            num_decoder_layers=12,
            num_heads=12,
            num_layers=12,
            tie_word_embeddings=False,
            vocab_size=50048,
        ),
    ),
    "google/flan-t5-small, saved by transformers 4.57": Published(
        "Annemarie535257/AgriFinConnectRwanda: AI_Chatbot_model",
        _t5(
            **{**FLAN, "d_ff": 1024, "d_model": 512, "num_decoder_layers": 8, "num_layers": 8},
            dtype="float32",
        )
        | {"num_heads": 6},
        {"decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0},
    ),
    "google/flan-t5-large": Published(QUOTED, _t5(**FLAN)),
    "google/mt5-small": Published(QUOTED, _t5("mt5", **MT5)),
    "gpt2-medium": Published(
        QUOTED,
        _gpt2(
            *(24, 16, 1024),
            gradient_checkpointing=False,
            n_inner=None,
            n_special=0,
            predict_special_tokens=True,
            scale_attn_weights=True,
            use_cache=True,
        ),
    ),
    "distilgpt2": Published(
        "CaliberAI/elasticbeanstalk-gpt2-api: distilgpt2",
        _gpt2(
            *(6, 12, 768),
            finetuning_task=None,
            num_labels=1,
            output_attentions=False,
            output_hidden_states=False,
            pruned_heads={},
            torchscript=False,
            use_bfloat16=False,
        ),
    ),
    "microsoft/DialoGPT-small": Published(
        "CHJCHJCH/microsoft-DialoGPT-small",
        _gpt2(12, 12, 768),
        {"bos_token_id": 50256, "eos_token_id": 50256},
    ),
    "facebook/opt-125m": Published(
        QUOTED,
        _opt(
            *(12, 12, 768),
            _remove_final_layer_norm=False,
            enable_bias=True,
            layer_norm_elementwise_affine=True,
        ),
    ),
    "facebook/opt-1.3b": Published(QUOTED, _opt(24, 32, 2048)),
    "facebook/opt-6.7b": Published(QUOTED, _opt(32, 32, 4096, _remove_final_layer_norm=False)),
    "KoboldAI/OPT-6.7B-Erebus": Published(
        "Harryshaft8/https-huggingface.co-KoboldAI-OPT-6.7B-Erebus",
        _opt(
            *(40, 40, 5120),
            _remove_final_layer_norm=False,
            antemplate="a template of the user interface",
            output_projection=True,
            vocab_size=50265,
            welcome="a text of the user interface",
        ),
    ),
    "huggyllama/llama-7b": Published(
        "yellowtree123/Deterministic-Differentiable-Pruning: llama-7b-hf",
        _llama(max_position_embeddings=2048, pad_token_id=0, rms_norm_eps=1e-6),
    ),
    "llama-7b, first conversion": Published(
        NOT_FOUND, _llama(max_sequence_length=2048, pad_token_id=-1, rms_norm_eps=1e-6)
    ),
    "meta-llama/Llama-2-7b-hf": Published(
        "HamZil/Llama-2-7b-hf",
        _llama(num_key_value_heads=32, pad_token_id=0, pretraining_tp=1, rope_scaling=None),
        {
            "bos_token_id": 1,
            "eos_token_id": 2,
            "max_length": 4096,
            "pad_token_id": 0,
            "temperature": 0.9,
            "top_p": 0.6,
        },
    ),
    "FlagAlpha/Atom-7B": Published(
        "HuengchI/Atom-7B",
        _llama(
            max_length=4096,
            num_key_value_heads=32,
            pad_token_id=2,
            pretraining_tp=1,
            rope_scaling=None,
            vocab_size=65000,
        ),
    ),
    "meta-llama/Llama-3.2-1B-Instruct": Published(
        "kevinstephano/thunder_model_blocks: hf_llama/llama_config.py",
        _llama3(
            eos_token_id=128001,
            head_dim=64,
            hidden_size=2048,
            intermediate_size=8192,
            num_hidden_layers=16,
            rope_scaling=LLAMA3_ROPE,
            tie_word_embeddings=True,
        ),
        {
            "bos_token_id": 128000,
            "do_sample": True,
            "eos_token_id": [128001, 128008, 128009],
            "temperature": 0.6,
            "top_p": 0.9,
        },
    ),
    "meta-llama/Llama-3.1-8B (base)": Published(
        "Max-Lee-explore/MythTrans-llama31-8B (generation_config.json)",
        _llama3(eos_token_id=128001, rope_scaling={**LLAMA3_ROPE, "factor": 8.0}),
        {
            "bos_token_id": 128000,
            "do_sample": True,
            "eos_token_id": 128001,
            "max_length": 131072,
            "pad_token_id": 128004,
            "temperature": 0.6,
            "top_p": 0.9,
        },
    ),
    "mattshumer/Reflection-Llama-3.1-70B": Published(
        "MiMiGame-1/Reflection-Llama-3.1-70B",
        _llama3(
            hidden_size=8192,
            intermediate_size=28672,
            max_position_embeddings=8192,
            num_attention_heads=64,
            num_hidden_layers=80,
            rope_scaling=None,
            vocab_size=128262,
        ),
    ),
    "01-ai/Yi-6B": Published(
        "InternLM/InternEvo-HFModels: huggingface_model/yi/yi_6B/configuration_yi.py",
        _llama(
            num_key_value_heads=4,
            pad_token_id=0,
            pretraining_tp=1,
            rope_scaling=None,
            rope_theta=5000000.0,
            vocab_size=64000,
        ),
    ),
    "prithivMLmods/Triangulum": Published(
        "PRITHIVSAKTHIUR/Triangulum",
        _llama(
            **BIASES,
            eos_token_id=11,
            head_dim=256,
            hidden_size=3072,
            intermediate_size=23040,
            max_position_embeddings=32768,
            num_attention_heads=12,
            num_hidden_layers=40,
            num_key_value_heads=4,
            pad_token_id=2023,
            rms_norm_eps=1e-6,
            rope_scaling=None,
            rope_theta=1000042,
            vocab_size=131072,
        ),
        {"eos_token_id": 11, "max_length": 32768, "pad_token_id": 2023},
    ),
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": Published(
        "swayam8624/nanoquant-private: TinyLlama-1.1B-Chat-v1.0",
        _llama(
            **BIASES,
            dtype="float32",
            head_dim=64,
            hidden_size=2048,
            intermediate_size=5632,
            max_position_embeddings=2048,
            num_hidden_layers=22,
            num_key_value_heads=4,
            rope_scaling=None,
            rope_theta=10000.0,
        ),
    ),
    "HuggingFaceTB/SmolLM-135M": Published(
        QUOTED, _llama(**{**SMOL, "max_position_embeddings": 2048, "rope_theta": 10000.0})
    ),
    "HuggingFaceTB/SmolLM2-135M": Published(
        QUOTED, _llama(**{**BIASES, **SMOL, "head_dim": 64, "rope_theta": 100000})
    ),
    "HuggingFaceTB/SmolLM2-360M": Published(
        "AtulDeshpande09/Fine-tuned-Economics-QA-using-smolLM: model",
        _llama(
            **{
                **BIASES,
                **SMOL,
                "head_dim": 64,
                "hidden_size": 960,
                "intermediate_size": 2560,
                "max_position_embeddings": 8192,
                "num_attention_heads": 15,
                "num_hidden_layers": 32,
                "num_key_value_heads": 5,
                "rope_theta": 100000,
                "vocab_size": 49153,
            }
        ),
        {"bos_token_id": 0, "eos_token_id": 0},
    ),
    "yanolja/EEVE-Korean-10.8B": Published(
        "KEA-5th-Myaong/kea_gen_model_ver2",
        _llama(
            **BIASES,
            eos_token_id=32000,
            head_dim=128,
            intermediate_size=14336,
            num_hidden_layers=48,
            num_key_value_heads=8,
            rope_scaling=None,
            rope_theta=10000.0,
            vocab_size=40960,
        ),
    ),
    "canopylabs/orpheus-3b, 4 bits": Published(
        "DocWobble/Orpheus_3B_Quantized",
        _llama3(
            quantization_config={"load_in_4bit": True, "quant_method": "bitsandbytes"},
            unsloth_fixed=True,
            pad_token_id=128004,
        ),
    ),
    "mistralai/Mistral-7B-v0.1": Published(
        QUOTED,
        _llama("mistral", "MistralForCausalLM", **MISTRAL, rope_theta=10000.0, sliding_window=4096),
    ),
    "mistralai/Mistral-7B-Instruct-v0.2": Published(
        "MonilSompura/MistralAI",
        _llama(
            "mistral", "MistralForCausalLM", **MISTRAL, rope_theta=1000000.0, sliding_window=None
        ),
    ),
    "cognitivecomputations/Dolphin3.0-R1-Mistral-24B": Published(
        "gsasouza/dolphin3-mistral",
        _llama(
            "mistral",
            "MistralForCausalLM",
            **{
                **MISTRAL,
                "eos_token_id": [2, 131072],
                "head_dim": 128,
                "hidden_size": 5120,
                "intermediate_size": 32768,
                "num_hidden_layers": 40,
                "rope_theta": 100000000.0,
                "sliding_window": None,
                "vocab_size": 131074,
            },
        ),
        {"bos_token_id": 1, "do_sample": True, "eos_token_id": [2, 131072], "temperature": 0.05},
    ),
    "Qwen/Qwen3-0.6B": Published(
        QUOTED, _llama("qwen3", "Qwen3ForCausalLM", head_dim=128, num_key_value_heads=8)
    ),
    "Qwen/Qwen2.5-0.5B": Published(
        QUOTED, _qwen2(896, 14, 2, 4864, 24, eos_token_id=151643, use_mrope=False)
    ),
    "Qwen/Qwen2.5-0.5B-Instruct": Published(
        f"{QUOTED}; 1235357/Backup_hf_sakura-14b-qwen2.5-v1.0-q6k (generation_config.json)",
        _qwen2(896, 14, 2, 4864, 24, max_window_layers=21),
        QWEN_CHAT,
        {"repetition_penalty": 1.0},
    ),
    "Qwen/Qwen2.5-1.5B-Instruct": Published(
        QUOTED, _qwen2(1536, 12, 2, 8960, 28, max_window_layers=21)
    ),
    "Qwen/Qwen2.5-1.5B-Instruct, of transformers 5": Published(
        QUOTED,
        {
            **_qwen2(1536, 12, 2, 8960, 28, max_window_layers=21, sliding_window=None),
            "layer_types": ["full_attention"] * 2,
            "pad_token_id": None,
            "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
        },
    ),
    "Qwen/Qwen2.5-1.5B, with YaRN": Published(
        "the model card's advice for long texts",
        _qwen2(1536, 12, 2, 8960, 28, rope_scaling=YARN),
    ),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": Published(
        QUOTED,
        _qwen2(
            *(3584, 28, 4, 18944, 28),
            eos_token_id=151643,
            max_position_embeddings=131072,
            rope_theta=10000,
            sliding_window=4096,
            tie_word_embeddings=False,
            use_mrope=False,
            vocab_size=152064,
        ),
    ),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B": Published(
        "Evilcarbon/DeepSeek-R1-Distill-Qwen-32B",
        _qwen2(
            *(5120, 40, 8, 27648, 64),
            eos_token_id=151643,
            max_position_embeddings=131072,
            rms_norm_eps=1e-5,
            sliding_window=131072,
            tie_word_embeddings=False,
            vocab_size=152064,
        ),
        {
            "bos_token_id": 151646,
            "do_sample": True,
            "eos_token_id": 151643,
            "temperature": 0.6,
            "top_p": 0.95,
        },
    ),
    "google/gemma-2b-it": Published(
        QUOTED,
        _llama(
            "gemma",
            "GemmaForCausalLM",
            attention_bias=False,
            attention_dropout=0.0,
            bos_token_id=2,
            eos_token_id=1,
            head_dim=256,
            hidden_act="gelu",
            hidden_size=2048,
            intermediate_size=16384,
            max_position_embeddings=8192,
            num_attention_heads=8,
            num_hidden_layers=18,
            num_key_value_heads=1,
            pad_token_id=0,
            rms_norm_eps=1e-6,
            rope_scaling=None,
            rope_theta=10000.0,
            tie_word_embeddings=True,
            vocab_size=256000,
        ),
    ),
    "google/gemma-2-2b": Published(
        "Ayush2006128/mithoon-2b",
        _llama("gemma2", "Gemma2ForCausalLM", attn_logit_softcapping=50.0),
    ),
    "bigscience/bloomz": Published(
        "Elainedu/pretrained-models", {"model_type": "bloom", "n_head": 16}
    ),
    "bigcode/starcoder": Published(
        "Decentralised-AI/WizardCoder-15B-1.0-GPTQ", {"model_type": "gpt_bigcode", "n_head": 48}
    ),
    "stabilityai/stablelm-zephyr-3b": Published(
        "IgorRodrigues882/Projeto-IA-propria", {"model_type": "stablelm_epoch", "rope_pct": 0.25}
    ),
    "google/pegasus-x-base": Published(
        "2002Mayankrana/summarization", {**_pegasus(), "model_type": "pegasus_x"}
    ),
    "bert-base-uncased, classifier": Published(
        "lukyanchikov/NLP: bert-base-uncased",
        _bert(
            "bert",
            "BertForSequenceClassification",
            classifier_dropout=None,
            gradient_checkpointing=False,
            layer_norm_eps=1e-12,
            pad_token_id=0,
            position_embedding_type="absolute",
            problem_type="single_label_classification",
            use_cache=True,
            vocab_size=30522,
        ),
    ),
    "bert-base-uncased": Published(
        "akorshun/pytorch_transformers_ner: bert-base-uncased",
        _bert("bert", "BertForMaskedLM", layer_norm_eps=1e-12, pad_token_id=0, vocab_size=30522),
    ),
    "bert-base-multilingual-cased": Published(
        "akorshun/pytorch_transformers_ner: bert-base-multilingual-cased",
        _bert(
            "bert",
            "BertForMaskedLM",
            directionality="bidi",
            layer_norm_eps=1e-12,
            pad_token_id=0,
            pooler_fc_size=768,
            pooler_num_attention_heads=12,
            pooler_num_fc_layers=3,
            pooler_size_per_head=128,
            pooler_type="first_token_transform",
            vocab_size=119547,
        ),
    ),
    "google/electra-small-discriminator": Published(
        "pooh1263/workspace: electra-small-discriminator",
        _bert("electra", "ElectraForPreTraining", embedding_size=128, hidden_size=256),
    ),
    "bert-base-chinese": Published(
        "jxlin98/CWS: bert-base-chinese",
        _bert(
            "bert",
            "BertForMaskedLM",
            cls_token_id=101,
            directionality="bidi",
            pooler_fc_size=768,
            pooler_num_attention_heads=12,
            pooler_num_fc_layers=3,
            pooler_size_per_head=128,
            pooler_type="first_token_transform",
            sep_token_id=102,
            vocab_size=21128,
        ),
    ),
    "roberta-base": Published(
        QUOTED,
        _roberta(
            "roberta",
            "RobertaForMaskedLM",
            _attn_implementation_autoset=True,
            classifier_dropout=None,
            position_embedding_type="absolute",
            use_cache=True,
            vocab_size=50265,
        ),
    ),
    "deepset/roberta-base-squad2": Published(
        "AbidHasan95/roberta-base-squad2",
        _roberta("roberta", "RobertaForQuestionAnswering", language="english", name="Roberta"),
    ),
    "klue/roberta-large": Published(
        QUOTED,
        _roberta(
            "roberta",
            "RobertaForMaskedLM",
            gradient_checkpointing=False,
            hidden_size=1024,
            intermediate_size=4096,
            num_attention_heads=16,
            num_hidden_layers=24,
            vocab_size=32000,
        ),
    ),
    "xlm-roberta-base, classifier": Published(
        QUOTED,
        _roberta(
            "xlm-roberta",
            "XLMRobertaForSequenceClassification",
            output_past=True,
            position_embedding_type="absolute",
            use_cache=True,
            vocab_size=250002,
        ),
    ),
    "camembert-base": Published(
        NOT_FOUND, _roberta("camembert", "CamembertForMaskedLM", output_past=True, vocab_size=32005)
    ),
    "BandaiNamco/DistilBERT-base-jp": Published(
        "BandaiNamcoResearchInc/DistilBERT-base-jp",
        {
            "model_type": "distilbert",
            "architectures": None,
            "activation": "gelu",
            "attention_dropout": 0.1,
            "bos_token_id": 0,
            "dim": 768,
            "do_sample": False,
            "dropout": 0.1,
            "eos_token_ids": 0,
            "finetuning_task": None,
            "hidden_dim": 3072,
            "initializer_range": 0.02,
            "is_decoder": False,
            "length_penalty": 1.0,
            "max_length": 20,
            "max_position_embeddings": 512,
            "n_heads": 12,
            "n_layers": 6,
            "num_beams": 1,
            "num_return_sequences": 1,
            "output_hidden_states": True,
            "output_past": True,
            "pad_token_id": 0,
            "pruned_heads": {},
            "qa_dropout": 0.1,
            "repetition_penalty": 1.0,
            "seq_classif_dropout": 0.2,
            "sinusoidal_pos_embds": True,
            "temperature": 1.0,
            "tie_weights_": True,
            "top_k": 50,
            "top_p": 1.0,
            "torchscript": False,
            "vocab_size": 32000,
        },
    ),
    "distilbert-base-uncased": Published(
        QUOTED,
        {
            "model_type": "distilbert",
            "architectures": ["DistilBertForMaskedLM"],
            "activation": "gelu",
            "attention_dropout": 0.1,
            "bad_words_ids": None,
            "bos_token_id": None,
            "decoder_start_token_id": None,
            "dim": 768,
            "diversity_penalty": 0,
            "do_sample": False,
            "dropout": 0.1,
            "early_stopping": False,
            "encoder_no_repeat_ngram_size": 0,
            "eos_token_id": None,
            "hidden_dim": 3072,
            "initializer_range": 0.02,
            "max_position_embeddings": 512,
            "n_heads": 12,
            "n_layers": 6,
            "pad_token_id": 0,
            "qa_dropout": 0.1,
            "seq_classif_dropout": 0.2,
            "sinusoidal_pos_embds": False,
            "tie_weights_": True,
            "vocab_size": 30522,
        },
    ),
}
