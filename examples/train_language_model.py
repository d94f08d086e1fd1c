"""Trains a causal language model on characters, and generates text.

    python examples/train_language_model.py

This command trains the model to add numbers, for example to continue `47+85=`. To train on a text
file (plain or `.gz`), run:

    python examples/train_language_model.py --data FILE [--valid FILE] [--documents]

Without `--valid`, one twentieth of the text is held out. With `--documents`, blank lines divide the
text into documents, and the model learns where a document begins and ends. After the training, the
run directory (`--run-dir`) contains:

    run.json          kind, file names, special token ids
    model.keras       Keras model that continues prompts with beam search
    source.spm        the tokenizer
    generator.onnx    ONNX export of this model, compared with Keras
    writer.onnx       ONNX export of a model that samples continuations, compared with Keras
    samples.txt       sampled texts
    held_out.txt      the held-out text
    results.json      bits per character on the held-out text, minutes, arguments
"""

import argparse
import json
import math
import os
import random
import re
import time
from pathlib import Path

# Speed: on processors without VNNI, TensorFlow takes twice as long without this setting.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

import keras
import numpy as np

import keras_attn
from keras_attn.export import export_onnx
from keras_attn.files import atomic_replace, read_lines, separate_paths_problem
from keras_attn.text import SentencePieceTokenizer, SpecialTokenIds
from keras_attn.training import RunDirectory, compile_for_training

RESULTS = ("generator.onnx", "writer.onnx", "samples.txt", "held_out.txt", "results.json")
SUMS = {"embedding_dim": 64, "layers": 2, "dropout": 0.0, "window": 64, "epochs": 28}
TEXT = {"embedding_dim": 128, "layers": 4, "dropout": 0.1, "window": 128, "epochs": 5}


def main():
    args = parse_arguments()
    args.run_dir.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(args.seed)
    sums = args.data is None
    if sums:
        args.data, args.documents = write_sums(args.run_dir / "sums.txt"), True
    train, held_out = read_texts(args)
    tokenizer = SentencePieceTokenizer.train(args.data, 10**6, "char", normalizer="identity")
    windows = RandomWindows(to_stream(train, tokenizer, args), args)
    inputs, labels = overlapping_windows(to_stream(held_out, tokenizer, args), args.window)

    model = make_model(tokenizer.vocabulary_size, args)
    trainer = keras_attn.TrainingModel(None, model)
    # Create the searches before the training, so that invalid arguments raise errors early.
    generator, writer = make_generator(model, tokenizer, args), make_writer(model, tokenizer, args)
    steps_after_warmup = max(1, args.epochs * len(windows) - args.warmup_steps)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, steps_after_warmup, warmup_target=args.learning_rate, warmup_steps=args.warmup_steps
    )
    compile_for_training(trainer, schedule, label_smoothing=0.0)
    print(f"{trainer.count_params():,} weights, {len(windows)} steps per epoch")
    started = time.monotonic(), time.process_time()
    trainer.fit(windows, validation_data=(inputs, labels), epochs=args.epochs, verbose=2)
    report = {
        "minutes": (time.monotonic() - started[0]) / 60,
        "cpu_minutes": (time.process_time() - started[1]) / 60,
        "weights": trainer.count_params(),
        "characters": sum(map(len, held_out)),
    }
    results = trainer.evaluate(inputs, labels, verbose=0, return_dict=True)
    # Count characters instead of tokens, because several unknown characters can be one token. The
    # end of a document counts as a character. The first character of a text does not count, because
    # it is not predicted.
    report["characters"] += len(held_out) if args.documents else -1
    bits = math.log2(results["perplexity"]) * (labels != 0).sum()
    report["bits_per_character"] = float(bits / report["characters"])

    # An earlier run is replaced only now: the text was accepted, and the training has ended.
    for name in RESULTS:
        (args.run_dir / name).unlink(missing_ok=True)
    RunDirectory.create(args.run_dir, "generation", tokenizer).save_model(generator)
    with atomic_replace(args.run_dir / "held_out.txt") as partial:
        partial.write_text("\n\n".join(held_out) + "\n", encoding="utf-8")
    if sums:
        report["exact_sums"] = share_of_exact_sums(generator, tokenizer, held_out, args)
    samples = write_samples(writer, tokenizer, args)
    with atomic_replace(args.run_dir / "samples.txt") as partial:
        partial.write_text("\n\n".join(samples) + "\n", encoding="utf-8")
    print("\n\n".join(samples[:3]))
    prompts = [row[row != 0].tolist() for row in inputs[:, :16]]
    report["arguments"] = vars(args)
    drawn = keras_attn.with_search(writer, num_hypotheses=1)
    try:
        for name, each in (("generator", generator), ("writer", drawn)):
            path = args.run_dir / f"{name}.onnx"
            report[f"{name}_onnx"] = str(
                export_onnx(each, path, tokenizer, parity_sentences=prompts[:200])
            )
    finally:  # keep the results even if the export fails
        with atomic_replace(args.run_dir / "results.json") as partial:
            partial.write_text(json.dumps(report, indent=2, default=str))
    print(json.dumps({name: report[name] for name in report if name != "arguments"}, indent=2))


