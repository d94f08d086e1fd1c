"""Compares converted tokenizers with those of transformers on real lines, and prints a table.

    python tests/convert/tokenizer_table.py FILE ... [--lines 20000]

FILEs are texts, plain or `.gz`. The script trains SentencePiece, BPE and WordPiece models on them,
writes folders as published checkpoints have them, and compares the ids of each line. With the
package babel, it also compares the names of languages and places in many scripts. It is not part
of `make test-convert`.
"""

import argparse
import collections
import io
import json
import tempfile
import unicodedata
import warnings
from pathlib import Path

import sentencepiece
import tokenizers
import transformers

from keras_attn.convert.checkpoint import Checkpoint
from keras_attn.convert.tokenizers import TokenizerIds, read_tokenizers
from keras_attn.files import read_lines

CODES = {
    "M2M100": ["__de__", "__en__", "__fr__"],
    "NLLB": ["deu_Latn", "eng_Latn", "fra_Latn"],
    "mBART-50": ["de_DE", "en_XX", "fr_XX"],
}
LOCALES = ("ar", "el", "hi", "ja", "ko", "ru", "th", "zh", "he", "ta", "am", "ka")
LARGE = 10**6
"""More ids than any tokenizer has, so that none is refused."""


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
    """Two models over one vocabulary, as Marian has them. Returns texts of ids and a reference."""
    half, names = len(lines) // 2, ["</s>", "<unk>"]
    for side, part in (("source", lines[:half]), ("target", lines[half:])):
        model = train(part, size, bos_id=-1, eos_id=0, unk_id=1, model_type=model_type)
        (folder / f"{side}.spm").write_bytes(model)
        names += [name for name in pieces(model) if name not in names]
    names.append("<pad>")
    (folder / "vocab.json").write_text(json.dumps({name: id_ for id_, name in enumerate(names)}))
    files = {"source_spm": "source.spm", "target_spm": "target.spm", "vocab": "vocab.json"}
    paths = {name: str(folder / file) for name, file in files.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends a package that it does not use here
        reference = transformers.MarianTokenizer(**paths)
    ids = TokenizerIds(LARGE, LARGE, len(names) - 1, len(names) - 1, 0)
    found = read_tokenizers("marian", Checkpoint(folder), ids).source
    return found, lambda text: reference(text)["input_ids"][:-1]


def multilingual(folder, lines, size, name):
    """One model of all languages. The reference is SentencePiece with the ids of the checkpoint."""
    model, codes = train(lines, size), CODES[name]
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    names = ["<s>", "<pad>", "</s>", "<unk>", *pieces(model)[3:]]
    vocabulary = {piece: id_ for id_, piece in enumerate(names)}
    if name == "M2M100":
        (folder / "vocab.json").write_text(json.dumps(vocabulary))
    special = {"additional_special_tokens": codes}
    (folder / "special_tokens_map.json").write_text(json.dumps(special))
    classes = {"M2M100": "M2M100Tokenizer", "NLLB": "NllbTokenizer", "mBART-50": "MBart50Tokenizer"}
    config = json.dumps({"tokenizer_class": classes[name]})
    (folder / "tokenizer_config.json").write_text(config)
    kind = "mbart" if name == "mBART-50" else "m2m_100"
    found = read_tokenizers(kind, Checkpoint(folder), TokenizerIds(LARGE, LARGE, 1, 2, 2)).source
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    unknown = vocabulary["<unk>"]

    def reference(text):
        return [vocabulary.get(each, unknown) for each in processor.encode(text, out_type=str)]

    return found, reference


def single(folder, lines, size, kind):
    model = train(lines, size, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    (folder / "spiece.model").write_bytes(model)
    found = read_tokenizers(kind, Checkpoint(folder), TokenizerIds(LARGE, LARGE, 0, 0, 1)).source
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    first = 0 if kind == "t5" else 103

    def reference(text):
        return [id_ if id_ < 2 else id_ + first for id_ in processor.encode(text)]

    return found, reference


def from_json(folder, lines, size, kind):
    """Byte-level BPE or WordPiece. The reference is a tokenizer of transformers."""
    special = ["<s>", "<pad>", "</s>", "[UNK]"]
    if kind == "BPE":
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
        alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=size, special_tokens=special, initial_alphabet=alphabet, show_progress=False
        )
    else:
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = tokenizers.decoders.WordPiece()
        trainer = tokenizers.trainers.WordPieceTrainer(
            vocab_size=size, special_tokens=special, show_progress=False
        )
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    found = read_tokenizers("json", Checkpoint(folder), TokenizerIds(LARGE, LARGE, 1, 2, 2)).source
    path = str(folder / "tokenizer.json")
    reference = transformers.PreTrainedTokenizerFast(tokenizer_file=path)
    return found, lambda text: reference(text, add_special_tokens=False)["input_ids"]


KINDS = {
    "Marian, unigram": lambda *arguments: marian(*arguments, "unigram"),
    "Marian, BPE": lambda *arguments: marian(*arguments, "bpe"),
    "M2M100": lambda *arguments: multilingual(*arguments, "M2M100"),
    "NLLB": lambda *arguments: multilingual(*arguments, "NLLB"),
    "mBART-50": lambda *arguments: multilingual(*arguments, "mBART-50"),
    "T5": lambda *arguments: single(*arguments, "t5"),
    "Pegasus": lambda *arguments: single(*arguments, "pegasus"),
    "BART and GPT-2": lambda *arguments: from_json(*arguments, "BPE"),
    "BERT": lambda *arguments: from_json(*arguments, "WordPiece"),
}


def names_in_other_scripts():
    """Names of languages and places, from the locale data of babel. `[]` without babel."""
    try:
        import babel
    except ImportError:
        return []
    found = []
    for code in LOCALES:
        locale = babel.Locale.parse(code)
        found += [*locale.languages.values(), *locale.territories.values()]
    return sorted(set(found))


def explain(text, ours, theirs, tokenizer):
    """Names the reason of a difference: the first pieces that differ, and their characters."""
    place = next(
        (at for at, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]),
        min(len(ours), len(theirs)),
    )
    piece = tokenizer.pieces(ours[place : place + 1])
    their_piece = tokenizer.pieces(theirs[place : place + 1])
    names = {unicodedata.name(each, "?") for each in "".join(piece)}
    return f"{piece} instead of {their_piece}; {', '.join(sorted(names))[:60]}; in {text[:60]!r}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--lines", type=int, default=20000)
    parser.add_argument("--size", type=int, default=4000, help="pieces of a model")
    parser.add_argument("--shown", type=int, default=3, help="differences to print")
    args = parser.parse_args()
    share = -(-args.lines // len(args.files))
    lines = [line for file in args.files for line in [*read_lines(file)][:share] if line]
    others = names_in_other_scripts()
    print(f"{len(lines)} lines; {len(others)} names in {len(LOCALES)} locales")
    print("| tokenizer | equal lines | equal names |\n|---|---|---|")
    differing = collections.defaultdict(list)
    for name, make in KINDS.items():
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "config.json").write_text("{}")
            (Path(folder) / "model.safetensors").write_bytes(EMPTY)
            tokenizer, reference = make(Path(folder), lines[: args.lines], args.size)
        counts = []
        for texts in (lines, others):
            equal = 0
            for text, ours in zip(texts, tokenizer.encode(texts), strict=True):
                theirs = list(reference(text))
                equal += ours == theirs
                if ours != theirs:
                    differing[name].append(explain(text, ours, theirs, tokenizer))
            counts.append(f"{equal} of {len(texts)}")
        print(f"| {name} | {counts[0]} | {counts[1]} |", flush=True)
    for name, reasons in differing.items():
        print(f"{name}: {len(reasons)} differ, for example")
        print("\n".join(f"  {reason}" for reason in reasons[: args.shown]))


EMPTY = (2).to_bytes(8, "little") + b"{}"
"""A file of safetensors without weights."""

if __name__ == "__main__":
    main()
