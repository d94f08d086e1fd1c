"""`keras-attn train language-model`: trains a model that continues texts."""

import dataclasses
import hashlib
import json
import math
import random
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

import keras_attn
from keras_attn.files import atomic_replace
from keras_attn.text import SentencePieceTokenizer, encode_documents, read_documents
from keras_attn.training import (
    BestCheckpoint,
    ModelCard,
    RandomWindows,
    RunDirectory,
    ShowProgress,
    WarnOfProblems,
    compile_for_training,
    make_strategy,
    overlapping_windows,
)
from keras_attn_checks.message import Argument, Message
from keras_attn_commands.train import run_files
from keras_attn_commands.train.dry_run import print_estimate
from keras_attn_commands.train.language_model_settings import (
    MAY_CHANGE,
    LanguageModelSettings,
    reject_settings_without_data,
)
from keras_attn_commands.train.memory import report_memory
from keras_attn_commands.train.run_training import make_schedule, run_training
from keras_attn_commands.train.setting_checks import check_heads
from keras_attn_commands.train.setting_warnings import warn_of_vocabulary, warn_of_warmup
from keras_attn_commands.train.settings import Warn, fill_settings

TOKENS = 5_000_000
"""Number of tokens that a training reads, if its number of epochs is chosen by the data."""


def train(settings: LanguageModelSettings, command: str, warn: Warn) -> None:
    """Trains a language model and writes it to the run directory.

    Args:
        settings: `LanguageModelSettings`. Settings that are `None` are chosen by the data.
        command: String, the command line, for the model card.
        warn: Function that shows the text of a warning.
    """
    reject_settings_without_data(settings)
    # All text is read, encoded and checked before anything in the run directory changes.
    prepared = prepare(settings, warn)
    run_dir = settings.run_dir
    with run_files.locked(run_dir):
        run_files.begin_training(settings, prepared.checksums, prepared.reasons, MAY_CHANGE)
        (run_dir / "data").mkdir(exist_ok=True)
        for name, text in prepared.files.items():
            write_text(run_dir / "data" / name, text)
        card = ModelCard(recipe=command)
        run = RunDirectory.create(run_dir, "generation", prepared.tokenizer, model_card=card)
        history = train_model(settings, prepared, run, warn)
        if not settings.dry_run:
            write_results(settings, prepared, run, history)


@dataclasses.dataclass
class Prepared:
    """Text of a training, as text and as ids, and the reasons for its settings."""

    tokenizer: SentencePieceTokenizer
    valid: list[str]
    files: dict[str, str]
    windows: RandomWindows
    inputs: np.ndarray
    labels: np.ndarray
    reasons: dict[str, str]

    @property
    def checksums(self) -> dict[str, str]:
        """Dict from the names of the files to their SHA-256 checksums."""
        return {
            name: hashlib.sha256(text.encode()).hexdigest() for name, text in self.files.items()
        }

    @property
    def start_token_id(self) -> int | None:
        """Int, the token before each document; `None` if the text is not divided."""
        return self.windows.start_token_id

    @property
    def characters(self) -> int:
        """Number of predicted characters. The end of a document counts as a character.

        Characters are counted instead of tokens, because several unknown characters can be one
        token. The first character of an undivided text is not predicted.
        """
        ends = -1 if self.start_token_id is None else len(self.valid)
        return sum(map(len, self.valid)) + ends


