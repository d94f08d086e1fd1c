"""Fine-tunes a translator with low-rank updates (LoRA) on parallel text.

    python examples/fine_tune_translation.py

Trains a small model on dates in four languages, and then fine-tunes it on German dates only, in
about two minutes. To fine-tune a run directory of `keras-attn convert` or `keras-attn train` on
parallel text files, plain or .gz, run:

    python examples/fine_tune_translation.py --run RUN --source train.en --target train.de \\
        --valid-source val.en --valid-target val.de --out TUNED

It prints the validation loss before and after, and writes a run directory, which you can export:

    keras-attn export onnx TUNED tuned.onnx
    keras-attn export transformers TUNED tuned    # if the model was converted from transformers

To train all weights, as for an RNN, leave out `enable_lora` and `merge_lora`. Setting
`layer.trainable = False` freezes a part, such as `translator.encoder`.
"""

import argparse
import itertools
import math
import shutil
import tempfile
from pathlib import Path

import keras

import keras_attn
from keras_attn.files import separate_paths_problem, write_lines
from keras_attn.text import (
    LengthBucketedBatches,
    ParallelCorpus,
    SentencePieceTokenizer,
    generate_dates,
)
from keras_attn.training import RunDirectory, compile_for_training, enable_lora, fit, merge_lora

RANK, EPOCHS, LEARNING_RATE = 8, 2, 0.002
TOKENS_PER_BATCH, MAX_LENGTH = 2000, 128
DATES = 4000


def parse_arguments(values=None):
    """Returns the run directory, the text files and the output directory."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    names = ("--run", "--source", "--target", "--valid-source", "--valid-target")
    for name in names:
        text = "text file" if name != "--run" else "run directory. Default: train a model on dates"
        parser.add_argument(name, type=Path, help=text)
    parser.add_argument("--out", type=Path, default="build/fine-tuned", help="output directory")
    *inputs, out = vars(parser.parse_args(values)).values()
    if None in inputs and any(inputs):
        parser.error("pass --run and the four text files, or none of them")
    if problem := separate_paths_problem({"--out": out}, dict(zip(names, inputs, strict=True))):
        parser.error(problem)
    return inputs[0], inputs[1:], out


def make_batches(files, tokenizers, add_source_start, directory):
    """Encodes two parallel text files and returns their batches."""
    corpus = ParallelCorpus.encode(*files, *tokenizers, MAX_LENGTH, MAX_LENGTH, directory)
    print(
        f"{files[0]}: {len(corpus)} pairs, without {corpus.dropped_empty} with an empty side and "
        f"{corpus.dropped_long} of more than {MAX_LENGTH} tokens"
    )
    return LengthBucketedBatches(corpus, TOKENS_PER_BATCH, add_source_start=add_source_start)


def train_on_dates(folder):
    """Trains a small translator of dates. Returns its run directory and files of German dates."""
    german = []
    for split, count in (("train", DATES), ("valid", 400)):
        sides = generate_dates(count, split=split)
        chosen = [text.startswith("de") for text in sides[0]]
        for side, lines in zip(("source", "target"), sides, strict=True):
            write_lines(folder / f"{split}.{side}", lines)
            german.append(folder / f"german-{split}.{side}")
            write_lines(german[-1], itertools.compress(lines, chosen))
    files = [folder / "train.source", folder / "train.target"]
    tokenizer = SentencePieceTokenizer.train(files, 90, "char")
    size = tokenizer.vocabulary_size
    encoder, decoder = keras_attn.transformer_seq2seq(
        size, size, num_layers=2, num_heads=4, embedding_dim=64, intermediate_dim=128, dropout=0.0
    )
    trainer = compile_for_training(keras_attn.TrainingModel(encoder, decoder))
    batches = make_batches(files, (tokenizer, tokenizer), False, folder / "corpus")
    fit(trainer, batches, epochs=1, verbose=2)
    run = RunDirectory.create(folder / "run", "generation", tokenizer)
    run.save_model(keras_attn.GenerationModel(encoder, keras_attn.BeamDecoder(decoder)))
    return folder / "run", german


def fine_tune(run_path, files, out, folder):
    """Trains the model of a run directory. Returns the validation loss before and after."""
    run = RunDirectory(run_path)
    translator = run.load_model("generation")
    tokenizers = (run.source_tokenizer, run.target_tokenizer or run.source_tokenizer)
    if translator.encoder is None or None in tokenizers:
        raise ValueError(f"Expected a translator with tokenizers. Received: --run {run_path}.")
    start = translator.encoder.start_token_id is not None
    training = make_batches(files[:2], tokenizers, start, folder / "training")
    validation = make_batches(files[2:], tokenizers, start, folder / "validation")

    trainer = keras_attn.TrainingModel(translator.encoder, translator.decoder)
    enable_lora(trainer, RANK)
    trained = sum(math.prod(weight.shape) for weight in trainer.trainable_weights)
    print(f"{trained:,} of {trainer.count_params():,} weights are trained")
    pad = tokenizers[1].pad_token_id
    compile_for_training(trainer, LEARNING_RATE, label_smoothing=0.0, ignore_class=pad)
    before = evaluate(trainer, validation)
    fit(trainer, training, epochs=EPOCHS, verbose=2)
    after = evaluate(trainer, validation)
    merge_lora(trainer)

    # For a converted model, copy the files that `keras-attn export transformers` needs.
    original = run.files.get("original")
    files = {"original": "original"} if original else None
    tuned = RunDirectory.create(
        out, "generation", run.source_tokenizer, run.target_tokenizer, files, run.model_card
    )
    if original:
        shutil.rmtree(tuned.files["original"], ignore_errors=True)  # of an earlier run
        shutil.copytree(original, tuned.files["original"])
    tuned.save_model(translator)
    return before, after


def evaluate(trainer, batches):
    stream, steps = (batch for batch in batches.stream()), batches.steps_per_epoch
    return trainer.evaluate(stream, steps=steps, return_dict=True, verbose=0)["loss"]


def main():
    run, files, out = parse_arguments()
    keras.utils.set_random_seed(1)
    with tempfile.TemporaryDirectory() as temporary:
        if run is None:
            run, files = train_on_dates(Path(temporary))
        try:
            before, after = fine_tune(run, files, out, Path(temporary))
        except (OSError, ValueError) as error:
            raise SystemExit(str(error)) from None
    print(f"Validation loss: {before:.3f} before, {after:.3f} after.")
    print(f"Wrote {out}. Next: keras-attn export onnx {out} tuned.onnx")


if __name__ == "__main__":
    main()
