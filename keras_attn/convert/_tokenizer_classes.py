"""Tokenizer classes in transformers 5: the parts of `tokenizer.json` that each class replaces.

A class builds its normalizer, pre-tokenizer and decoder from `tokenizer_config.json`. Only the
vocabulary, the merges, the character map and, if the class defines none, the post-processor come
from `tokenizer.json`. The values are those in `transformers/models/*/tokenization_*.py`,
transformers 5.24.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

GENERIC = ("TokenizersBackend", "PreTrainedTokenizer", "MT5Tokenizer")
"""Classes that use `tokenizer.json` unchanged. The last one does not exist in transformers 5."""

OVERRULED = ("qwen2",)
"""Model types whose class transformers uses, whatever the files name."""

MASK = {"content": "<mask>", "lstrip": True, "normalized": True}
"""The mask token in multilingual models, which includes the space before it."""

_QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Word pattern in the Qwen2 tokenizer."""


@dataclasses.dataclass(frozen=True)
class TokenizerClass:
    """A tokenizer class.

    Args:
        tokens: Dict from special token names to defaults: strings, or dicts of `AddedToken`
            arguments.
        parts: Function `(json, config, tokens)` that receives `tokenizer.json`,
            `tokenizer_config.json` and the special tokens. It returns the parts of `tokenizer.json`
            that the class replaces.
        around: Pair of tuples, names of the special tokens before and after a text. Defaults to
            `None`: the post-processor in `tokenizer.json` adds the tokens.
        extra: Function `(config)` that returns the default `additional_special_tokens`.
    """

    tokens: Mapping[str, Any]
    parts: Callable[[Any, Mapping[str, Any], Mapping[str, str]], dict[str, Any]]
    around: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    extra: Callable[[Mapping[str, Any]], list[str]] = lambda config: []


def find_tokenizer_class(config: Mapping[str, Any], tokenizer: Mapping[str, Any], json: Any) -> str:
    """Returns the name of the class that `AutoTokenizer` in transformers 5.24 selects.

    Args:
        config: Dict, `config.json`.
        tokenizer: Dict, `tokenizer_config.json`.
        json: Dict, `tokenizer.json`, or `None`.

    Returns:
        String, a key in `TOKENIZER_CLASSES`, `"TokenizersBackend"`, or the name of another class.
    """
    named = tokenizer.get("tokenizer_class") or config.get("tokenizer_class")
    model_type = config.get("model_type")
    default = CLASS_OF_TYPE.get(str(model_type), "TokenizersBackend")
    if named is None:
        return default
    named = str(named).removesuffix("Fast")
    named = SAME_CLASS.get(named, named)
    if model_type in OVERRULED:
        return default
    if named in GENERIC or (named == "LlamaTokenizer" and _is_byte_level(json)):
        return "TokenizersBackend"
    if named != default and default == "TokenizersBackend" and model_type in CLASS_OF_TYPE:
        return default
    return named


def _is_byte_level(json: Any) -> bool:
    parts = [(json or {}).get(name) or {} for name in ("pre_tokenizer", "decoder")]
    nested = [
        inner
        for part in parts
        for key in ("pretokenizers", "decoders")
        for inner in part.get(key, [])
    ]
    return any(part.get("type") == "ByteLevel" for part in [*parts, *nested])


def precompiled(normalizer: Any) -> list[dict[str, Any]]:
    """Returns a list with a normalizer's SentencePiece character map, if it has one."""
    normalizer = normalizer or {}
    parts = normalizer.get("normalizers", [normalizer])
    return [part for part in parts if part.get("type") == "Precompiled"][:1]


def _metaspace(scheme="always", **options):
    return {
        "type": "Metaspace",
        "replacement": "▁",
        "prepend_scheme": scheme,
        "split": True,
        **options,
    }


def _sequence(key, *parts):
    kinds = {"normalizers": "Sequence", "pretokenizers": "Sequence", "decoders": "Sequence"}
    return {"type": kinds[key], key: list(parts)}


def _replace(pattern, content):
    return {"type": "Replace", "pattern": pattern, "content": content}


_ONE_SPACE = _replace({"Regex": " {2,}"}, " ")
_BYTES = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
_FROM_BYTES = (_replace({"String": "▁"}, " "), {"type": "ByteFallback"}, {"type": "Fuse"})


def _bpe(json, **options):
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
    }
    saved = json["model"]
    return {**model, **options, "vocab": saved["vocab"], "merges": saved["merges"]}


