"""Tokenizer settings: the treatment of each key in their JSON files."""

from collections.abc import Iterable, Mapping
from typing import Any

from keras_attn.convert._checkpoint import Checkpoint
from keras_attn.convert._settings import (
    Setting,
    Settings,
    irrelevant,
    mapped,
    refused,
    refused_unless,
)
from keras_attn.convert._tokenizer_classes import CLASS_OF_TYPE, TOKENIZER_CLASSES
from keras_attn.convert._tokenizer_files import (
    ADDED_TOKENS,
    NAMES,
    SPECIAL_TOKENS_MAP,
    TOKENIZER_CONFIG,
    TOKENIZER_JSON,
    TokenizerFiles,
    is_named_token,
)

_TOKENS = mapped("special tokens: added_tokens, or tokens of tokenizer.json")
_PYTHON = irrelevant("only used by the Python classes of transformers")
_LENGTHS = irrelevant("the caller pads and truncates, and makes arrays")
_LOADING = irrelevant("only used to find or load the files")
_CHAT = irrelevant("the caller applies chat templates")
_AROUND = irrelevant("the post-processor of tokenizer.json, or the class, adds the tokens")
_EARLIER = irrelevant("not read by transformers 5 or by the library tokenizers")
_OTHER_CLASS = irrelevant("not read by this tokenizer class")

COMMON: dict[str, Setting] = {
    **dict.fromkeys((*NAMES, "added_tokens_decoder", "extra_special_tokens"), _TOKENS),
    "additional_special_tokens": _TOKENS,
    "model_specific_special_tokens": refused("special tokens under names of their own", None, {}),
    "clean_up_tokenization_spaces": mapped("spaces that decode removes"),
    "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output": mapped(
        "clean_up_tokenization_spaces for BPE"
    ),
    "split_special_tokens": irrelevant("parse_special_tokens selects it"),
    "add_bos_token": _AROUND,
    "add_eos_token": _AROUND,
    "auto_map": refused("a tokenizer with Python code of its own", None),
    "fast_tokenizer_files": refused("several versions of tokenizer.json", None, []),
    "fix_mistral_regex": refused("a different pre-tokenizer", None, False),
    "init_inputs": refused("arguments of the class", None, [], ()),
    "post_processor": refused("a post-processor outside of tokenizer.json", None),
    "special_tokens_pattern": refused("other tokens around a text", None),
    "sp_model_kwargs": refused("such as random segmentations", None, {}),
    **dict.fromkeys(("merges", "vocab"), refused("a vocabulary outside of its file", None)),
    **dict.fromkeys(
        (
            "max_len",
            "max_length",
            "model_max_length",
            "pad_to_multiple_of",
            "pad_token_type_id",
            "padding",
            "padding_side",
            "return_tensors",
            "stride",
            "truncation",
            "truncation_side",
            "truncation_strategy",
        ),
        _LENGTHS,
    ),
    **dict.fromkeys(
        (
            "backend",
            "cache_dir",
            "device_map",
            "files_loaded",
            "from_slow",
            "full_tokenizer_file",
            "is_local",
            "local_files_only",
            "merges_file",
            "name_or_path",
            "processor_class",
            "revision",
            "slow_tokenizer_class",
            "special_tokens_map_file",
            "target_vocab_file",
            "tokenizer_file",
            "tokenizer_type",
            "transformers_version",
            "trust_remote_code",
            "use_fast",
            "vocab_file",
        ),
        _LOADING,
    ),
    **dict.fromkeys(
        (
            "chat_control_tokens",
            "chat_template",
            "response_schema",
            "response_template",
            "use_default_system_prompt",
        ),
        _CHAT,
    ),
    **dict.fromkeys(
        (
            "bos_token_id",
            "cls_token_id",
            "eos_token_id",
            "errors",
            "mask_token_id",
            "model_input_names",
            "pad_token_id",
            "return_token_type_ids",
            "sep_token_id",
            "token_type_ids_include_special_tokens",
            "token_type_ids_pattern",
            "trim_offsets",
            "unk_id",
            "unk_token_id",
            "verbose",
        ),
        _PYTHON,
    ),
    **dict.fromkeys(
        (
            "do_basic_tokenize",
            "end_n_top",
            "handle_chinese_chars",
            "never_split",
            "spaces_between_special_tokens",
            "start_n_top",
            "vocab_size",
            "wordpieces_prefix",
        ),
        _EARLIER,
    ),
    **dict.fromkeys(
        (
            "add_prefix_space",
            "do_lower_case",
            "extra_ids",
            "language_codes",
            "legacy",
            "legacy_behaviour",
            "mask_token_sent",
            "num_madeup_words",
            "offset",
            "separate_vocabs",
            "source_lang",
            "src_lang",
            "strip_accents",
            "target_lang",
            "tgt_lang",
            "tokenize_chinese_chars",
        ),
        _OTHER_CLASS,
    ),
}
"""`tokenizer_config.json` keys that every class can contain."""

_LANGUAGES = {
    "src_lang": mapped("default source_language"),
    "tgt_lang": mapped("default target_language"),
}
_PREFIX = {"add_prefix_space": mapped("space before a text")}