def write_sums(path):
    """Writes all sums of two numbers below 100, with blank lines between them."""
    sums = [f"{a}+{b}={a + b}" for a in range(100) for b in range(100)]
    with atomic_replace(path) as partial:
        partial.write_text("\n\n".join(sums) + "\n", encoding="utf-8")
    return path


def read_texts(args):
    """Returns the documents for training and the held-out documents."""
    train = "\n".join(read_lines(args.data))
    held_out = "\n".join(read_lines(args.valid)) if args.valid else ""
    if args.valid and not held_out.strip():
        raise SystemExit(f"Expected text to hold out. Received: none in {args.valid}.")
    if not args.documents:
        end = len(train) if held_out else len(train) * 19 // 20
        return [train[:end]], [held_out or train[end:]]
    train, held_out = (
        [document.strip("\n") for document in re.split(r"\n\s*\n", text) if document.strip()]
        for text in (train, held_out)
    )
    if len(train) < (1 if held_out else 2):
        raise SystemExit(
            f"Expected documents to train on and one to hold out. Received: {len(train)} in "
            f"{args.data}. Separate the documents by blank lines, or omit --documents."
        )
    random.Random(args.seed).shuffle(train)
    end = len(train) if held_out else len(train) * 19 // 20
    return train[:end], held_out or train[end:]


def to_stream(documents, tokenizer, args):
    """Returns the ids of all texts in one array. Documents have a start and an end token."""
    rows = tokenizer.encode(documents)
    if args.documents:
        rows = [[tokenizer.start_token_id, *ids, tokenizer.end_token_id] for ids in rows]
    return np.concatenate(rows).astype("int32")


class RandomWindows(keras.utils.PyDataset):
    """Batches of windows at random positions of the text. Each epoch uses new positions."""

    def __init__(self, stream, args):
        super().__init__()
        if len(stream) <= args.window:
            raise SystemExit(
                f"Expected a text longer than --window {args.window}. Received: {len(stream)} "
                f"characters in {args.data}."
            )
        self.windows = np.lib.stride_tricks.sliding_window_view(stream, args.window + 1)
        self.shape = (max(1, len(stream) // (args.window * args.batch_size)), args.batch_size)
        self.generator = np.random.default_rng(args.seed)
        self.on_epoch_end()

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, index):
        return inputs_and_labels(self.windows[self.starts[index]])

    def on_epoch_end(self):
        self.starts = self.generator.integers(len(self.windows), size=self.shape)


def inputs_and_labels(windows):
    """Returns inputs and labels of windows `(batch, time + 1)`. Start tokens have no label."""
    labels = windows[:, 1:]
    is_start = labels == SpecialTokenIds().start
    return windows[:, :-1], np.where(is_start, 0, labels)  # the loss ignores label 0


def overlapping_windows(stream, window):
    """Returns inputs and labels in which each token has a label once.

    The first half of each window (except the first window) is only context: its labels are 0. Each
    token is therefore predicted from a context of at least half a window.
    """
    stride = window // 2
    missing = max(0, window + 1 - len(stream)) or -(len(stream) - 1 - window) % stride
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(stream, (0, missing)), window + 1)
    inputs, labels = inputs_and_labels(windows[::stride])
    labels[1:, :-stride] = 0
    return inputs, labels


