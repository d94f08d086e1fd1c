"""Settings of tokenizer files have the effect that they have in transformers, or are refused."""

import json

import pytest

from keras_attn.convert._checkpoint import Checkpoint
from keras_attn.convert._conversion_error import ConversionError
from keras_attn.convert._tokenizers import TokenizerIds, TokenizerReader
from tests.convert.small_checkpoints import ENGLISH, GERMAN, pieces_of, train_pieces

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

from tests.text.json_tokenizers import byte_level, word_piece  # noqa: E402

SIZE = 1000
TEXTS = [
    *(*ENGLISH, " the  CAT,  café ", "A </s> dog", "<mask> x <pad>", "the<s>cat [MASK] [SEP]"),
    *(
        "isn't . it ?",
        "line\nbreak\ttab",
        "",
        " ",
        "<new> tok<new> b",
        "word words",
        "漢字 e\u0301",
    ),
]
NEW = {"content": "<new>", "lstrip": True, "rstrip": False, "normalized": False}
NEW |= {"single_word": False, "special": False}


def unigram(special=("<s>", "<pad>", "</s>", "<unk>")):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram())
    tokenizer.normalizer = tokenizers.normalizers.NFKC()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    trainer = tokenizers.trainers.UnigramTrainer(
        vocab_size=90, special_tokens=list(special), unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator([*ENGLISH, *GERMAN] * 3, trainer)
    return tokenizer.to_str().encode()


def metaspace_bpe():
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=120, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False
    )
    tokenizer.train_from_iterator([*ENGLISH, *GERMAN] * 3, trainer)
    return tokenizer.to_str().encode()


def write(folder, model_type, files, **config):
    """Writes a folder without weights. Returns its path."""
    folder.mkdir(exist_ok=True)
    content = {"model_type": model_type, **config}
    (folder / "config.json").write_text(json.dumps(content))
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    for name, value in files.items():
        is_bytes = isinstance(value, bytes)
        (folder / name).write_bytes(value if is_bytes else json.dumps(value).encode())
    return folder


def read(folder, kind="json", ids=(1, 2), **options):
    """Returns the `Tokenizers` of a folder, after a check of their settings."""
    reader = TokenizerReader(kind, Checkpoint(folder), **options)
    reports = [report for part in reader.settings for report in part.check()]
    assert not [report for report in reports if report.treatment == "ignored"]
    pad, end = ids
    return reader.read(TokenizerIds(SIZE, SIZE, pad, pad, end))


JSON_FOLDERS = [
    ("bert", word_piece, {}),
    ("bert", word_piece, {"do_lower_case": False, "tokenizer_class": "BertTokenizer"}),
    ("bert", word_piece, {"strip_accents": False, "clean_up_tokenization_spaces": True}),
    ("bert", word_piece, {"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": False}),
    ("distilbert", word_piece, {"tokenizer_class": "DistilBertTokenizer"}),
    ("bart", byte_level, {"add_prefix_space": True, "tokenizer_class": "BartTokenizer"}),
    ("bart", byte_level, {"tokenizer_class": "PreTrainedTokenizerFast"}),
    ("roberta", byte_level, {"added_tokens_decoder": {"300": NEW}}),
    ("gpt2", byte_level, {"add_bos_token": True, "additional_special_tokens": ["<|im|>"]}),
    ("opt", byte_level, {"bos_token": "</s>", "pad_token": "<pad>"}),
    ("llama", metaspace_bpe, {"tokenizer_class": "LlamaTokenizer"}),
    ("llama", metaspace_bpe, {"tokenizer_class": "LlamaTokenizerFast", "legacy": True}),
    ("llama", byte_level, {"tokenizer_class": "LlamaTokenizer"}),
    ("mistral", metaspace_bpe, {"tokenizer_class": "LlamaTokenizer"}),
    ("gemma", metaspace_bpe, {"bos_token": "<s>"}),
    ("qwen2", byte_level, {"tokenizer_class": "LlamaTokenizerFast", "bos_token": "<s>"}),
    ("xlm-roberta", unigram, {"clean_up_tokenization_spaces": True}),
    ("camembert", unigram, {}),
]


