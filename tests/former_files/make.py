"""Makes the files of `test_former_files.py` with the library in the search path.

    PYTHONPATH=CHECKOUT:CHECKOUT/export python make.py OUT

CHECKOUT is a checkout of commit f866d2f, before the public names changed. Each archive contains a
file as later versions must still load it, and its results.
"""

import pickle
import shutil
import sys
import zipfile
from pathlib import Path

import keras
import keras_attn_runtime
import numpy as np

import keras_attn
from keras_attn import forecasting, text, training
from keras_attn.export import export_onnx

SENTENCES = ["ab ba", "ab abba", "ba baab ab", "abba"]
IDS = np.array([[4, 5, 6, 2], [6, 5, 2, 0]], "int32")
SERIES = np.linspace(0, 1, 14, dtype="float32").reshape(2, 7, 1)


def translator(kind, size):
    if kind == "rnn":
        layer = keras.layers.ReversibleEmbedding
        embeddings = [layer(size, 3, mask_zero=mask_zero) for mask_zero in (True, False)]
        encoder = keras_attn.RNNEncoder(keras.layers.GRUCell(3), embeddings[0])
        attention = keras_attn.CoverageAttention(3)
        cell = keras_attn.AttentionRNNCell(
            keras.layers.GRUCell(3), attention, query="previous_state", input_feeding=False
        )
        decoder = keras_attn.RNNDecoder(cell, embeddings[1], keras.layers.Dense(size))
    else:
        encoder, decoder = keras_attn.transformer_seq2seq(size, size, 1, 1, 4, 4)
        encoder = keras_attn.TransformerEncoder(
            keras_attn.TransformerEncoderBlock(1, 4, flash_attention=True), encoder.embedding, 1
        )
    search = keras_attn.BeamDecoder(
        decoder,
        beam_width=2,
        max_length=5,
        start_token_id=1,
        end_token_id=2,
        return_alignments=True,
    )
    model = keras_attn.GenerationModel(encoder, search)
    model(IDS)
    return model


def masked():
    embedding = keras.layers.ReversibleEmbedding(9, 4, mask_zero=True)
    block = keras_attn.TransformerEncoderBlock(1, 4)
    model = keras_attn.masked_language_model(keras_attn.TransformerEncoder(block, embedding, 1))
    model(IDS)
    return model


def sampler():
    cell = keras_attn.AttentionRNNCell(keras.layers.GRUCell(2), keras_attn.BahdanauAttention(2))
    encoder = keras_attn.RNNEncoder(keras.layers.GRUCell(2))
    forecaster = forecasting.AutoregressiveForecaster(
        cell, forecasting.QuantileHead(levels=(0.2, 0.8)), encoder, horizon=2
    )
    layer = forecasting.PathSampler(forecaster, num_paths=2, quantiles=(0.25, 0.75))
    inputs = keras.Input((None, 1))
    return keras.Model(inputs, layer(inputs, seeds=keras.ops.ones_like(inputs[:, 0, 0], "int32")))


def write(out, name, results, save):
    """Writes NAME.zip with what `save(directory)` writes, and `results.npz`."""
    work = out / name
    work.mkdir()
    save(work)
    np.savez_compressed(work / "results.npz", **results)
    with zipfile.ZipFile(out / f"{name}.zip", "w", zipfile.ZIP_LZMA) as archive:
        for path in sorted(path for path in work.rglob("*") if path.is_file()):
            archive.write(path, path.relative_to(work))
    shutil.rmtree(work)


def predictions(model, inputs):
    results = model.predict(inputs, verbose=0)
    results = results if isinstance(results, dict) else {"outputs": results}
    return {name: np.asarray(value) for name, value in results.items()}


def main(out):
    out.mkdir(parents=True)
    sentences = out / "sentences.txt"
    sentences.write_text("\n".join(SENTENCES))
    tokenizer = text.SentencePieceTokenizer.train(sentences, 8, "char", normalizer="identity")
    models = {}
    for name, inputs in {"rnn": IDS, "transformer": IDS, "masked": IDS, "sampler": SERIES}.items():
        keras.utils.set_random_seed(1)
        makers = {"masked": masked, "sampler": sampler}
        size = tokenizer.vocabulary_size
        model = makers[name]() if name in makers else translator(name, size)
        models[name] = model
        results = predictions(model, inputs)
        write(out, name, results, lambda work, model=model: model.save(work / "model.keras"))
    model, card = models["transformer"], training.ModelCard(license="CC0-1.0")

    def save_run(work):
        run = training.RunDirectory.create(
            work / "run", "generation", tokenizer, tokenizer, card=card
        )
        run.save_model(model)

    write(out, "run", predictions(model, IDS), save_run)

    def save_onnx(work):
        export_onnx(model, work / "model.onnx", tokenizer, tokenizer, alignments=True)
        translation = keras_attn_runtime.Translator(work / "model.onnx").translate(SENTENCES)[0]
        (work / "translation.pickle").write_bytes(pickle.dumps(translation))

    write(out, "onnx", predictions(model, IDS), save_onnx)
    sentences.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
