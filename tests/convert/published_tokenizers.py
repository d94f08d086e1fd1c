"""Settings of published tokenizers: the keys of their JSON files, and where they were read.

The tables contain `tokenizer_config.json` and `special_tokens_map.json`, without paths, chat
templates, `added_tokens_decoder` and most of the long lists of special tokens. A source is the
repository on GitHub with a copy of the files.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class PublishedTokenizer:
    """Settings of a tokenizer.

    Args:
        source: String, the copy of the files.
        model_type: String, `model_type` in `config.json`.
        kind: String, the vocabulary: `"bytes"`, `"words"`, `"metaspace"` or `"unigram"` of a
            `tokenizer.json`, or `"sentencepiece"`.
        config: Dict, the keys of `tokenizer_config.json`.
        special: Dict, the keys of `special_tokens_map.json`. Empty if there is no such file.
    """

    source: str
    model_type: str
    kind: str
    config: Mapping[str, Any]
    special: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def _token(content, **changed):
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    return {"content": content, **flags, **changed}


def _typed(content):
    """The form of releases before 4.34 of transformers."""
    return _token(content, normalized=True, __type="AddedToken")


MASK = _token("<mask>", lstrip=True)
UNLIMITED = 1000000000000000019884624838656
ENDS = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
ROBERTA = {"bos_token": "<s>", "cls_token": "<s>", "sep_token": "</s>", **ENDS}
BERT = {
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
    "pad_token": "[PAD]",
    "sep_token": "[SEP]",
    "unk_token": "[UNK]",
}
BERT_OPTIONS = {
    "do_basic_tokenize": True,
    "do_lower_case": True,
    "never_split": None,
    "strip_accents": None,
    "tokenize_chinese_chars": True,
}
LLAMA = {
    "add_bos_token": True,
    "add_eos_token": False,
    "bos_token": "<s>",
    "clean_up_tokenization_spaces": False,
    "eos_token": "</s>",
    "model_max_length": UNLIMITED,
    "pad_token": None,
    "sp_model_kwargs": {},
    "tokenizer_class": "LlamaTokenizer",
    "unk_token": "<unk>",
}
LLAMA_TYPED = {name: _typed(LLAMA[name]) for name in ("bos_token", "eos_token", "unk_token")}
QWEN = {
    "add_bos_token": False,
    "add_prefix_space": False,
    "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
    "bos_token": None,
    "chat_template": "{{ messages }}",
    "clean_up_tokenization_spaces": False,
    "eos_token": "<|im_end|>",
    "errors": "replace",
    "model_max_length": 131072,
    "pad_token": "<|endoftext|>",
    "split_special_tokens": False,
    "tokenizer_class": "Qwen2Tokenizer",
    "unk_token": None,
}
DEEPSEEK = ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>")
MARIAN = {
    "clean_up_tokenization_spaces": False,
    **ENDS,
    "model_max_length": 512,
    "separate_vocabs": False,
    "source_lang": "en",
    "sp_model_kwargs": {},
    "target_lang": "fr",
    "tokenizer_class": "MarianTokenizer",
}

PUBLISHED_TOKENIZERS = {
    "bert-base-uncased": PublishedTokenizer(
        "akorshun/pytorch_transformers_ner: bert-base-uncased",
        *("bert", "words"),
        {**BERT, **BERT_OPTIONS, "model_max_length": 512, "special_tokens_map_file": None},
    ),
    "distilbert-base-uncased": PublishedTokenizer(
        "SayamAlt/Mental-Health-Classification-using-fine-tuned-DistilBERT: tokenizer",
        *("distilbert", "words"),
        {
            **BERT,
            **BERT_OPTIONS,
            "clean_up_tokenization_spaces": True,
            "max_length": 512,
            "model_max_length": 512,
            "stride": 0,
            "tokenizer_class": "DistilBertTokenizer",
            "truncation_side": "right",
            "truncation_strategy": "longest_first",
        },
        {name: _token(token) for name, token in BERT.items()},
    ),
    "fnlp/bart-base-chinese": PublishedTokenizer(
        "Hamletlx/BART_Modern_Classical_Chinese_Translation: bart_base_chinese",
        *("bart", "words"),
        {
            **BERT,
            **BERT_OPTIONS,
            "bos_token": "[CLS]",
            "clean_up_tokenization_spaces": True,
            "do_lower_case": False,
            "eos_token": "[EOS]",
            "tokenizer_class": "BertTokenizer",
            "tokenizer_file": None,
        },
        {**BERT, "bos_token": "[CLS]", "eos_token": "[EOS]"},
    ),
    "facebook/bart-large-cnn": PublishedTokenizer(
        "Praneeth2002/finetuning-LLM-for-summarization: facebook/bart-large-cnn",
        *("bart", "bytes"),
        {
            **ROBERTA,
            "add_prefix_space": False,
            "errors": "replace",
            "mask_token": "<mask>",
            "model_max_length": 1024,
            "name_or_path": "facebook/bart-large-cnn",
            "tokenizer_class": "BartTokenizer",
            "trim_offsets": True,
        },
        {**ROBERTA, "mask_token": MASK},
    ),
    "sshleifer/distilbart-cnn-12-6": PublishedTokenizer(
        "Suraj28295/News_Summerization_App: tokenizer",
        *("bart", "bytes"),
        {
            **{name: _typed(token) for name, token in ROBERTA.items()},
            "add_prefix_space": False,
            "errors": "replace",
            "mask_token": {**MASK, "normalized": True, "__type": "AddedToken"},
            "model_max_length": 1024,
            "tokenizer_class": "BartTokenizer",
        },
    ),
    "deepset/roberta-base-squad2": PublishedTokenizer(
        "AbidHasan95/roberta-base-squad2",
        *("roberta", "bytes"),
        {"do_lower_case": False, "full_tokenizer_file": None, "model_max_length": 512},
        {name: _token(token, normalized=True) for name, token in ROBERTA.items()},
    ),
    "microsoft/DialoGPT-small": PublishedTokenizer(
        "CHJCHJCH/microsoft-DialoGPT-small",
        *("gpt2", "bytes"),
        {
            **dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>"),
            "add_bos_token": False,
            "add_prefix_space": False,
            "chat_template": "{{ messages }}",
            "clean_up_tokenization_spaces": True,
            "errors": "replace",
            "model_max_length": 1024,
            "pad_token": None,
            "tokenizer_class": "GPT2Tokenizer",
        },
    ),
    "facebook/opt-13b": PublishedTokenizer(
        "Harryshaft8/https-huggingface.co-KoboldAI-OPT-6.7B-Erebus",
        *("opt", "bytes"),
        {
            **dict.fromkeys(("bos_token", "eos_token", "unk_token"), _typed("</s>")),
            "add_bos_token": True,
            "add_prefix_space": False,
            "errors": "replace",
            "pad_token": _typed("<pad>"),
            "tokenizer_class": "GPT2Tokenizer",
        },
    ),
    "HuggingFaceTB/SmolLM2-360M": PublishedTokenizer(
        "AtulDeshpande09/Fine-tuned-Economics-QA-using-smolLM: model",
        *("llama", "bytes"),
        {
            **dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>"),
            "add_prefix_space": False,
            "additional_special_tokens": ["<|endoftext|>", "<|im_start|>"],
            "clean_up_tokenization_spaces": False,
            "extra_special_tokens": {},
            "model_max_length": 8192,
            "pad_token": "[PAD]",
            "tokenizer_class": "GPT2Tokenizer",
            "vocab_size": 49152,
        },
    ),
    "prithivMLmods/Triangulum": PublishedTokenizer(
        "PRITHIVSAKTHIUR/Triangulum",
        *("llama", "bytes"),
        {
            "add_prefix_space": False,
            "additional_special_tokens": [">>TITLE<<", ">>ABSTRACT<<"],
            "clean_up_tokenization_spaces": True,
            "eos_token": "<|endoftext|>",
            "extra_special_tokens": {},
            "model_input_names": ["input_ids", "attention_mask"],
            "pad_token": "<|pad|>",
            "padding_side": "left",
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
    ),
    "Qwen/Qwen2.5-0.5B-Instruct": PublishedTokenizer(
        "microsoft/onnxruntime-extensions: test/data/qwen2.5", *("qwen2", "bytes"), QWEN
    ),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B": PublishedTokenizer(
        "Evilcarbon/DeepSeek-R1-Distill-Qwen-32B",
        *("qwen2", "bytes"),
        {
            **LLAMA,
            "bos_token": _typed(DEEPSEEK[0]),
            "eos_token": _typed(DEEPSEEK[1]),
            "legacy": True,
            "pad_token": _typed(DEEPSEEK[1]),
            "tokenizer_class": "LlamaTokenizerFast",
            "unk_token": None,
        },
    ),
    "meta-llama/Llama-2-7b-hf": PublishedTokenizer(
        "microsoft/onnxruntime-extensions: test/data/llama2",
        *("llama", "metaspace"),
        {**LLAMA, **LLAMA_TYPED},
    ),
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": PublishedTokenizer(
        "swayam8624/nanoquant-private: TinyLlama-1.1B-Chat-v1.0",
        *("llama", "metaspace"),
        {
            **LLAMA,
            "add_prefix_space": None,
            "extra_special_tokens": {},
            "legacy": False,
            "pad_token": "</s>",
            "padding_side": "right",
            "use_default_system_prompt": False,
        },
    ),
    "1rin/openllama-chinese-english-3b": PublishedTokenizer(
        "1rin/openllama-chinese-english-3b",
        *("llama", "metaspace"),
        {**LLAMA, **LLAMA_TYPED, "model_max_length": 1024, "padding_side": "right"},
        {"bos_token": "</s>", "eos_token": "</s>", "pad_token": "[PAD]", "unk_token": "</s>"},
    ),
    "a Vicuna 13B": PublishedTokenizer(
        "CNMagicturtle/vincuna-13b",
        *("llama", "metaspace"),
        {
            **LLAMA,
            **LLAMA_TYPED,
            **dict.fromkeys(("cls_token", "mask_token", "sep_token", "strip_accents")),
            **dict.fromkeys(("end_n_top", "never_split", "start_n_top")),
            "do_basic_tokenize": True,
            "do_lower_case": False,
            "handle_chinese_chars": True,
            "pad_token": _typed("[PAD]"),
            "wordpieces_prefix": "##",
        },
    ),
    "mistralai/Mistral-7B-Instruct-v0.2": PublishedTokenizer(
        "MonilSompura/MistralAI",
        *("mistral", "metaspace"),
        {
            **LLAMA,
            "additional_special_tokens": [],
            "legacy": True,
            "spaces_between_special_tokens": False,
            "use_default_system_prompt": False,
        },
    ),
    "a fine-tuned Mistral-7B-v0.1": PublishedTokenizer(
        "NealKapadia/summarizer",
        *("mistral", "metaspace"),
        {
            **LLAMA,
            "additional_special_tokens": ["<unk>", "<s>", "</s>"],
            "eos_token": "<|im_end|>",
            "legacy": True,
            "trust_remote_code": False,
            "use_default_system_prompt": True,
            "use_fast": True,
        },
    ),
    "google/gemma-2b-it": PublishedTokenizer(
        "microsoft/onnxruntime-extensions: test/data/gemma",
        *("gemma", "metaspace"),
        {
            **LLAMA,
            "additional_special_tokens": ["<start_of_turn>", "<end_of_turn>"],
            "bos_token": "<s>",
            "legacy": None,
            "spaces_between_special_tokens": False,
            "tokenizer_class": "GemmaTokenizer",
            "use_default_system_prompt": False,
        },
    ),
    "google/mt5-small": PublishedTokenizer(
        "Ankurmishra05/bhasha-ai",
        *("mt5", "sentencepiece"),
        {
            **ENDS,
            "add_prefix_space": True,
            "additional_special_tokens": [],
            "extra_ids": 0,
            "extra_special_tokens": {},
            "legacy": True,
            "sp_model_kwargs": {},
            "tokenizer_class": "MT5Tokenizer",
        },
    ),
    "t5-small": PublishedTokenizer(
        "microsoft/onnxruntime-extensions: test/data/tokenizer/t5-small",
        *("t5", "sentencepiece"),
        {
            **ENDS,
            "additional_special_tokens": [f"<extra_id_{number}>" for number in range(100)],
            "clean_up_tokenization_spaces": True,
            "extra_ids": 100,
            "model_max_length": 512,
            "tokenizer_class": "T5Tokenizer",
        },
    ),
    "google/pegasus-arxiv": PublishedTokenizer(
        "Praneeth2002/finetuning-LLM-for-summarization: google/pegasus-arxiv/checkpoint-210",
        *("pegasus", "sentencepiece"),
        {
            **ENDS,
            "additional_special_tokens": ["<mask_1>", *(f"<unk_{n}>" for n in range(2, 103))],
            "full_tokenizer_file": None,
            "mask_token": "<mask_2>",
            "mask_token_sent": "<mask_1>",
            "offset": 103,
            "sp_model_kwargs": {},
            "tokenizer_class": "PegasusTokenizer",
        },
    ),
    "Helsinki-NLP/opus-mt-en-fr, fine-tuned": PublishedTokenizer(
        "Karthik-MP/hugging_face_translations",
        *("marian", "sentencepiece"),
        {**MARIAN, "return_tensors": "pt"},
        ENDS,
    ),
    "facebook/nllb-200-1.3B": PublishedTokenizer(
        "bigdataai-lab/nllb-200-1.3B",
        *("m2m_100", "sentencepiece"),
        {
            **ROBERTA,
            "additional_special_tokens": None,
            "mask_token": {**MASK, "normalized": True, "__type": "AddedToken"},
            "sp_model_kwargs": {},
            "src_lang": None,
            "tgt_lang": None,
            "tokenizer_class": "NllbTokenizer",
        },
        {**ROBERTA, "additional_special_tokens": ["ace_Arab", "ace_Latn"], "mask_token": MASK},
    ),
    "facebook/m2m100_418M": PublishedTokenizer(
        "GiorgosPapado/m2m_onnx_with_combined_sessions",
        *("m2m_100", "sentencepiece"),
        {
            **ENDS,
            "additional_special_tokens": ["__af__", "__am__"],
            "bos_token": "<s>",
            "clean_up_tokenization_spaces": True,
            "language_codes": "m2m100",
            "num_madeup_words": 8,
            "sep_token": "</s>",
            "sp_model_kwargs": {},
            "src_lang": "en",
            "tgt_lang": None,
            "tokenizer_class": "M2M100Tokenizer",
        },
    ),
    "facebook/mbart-large-50-many-to-many-mmt": PublishedTokenizer(
        "wusongbai139/AnyCaption: mbart-large-50-many-to-many-mmt",
        *("mbart", "sentencepiece"),
        {
            **ROBERTA,
            "language_codes": "ML50",
            "mask_token": {**MASK, "normalized": True, "__type": "AddedToken"},
            "src_lang": None,
            "tgt_lang": None,
            "tokenizer_class": "MBart50Tokenizer",
            "tokenizer_file": None,
        },
        {**ROBERTA, "additional_special_tokens": ["ar_AR", "cs_CZ"], "mask_token": "<mask>"},
    ),
    "Babelscape/mrebel-large": PublishedTokenizer(
        "eiAlex/mrebel-large",
        *("mbart", "sentencepiece"),
        {
            **ROBERTA,
            "additional_special_tokens": ["<triplet>", "<relation>"],
            "sp_model_kwargs": {},
            "src_lang": None,
            "tgt_lang": "tp_XX",
            "tokenizer_class": "MBart50Tokenizer",
            "use_fast": True,
        },
    ),
}
