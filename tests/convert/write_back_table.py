"""Compares written models with transformers and CTranslate2 on padded sources, and prints a table.

    python tests/convert/write_back_table.py [NAME ...] [--sources 200]

Each model of transformers is small and random, is converted, gets other weights, and is written.
The table has the largest difference of a logit from transformers, the fraction of equal ids of
`generate`, the largest difference of a log probability from CTranslate2, and the fraction of equal
ids of its beam search, with settings on which the two searches agree. It is not part of `make
test-convert`, which writes the same models with fewer sources.
"""

import argparse
import tempfile
from pathlib import Path

import keras_attn
from keras_attn.export import export_ctranslate2
from tests.convert.test_export_ctranslate2 import MODELS, equal_fraction, translator
from tests.convert.written_models import (
    GENERATORS,
    change_weights,
    compare_generator,
    convert_generator,
    export,
    load,
    model_class_of,
)


def row_of_generator(name, count, folder):
    converted = convert_generator(name, folder / "original")
    change_weights(converted.model)
    report = export(converted, folder / "written")
    loaded = load(folder / "written", model_class_of(report))
    difference, largest, equal = compare_generator(converted, loaded, count)
    cells = [f"{difference:.0e} of {largest:.0f}", f"{equal:.1%}"]
    if converted.model.encoder is None:
        return [*cells, "", ""]
    changed = {"force_end_token": False, "suppressed_token_ids": []}
    model = keras_attn.with_search(converted.model, **changed)
    return [*cells, *cells_of_ctranslate2(model, count, folder)]


def row_of_own(name, count, folder):
    model = translator(**MODELS[name])
    return ["", "", *cells_of_ctranslate2(model, count, folder)]


def cells_of_ctranslate2(model, count, folder):
    report = export_ctranslate2(model, folder / "ctranslate2")
    equal = equal_fraction(model, folder / "ctranslate2", report, count)
    return [f"{report.largest_difference:.0e}", f"{equal:.1%}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="models. Default: all")
    parser.add_argument("--sources", type=int, default=200)
    args = parser.parse_args()
    columns = ("model", "logits", "ids of generate", "log probabilities", "ids of CTranslate2")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
    own = {f"own, {name}": name for name in MODELS if "share_embeddings" not in MODELS[name]}
    for name in args.names or [*GENERATORS, *own]:
        with tempfile.TemporaryDirectory() as folder:
            if name in own:
                cells = row_of_own(own[name], args.sources, Path(folder))
            else:
                cells = row_of_generator(name, args.sources, Path(folder))
        print(f"| {' | '.join([name, *cells])} |", flush=True)


if __name__ == "__main__":
    main()
