"""Compares converted tokenizers with those of transformers, and prints two tables.

    python tests/convert/tokenizer_table.py FILE ... [--lines 20000] [--odd 10000]

FILEs are texts, plain or `.gz`. The script trains SentencePiece, BPE and WordPiece models on them,
adds tokens, and writes folders as transformers saves them. The first table counts the settings of
their files by treatment. The second one compares the ids of lines and of odd texts (spaces, typed
special tokens, added tokens, control characters, several scripts) with and without
`parse_special_tokens`, in Keras and in the runtime, and the decoded texts. It is not part of `make
test-convert`.
"""

import argparse
import base64
import collections
import io
import json
import random
import re
import tempfile
import warnings
from pathlib import Path

import sentencepiece
import tokenizers
import transformers
from keras_attn_runtime._file_format.settings_reader import SettingsReader
from keras_attn_runtime._file_format.vocabulary_side import read_side
from keras_attn_runtime._text.json_tokenizer import JsonTokenizer
from keras_attn_runtime._text.sentencepiece_tokenizer import SentencePieceTokenizer
from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES
from transformers.models.mbart50.tokenization_mbart50 import FAIRSEQ_LANGUAGE_CODES as MBART50

from keras_attn.convert._checkpoint import Checkpoint
from keras_attn.convert._tokenizers import TokenizerIds, TokenizerReader
from keras_attn.files import read_lines
from keras_attn.text._tokenizer import tokenizer_options

LARGE = 20_000
"""More ids than any tokenizer has, so that none is refused."""

NEW = [
    tokenizers.AddedToken("<new>", normalized=False),
    tokenizers.AddedToken("<left>", normalized=False, lstrip=True),
    tokenizers.AddedToken("Wort", normalized=False, single_word=True),
]
M2M100 = FAIRSEQ_LANGUAGE_CODES["m2m100"]

PYTHON = ("Marian, unigram", "Marian, BPE", "M2M100")
"""Tokenizers that transformers has in Python. Their added tokens have no options."""

SPACE_AT_END = ("NLLB", "mBART-50", "Pegasus")
"""Kinds with one more token for spaces at the end of a text in transformers 5, see the guide."""


def train(lines, size, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=size,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


def pieces(model):
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(id_) for id_ in range(processor.get_piece_size())]


def marian(folder, lines, size, model_type):
    """Two models over one vocabulary, as Marian has them."""
    half, names = len(lines) // 2, ["</s>", "<unk>"]
    for side, part in (("source", lines[:half]), ("target", lines[half:])):
        model = train(part, size, bos_id=-1, eos_id=0, unk_id=1, model_type=model_type)
        (folder / f"{side}.spm").write_bytes(model)
        names += [name for name in pieces(model) if name not in names]
    names.append("<pad>")
    (folder / "vocab.json").write_text(json.dumps({name: id_ for id_, name in enumerate(names)}))
    return "marian", {"tokenizer_class": "MarianTokenizer"}, (len(names) - 1, 0)


def m2m_100(folder, lines, size):
    model = train(lines, size)
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    names = ["<s>", "<pad>", "</s>", "<unk>", *pieces(model)[3:]]
    vocabulary = {name: id_ for id_, name in enumerate(names)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    codes = [f"__{code}__" for code in M2M100]
    return "m2m_100", {"tokenizer_class": "M2M100Tokenizer", "extra_special_tokens": codes}, (1, 2)


def fairseq(folder, lines, size, name, codes, **options):
    (folder / "sentencepiece.bpe.model").write_bytes(train(lines, size, **options))
    config = {"tokenizer_class": name, "src_lang": codes[0], "extra_special_tokens": codes}
    return "mbart" if name[:5] == "MBart" else "m2m_100", config, (1, 2)


def single(folder, lines, size, kind, name):
    model = train(lines, size, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    (folder / "spiece.model").write_bytes(model)
    return kind, {"tokenizer_class": name}, (0, 1)


SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def byte_level(folder, lines, size, model_type, special, config):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    return model_type, config, (min(1, len(special) - 1), 0)


def word_piece(folder, lines, size):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=BERT, show_progress=False
    )
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"do_lower_case": False, "clean_up_tokenization_spaces": True}
    return "bert", {"tokenizer_class": "BertTokenizer", **config}, (0, 2)