OF_CLASS: dict[str, dict[str, Setting]] = {
    "BertTokenizer": {
        "do_lower_case": mapped("normalizer", True),
        "strip_accents": mapped("normalizer"),
        "tokenize_chinese_chars": mapped("normalizer", True),
    },
    "CamembertTokenizer": _PREFIX,
    "GPT2Tokenizer": _PREFIX,
    "LlamaTokenizer": {**_PREFIX, "legacy": mapped("space after an added token", False)},
    "M2M100Tokenizer": {
        **_LANGUAGES,
        "language_codes": refused("codes that the files do not list", None, "m2m100"),
    },
    "MBart50Tokenizer": _LANGUAGES,
    "MBartTokenizer": _LANGUAGES,
    "MarianTokenizer": {
        "separate_vocabs": mapped("target_vocab.json"),
        "source_lang": mapped("source_language of the card"),
        "target_lang": mapped("target_language of the card"),
    },
    "NllbTokenizer": {
        **_LANGUAGES,
        "legacy_behaviour": mapped("place of the source language"),
    },
    "PegasusTokenizer": {
        "mask_token_sent": _TOKENS,
        "offset": mapped("ids before the pieces", 103),
    },
    "Qwen2Tokenizer": _PREFIX,
    "RobertaTokenizer": _PREFIX,
    "T5Tokenizer": {"extra_ids": mapped("number of sentinels", 100)},
    "XLMRobertaTokenizer": _PREFIX,
}
"""Further `tokenizer_config.json` keys, by the class that reads them."""

PARTS = ("normalizer", "pre_tokenizer", "decoder", "model", "post_processor")

JSON: dict[str, Setting] = {
    "version": irrelevant("version of the format"),
    "added_tokens": mapped("tokens that are found in texts"),
    "truncation": _LENGTHS,
    "padding": _LENGTHS,
    **dict.fromkeys(PARTS, mapped("tokenizer.json")),
}
"""`tokenizer.json` keys."""

UNUSED = {
    "SentencePiece": "the SentencePiece model, which has the same pieces, replaces it",
    "decoder": "added_tokens_decoder in tokenizer_config.json replaces it",
}
"""Reasons why a file or one of its parts is not used."""


def tokenizer_settings(checkpoint: Checkpoint, uses_json: bool) -> list[Settings]:
    """Returns the `Settings` in tokenizer files.

    Args:
        checkpoint: `Checkpoint`.
        uses_json: Bool, whether the tokenizer is made from `tokenizer.json` instead of a
            SentencePiece model.
    """
    files = TokenizerFiles(checkpoint)
    settings = []
    for name in (TOKENIZER_CONFIG, SPECIAL_TOKENS_MAP, ADDED_TOKENS, TOKENIZER_JSON):
        values = checkpoint.read_json(name)
        if values is not None:
            table = _TABLES[name](files, values, uses_json)
            settings.append(Settings(name, values, table))
    if "tokenizer_class" in checkpoint.config and "tokenizer_class" not in files.own_config:
        name = checkpoint.config["tokenizer_class"]
        table = {"tokenizer_class": _class_setting(files, checkpoint.config)}
        settings.append(Settings("config.json", {"tokenizer_class": name}, table))
    return settings


def _config_table(files, values, uses_json):
    table = {**COMMON, **OF_CLASS.get(files.class_name, {})}
    table["tokenizer_class"] = _class_setting(files, values)
    return {**table, **_named(values, table)}


def _class_setting(files, values) -> Setting:
    if values.get("tokenizer_class") is None or files.class_name in TOKENIZER_CLASSES:
        return mapped(f"class {files.class_name}")
    classes = sorted({*TOKENIZER_CLASSES, *CLASS_OF_TYPE.values(), "PreTrainedTokenizerFast"})
    return refused_unless(f"not one of {', '.join(classes)}", lambda value, _: False)


def _named(values: Mapping[str, Any], table: Mapping[str, Setting]) -> dict[str, Setting]:
    """Returns the `Setting`s for special tokens with further names, such as `image_token`."""
    names = [name for name, value in values.items() if is_named_token(name, value)]
    return {name: table.get(name, _TOKENS) for name in names}


def _map_table(files, values, uses_json):
    if not files.is_legacy:
        return dict.fromkeys(values, irrelevant(UNUSED["decoder"]))
    lists = ("additional_special_tokens", "extra_special_tokens")
    table: dict[str, Setting] = dict.fromkeys((*NAMES, *lists), _TOKENS)
    return {**table, **_named(values, table)}


def _added_table(files, values: Iterable[str], uses_json):
    if not files.is_legacy:
        return dict.fromkeys(values, irrelevant(UNUSED["decoder"]))
    return dict.fromkeys(values, mapped("id of a token that is found in texts"))


def _json_table(files, values, uses_json):
    if not uses_json:
        parts = irrelevant(UNUSED["SentencePiece"])
        return {**JSON, **dict.fromkeys(PARTS, parts)}
    table = dict(JSON)
    tokenizer_class = files.tokenizer_class
    replaced = irrelevant(f"the class {files.class_name} replaces it")
    is_unchanged = files.class_name == "TokenizersBackend"
    if not is_unchanged:
        table |= dict.fromkeys(("normalizer", "pre_tokenizer", "decoder"), replaced)
        has_map = "the character map; the class replaces the rest"
        table["normalizer"] = mapped(f"{has_map}: {files.class_name}")
        table["model"] = mapped(f"vocabulary; the class {files.class_name} sets the options")
    else:
        table["model"] = refused_unless(
            "random segmentations because of dropout",
            lambda model, _: not isinstance(model, Mapping) or not model.get("dropout"),
        )
        if not (values.get("model") or {}).get("dropout"):
            table["model"] = mapped("tokenizer.json")
    if tokenizer_class.around is not None:
        table["post_processor"] = replaced
    return table


_TABLES = {
    TOKENIZER_CONFIG: _config_table,
    SPECIAL_TOKENS_MAP: _map_table,
    ADDED_TOKENS: _added_table,
    TOKENIZER_JSON: _json_table,
}
