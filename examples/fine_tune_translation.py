"""Fine-tunes a translator on parallel text.

    python examples/fine_tune_translation.py

This command trains a small model on dates in four languages, and then fine-tunes it
with low-rank updates (LoRA) on German dates only, in about two minutes. To fine-tune a run
directory of `keras-attn convert` or `keras-attn train` on parallel text files, run:

    python examples/fine_tune_translation.py --run RUN --source train.en --target train.de \\
        --valid-source val.en --valid-target val.de --out TUNED

By default, only low-rank updates of the attention kernels are trained. With `--lora-rank 0`, all
weights are trained except the parts that `--freeze` names. The command prints the validation loss
before and after the training, and writes a run directory, which you can export:

    keras-attn export onnx TUNED tuned.onnx
    keras-attn export transformers TUNED tuned    # if the model was converted from transformers
"""

import argparse
import math
import shutil
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
from keras_attn.training import (
    RunDirectory,
    compile_for_training,
    enable_lora,
    fit,
    merge_lora,
)


def main():
    args = parse_arguments()
    if args.run is None:
        write_default_run(args)
    before, after = fine_tune(args)
    print(f"Validation loss: {before:.3f} before, {after:.3f} after. Wrote {args.out}.")


def parse_arguments(values=None):
    parser = argparse.ArgumentParser(description="Fine-tunes a translator on parallel text.")
    parser.add_argument("--run", type=Path, help="run directory. Default: train a model on dates")
    for name in ("source", "target", "valid-source", "valid-target"):
        parser.add_argument(f"--{name}", type=Path, help="text file, plain or .gz")
    parser.add_argument(
        "--out", type=Path, default=Path("build/fine-tuned"), help="output directory"
    )
    parser.add_argument(
        "--lora-rank",
        type=int,
        default=8,
        help="rank of the low-rank updates. 0: train all weights",
    )
    parser.add_argument("--lora-alpha", type=float)
    parser.add_argument(
        "--lora-feed-forward", action="store_true", help="also adapt the feed-forward layers"
    )
    parser.add_argument(
        "--freeze", choices=("encoder", "decoder", "embeddings"), action="append", default=[]
    )
    parser.add_argument("--accumulate", type=int, help="batches for each update")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--learning-rate", type=float, default=0.002)
    parser.add_argument("--tokens-per-batch", type=int, default=2000)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--pairs", type=int, default=4000, help="number of generated dates")
    args = parser.parse_args(values)
    files = (args.source, args.target, args.valid_source, args.valid_target)
    if (args.run is None) != all(each is None for each in files) or (args.run and None in files):
        parser.error("pass --run and the four text files, or none of them")
    names = ("run", "source", "target", "valid_source", "valid_target")
    inputs = {f"--{name.replace('_', '-')}": getattr(args, name) for name in names}
    if problem := separate_paths_problem({"--out": args.out}, inputs):
        parser.error(problem)
    return args


def write_default_run(args):
    """Trains a small translator of dates, and writes the German dates as parallel text."""
    folder = args.out.parent / f"{args.out.name}-data"
    folder.mkdir(parents=True, exist_ok=True)
    german = {}
    for split, count in (("train", args.pairs), ("valid", 400)):
        sources, targets = generate_dates(count, split=split)
        write_lines(folder / f"{split}.source", sources)
        write_lines(folder / f"{split}.target", targets)
        pairs = zip(sources, targets, strict=True)
        german[split] = [pair for pair in pairs if pair[0].startswith("de")]
    files = [folder / f"train.{side}" for side in ("source", "target")]
    tokenizer = SentencePieceTokenizer.train(files, 90, "char")
    keras.utils.set_random_seed(0)
    encoder, decoder = keras_attn.transformer_seq2seq(
        tokenizer.vocabulary_size,
        tokenizer.vocabulary_size,
        num_layers=2,
        num_heads=4,
        embedding_dim=64,
        intermediate_dim=128,
        dropout=0.0,
    )
    trainer = compile_for_training(keras_attn.TrainingModel(encoder, decoder))
    batches = make_batches(files, (tokenizer, tokenizer), args, folder / "corpus", encoder)
    fit(trainer, batches, epochs=1, verbose=2)
    args.run = folder / "run"
    run = RunDirectory.create(args.run, "generation", tokenizer)
    run.save_model(keras_attn.GenerationModel(encoder, keras_attn.BeamDecoder(decoder)))
    for split, pairs in german.items():
        for side, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
            path = folder / f"german-{split}.{side}"
            write_lines(path, lines)
            setattr(args, side if split == "train" else f"valid_{side}", path)


def make_batches(files, tokenizers, args, directory, encoder, shuffle=True):
    """Encodes two parallel text files and returns their batches."""
    corpus = ParallelCorpus.encode(*files, *tokenizers, args.max_length, args.max_length, directory)
    return LengthBucketedBatches(
        corpus,
        args.tokens_per_batch,
        shuffle=shuffle,
        add_source_start=encoder.start_token_id is not None,
    )


def fine_tune(args):
    """Trains the model of a run directory. Returns the validation loss before and after."""
    run = RunDirectory(args.run)
    translator = run.load_model("generation")
    source = run.source_tokenizer
    target = run.target_tokenizer or source
    if source is None or translator.encoder is None:
        raise SystemExit(f"Expected a translator with tokenizers. Received: --run {args.run}.")
    trainer = keras_attn.TrainingModel(translator.encoder, translator.decoder)
    freeze(translator, args.freeze)
    if args.lora_rank:
        kernels = ("expansion", "contraction") if args.lora_feed_forward else None
        enable_lora(trainer, args.lora_rank, args.lora_alpha, feed_forward_kernels=kernels)
    total = trainer.count_params()
    trained = sum(math.prod(weight.shape) for weight in trainer.trainable_weights)
    print(f"{trained:,} of {total:,} weights are trained")
    data = args.out.parent / f"{args.out.name}-corpus"
    training, validation = (
        make_batches(files, (source, target), args, data / name, translator.encoder, shuffle)
        for name, files, shuffle in (
            ("train", (args.source, args.target), True),
            ("valid", (args.valid_source, args.valid_target), False),
        )
    )
    compile_for_training(
        trainer,
        args.learning_rate,
        label_smoothing=0.0,
        ignore_class=target.pad_token_id,
        gradient_accumulation_steps=args.accumulate,
    )
    before = evaluate(trainer, validation)
    fit(trainer, training, epochs=args.epochs, verbose=2)
    after = evaluate(trainer, validation)
    if args.lora_rank:
        merge_lora(trainer)
    # For a converted model, copy the files that `keras-attn export transformers` needs.
    original = run.files.get("original")
    files = {"original": "original"} if original else None
    tuned = RunDirectory.create(
        args.out, "generation", run.source_tokenizer, run.target_tokenizer, files, run.model_card
    )
    if original:
        shutil.rmtree(tuned.files["original"], ignore_errors=True)  # of an earlier run
        shutil.copytree(original, tuned.files["original"])
    tuned.save_model(translator)
    return before, after


def freeze(translator, parts):
    """Sets `trainable=False` for parts of a translator."""
    for part in parts:
        if part == "embeddings":
            translator.encoder.embedding.trainable = False
            translator.decoder.embedding.trainable = False
        else:
            getattr(translator, part).trainable = False


def evaluate(trainer, batches):
    logs = trainer.evaluate(
        (batch for batch in batches.stream()),
        steps=batches.steps_per_epoch,
        return_dict=True,
        verbose=0,
    )
    return logs["loss"]


if __name__ == "__main__":
    main()