def metaspace(folder, lines, size, model_type, config):
    """BPE with byte fallback, as in Llama and Gemma, or a unigram model, as in XLM-RoBERTa."""
    if model_type == "xlm-roberta":
        tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram())
        trainer = tokenizers.trainers.UnigramTrainer(
            vocab_size=size, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False
        )
    else:
        bpe = tokenizers.models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True)
        tokenizer = tokenizers.Tokenizer(bpe)
        special = [*SPECIAL, *(f"<0x{number:02X}>" for number in range(256))]
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=size, special_tokens=special, show_progress=False
        )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    tokenizer.decoder = tokenizers.decoders.Metaspace()
    tokenizer.train_from_iterator(lines, trainer)
    content = json.loads(tokenizer.to_str())
    is_byte = re.compile("<0x..>").fullmatch
    content["added_tokens"] = [
        each for each in content["added_tokens"] if not is_byte(each["content"])
    ]
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return model_type, config, (1, 2)


KINDS = {
    "Marian, unigram": lambda *given: marian(*given, "unigram"),
    "Marian, BPE": lambda *given: marian(*given, "bpe"),
    "M2M100": m2m_100,
    "NLLB": lambda *given: fairseq(
        *given, "NllbTokenizer", ["deu_Latn", "eng_Latn", "fra_Latn"], model_type="bpe"
    ),
    "mBART-50": lambda *given: fairseq(*given, "MBart50Tokenizer", MBART50),
    "T5": lambda *given: single(*given, "t5", "T5Tokenizer"),
    "Pegasus": lambda *given: single(*given, "pegasus", "PegasusTokenizer"),
    "BART": lambda *given: byte_level(*given, "bart", SPECIAL, {}),
    "GPT-2": lambda *given: byte_level(*given, "gpt2", ["<|endoftext|>"], {}),
    "Qwen2": lambda *given: byte_level(
        *given,
        "qwen2",
        ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        {"tokenizer_class": "Qwen2Tokenizer"},
    ),
    "SmolLM2": lambda *given: byte_level(
        *given,
        "llama",
        ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": False},
    ),
    "Llama": lambda *given: metaspace(
        *given, "llama", {"tokenizer_class": "LlamaTokenizer", "legacy": False}
    ),
    "Gemma": lambda *given: metaspace(
        *given, "gemma", {"tokenizer_class": "GemmaTokenizer", "bos_token": "<s>"}
    ),
    "BERT": word_piece,
    "XLM-RoBERTa": lambda *given: metaspace(*given, "xlm-roberta", {}),
}


def write_folder(name, folder, lines, size):
    """Writes a folder with added tokens. Returns the kind, and the ids of padding and end."""
    kind, config, ids = KINDS[name](folder, lines, size)
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    (folder / "model.safetensors").write_bytes(EMPTY)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    theirs.add_tokens(NEW[:1] if name in PYTHON else NEW)
    added = {
        str(id_): {flag: getattr(token, flag) for flag in ("content", *FLAGS)}
        for id_, token in theirs.added_tokens_decoder.items()
    }
    config["added_tokens_decoder"] = added
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return kind, ids, theirs


FLAGS = ("lstrip", "rstrip", "normalized", "single_word", "special")