def _unigram(json, unk_id):
    vocab = json["model"]["vocab"]
    return {"type": "Unigram", "unk_id": unk_id, "vocab": vocab, "byte_fallback": False}


def _position(json, piece):
    """Returns a piece's position in a unigram vocabulary."""
    return next((at for at, (name, _) in enumerate(json["model"]["vocab"]) if name == piece), 0)


def _bert(json, config, tokens):
    get = config.get
    normalizer = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": get("tokenize_chinese_chars", True),
        "strip_accents": get("strip_accents"),
        "lowercase": get("do_lower_case", True),
    }
    model = {
        "type": "WordPiece",
        "unk_token": tokens["unk_token"],
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": json["model"]["vocab"],
    }
    return {
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": model,
    }


def _byte_level(json, config, tokens):
    return {
        "normalizer": None,
        "pre_tokenizer": {**_BYTES, "add_prefix_space": bool(config.get("add_prefix_space"))},
        "decoder": _BYTES,
        "model": _bpe(json, continuing_subword_prefix="", end_of_word_suffix=""),
    }


def _qwen2(json, config, tokens):
    words = {
        "type": "Split",
        "pattern": {"Regex": _QWEN2_SPLIT},
        "behavior": "Isolated",
        "invert": False,
    }
    prefix = bool(config.get("add_prefix_space"))
    to_bytes = {**_BYTES, "add_prefix_space": prefix, "use_regex": False}
    return {
        **_byte_level(json, config, tokens),
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": _sequence("pretokenizers", words, to_bytes),
    }


def _llama(json, config, tokens):
    has_prefix = config.get("add_prefix_space")
    has_prefix = has_prefix is None or bool(has_prefix)
    scheme = "always" if config.get("legacy", False) else "first"
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if has_prefix else []
    return {
        "normalizer": None,
        "pre_tokenizer": _metaspace(scheme if has_prefix else "never", split=False),
        "decoder": _sequence("decoders", *_FROM_BYTES, *strip),
        "model": _bpe(json, fuse_unk=True, byte_fallback=True),
    }


def _gemma(json, config, tokens):
    split = {
        "type": "Split",
        "pattern": {"String": " "},
        "behavior": "MergedWithPrevious",
        "invert": False,
    }
    unknown = tokens["unk_token"]
    return {
        "normalizer": _replace({"String": " "}, "▁"),
        "pre_tokenizer": split,
        "decoder": _sequence("decoders", *_FROM_BYTES),
        "model": _bpe(json, unk_token=unknown, fuse_unk=True, byte_fallback=True),
    }


def _words(json, unk_id, scheme="always"):
    return {
        "normalizer": next(iter(precompiled(json.get("normalizer"))), None),
        "pre_tokenizer": _sequence(
            "pretokenizers", {"type": "WhitespaceSplit"}, _metaspace(scheme)
        ),
        "decoder": _metaspace(scheme),
        "model": _unigram(json, unk_id),
    }


def _scheme(config):
    return "always" if config.get("add_prefix_space", True) else "never"


def _mbart50(json, config, tokens, model=None):
    normalizers = [*precompiled(json.get("normalizer")), _ONE_SPACE]
    return {
        "normalizer": _sequence("normalizers", *normalizers),
        "pre_tokenizer": _metaspace(),
        "decoder": _metaspace(),
        "model": model or _unigram(json, 3),
    }


def _nllb(json, config, tokens):
    model = _bpe(json, unk_token=tokens["unk_token"], fuse_unk=True)
    has_map = precompiled(json.get("normalizer"))
    parts = _mbart50(json, config, tokens, model)
    return parts if has_map else {**parts, "normalizer": None}


def _pegasus(json, config, tokens):
    model = _unigram(json, _position(json, tokens["unk_token"]))
    parts = _mbart50(json, config, tokens, model)
    if precompiled(json.get("normalizer")):
        return parts
    lines = _replace({"Regex": "\n"}, " ")
    return {**parts, "normalizer": _sequence("normalizers", lines, _ONE_SPACE)}


def pegasus_tokens(config: Mapping[str, Any]) -> list[str]:
    """Returns the Pegasus tokens that occur only in pretraining."""
    number = config.get("offset", 103)
    return ["<mask_1>", *(f"<unk_{index}>" for index in range(2, number))]


