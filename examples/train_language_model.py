"""Trains a language model that adds numbers: it continues `47+85=` with `132`.

    python examples/train_language_model.py --run-dir build/language_model

The training takes about two minutes. If it is interrupted, run the same command again to continue.
Afterwards, the run directory contains:

    run.json          kind, file names, special token ids
    model.keras       Keras model that continues prompts with beam search
    source.spm        the tokenizer
    sums.txt          the training text
    history.json      loss, perplexity and accuracy of each epoch

Export the model, run it, and sample from it:

    keras-attn export onnx build/language_model adder.onnx
    echo 47+85= | keras-attn-runtime translate adder.onnx
    keras-attn export onnx build/language_model writer.onnx --search-class SamplingDecoder
    printf '1\\n4\\n' | keras-attn-runtime translate writer.onnx

To train on your own text, replace `write_sums` by `keras_attn.text.read_documents`, or use the full
program: `keras-attn train language-model --help`.
"""

import argparse
import random
from pathlib import Path

import keras

import keras_attn
from keras_attn.files import write_lines
from keras_attn.text import SentencePieceTokenizer, encode_documents
from keras_attn.training import (
    BestCheckpoint,
    HistoryFile,
    RandomWindows,
    RunDirectory,
    ShowProgress,
    compile_for_training,
    fit,
    overlapping_windows,
)

WINDOW, BATCH_SIZE, EPOCHS = 64, 16, 40


def write_sums(path):
    """Writes the sums of two numbers below 100. Returns 9,500 to train on, and 500 others."""
    sums = [f"{a}+{b}={a + b}" for a in range(100) for b in range(100)]
    random.Random(1).shuffle(sums)
    training, held_out = sums[500:], sums[:500]
    write_lines(path, training)
    return training, held_out


def make_model(vocabulary_size):
    """Creates a decoder-only Transformer with rotary positions and a shared embedding matrix."""
    block = keras_attn.TransformerDecoderBlock(
        num_heads=4,
        intermediate_dim=256,
        cross_attention=False,
        activation="gelu",
        rotary=keras_attn.RotaryPositions(),
        seed=1,
    )
    embedding = keras.layers.ReversibleEmbedding(
        vocabulary_size, 64, embeddings_initializer=keras.initializers.RandomNormal(stddev=0.125)
    )
    return keras_attn.CausalLanguageModel(block, embedding, num_layers=2, scale_embedding=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--run-dir",
        type=Path,
        default=Path("build/language_model"),
        help="run directory to write",
    )
    run_dir = parser.parse_args().run_dir
    run_dir.mkdir(parents=True, exist_ok=True)

    # 1. Text: each sum is a document between a start and an end token. All documents are one
    # sequence of ids. A training step reads windows at random positions in this sequence.
    training, held_out = write_sums(run_dir / "sums.txt")
    tokenizer = SentencePieceTokenizer.train(
        run_dir / "sums.txt", 100, "char", normalizer="identity"
    )
    run = RunDirectory.create(run_dir, "generation", tokenizer)
    ids, held_out_ids = (
        encode_documents(sums, tokenizer, separated=True) for sums in (training, held_out)
    )
    start = tokenizer.start_token_id
    windows = RandomWindows(ids, WINDOW, BATCH_SIZE, seed=1, start_token_id=start)

    # 2. Model: a decoder without an encoder, and a beam search that continues prompts.
    keras.utils.set_random_seed(1)
    model = make_model(tokenizer.vocabulary_size)
    search = keras_attn.BeamDecoder(model, beam_width=4, max_length=16, relative_max_length=None)
    adder = keras_attn.GenerationModel(None, search, source_start_token_id=start)

    # 3. Training: the model predicts each token from the tokens before it.
    warmup_steps = 100
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0,
        EPOCHS * len(windows) - warmup_steps,
        warmup_target=4e-3,
        warmup_steps=warmup_steps,
    )
    trainer = keras_attn.TrainingModel(None, model)
    compile_for_training(trainer, schedule, label_smoothing=0.0)
    fit(
        trainer,
        windows,
        epochs=EPOCHS,
        directory=run_dir / "state",
        validation_data=overlapping_windows(held_out_ids, WINDOW, start_token_id=start),
        callbacks=[
            BestCheckpoint(run, saved_model=adder),
            HistoryFile(run_dir / "history.json"),
            ShowProgress(BATCH_SIZE * WINDOW),
        ],
        verbose=0,
    )

    # 4. Sums that the model has not seen.
    best = run.load_model("generation")
    prompts = [text.partition("=")[0] + "=" for text in held_out]
    answers = best.generate(prompts, tokenizer)
    texts = [prompt + answer for prompt, answer in zip(prompts, answers, strict=True)]
    print("\n".join(texts[:3]))
    exact = sum(text == right for text, right in zip(texts, held_out, strict=True))
    print(f"{exact} of {len(held_out)} held-out sums are right.")
    print(f"Wrote {run.model_path}. Next: keras-attn export onnx {run_dir} adder.onnx")


if __name__ == "__main__":
    main()