def odd_texts(special, count, lines):
    """Random texts of odd parts, from a fixed seed."""
    draw = random.Random(53)
    parts = [
        *(" ", "  ", "\t", "\n", "\u00a0", "\u3000", "\u2028", "\x1f", "\r\n", "\u200b"),
        *("\x00", "\x07", "\x7f", "\u200d", "\ufeff", "\ufffd", "\u0301", "\U000e0001"),
        *(
            "🎉",
            "👩\u200d👩\u200d👧",
            "🇩🇪",
            "漢字",
            "ﬁ",
            "①",
            "é",
            "e\u0301",
            "Ж",
            "हिन्दी",
            "مرحبا",
            "한국어",
            "ไทย",
        ),
        *(
            "the",
            "Wort",
            "Wort.",
            "xWort",
            "Cat",
            "don't",
            " . ",
            " ' ",
            "123",
            "_",
            "▁",
            "¿",
            "<",
            ">",
        ),
        *("<new>", "<left>", " <left>", "<new> ", "<NEW>", "<ne", "w>", *special, *special),
    ]
    words = [word for line in lines[:300] for word in line.split()]
    texts = []
    for _ in range(count):
        chosen = draw.choices(
            [*parts, *draw.choices(words, k=len(parts) // 2)], k=draw.randint(1, 9)
        )
        texts.append(draw.choice(("", " ", "")).join(chosen))
    return texts


def runtime_tokenizer(tokenizer):
    """The tokenizer of the runtime, with the settings of an exported file."""
    names = ("pad_token_id", "start_token_id", "end_token_id")
    settings = {name: getattr(tokenizer, name) for name in names}
    settings |= {"vocabulary_size": LARGE, "tokenizer": tokenizer.format}
    if getattr(tokenizer, "has_extra_pieces", False):
        settings["tokenizer_vocabulary_size"] = tokenizer.vocabulary_size
    settings |= json.loads(json.dumps(tokenizer_options(tokenizer)))
    side = read_side(SettingsReader("", settings), 3)
    classes = {"sentencepiece": SentencePieceTokenizer, "tokenizers": JsonTokenizer}
    return classes[tokenizer.format](base64.b64encode(tokenizer.model).decode(), side)


def safe_reference(name, folder, theirs, tokenizer):
    """Ids of a text whose special tokens are characters.

    `split_special_tokens` of transformers is the reference, except for unigram models, which find
    typed special tokens themselves. Texts with special tokens are then compared with SentencePiece,
    or not at all without a SentencePiece model.
    """
    special = [token for token in theirs.all_special_tokens if token]
    contains = re.compile("|".join(map(re.escape, special))).search
    is_unigram = type(getattr(theirs, "_tokenizer", theirs)).__name__ == "Tokenizer" and isinstance(
        theirs._tokenizer.model, tokenizers.models.Unigram
    )
    files = [folder / each for each in ("spiece.model", "sentencepiece.bpe.model")]
    model = next((file.read_bytes() for file in files if file.is_file()), None)
    unknown = tokenizer.unknown_token_id
    ids = {token: id_ for token, id_ in theirs.get_vocab().items() if token not in special}
    processor = model and sentencepiece.SentencePieceProcessor(model_proto=model)

    if name in PYTHON:  # transformers then does not find added tokens either

        def characters(part):
            found = theirs(part, add_special_tokens=False, split_special_tokens=True)
            return found["input_ids"]

        new = theirs.convert_tokens_to_ids("<new>")

        def of_parts(text):
            first, *rest = map(characters, text.split("<new>"))
            return first + [id_ for part in rest for id_ in [new, *part]]

        return of_parts

    def reference(text):
        if not is_unigram or not contains(text):
            return theirs(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        if processor is None or "Wort" in text or "<left>" in text or "<new>" in text:
            return None
        return [ids.get(piece, unknown) for piece in processor.encode(text, out_type=str)]

    return reference


def compare(name, folder, kind, ids, texts, parse, differing):
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    pad, end = ids
    reader = TokenizerReader(kind if kind in SENTENCEPIECE else "json", Checkpoint(folder), parse)
    for part in reader.settings:
        part.check()
    tokenizer = reader.read(TokenizerIds(LARGE, LARGE, pad, pad, end)).source
    in_runtime = runtime_tokenizer(tokenizer)
    reference = safe_reference(name, folder, theirs, tokenizer)
    if parse:

        def reference(text):
            return theirs(text, add_special_tokens=False)["input_ids"]

    counts = collections.Counter()
    space = theirs.convert_tokens_to_ids("▁")
    for text, ours in zip(texts, tokenizer.encode(texts), strict=True):
        expected = reference(text)
        counts["runtime"] += in_runtime.encode(text) == ours
        if expected is None:
            counts["not compared"] += 1
            continue
        is_equal = list(expected) == ours
        counts["equal"] += is_equal
        is_space = name in SPACE_AT_END and expected[-1:] == [space] and expected[:-1] == ours
        counts["space at the end"] += not is_equal and is_space
        if not is_equal and not is_space:
            differing[name, parse].append((text, ours, list(expected)))
        if is_equal:
            row = [id_ for id_ in ours if id_ not in (pad, end)]
            decoded = theirs.decode(row, skip_special_tokens=True)
            found = tokenizer.decode([row])[0], in_runtime.decode(row)
            # SentencePiece removes spaces at the beginning, tokenizers in Python at both ends.
            counts["decoded"] += {each.strip() for each in found} == {decoded.strip()}
            if {each.strip() for each in found} != {decoded.strip()}:
                differing[f"{name}, decoded", parse].append((text, *found, decoded))
            counts["to decode"] += 1
    return counts, reader.settings


SENTENCEPIECE = ("marian", "m2m_100", "mbart", "t5", "pegasus")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--lines", type=int, default=20000)
    parser.add_argument("--odd", type=int, default=10000)
    parser.add_argument("--size", type=int, default=4000, help="pieces of a model")
    parser.add_argument("--kind", action="append", choices=KINDS, help="only these kinds")
    parser.add_argument("--shown", type=int, default=3, help="differences to print")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    share = -(-args.lines // len(args.files))
    lines = [line for file in args.files for line in [*read_lines(file)][:share] if line]
    lines = lines[: args.lines]
    differing = collections.defaultdict(list)
    treatments = ("mapped", "irrelevant", "harmless", "ignored")
    print(f"{len(lines)} lines, {args.odd} odd texts\n")
    columns = ("tokenizer", "special tokens", "texts", "equal", "space at the end")
    columns += ("not compared", "runtime = Keras", "decoded")
    print("|", " | ".join(columns), "|\n|", "---|" * len(columns), flush=True)
    table = {}
    for name in args.kind or KINDS:
        with tempfile.TemporaryDirectory() as path:
            folder = Path(path) / "spm"
            folder.mkdir()
            kind, ids, theirs = write_folder(name, folder, lines, args.size)
            folders = {name: folder}
            if kind in SENTENCEPIECE and name not in PYTHON:
                again = Path(path) / "json"
                theirs.save_pretrained(again)
                for file in ("config.json", "model.safetensors"):
                    (again / file).write_bytes((folder / file).read_bytes())
                folders[f"{name}, tokenizer.json"] = again
            odd = odd_texts([*theirs.all_special_tokens[:8]], args.odd, lines)
            for label, each in folders.items():
                for parse in (False, True):
                    for what, texts in (("lines", lines), ("odd", odd)):
                        if not texts:
                            continue
                        counts, settings = compare(label, each, kind, ids, texts, parse, differing)
                        mode = "parsed" if parse else "characters"
                        cells = [label, mode, what, f"{counts['equal']} of {len(texts)}"]
                        cells += [counts["space at the end"], counts["not compared"]]
                        cells += [f"{counts['runtime']} of {len(texts)}"]
                        cells += [f"{counts['decoded']} of {counts['to decode']}"]
                        print("|", " | ".join(map(str, cells)), "|", flush=True)
                reports = [report for part in settings for report in part.check()]
                found = collections.Counter(report.treatment for report in reports)
                table[label] = [found[treatment] for treatment in treatments]
    print("\n| tokenizer |", " | ".join(treatments), "|\n|---|---|---|---|---|")
    for name, found in table.items():
        print(f"| {name} |", " | ".join(map(str, found)), "|")
    for (name, parse), found in differing.items():
        print(f"{name}, parse_special_tokens={parse}: {len(found)} differ, for example")
        for text, *ours, theirs in found[: args.shown]:
            print(f"  {text!r}: {', '.join(map(repr, ours))} instead of {theirs!r}")


EMPTY = (2).to_bytes(8, "little") + b"{}"
"""A file of safetensors without weights."""

if __name__ == "__main__":
    main()