@pytest.mark.parametrize(
    ("model_type", "make", "config"),
    JSON_FOLDERS,
    ids=lambda value: getattr(value, "__name__", str(value)[:40]),
)
def test_tokenizer_settings_have_the_effect_of_transformers(tmp_path, model_type, make, config):
    files = {"tokenizer.json": make(), "tokenizer_config.json": config}
    folder = write(tmp_path / "folder", model_type, files)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    found = read(folder, parse_special_tokens=True)
    start, end = ([] if id_ is None else [id_] for id_ in found.around)
    expected = [theirs(text)["input_ids"] for text in TEXTS]
    assert [[*start, *row, *end] for row in found.source.encode(TEXTS)] == expected
    rows = [[id_ for id_ in row if id_ not in (1, 2)] for row in expected]
    assert found.source.decode(rows) == theirs.batch_decode(rows, skip_special_tokens=True)
    if model_type not in ("xlm-roberta", "camembert"):  # unigram models find them themselves
        split = {"split_special_tokens": True, "add_special_tokens": False}
        expected = [theirs(text, **split)["input_ids"] for text in TEXTS]
        assert read(folder).source.encode(TEXTS) == expected


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"unheard_of": 1}, "unheard_of=1 .an unknown setting"),
        ({"tokenizer_class": "AlbertTokenizer"}, "tokenizer_class='AlbertTokenizer' .not one of"),
        ({"auto_map": {"AutoTokenizer": "own.Tokenizer"}}, "auto_map=.*Python code"),
        ({"sp_model_kwargs": {"enable_sampling": True}}, "sp_model_kwargs=.*random segm"),
        ({"added_tokens_decoder": {"5": {"content": ""}}}, "at least one character"),
    ],
    ids=str,
)
def test_tokenizer_settings_without_an_equivalent_are_refused(tmp_path, config, message):
    files = {"tokenizer.json": byte_level(), "tokenizer_config.json": config}
    folder = write(tmp_path / "folder", "gpt2", files)
    with pytest.raises(ConversionError, match=message):
        read(folder)


def test_tokenizer_dropout_is_refused(tmp_path):
    content = json.loads(byte_level())
    content["model"]["dropout"] = 0.1
    config = {"tokenizer_class": "PreTrainedTokenizerFast"}
    files = {"tokenizer.json": content, "tokenizer_config.json": config}
    with pytest.raises(ConversionError, match="random segmentations because of dropout"):
        read(write(tmp_path / "folder", "gpt2", files))
    files["tokenizer_config.json"] = {}  # the class GPT2Tokenizer has no dropout
    read(write(tmp_path / "folder", "gpt2", files))


def test_two_tokens_before_a_text_are_refused(tmp_path):
    tokenizer = tokenizers.Tokenizer.from_str(byte_level().decode())
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> <s> $A", special_tokens=[("<s>", 0)]
    )
    files = {"tokenizer.json": tokenizer.to_str().encode()}
    with pytest.raises(ConversionError, match="post_processor in tokenizer.json that adds at most"):
        read(write(tmp_path / "folder", "gpt2", files))


LINES = [*ENGLISH, *GERMAN]
SHARED = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
ADDED_TEXTS = [
    *(
        "the cat <sep> sat",
        "<sep>",
        "a<sep>b <sep><sep> ",
        "two \n<sep>",
        "xword word word.",
        "</s>",
    ),
    *("<mask> die  katze", "the <unk> cat</s> sleeps"),
]


