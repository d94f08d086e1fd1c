"""Command line options of `train_translation.py`, and their defaults by data and model."""

import argparse
from pathlib import Path

import keras_attn
from keras_attn.files import separate_paths_problem

POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "relative")

# Defaults for generated dates, split into characters, and for sentences of a small corpus.
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
        "epochs": 5,
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
# Without attention, the decoder needs many steps to learn to use the final encoder state.
SENTENCES_WITHOUT_ATTENTION = {
    "dropout": 0.2,
    "tokens_per_batch": 1024,
    "epochs": 16,
    "learning_rate": 1.5e-3,
}

# Options that only one model has.
OPTIONS = {
    "rnn": "attention cell units no_input_feeding".split(),
    "transformer": "heads intermediate_dim positions attention_dropout activation_dropout".split(),
}

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


def parse_arguments():
    parser = argparse.ArgumentParser(
        description="Trains a translator: text in, text out.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        epilog="Options without a default depend on data and model: TEXT and MODELS in the code.",
    )
    parser.add_argument("--run-dir", type=Path, default=Path("build/run"), help="output directory")
    parser.add_argument("--data", type=Path, help="directory of parallel files; default: dates")
    parser.add_argument("--source", help="suffix of the source files")
    parser.add_argument("--target", help="suffix of the target files")
    parser.add_argument("--model", choices=("rnn", "transformer"), default="rnn")
    parser.add_argument("--layers", type=int, default=None, help="number of layers on each side")
    rnn = parser.add_argument_group("RNN")
    rnn.add_argument("--attention", choices=ATTENTIONS, default=None)
    rnn.add_argument("--cell", choices=("lstm", "gru"), default=None)
    rnn.add_argument("--units", type=int, default=None)
    rnn.add_argument(
        "--no-input-feeding",
        action="store_true",
        default=None,
        help="omit input feeding, for faster training",
    )
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
        help="multiply in bfloat16 on a CPU: up to twice as fast if the CPU has AMX instructions",
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
        "--scheduled-sampling",
        type=float,
        default=0.0,
        help="share of target tokens that are replaced by samples at the end of the training",
    )
    parser.add_argument(
        "--decay",
        type=float,
        default=None,
        help="share of the steps, at the end of the training, in which the rate falls to 0",
    )
    args = parser.parse_args()
    if problem := separate_paths_problem(
        {"--run-dir": args.run_dir}, {"--data": args.data}, only_equal=True
    ):
        parser.error(problem)
    for model, names in OPTIONS.items():
        given = [name for name in names if getattr(args, name) is not None]
        if given and model != args.model:
            parser.error(f"--{given[0].replace('_', '-')} is an option of --model {model}")
    if not args.data and (args.source or args.target):
        parser.error("--source and --target need --data")
    if not 0 <= args.scheduled_sampling <= 1:
        parser.error("--scheduled-sampling must be between 0 and 1")
    args.source, args.target = args.source or "source", args.target or "target"
    text = "sentences" if args.data else "dates"
    defaults = {**TEXT[text], **MODELS[args.model, text]}
    if args.tokenizer not in (None, "bpe"):
        defaults["subword_sampling"] = 0.0  # the value is only suitable for bpe
    if args.data and args.model == "rnn" and args.attention == "none":
        defaults |= SENTENCES_WITHOUT_ATTENTION
    for name, value in defaults.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    return args