def prepare(settings: LanguageModelSettings, warn: Warn) -> Prepared:
    """Reads and encodes the text, and sets the settings that are `None`.

    Raises:
        ValueError: If the text is too short, or the prompt contains unknown characters.
    """
    training, valid = read_texts(settings)
    separated = settings.documents or settings.data is None
    for name, texts in (("train", training), ("valid", valid)):
        documents = f" in {len(texts):,} documents" if separated else ""
        print(f"{name}: {sum(map(len, texts)):,} characters{documents}")
    known = set(training)
    if repeated := sum(text in known for text in valid):
        warn(
            f"{repeated:,} of {len(valid):,} documents for validation are also in the training "
            "text: the results do not show how the model predicts new texts."
        )
    reasons = fill_settings(settings, text_defaults(settings, sum(map(len, training))))
    random.Random(settings.seed).shuffle(training)
    files = {
        f"{name}.txt": "\n\n".join(texts) + "\n"
        for name, texts in (("train", training), ("valid", valid))
    }
    tokenizer = train_tokenizer(settings, files["train.txt"], warn)
    start_token_id = tokenizer.start_token_id if separated else None
    streams = [
        encode_documents(texts, tokenizer, separated=separated) for texts in (training, valid)
    ]
    check_lengths(settings, streams)
    check_prompt(settings, tokenizer)
    unknown = int((streams[1] == tokenizer.unknown_token_id).sum())
    if unknown:
        warn(
            f"{unknown:,} of {len(streams[1]):,} tokens for validation are unknown: their "
            "characters do not occur in the training text."
        )
    windows = RandomWindows(
        streams[0],
        settings.window,
        settings.batch_size,
        seed=settings.seed,
        start_token_id=start_token_id,
    )
    choices = training_defaults(settings, streams[0].size, len(windows))
    reasons |= run_files.fill_training_settings(settings, choices)
    check_heads(settings)
    warn_of_warmup(settings.warmup_steps, settings.epochs * len(windows), warn)
    inputs, labels = overlapping_windows(streams[1], settings.window, start_token_id=start_token_id)
    return Prepared(tokenizer, valid, files, windows, inputs, labels, reasons)


def read_texts(settings: LanguageModelSettings) -> tuple[list[str], list[str]]:
    """Returns the documents for training and those for validation."""
    if settings.data is not None:
        return read_documents(settings.data, settings.valid, separated=settings.documents)
    sums = [f"{a}+{b}={a + b}" for a in range(100) for b in range(100)]
    random.Random(settings.seed).shuffle(sums)
    return sums[500:], sums[:500]