def make_model(vocabulary_size, args):
    """Creates a decoder-only Transformer with rotary positions and a shared embedding matrix."""
    block = keras_attn.TransformerDecoderBlock(
        args.heads,
        4 * args.embedding_dim,
        cross_attention=False,
        activation="gelu",
        dropout=args.dropout,
        rotary=keras_attn.RotaryPositions(),
        seed=args.seed,
    )
    initializer = keras.initializers.RandomNormal(stddev=args.embedding_dim**-0.5)
    embedding = keras.layers.ReversibleEmbedding(
        vocabulary_size, args.embedding_dim, embeddings_initializer=initializer, name="embedding"
    )
    return keras_attn.CausalLanguageModel(
        block, embedding, num_layers=args.layers, scale_embedding=True, name="language_model"
    )


def make_generator(model, tokenizer, args):
    """Creates a model that continues prompts with beam search."""
    search = keras_attn.BeamDecoder(
        model, beam_width=4, max_length=min(args.sample_length, 64), relative_max_length=None
    )
    start_token_id = tokenizer.start_token_id if args.documents else None
    return keras_attn.GenerationModel(
        None, search, source_start_token_id=start_token_id, name="generator"
    )


def share_of_exact_sums(generator, tokenizer, sums, args):
    prompts = [document.partition("=")[0] + "=" for document in sums]
    found = generator.predict(to_prompts(prompts, tokenizer, args), verbose=0)["token_ids"][:, 0]
    written = zip(prompts, tokenizer.decode(found), sums, strict=True)
    return float(np.mean([prompt + answer == document for prompt, answer, document in written]))


def to_prompts(texts, tokenizer, args):
    """Returns ids `(batch, prompt)`, padded on the right. Documents begin with a start token."""
    first = [tokenizer.start_token_id] if args.documents else []
    rows = [first + ids for ids in tokenizer.encode(texts)]
    return keras.utils.pad_sequences(rows, padding="post", dtype="int32")


def make_writer(model, tokenizer, args):
    """Creates a model that samples continuations of prompts."""
    sampler = keras_attn.SamplingDecoder(
        model,
        num_hypotheses=args.samples,
        temperature=args.temperature,
        max_length=args.sample_length,
        relative_max_length=None,
        seed=args.seed,
    )
    start_token_id = tokenizer.start_token_id if args.documents else None
    return keras_attn.GenerationModel(
        None, sampler, source_start_token_id=start_token_id, name="writer"
    )


def write_samples(writer, tokenizer, args):
    prompts = to_prompts([args.prompt], tokenizer, args)
    token_ids = writer.predict(prompts, verbose=0)["token_ids"][0]  # (samples, length)
    return [args.prompt + text for text in tokenizer.decode(token_ids)]


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        epilog="Options without a default depend on the text: SUMS and TEXT in the code.",
    )
    parser.add_argument("--run-dir", type=Path, default=Path("build/language_model"))
    parser.add_argument("--data", type=Path, help="text file; default: sums")
    parser.add_argument("--valid", type=Path, help="held-out text; default: a part of --data")
    parser.add_argument("--documents", action="store_true", help="blank lines divide the text")
    for name in ("embedding-dim", "layers", "window", "epochs"):
        parser.add_argument(f"--{name}", type=int, default=None)
    parser.add_argument("--dropout", type=float, default=None)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=4e-3)
    parser.add_argument("--warmup-steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument(
        "--sample-length",
        type=int,
        default=None,
        help="maximum number of sampled tokens; default: --window",
    )
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--prompt", default=None, help="beginning of the samples")
    args = parser.parse_args()
    if problem := separate_paths_problem(
        {"--run-dir": args.run_dir},
        {"--data": args.data, "--valid": args.valid},
        only_equal=True,
    ):
        parser.error(problem)
    if args.data is None and (args.valid or args.documents):
        parser.error("--valid and --documents need --data")
    if args.prompt is None:
        args.prompt = "" if args.documents or args.data is None else "\n"
    for name, value in (TEXT if args.data else SUMS).items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    if args.sample_length is None:
        args.sample_length = args.window  # the model was not trained on longer distances
    return args


if __name__ == "__main__":
    main()
