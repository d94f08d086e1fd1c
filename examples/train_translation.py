"""Trains a translator: text in, text out.

    python examples/train_translation.py

learns, in about two minutes, to read dates in four languages (see `dates.py`), and

    python examples/train_translation.py --data DIR --source en --target de

learns from parallel files: `DIR/train.en` and `DIR/train.de` (plain or `.gz`), `DIR/val.*` (or
`valid.*`, or `dev.*`) and `DIR/test*.*`. The run directory (`--run-dir`) then holds all that an
export needs:

    translator.keras          encoder, attention, decoder and beam search, one Keras model
    source.spm, target.spm    the tokenizers (equal where the vocabulary is shared)
    test.source, test.target  the test set as text
    history.json              loss, perplexity and accuracy of each epoch

    python -m keras_attn.export onnx RUN translator.onnx
    python -m keras_attn_runtime translator.onnx < RUN/test.source

A run that was killed goes on where it stopped when the command is given again, with what else is
there: `run.json` (the options), `state`, `epochs` and `corpus-*`.
"""

import argparse
import json
import math
import os
import shutil
import time
from pathlib import Path

# On processors without VNNI, TensorFlow takes twice as long where this is not asked for.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

import dates
import keras

import keras_attn
from keras_attn.models.transformer_seq2seq import POSITIONS
from keras_attn.replace_when_done import replace_when_done
from keras_attn.text import LengthBucketedBatches, ParallelCorpus, SentencePieceTokenizer
from keras_attn.text.lines import read_lines
from keras_attn.training import (
    AverageWeights,
    BestCheckpoint,
    InverseSquareRootSchedule,
    compile_for_training,
    fit,
    strategy,
)

# What suits generated dates, read by character, and real sentences of a small corpus.
TEXT = {
    "dates": {
        "tokenizer": "char",
        "vocabulary_size": 200,
        "separate_vocabularies": True,
        "tokens_per_batch": 4096,
        "label_smoothing": 0.0,
        "subword_sampling": 0.0,
        "max_length": 48,
    },
    "sentences": {
        "tokenizer": "bpe",
        "vocabulary_size": 8000,
        "separate_vocabularies": False,
        "label_smoothing": 0.1,
        "subword_sampling": 0.0,
        "max_length": 256,
    },
}
MODELS = {
    ("rnn", "dates"): {
        "attention": "bahdanau",
        "cell": "lstm",
        "no_input_feeding": False,
        "embedding_dim": 64,
        "units": 96,
        "layers": 1,
        "dropout": 0.1,
        "epochs": 3,
        "learning_rate": 4e-3,
        "beta_2": 0.999,
        "warmup_steps": 100,
        "decay": 0.5,
        "average": 1,
    },
    ("rnn", "sentences"): {
        "attention": "bahdanau",
        "cell": "lstm",
        "no_input_feeding": False,
        "embedding_dim": 256,
        "units": 256,
        "layers": 1,
        "dropout": 0.4,
        "tokens_per_batch": 2048,
        "epochs": 18,
        "learning_rate": 2e-3,
        "beta_2": 0.999,
        "warmup_steps": 500,
        "decay": 0.5,
        "average": 4,
    },
    ("transformer", "dates"): {
        "embedding_dim": 64,
        "intermediate_dim": 128,
        "heads": 4,
        "layers": 2,
        "positions": "sinusoidal",
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "activation_dropout": 0.1,
        "epochs": 6,
        "learning_rate": 4e-3,
        "beta_2": 0.999,
        "warmup_steps": 200,
        "decay": 0.5,
        "average": 1,
    },
    ("transformer", "sentences"): {
        "embedding_dim": 128,
        "intermediate_dim": 256,
        "heads": 4,
        "layers": 4,
        "positions": "relative",
        "dropout": 0.3,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "subword_sampling": 0.02,
        "tokens_per_batch": 2048,
        "epochs": 52,
        "learning_rate": 5e-3,
        "beta_2": 0.98,
        "warmup_steps": 2000,
        "decay": 0.3,
        "average": 5,
    },
}
# Without attention it takes many steps until the decoder reads what the encoder leaves it.
SENTENCES_WITHOUT_ATTENTION = {
    "dropout": 0.2,
    "tokens_per_batch": 1024,
    "epochs": 16,
    "learning_rate": 1.5e-3,
}

# Options of one model alone.
OPTIONS = {
    "rnn": "attention cell units no_input_feeding".split(),
    "transformer": "heads intermediate_dim positions attention_dropout activation_dropout".split(),
}