def text_defaults(settings: LanguageModelSettings, characters: int) -> dict[str, tuple[Any, str]]:
    """Returns the settings of the tokenizer and the samples."""
    window = (64, "sums") if settings.data is None else (128, "")
    choices: dict[str, tuple[Any, str]] = {
        "window": window,
        "sample_length": (settings.window or window[0], "the window"),
        "prompt": ("" if settings.documents or settings.data is None else "\n", ""),
    }
    if settings.tokenizer != "char":
        size = min(8000, max(500, characters // 50_000 * 100))
        choices["vocabulary_size"] = (size, f"{characters:,} characters")
    return choices


def training_defaults(
    settings: LanguageModelSettings, tokens: int, steps_per_epoch: int
) -> dict[str, tuple[Any, str]]:
    """Returns the settings of model and training.

    Args:
        settings: `LanguageModelSettings`, with the settings of `text_defaults`.
        tokens: Int, number of training tokens.
        steps_per_epoch: Int, number of batches in an epoch.
    """
    reason = f"{tokens:,} tokens"
    dropout = 0.2 if tokens < 500_000 else 0.1 if tokens < 10_000_000 else 0.0
    choices = {
        "embedding_dim": (128, ""),
        "layers": (4, ""),
        "dropout": (dropout, reason),
        "epochs": (min(50, max(1, round(TOKENS / tokens))), reason),
    }
    if settings.data is None:
        sizes = {"embedding_dim": 64, "layers": 2, "dropout": 0.0, "epochs": 40}
        choices = {name: (value, "sums") for name, value in sizes.items()}
    steps = (settings.epochs or choices["epochs"][0]) * steps_per_epoch
    warmup = min(100, max(1, steps // 10))
    return choices | {"warmup_steps": (warmup, f"at most a tenth of {steps:,} steps")}


def train_tokenizer(
    settings: LanguageModelSettings, text: str, warn: Warn
) -> SentencePieceTokenizer:
    """Trains a tokenizer that keeps all spaces and line breaks."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.txt"
        path.write_text(text, encoding="utf-8", newline="\n")
        tokenizer = SentencePieceTokenizer.train(
            path,
            settings.vocabulary_size or 10**6,  # all characters
            settings.tokenizer,
            normalizer="identity",
        )
    if settings.tokenizer != "char":
        warn_of_vocabulary(tokenizer.vocabulary_size, settings.vocabulary_size, warn)
    return tokenizer


def check_lengths(settings: LanguageModelSettings, streams: Sequence[np.ndarray]) -> None:
    """Raises a `ValueError` if a text is too short for a window, or for a prediction."""
    if len(streams[0]) <= settings.window:
        raise ValueError(
            Message(
                "Expected a training text longer than ",
                Argument("window", settings.window),
                f". Received: {len(streams[0])} tokens in {settings.data}. Use more text or a "
                "shorter window.",
            )
        )
    if len(streams[1]) < 2:
        raise ValueError(
            "Expected a validation text of at least two tokens, because the first one is not "
            f"predicted. Received: {len(streams[1])} in {settings.valid or settings.data}. Use "
            "more text."
        )


def check_prompt(settings: LanguageModelSettings, tokenizer: SentencePieceTokenizer) -> None:
    """Raises a `ValueError` for a prompt that the model cannot read."""
    ids = tokenizer.encode([settings.prompt])[0]
    if tokenizer.unknown_token_id in ids or not (ids or settings.documents or not settings.data):
        raise ValueError(
            Message(
                "Expected characters of the training text in ",
                Argument("prompt"),
                f". Received: {settings.prompt!r}. Choose another prompt.",
            )
        )


def train_model(
    settings: LanguageModelSettings, prepared: Prepared, run: RunDirectory, warn: Warn
) -> dict[str, list[float]]:
    """Trains the model, or continues its training, and saves the model of the best epoch.

    Returns:
        Dict of the logs of all epochs.
    """
    vocabulary_size, steps = prepared.tokenizer.vocabulary_size, len(prepared.windows)
    keras.utils.set_random_seed(settings.seed)
    with make_strategy(settings.strategy).scope():
        model = make_model(settings, vocabulary_size)
        schedule = make_schedule(
            settings.learning_rate, settings.epochs * steps, settings.warmup_steps
        )
        trainer = compile_for_training(
            keras_attn.TrainingModel(None, model), schedule, label_smoothing=0.0
        )
        search = keras_attn.BeamDecoder(
            model, beam_width=4, max_length=settings.sample_length, relative_max_length=None
        )
        generator = keras_attn.GenerationModel(
            None, search, source_start_token_id=prepared.start_token_id, name="generator"
        )
    print(f"{trainer.count_params():,} weights, {steps:,} steps in an epoch")
    report_memory(
        trainer,
        settings.batch_size * settings.window * vocabulary_size,
        "a smaller --batch-size, --window or --vocabulary-size, or a smaller model",
        warn,
    )
    if settings.dry_run:
        validation_steps = math.ceil(len(prepared.inputs) / settings.batch_size)
        stream = prepared.windows.stream()
        print_estimate(trainer, stream, steps, validation_steps, settings.epochs)
        return {}
    tokens = int((prepared.labels != 0).sum())
    history = run_training(
        settings,
        trainer,
        prepared.windows,
        [
            BitsPerCharacter(tokens / prepared.characters),
            WarnOfProblems(vocabulary_size, settings.warmup_steps, warn),
            BestCheckpoint(run, saved_model=generator),
        ],
        ShowProgress(settings.batch_size * settings.window),
        validation_data=(prepared.inputs, prepared.labels),
        validation_batch_size=settings.batch_size,
        on_mismatch="warn",  # the schedule depends on the number of epochs
    )
    return history.history


def make_model(
    settings: LanguageModelSettings, vocabulary_size: int
) -> keras_attn.CausalLanguageModel:
    """Creates a decoder-only Transformer with rotary positions and a shared embedding matrix."""
    block = keras_attn.TransformerDecoderBlock(
        settings.heads,
        4 * settings.embedding_dim,
        cross_attention=False,
        activation="gelu",
        dropout=settings.dropout,
        rotary=keras_attn.RotaryPositions(),
        seed=settings.seed,
    )
    initializer: Any = keras.initializers.RandomNormal(stddev=settings.embedding_dim**-0.5)
    embedding = keras.layers.ReversibleEmbedding(
        vocabulary_size,
        settings.embedding_dim,
        embeddings_initializer=initializer,
        name="embedding",
    )
    return keras_attn.CausalLanguageModel(
        block, embedding, num_layers=settings.layers, scale_embedding=True, name="language_model"
    )


class BitsPerCharacter(keras.callbacks.Callback):
    """Logs the bits per character of the validation text.

    Args:
        tokens_per_character: Float, mean number of tokens in a character.
    """

    def __init__(self, tokens_per_character: float) -> None:
        super().__init__()
        self.tokens_per_character = tokens_per_character

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if logs:
            bits = math.log2(logs["val_perplexity"])
            logs["val_bits_per_character"] = bits * self.tokens_per_character


def write_results(
    settings: LanguageModelSettings,
    prepared: Prepared,
    run: RunDirectory,
    history: dict[str, list[float]],
) -> None:
    """Samples texts from the model of the best epoch, and writes samples and results."""
    run_dir, tokenizer = settings.run_dir, prepared.tokenizer
    generator = keras_attn.with_search(
        run.load_model("generation"), max_length=settings.sample_length
    )
    run.save_model(generator)  # the length may differ from that of an earlier training
    writer = keras_attn.with_search(
        generator,
        keras_attn.SamplingDecoder,
        num_hypotheses=settings.samples,
        temperature=settings.temperature,
        seed=settings.seed,
    )
    (result,) = writer.generate([settings.prompt], tokenizer, return_details=True)
    samples = [settings.prompt + each.text for each in result.hypotheses]
    write_text(run_dir / "samples.txt", "\n\n".join(samples) + "\n")
    report: dict[str, Any] = {
        "weights": generator.count_params(),
        "characters": prepared.characters,
        "bits_per_character": min(history["val_bits_per_character"]),
        "perplexity": min(history["val_perplexity"]),
    }
    if settings.data is None:
        prompts = [f"{text.partition('=')[0]}=" for text in prepared.valid]
        answers = generator.generate(prompts, tokenizer)
        pairs = zip(prompts, answers, prepared.valid, strict=True)
        report["exact_sums"] = float(np.mean([head + tail == text for head, tail, text in pairs]))
    print("\n\n".join(samples[:3]) + "\n\n" + json.dumps(report, indent=2))
    run_files.write_results(settings, report)
    written = [run.model_path.name, "samples.txt", "results.json"]
    for name in written:
        print(f"Wrote {run_dir / name}")
    line = prepared.valid[0].strip().splitlines()[0]
    prompt = f"{line.partition('=')[0]}=" if settings.data is None else line[:20]
    export = run_files.export_command()
    print(
        f"Next:\n  {export} onnx {run_dir} writer.onnx --search-class SamplingDecoder "
        f"--search temperature={settings.temperature}\n"
        f"  echo {shlex.quote(prompt)} | keras-attn-runtime translate writer.onnx --seed 1\n"
        f"  {export} onnx {run_dir} generator.onnx   # the most probable continuation"
    )


def write_text(path: Path, text: str) -> None:
    """Writes a UTF-8 text file, which replaces an earlier file when it is complete."""
    with atomic_replace(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")