@pytest.mark.parametrize("kind", ["t5", "pegasus", "m2m_100", "mbart"])
def test_added_tokens_have_the_ids_and_texts_of_transformers(tmp_path, kind):
    is_single = kind in ("t5", "pegasus")
    model = train_pieces(LINES, 60, **(SHARED if is_single else {"model_type": "bpe"}))
    names = {"t5": "T5Tokenizer", "pegasus": "PegasusTokenizer", "m2m_100": "NllbTokenizer"}
    name = names.get(kind, "MBart50Tokenizer")
    codes = [] if is_single else ["deu_Latn", "eng_Latn", "fra_Latn"]
    if kind == "mbart":
        model, codes = train_pieces(LINES, 60), ["de_DE", "en_XX"]
    file = "spiece.model" if is_single else "sentencepiece.bpe.model"
    config = {"tokenizer_class": name, **({"extra_special_tokens": codes} if codes else {})}
    config |= {"src_lang": codes[0]} if codes else {}
    folder = write(tmp_path / "folder", kind, {file: model, "tokenizer_config.json": config})
    made = transformers.AutoTokenizer.from_pretrained(folder)
    word = tokenizers.AddedToken("word", single_word=True, normalized=False)
    made.add_tokens([tokenizers.AddedToken("<sep>", normalized=False), word])
    flags = ("content", "lstrip", "rstrip", "normalized", "single_word", "special")
    config["added_tokens_decoder"] = {
        str(id_): {flag: getattr(token, flag) for flag in flags}
        for id_, token in made.added_tokens_decoder.items()
    }
    write(folder, kind, {"tokenizer_config.json": config})
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    ids = (0, 1) if is_single else (1, 2)
    parsing = read(folder, kind, ids, parse_special_tokens=True).source
    texts = [text for text in ADDED_TEXTS if kind in ("t5",) or text == text.rstrip()]
    expected = [theirs(text, add_special_tokens=False)["input_ids"] for text in texts]
    assert parsing.encode(texts) == expected
    skipped = theirs.batch_decode(expected, skip_special_tokens=True)
    assert [text.strip() for text in parsing.decode(expected)] == [each.strip() for each in skipped]
    special = {id_ for id_, token in theirs.added_tokens_decoder.items() if token.special}
    safe = read(folder, kind, ids).source
    rows = safe.encode(texts)
    assert not (special - {safe.unknown_token_id}) & {id_ for row in rows for id_ in row}
    sep = theirs.convert_tokens_to_ids("<sep>")
    assert [row.count(sep) for row in rows] == [text.count("<sep>") for text in texts]
    # A folder that transformers 5 saves has only tokenizer.json.
    made.save_pretrained(tmp_path / "saved")
    again = read(write(tmp_path / "saved", kind, {}), kind, ids, parse_special_tokens=True)
    assert again.source.encode(texts) == expected
    assert set(again.source.languages) >= set(codes)


def test_languages_can_follow_the_mask(tmp_path):
    """A language was added to NLLB, and its source language follows the end token."""
    model = train_pieces(LINES, 60)
    first = len(pieces_of(model)) + 1
    names = ["eng_Latn", "deu_Latn", "<mask>", "tyv_Cyrl"]
    added = {str(first + at): {"content": name, "special": True} for at, name in enumerate(names)}
    config = {"tokenizer_class": "NllbTokenizer", "added_tokens_decoder": added}
    files = {"sentencepiece.bpe.model": model, "tokenizer_config.json": config}
    folder = write(tmp_path / "folder", "m2m_100", files)
    found = read(folder, "m2m_100")
    assert list(found.target.languages["tyv_Cyrl"].target_start) == [first + 3]
    assert list(found.source.languages["tyv_Cyrl"].source_start) == [first + 3]
    files["tokenizer_config.json"] = {**config, "legacy_behaviour": True}
    languages = read(write(folder, "m2m_100", files), "m2m_100").source.languages
    assert languages["tyv_Cyrl"].entries() == {"source_end": [first + 3]}


@pytest.mark.parametrize("name", ["MBart50Tokenizer", "MBartTokenizer"])
def test_the_class_in_config_json_is_read(tmp_path, name):
    codes = {"additional_special_tokens": ["de_DE", "en_XX"]}
    files = {"sentencepiece.bpe.model": train_pieces(LINES, 60), "special_tokens_map.json": codes}
    folder = write(tmp_path / "folder", "mbart", files, tokenizer_class=name)
    found = read(folder, "mbart")
    place = "source_start" if name == "MBart50Tokenizer" else "source_end"
    assert list(found.source.languages["de_DE"].entries()) == [place]
    assert bool(found.target.languages) == (name == "MBart50Tokenizer")
    (report,) = [part for part in TokenizerReader("mbart", Checkpoint(folder)).settings][-1].check()
    assert str(report) == f"config.json: tokenizer_class = {name!r}: mapped, class {name}"
