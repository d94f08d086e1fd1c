"""Writes the small exported files for the tests of the runtime, with the results of Keras.

    python tests/runtime/format_files/make.py 2

writes `format-2.onnx` and `format-2.json` to the directory of this script. The number must be the
current format of the exporter. Files of earlier formats were written by earlier exporters and
cannot be created again, so keep them.
"""

import hashlib
import json
import sys
import tempfile
from pathlib import Path

import keras
import numpy as np
import onnx

import keras_attn
from keras_attn.export import export_onnx
from keras_attn.export._passes.graph import all_names, nested_graphs, rename_values
from keras_attn.text import SentencePieceTokenizer

HERE = Path(__file__).parent
TEXTS = ["ab", "bba", "c", "", "cab"]


def make_tokenizer(letters):
    """Returns a tokenizer of single letters; its model is small because it does not normalize."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(f"{letters}\n" * 5)
        file.flush()
        return SentencePieceTokenizer.train(file.name, 20, "char", normalizer="identity")


def make_model(vocabulary_sizes):
    """Returns a translator with random weights."""
    keras.utils.set_random_seed(3)
    source, target = (keras.layers.Embedding(size, 4) for size in vocabulary_sizes)
    encoder = keras_attn.RNNEncoder(keras.layers.GRUCell(4), source, bidirectional=False)
    decoder = keras_attn.RNNDecoder(
        keras.layers.GRUCell(4), target, head=keras.layers.Dense(vocabulary_sizes[1]), bridge="copy"
    )
    search = keras_attn.GreedyDecoder(
        decoder, max_length=6, relative_max_length=None, suppressed_token_ids=[0, 1, 3, 4, 5]
    )
    model = keras_attn.GenerationModel(encoder, search)
    for seed, weight in enumerate(model.weights, start=890):
        weight.assign(keras.random.normal(weight.shape, stddev=2.0, seed=seed))
    return model


def shorten_names(path):
    """Shortens the names of values, which take most of a small file, and updates the checksum."""
    model = onnx.load(path)
    del model.metadata_props[-1]  # the checksum of the file
    kept = {value.name for value in [*model.graph.input, *model.graph.output]}
    names = sorted(all_names(model) - kept)
    rename_values(model.graph, {name: f"v{number}" for number, name in enumerate(names)})
    for graph in nested_graphs(model.graph):
        for node in graph.node:
            node.ClearField("name")
    content = model.SerializeToString()
    entry = {"key": "keras_attn.file_checksum", "value": hashlib.sha256(content).hexdigest()}
    path.write_bytes(content + onnx.ModelProto(metadata_props=[entry]).SerializeToString())


def main(number):
    tokenizers = make_tokenizer("abc"), make_tokenizer("xyz")
    model = make_model([tokenizer.vocabulary_size for tokenizer in tokenizers])
    path = HERE / f"format-{number}.onnx"
    export_onnx(model, path, *tokenizers)
    entries = {each.key: each.value for each in onnx.load(path).metadata_props}
    if entries["keras_attn.format"] != number:
        path.unlink()
        raise SystemExit(f"The exporter writes format {entries['keras_attn.format']}.")
    shorten_names(path)
    sources, answers = [[*ids, 2] for ids in tokenizers[0].encode(TEXTS)], []
    for ids in sources:
        results = model(np.array([ids], "int32"))
        length = int(results["lengths"][0, 0])
        answers.append(
            {
                "source_ids": ids,
                "token_ids": np.array(results["token_ids"])[0, 0, :length].tolist(),
                "log_prob": float(results["log_probs"][0, 0]),
            }
        )
    texts = tokenizers[1].decode([answer["token_ids"] for answer in answers])
    lines = [
        json.dumps({"text": text, "translation": translation if text else "", **answer})
        for text, translation, answer in zip(TEXTS, texts, answers, strict=True)
    ]
    path.with_suffix(".json").write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
