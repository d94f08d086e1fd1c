"""Compares pairs of languages of multilingual models with transformers, and prints a table.

    python tests/convert/language_table.py

The models are small and random. For four pairs each of M2M100, NLLB and mBART-50, the table has the
number of texts whose ids equal those of `generate` with the ids of the languages. The last row is
T5 with sentinels in the texts. It is not part of `make test-convert`.
"""

import itertools
import tempfile
from pathlib import Path

import numpy as np
import sentencepiece
import torch

from keras_attn.convert import from_transformers
from tests.convert.against_transformers import randomize, save, without_padding
from tests.convert.small_checkpoints import ENGLISH, GERMAN, pieces_of, train_pieces
from tests.convert.test_languages import CODES, LINES, write
from tests.convert.test_t5_models import t5

PAIRS = ((1, 2), (2, 1), (0, 1), (1, 0))
WORDS = sorted({word for line in (*LINES, *ENGLISH, *GERMAN) for word in line.split()})


def texts(count=50):
    random = np.random.default_rng(0)
    return [" ".join(random.choice(WORDS, random.integers(1, 5))) for _ in range(count)]


def their_ids(model, source, **generation):
    with torch.no_grad():
        ids = model.generate(torch.tensor([source]).long(), **generation)
    return [without_padding(row, model) for row in ids[:, 1:].tolist()][0]


def our_ids(converted, lines, **languages):
    tokenizers = converted.source_tokenizer, converted.target_tokenizer
    found = converted.model.generate(lines, *tokenizers, return_details=True, **languages)
    end = converted.model.search.end_token_id
    return [[*each.token_ids, *([end] if each.ended else [])] for each in found]


def row(name, found, expected):
    equal = sum(ours == theirs for ours, theirs in zip(found, expected, strict=True))
    lengths = sorted({len(each) for each in expected})
    print(f"| {name} | {equal} of {len(expected)} | {lengths[0]} to {lengths[-1]} |", flush=True)


def main():
    lines = texts()
    print("| model and pair | equal ids | tokens |\n|---|---|---|")
    for kind, (first, second) in itertools.product(CODES, PAIRS):
        with tempfile.TemporaryDirectory() as folder:
            model, names, pieces = write(Path(folder) / kind, kind)
            converted = from_transformers(Path(folder) / kind)
        codes = CODES[kind][first], CODES[kind][second]
        source, target = (names.index(code) for code in codes)
        expected = []
        for line in lines:
            ids = [names.index(each) if each in names else 3 for each in pieces.encode(line, str)]
            expected.append(their_ids(model, [source, *ids, 2], forced_bos_token_id=target))
        pair = [code.strip("_") for code in codes]
        found = our_ids(converted, lines, source_language=pair[0], target_language=pair[1])
        row(f"{kind}, {pair[0]} to {pair[1]}", found, expected)

    model = train_pieces([*ENGLISH, *GERMAN], 50, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    size = len(pieces_of(model))
    original = randomize(t5(num_layers=2, vocab_size=size + 104), 3)
    with tempfile.TemporaryDirectory() as folder:
        save(original, folder, num_beams=2, max_new_tokens=12, bad_words_ids=[[0]])
        (Path(folder) / "spiece.model").write_bytes(model)
        converted = from_transformers(folder)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    masked, expected = [], []
    for line in lines:
        words = line.split()
        before, after = " ".join(words[:1]), " ".join(words[1:])
        masked.append(f"{before} <extra_id_0> {after} <extra_id_1>".replace("  ", " "))
        ids = [*processor.encode(before), size + 99, *processor.encode(after), size + 98, 1]
        expected.append(their_ids(original, ids))
    row("T5 with sentinels", our_ids(converted, masked), expected)


if __name__ == "__main__":
    main()
