"""Compares pairs of languages of multilingual models with transformers, and prints a table.

    python tests/convert/language_table.py

The models are small and random. For four pairs each of M2M100, NLLB and mBART-50, the table has the
number of texts whose ids equal those of `generate` with the ids of the languages: in Keras and from
the ONNX file in the runtime. The last row is T5 with sentinels in the texts: the tokenizer's ids
and, without spaces, the output texts are also compared with those of transformers' tokenizer. It is
not part of `make test-convert`.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from keras_attn_runtime import Translator

from keras_attn.convert import from_transformers
from keras_attn.export import export_onnx
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


def our_results(converted, path, lines, **languages):
    """Returns the results in Keras and from the ONNX file in the runtime."""
    tokenizers = converted.source_tokenizer, converted.target_tokenizer
    keras = converted.model.generate(lines, *tokenizers, return_details=True, **languages)
    if not path.exists():
        export_onnx(converted.model, path, *tokenizers)
    return keras, Translator(path, num_threads=1).translate(lines, **languages)


def count_equal(found, expected):
    equal = sum(ours == theirs for ours, theirs in zip(found, expected, strict=True))
    return f"{equal} of {len(expected)}"


def row(name, results, end, expected, *more):
    """Prints the numbers of equal ids, and the range of their lengths."""
    ids = ([[*each.token_ids, *[end][: each.ended]] for each in found] for found in results)
    lengths = sorted({len(each) for each in expected})
    cells = [*(count_equal(found, expected) for found in ids), f"{lengths[0]} to {lengths[-1]}"]
    print(f"| {' | '.join([name, *cells, *more])} |", flush=True)


def language_rows(kind, lines, folder):
    model, names, pieces = write(folder / kind, kind)
    converted = from_transformers(folder / kind)
    for first, second in PAIRS:
        codes = CODES[kind][first], CODES[kind][second]
        source, target = (names.index(code) for code in codes)
        expected = []
        for line in lines:
            ids = [names.index(each) if each in names else 3 for each in pieces.encode(line, str)]
            expected.append(their_ids(model, [source, *ids, 2], forced_bos_token_id=target))
        pair = [code.strip("_") for code in codes]
        languages = {"source_language": pair[0], "target_language": pair[1]}
        results = our_results(converted, folder / "model.onnx", lines, **languages)
        row(f"{kind}, {pair[0]} to {pair[1]}", results, 2, expected, "", "")


def t5_row(lines, folder):
    pieces = train_pieces([*ENGLISH, *GERMAN], 50, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    original = randomize(t5(num_layers=2, vocab_size=len(pieces_of(pieces)) + 104), 3)
    save(original, folder, num_beams=2, max_new_tokens=12, bad_words_ids=[[0]])
    (folder / "spiece.model").write_bytes(pieces)
    theirs = transformers.T5Tokenizer.from_pretrained(folder)
    converted = from_transformers(folder)
    masked = [line.split() for line in lines]
    masked = [
        " ".join([*words[:1], "<extra_id_0>", *words[1:], "<extra_id_1>"]) for words in masked
    ]
    sources = [theirs(line)["input_ids"] for line in masked]
    expected = [their_ids(original, ids) for ids in sources]
    results = our_results(converted, folder / "model.onnx", masked)
    found = [[*ids, 1] for ids in converted.source_tokenizer.encode(masked)]
    decoded = [theirs.decode([id_ for id_ in ids if id_ > 1]) for ids in expected]
    written = sum("<extra_id_" in text for text in decoded)
    # transformers 5 writes no spaces before sentinels.
    decoded = [text.replace(" ", "") for text in decoded]
    outputs = [[each.text.replace(" ", "") for each in one] for one in results]
    equal = [count_equal(one, decoded) for one in outputs]
    more = count_equal(found, sources), f"{equal[0]}, {equal[1]}; {written} with sentinels"
    row("T5 with sentinels", results, 1, expected, *more)


def main():
    columns = ("model and pair", "Keras", "runtime", "tokens", "source ids", "texts")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for kind in CODES:
        with tempfile.TemporaryDirectory() as folder:
            language_rows(kind, texts(), Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        t5_row(texts(), Path(folder))


if __name__ == "__main__":
    main()