def sentinels(config: Mapping[str, Any]) -> list[str]:
    """Returns T5's sentinels."""
    return [f"<extra_id_{number}>" for number in range(config.get("extra_ids", 100))]


_ENDS = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
_ROBERTA = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "sep_token": "</s>",
    "pad_token": "<pad>",
    "cls_token": "<s>",
    "mask_token": "<mask>",
}
_MBART50 = {name: token for name, token in _ROBERTA.items() if name != "bos_token"}

TOKENIZER_CLASSES = {
    "BertTokenizer": TokenizerClass(
        {
            "unk_token": "[UNK]",
            "sep_token": "[SEP]",
            "pad_token": "[PAD]",
            "cls_token": "[CLS]",
            "mask_token": "[MASK]",
        },
        _bert,
        (("cls_token",), ("sep_token",)),
    ),
    "CamembertTokenizer": TokenizerClass(
        {**_ROBERTA, "mask_token": {**MASK, "normalized": False}},
        lambda json, config, tokens: _words(
            json, _position(json, tokens["unk_token"]), _scheme(config)
        ),
        (("bos_token",), ("eos_token",)),
        lambda config: ["<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"],
    ),
    "GPT2Tokenizer": TokenizerClass(
        dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>"), _byte_level
    ),
    "GemmaTokenizer": TokenizerClass(
        {
            "bos_token": "<bos>",
            "eos_token": "<eos>",
            "unk_token": "<unk>",
            "pad_token": "<pad>",
            "mask_token": "<mask>",
        },
        _gemma,
    ),
    "LlamaTokenizer": TokenizerClass(
        {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}, _llama
    ),
    "M2M100Tokenizer": TokenizerClass(
        {name: token for name, token in _MBART50.items() if name[:4] not in ("mask", "cls_")}
        | {"bos_token": "<s>"},
        lambda json, config, tokens: {},
    ),
    "MBart50Tokenizer": TokenizerClass({**_MBART50, "mask_token": MASK}, _mbart50),
    "MBartTokenizer": TokenizerClass(
        {**_ROBERTA, "mask_token": MASK},
        lambda json, config, tokens: {**_words(json, 3), "normalizer": None},
    ),
    "MarianTokenizer": TokenizerClass(_ENDS, lambda json, config, tokens: {}),
    "NllbTokenizer": TokenizerClass({**_ROBERTA, "mask_token": MASK}, _nllb),
    "PegasusTokenizer": TokenizerClass(
        {**_ENDS, "mask_token": "<mask_2>", "mask_token_sent": "<mask_1>"},
        _pegasus,
        ((), ("eos_token",)),
        pegasus_tokens,
    ),
    "Qwen2Tokenizer": TokenizerClass(
        dict.fromkeys(("eos_token", "unk_token", "pad_token"), "<|endoftext|>"), _qwen2
    ),
    "RobertaTokenizer": TokenizerClass(_ROBERTA, _byte_level, (("cls_token",), ("sep_token",))),
    "T5Tokenizer": TokenizerClass(
        _ENDS,
        lambda json, config, tokens: _words(json, 2),
        ((), ("eos_token",)),
        sentinels,
    ),
    "TokenizersBackend": TokenizerClass({}, lambda json, config, tokens: {}),
    "XLMRobertaTokenizer": TokenizerClass(
        _ROBERTA,
        lambda json, config, tokens: _words(json, 3, _scheme(config)),
        (("bos_token",), ("eos_token",)),
    ),
}
"""Dict from convertible tokenizer classes to their parts."""

SAME_CLASS = {
    "BartTokenizer": "RobertaTokenizer",
    "DistilBertTokenizer": "BertTokenizer",
}
"""Dict from class names to names of equal classes."""

CLASS_OF_TYPE = {
    "bart": "RobertaTokenizer",
    "bert": "BertTokenizer",
    "camembert": "CamembertTokenizer",
    "distilbert": "BertTokenizer",
    "gemma": "GemmaTokenizer",
    "gpt2": "GPT2Tokenizer",
    "m2m_100": "M2M100Tokenizer",
    "marian": "MarianTokenizer",
    "mbart": "MBartTokenizer",
    "mistral": "TokenizersBackend",
    "mt5": "T5Tokenizer",
    "opt": "GPT2Tokenizer",
    "pegasus": "PegasusTokenizer",
    "qwen2": "Qwen2Tokenizer",
    "roberta": "RobertaTokenizer",
    "t5": "T5Tokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
}
"""Dict from model types to the tokenizer class for files that name none."""
