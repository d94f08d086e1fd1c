"""Trains a model that translates written dates in four languages to ISO dates.

    python examples/train_translation.py --run-dir build/run

The training takes about two minutes. If it is interrupted, run the same command again to continue.
Afterwards, the run directory contains:

    run.json                  kind, file names, special token ids
    model.keras               Keras model with encoder, attention, decoder and beam search
    source.spm, target.spm    the tokenizers
    data/                     the pairs of training, validation and test as text
    history.json              loss, perplexity and accuracy of each epoch

Export and run the model:

    keras-attn export onnx build/run translator.onnx
    keras-attn-runtime translate translator.onnx < build/run/data/test.source

To train on your own pairs, replace `write_dates` by `keras_attn.text.prepare_pairs`, or use the
full program: `keras-attn train translation --help`.
"""

import argparse
from pathlib import Path

import keras

import keras_attn
from keras_attn.files import write_lines
from keras_attn.text import (
    LengthBucketedBatches,
    ParallelCorpus,
    SentencePieceTokenizer,
    generate_dates,
)
from keras_attn.training import (
    BestCheckpoint,
    HistoryFile,
    InverseSquareRootSchedule,
    RunDirectory,
    ShowProgress,
    compile_for_training,
    fit,
)

EPOCHS = 5


def write_dates(directory):
    """Writes parallel files: line i of `train.target` translates line i of `train.source`."""
    directory.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", 30_000), ("valid", 1000), ("test", 2000)):
        sources, targets = generate_dates(count, seed=1, split=split)
        write_lines(directory / f"{split}.source", sources)
        write_lines(directory / f"{split}.target", targets)


def make_batches(run_dir, split, tokenizers):
    """Encodes a split to token ids, and groups pairs of similar lengths into batches."""
    files = [run_dir / "data" / f"{split}.{side}" for side in ("source", "target")]
    corpus = ParallelCorpus.encode(*files, *tokenizers, 48, 48, run_dir / f"corpus-{split}")
    return LengthBucketedBatches(corpus, tokens_per_batch=4096, seed=1, shuffle=split == "train")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--run-dir", type=Path, default=Path("build/run"), help="run directory to write"
    )
    run_dir = parser.parse_args().run_dir

    # 1. Data: tokenizers are trained on the text, which is then encoded to ids once.
    data = run_dir / "data"
    write_dates(data)
    tokenizers = [
        SentencePieceTokenizer.train([data / f"train.{side}"], 200, "char")
        for side in ("source", "target")
    ]
    run = RunDirectory.create(run_dir, "generation", *tokenizers)
    training, validation = (make_batches(run_dir, each, tokenizers) for each in ("train", "valid"))

    # 2. Model: an LSTM encoder, and an LSTM decoder with attention. Any other encoder and decoder
    # of keras_attn can take their place, such as those of keras_attn.transformer_seq2seq.
    keras.utils.set_random_seed(1)
    encoder, decoder = keras_attn.rnn_seq2seq(
        tokenizers[0].vocabulary_size,
        tokenizers[1].vocabulary_size,
        attention="bahdanau",
        embedding_dim=64,
        units=96,
        share_embeddings=False,
        dropout=0.1,
        seed=1,
    )

    # 3. Training: the decoder sees the previous tokens of the target and predicts the next ones.
    steps = EPOCHS * training.steps_per_epoch
    schedule = InverseSquareRootSchedule(
        4e-3, warmup_steps=100, total_steps=steps, decay_steps=steps // 2
    )
    trainer = keras_attn.TrainingModel(encoder, decoder)
    compile_for_training(trainer, learning_rate=schedule, label_smoothing=0.0)

    # 4. Search: the same decoder, step by step, in a beam search that is part of the saved model.
    search = keras_attn.BeamDecoder(decoder, beam_width=4, max_length=48, return_alignments=True)
    translator = keras_attn.GenerationModel(encoder, search)
    target_tokens = int(training.corpus.target.lengths.sum())
    fit(
        trainer,
        training,
        epochs=EPOCHS,
        directory=run_dir / "state",
        validation_data=validation,
        callbacks=[
            BestCheckpoint(run, saved_model=translator),
            HistoryFile(run_dir / "history.json"),
            ShowProgress(target_tokens / training.steps_per_epoch, "target tokens"),
        ],
        verbose=0,
    )

    examples = ["en: Mon, 3rd May '21", "de: den 1. April 1999", "fr: 14 juillet 2030"]
    for text, translation in zip(examples, translator.generate(examples, *tokenizers), strict=True):
        print(f"{text} -> {translation}")
    print(f"Wrote {run.model_path}. Next: keras-attn export onnx {run_dir} translator.onnx")


if __name__ == "__main__":
    main()