# What may be another when a training goes on: where, how long and on what, and the search.
MAY_CHANGE = """
    run_dir data epochs average strategy bfloat16 beam_width length_penalty
""".split()

ATTENTIONS = {
    "none": None,
    "bahdanau": "bahdanau",
    "luong": "luong",
    "multi-head": lambda units: keras_attn.MultiHeadAttention(4, units // 4),
    "sparsemax": lambda units: keras_attn.BahdanauAttention(units, probability_fn="sparsemax"),
    "local": lambda units: keras_attn.LocalAttention(keras_attn.LuongAttention("general")),
    "coverage": keras_attn.CoverageAttention,
    "location-sensitive": keras_attn.LocationSensitiveAttention,
}


def main():
    args = parse_arguments()
    args.run_dir.mkdir(parents=True, exist_ok=True)
    if args.bfloat16:
        multiply_in_bfloat16()
    files = find_files(args) if args.data else {}
    check_run_dir(files, args)
    if not args.data:
        files = write_dates(args.run_dir / "data", args.seed)
    copy_test_set(files, args.run_dir)
    source_tokenizer, target_tokenizer = train_tokenizers(files, args)
    train, valid = encode(files, source_tokenizer, target_tokenizer, args)

    with strategy(args.strategy).scope():
        encoder, decoder = make_model(
            args, source_tokenizer.vocabulary_size, target_tokenizer.vocabulary_size
        )
        search = keras_attn.BeamDecoder(
            decoder,
            beam_width=args.beam_width,
            num_hypotheses=args.beam_width,
            max_length=args.max_length,
            length_penalty=args.length_penalty,
            return_alignments=args.model == "transformer" or args.attention != "none",
            name="search",
        )
        trainer = keras_attn.training_model(encoder, decoder)
        translator = keras_attn.search_model(encoder, search)
        compile_for_training(
            trainer,
            learning_rate=make_schedule(args, train.steps_per_epoch),
            label_smoothing=args.label_smoothing,
            beta_2=args.beta_2,
        )

    print(f"{trainer.count_params():,} weights, {train.steps_per_epoch} steps per epoch")
    clock = Clock()
    average = AverageWeights(args.run_dir / "epochs", num_epochs=args.average)
    best = BestCheckpoint(args.run_dir / "translator.keras", saved_model=translator)
    history = fit(
        trainer,
        train,
        epochs=args.epochs,
        directory=args.run_dir / "state",
        validation_batches=valid,
        callbacks=[average, best, clock],
        verbose=2,
    )
    average.apply()
    with replace_when_done(args.run_dir / "translator.keras") as partial:
        translator.save(partial)
    minutes, cpu_minutes = (seconds / 60 for seconds in clock.get_state())
    report = {
        "minutes": minutes,
        "cpu_minutes": cpu_minutes,
        "arguments": {**vars(args), "epochs": len(history.epoch)},
        "history": history.history,
    }
    (args.run_dir / "history.json").write_text(json.dumps(report, indent=2, default=str))
    print(f"Trained for {minutes:.1f} minutes: {args.run_dir / 'translator.keras'}")


class Clock(keras.callbacks.Callback):
    """Counts the seconds of a training and of its processors, those before a kill included."""

    def __init__(self):
        super().__init__()
        self.set_state([0.0, 0.0])

    def get_state(self):
        """What `fit` stores."""
        return [time.monotonic() - self.started[0], time.process_time() - self.started[1]]

    def set_state(self, seconds):
        """Goes on from what `get_state` gave."""
        self.started = [time.monotonic() - seconds[0], time.process_time() - seconds[1]]


def multiply_in_bfloat16():
    """Lets TensorFlow round what it multiplies in a training; weights and sums stay in float32."""
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"auto_mixed_precision_onednn_bfloat16": True})
    # The largest logit of every token takes ten times as long in bfloat16.
    os.environ.setdefault("TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_CLEARLIST_REMOVE", "Max")


def make_model(args, source_vocabulary_size, target_vocabulary_size):
    """Encoder and decoder."""
    shared = {
        "embedding_dim": args.embedding_dim,
        "num_layers": args.layers,
        "dropout": args.dropout,
        "share_embeddings": not args.separate_vocabularies,
        "seed": args.seed,
    }
    if args.model == "transformer":
        return keras_attn.transformer_seq2seq(
            source_vocabulary_size,
            target_vocabulary_size,
            num_heads=args.heads,
            intermediate_dim=args.intermediate_dim,
            attention_dropout=args.attention_dropout,
            activation_dropout=args.activation_dropout,
            positions=args.positions,
            # The start token comes first, and pieces that are drawn are up to a quarter more.
            max_length=math.ceil(1.25 * args.max_length) + 1,
            **shared,
        )
    keras.utils.set_random_seed(args.seed)  # before an attention draws a seed for its weights
    attention = ATTENTIONS[args.attention]
    return keras_attn.rnn_seq2seq(
        source_vocabulary_size,
        target_vocabulary_size,
        attention=attention(args.units) if callable(attention) else attention,
        cell=args.cell,
        units=args.units,
        input_feeding=not args.no_input_feeding,
        **shared,
    )


def make_schedule(args, steps_per_epoch):
    """Inverse square root of the step, and linear to zero over the last steps, if so asked."""
    decay = {}
    if args.decay:
        total_steps = args.epochs * steps_per_epoch
        decay = {"total_steps": total_steps, "decay_steps": math.ceil(args.decay * total_steps)}
    return InverseSquareRootSchedule(args.learning_rate, args.warmup_steps, **decay)


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        epilog="Options without a default depend on text and model: TEXT and MODELS in the code.",
    )
    parser.add_argument("--run-dir", type=Path, default=Path("build/run"), help="what is written")
    parser.add_argument("--data", type=Path, help="directory of parallel files; default: dates")
    parser.add_argument("--source", help="suffix of the source files")
    parser.add_argument("--target", help="suffix of the target files")
    parser.add_argument("--model", choices=("rnn", "transformer"), default="rnn")
    parser.add_argument("--layers", type=int, default=None, help="on each side")
    rnn = parser.add_argument_group("RNN")
    rnn.add_argument("--attention", choices=ATTENTIONS, default=None)
    rnn.add_argument("--cell", choices=("lstm", "gru"), default=None)
    rnn.add_argument("--units", type=int, default=None)
    rnn.add_argument("--no-input-feeding", action="store_true", default=None, help="train faster")
    transformer = parser.add_argument_group("Transformer")
    transformer.add_argument("--heads", type=int, default=None)
    transformer.add_argument("--intermediate-dim", type=int, default=None)
    transformer.add_argument("--attention-dropout", type=float, default=None)
    transformer.add_argument("--activation-dropout", type=float, default=None)
    transformer.add_argument("--positions", choices=POSITIONS, default=None)
    parser.add_argument("--beam-width", type=int, default=4)
    parser.add_argument("--length-penalty", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--strategy", choices=("auto", "none", "mirrored"), default="auto")
    parser.add_argument(
        "--bfloat16",
        action="store_true",
        help="multiply in bfloat16 on a CPU: up to twice as fast if it has AMX instructions",
    )
    parser.add_argument("--tokenizer", choices=("bpe", "unigram", "char"), default=None)
    parser.add_argument("--separate-vocabularies", action="store_true", default=None)
    for name in ("embedding-dim", "vocabulary-size", "tokens-per-batch", "epochs"):
        parser.add_argument(f"--{name}", type=int, default=None)
    for name in ("warmup-steps", "average", "max-length"):
        parser.add_argument(f"--{name}", type=int, default=None)
    for name in ("dropout", "label-smoothing", "learning-rate", "beta-2", "subword-sampling"):
        parser.add_argument(f"--{name}", type=float, default=None)
    parser.add_argument(
        "--decay", type=float, default=None, help="share of the steps in which the rate falls to 0"
    )
    args = parser.parse_args()
    for model, names in OPTIONS.items():
        given = [name for name in names if getattr(args, name) is not None]
        if given and model != args.model:
            parser.error(f"--{given[0].replace('_', '-')} is an option of --model {model}")
    if not args.data and (args.source or args.target):
        parser.error("--source and --target need --data")
    args.source, args.target = args.source or "source", args.target or "target"
    text = "sentences" if args.data else "dates"
    defaults = {**TEXT[text], **MODELS[args.model, text]}
    if args.tokenizer not in (None, "bpe"):
        defaults["subword_sampling"] = 0.0  # which is another number for other tokenizers
    if args.data and args.model == "rnn" and args.attention == "none":
        defaults |= SENTENCES_WITHOUT_ATTENTION
    for name, value in defaults.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    return args


def check_run_dir(files, args):
    """A run directory is of one text and one model: notes which, refuses to go on with others.

    What was prepared for others that were never trained is removed, and what a killed preparation
    left.
    """
    run = {name: value for name, value in vars(args).items() if name not in MAY_CHANGE}
    run["bytes"] = {".".join(name): path.stat().st_size for name, path in files.items()}
    path = args.run_dir / "run.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    # What has no value is an option of the other model.
    changed = {name: value for name, value in before.items() if run.get(name) not in (None, value)}
    trained = any((args.run_dir / name).exists() for name in ("state", "translator.keras"))
    if changed and trained:
        raise SystemExit(
            f"{args.run_dir} holds a training of another text or model, with {changed}. "
            "Choose another --run-dir."
        )
    if changed:
        for tokenizer in args.run_dir.glob("*.spm"):
            tokenizer.unlink()
        for corpus in args.run_dir.glob("corpus-*"):
            shutil.rmtree(corpus)
    for partial in args.run_dir.glob(".corpus-*"):
        shutil.rmtree(partial)
    if run != before:
        with replace_when_done(path) as partial:
            partial.write_text(json.dumps(run, indent=2))


def write_dates(directory, seed):
    """Writes generated dates; returns the six paths, keyed by split and side."""
    dates.write_files(directory, train=30000, valid=1000, test=2000, seed=seed)
    return {
        (split, side): directory / f"{split}.{side}"
        for split in dates.SPLITS
        for side in ("source", "target")
    }


def find_files(args):
    """The six paths of parallel files, keyed by split and side."""
    patterns = {"train": ["train"], "valid": ["val", "valid", "dev"], "test": ["test", "test*"]}
    files = {}
    for split, stems in patterns.items():
        sides = []
        for suffix in (args.source, args.target):
            found = [
                path
                for stem in stems
                for pattern in (f"{stem}.{suffix}", f"{stem}.{suffix}.gz")
                for path in sorted(args.data.glob(pattern))
            ]
            side = {}
            for path in found:  # of a name that is there twice, the first counts
                name = path.name.removesuffix(".gz").removesuffix(f".{suffix}")
                side.setdefault(name, path)
            sides.append(side)
        source, target = sides
        both = [name for name in source if name in target]
        if not both:
            raise SystemExit(
                f"No {stems[0]}.{args.source} and {stems[0]}.{args.target} (or .gz) in {args.data}."
            )
        files[split, "source"], files[split, "target"] = source[both[0]], target[both[0]]
    return files


def copy_test_set(files, run_dir):
    sides = {side: list(read_lines(files["test", side])) for side in ("source", "target")}
    if len(sides["source"]) != len(sides["target"]):
        counts = {str(files["test", side]): len(lines) for side, lines in sides.items()}
        raise SystemExit(f"The files of the test set must have as many lines. Received: {counts}.")
    for side, lines in sides.items():
        text = "".join(f"{line}\n" for line in lines)
        (run_dir / f"test.{side}").write_text(text, encoding="utf-8")


def train_tokenizers(files, args):
    """A tokenizer for each side, trained on the training files; kept in the run directory."""
    paths = [args.run_dir / "source.spm", args.run_dir / "target.spm"]
    if not all(path.exists() for path in paths):
        texts = [files["train", "source"]], [files["train", "target"]]
        sides = texts if args.separate_vocabularies else [texts[0] + texts[1]]
        made = [
            SentencePieceTokenizer.train(each, args.vocabulary_size, args.tokenizer)
            for each in sides
        ]
        for path, tokenizer in zip(paths, (made[0], made[-1]), strict=True):
            tokenizer.save(path)
    return [SentencePieceTokenizer.load(path) for path in paths]


def encode(files, source_tokenizer, target_tokenizer, args):
    """Batches of ids for training and validation."""
    batches = []
    for split in ("train", "valid"):
        directory = args.run_dir / f"corpus-{split}"
        if directory.exists():
            corpus = ParallelCorpus.load(directory)
        else:
            corpus = ParallelCorpus.encode(
                files[split, "source"],
                files[split, "target"],
                source_tokenizer,
                target_tokenizer,
                args.max_length,
                args.max_length,
                directory,
            )
        print(
            f"{split}: {len(corpus)} pairs; left out: {corpus.dropped_empty} with an empty side, "
            f"{corpus.dropped_long} too long"
        )
        options = {"shuffle": split == "train"}
        if split == "train" and args.subword_sampling:
            options["tokenizers"] = source_tokenizer, target_tokenizer
            options["sampling_alpha"] = args.subword_sampling
        batches.append(
            LengthBucketedBatches(corpus, args.tokens_per_batch, seed=args.seed, **options)
        )
    return batches


if __name__ == "__main__":
    main()
