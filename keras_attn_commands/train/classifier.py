"""`keras-attn train classifier`: trains a model that assigns a label to a text."""

import dataclasses
import hashlib
import tempfile
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import keras
import numpy as np

import keras_attn
from keras_attn.files import write_lines
from keras_attn.text import (
    LabelledBatches,
    LabelledTexts,
    SentencePieceTokenizer,
    generate_reviews,
    read_labelled_texts,
)
from keras_attn.text._generated_dates import Split
from keras_attn.training import (
    BestCheckpoint,
    ModelCard,
    RunDirectory,
    ShowProgress,
    WarnOfProblems,
    make_strategy,
)
from keras_attn.visualize import write_alignment_html
from keras_attn_commands.classification import (
    Classified,
    classify_texts,
    label_score_text,
    score_labels,
)
from keras_attn_commands.train import run_files
from keras_attn_commands.train.classifier_settings import (
    MAY_CHANGE,
    OF_MODELS,
    ClassifierSettings,
)
from keras_attn_commands.train.dry_run import print_estimate
from keras_attn_commands.train.memory import report_memory
from keras_attn_commands.train.run_training import make_schedule, run_training
from keras_attn_commands.train.setting_checks import (
    check_heads,
    reject_settings_of_other_models,
    settings_of_other_models,
)
from keras_attn_commands.train.setting_warnings import (
    warn_of_examples,
    warn_of_vocabulary,
    warn_of_warmup,
)
from keras_attn_commands.train.settings import Warn, fill_settings

REVIEWS: dict[Split, int] = {"train": 4000, "valid": 500, "test": 500}
"""Dict from splits to the numbers of generated reviews."""
TEXTS = 25_000
"""Number of texts that a training reads, if its number of epochs is chosen by the data."""
LARGE = 50_000
"""Number of training texts from which a data set is large."""
SAMPLES, SHOWN = 3, 10
"""Numbers of test texts that are printed, and that are shown in `attention.html`."""


def train(settings: ClassifierSettings, command: str, warn: Warn) -> None:
    """Trains a classifier of texts and writes it to the run directory.

    Args:
        settings: `ClassifierSettings`. Settings that are `None` are chosen by the data.
        command: String, the command line, for the model card.
        warn: Function that shows a warning.
    """
    reject_settings_of_other_models(settings, OF_MODELS)
    # All texts are read and encoded before anything in the run directory changes.
    prepared = prepare(settings, warn)
    run_dir = settings.run_dir
    with run_files.locked(run_dir):
        run_files.begin_training(settings, prepared.checksums, prepared.reasons, MAY_CHANGE)
        (run_dir / "data").mkdir(exist_ok=True)
        for name, lines in prepared.files.items():
            write_lines(run_dir / "data" / name, lines)
        card = ModelCard(recipe=command)
        run = RunDirectory.create(
            run_dir,
            "classification",
            prepared.tokenizer,
            model_card=card,
            labels=prepared.labels,
        )
        train_model(settings, prepared, run, warn)
        if not settings.dry_run:
            write_results(settings, prepared, run)


@dataclasses.dataclass
class Prepared:
    """Training texts, their tokenizer and batches, and the reasons for the settings."""

    splits: dict[Split, LabelledTexts]
    labels: list[str]
    tokenizer: SentencePieceTokenizer
    training: LabelledBatches
    validation: LabelledBatches
    reasons: dict[str, str]

    @property
    def files(self) -> dict[str, list[str]]:
        """Dict from file names in `data/` to lines."""
        return {
            f"{split}.{side}": lines
            for split, each in self.splits.items()
            for side, lines in (("source", each.texts), ("target", each.labels))
        }

    @property
    def checksums(self) -> dict[str, str]:
        """Dict from file names to SHA-256 checksums."""
        return {
            name: hashlib.sha256("\n".join(lines).encode()).hexdigest()
            for name, lines in self.files.items()
        }


def prepare(settings: ClassifierSettings, warn: Warn) -> Prepared:
    """Reads and encodes the texts, and sets the settings that are `None`."""
    splits = read_texts(settings)
    labels = sorted(set(splits["train"].labels))
    for split, each in splits.items():
        counts = Counter(each.labels)
        shown = ", ".join(f"{label} {counts[label]:,}" for label in labels[:10])
        rest = f" and {len(labels) - 10} more labels" if len(labels) > 10 else ""
        print(f"{split}: {len(each.texts):,} texts from {each.origin} ({shown}{rest})", flush=True)
        warn_of_examples(split, len(each.texts), each.empty, each.repeated, "texts", warn)
    texts = splits["train"].texts
    reasons = fill_settings(settings, data_defaults(settings, sum(map(len, texts))))
    tokenizer = train_tokenizer(settings, texts, warn)
    rows = {split: tokenizer.encode(each.texts) for split, each in splits.items()}
    for split, encoded in rows.items():
        if long := sum(len(ids) > settings.max_length for ids in encoded):
            warn(
                f"{long:,} of {len(encoded):,} texts of {split} are longer than --max-length "
                f"{settings.max_length} tokens and cut."
            )
    choices = training_defaults(settings, len(texts))
    reasons |= run_files.fill_training_settings(settings, choices)
    if settings.model == "transformer":
        check_heads(settings)
    warn_of_warmup(
        settings.warmup_steps, settings.epochs * -(-len(texts) // settings.batch_size), warn
    )
    training, validation = (
        LabelledBatches(
            [ids[: settings.max_length] for ids in rows[split]],
            [labels.index(label) for label in splits[split].labels],
            settings.batch_size,
            settings.seed,
            shuffle=split == "train",
            length_multiple=8,
        )
        for split in ("train", "valid")
    )
    return Prepared(splits, labels, tokenizer, training, validation, reasons)


def read_texts(settings: ClassifierSettings) -> dict[Split, LabelledTexts]:
    """Reads the texts for training, validation and test, or generates reviews."""
    if settings.data is not None:
        return read_labelled_texts(settings.data, settings.label_column, settings.text_column)
    return {
        split: LabelledTexts(*generate_reviews(count, settings.seed, split), origin="a generator")
        for split, count in REVIEWS.items()
    }


def data_defaults(settings: ClassifierSettings, characters: int) -> dict[str, tuple[Any, str]]:
    """Returns the tokenizer settings.

    Args:
        settings: `ClassifierSettings`.
        characters: Int, training characters.
    """
    if settings.data is None:
        return {"vocabulary_size": (180, "generated reviews")}
    # Each token must occur often enough to be learned.
    size = min(8000, max(500, characters // 10_000 * 100))
    return {"vocabulary_size": (size, f"{characters:,} characters")}


def training_defaults(settings: ClassifierSettings, num_texts: int) -> dict[str, tuple[Any, str]]:
    """Returns the settings for model and training.

    Args:
        settings: `ClassifierSettings`.
        num_texts: Int, training texts.
    """
    reason = f"{num_texts:,} texts"
    is_rnn = settings.model == "rnn"
    is_large = num_texts >= LARGE
    choices: dict[str, tuple[Any, str]] = {
        "layers": (2 if is_large and not is_rnn else 1, reason),
        "embedding_dim": (128, ""),
        "units": (128 if is_large else 64, reason),
        "heads": (4, ""),
        "dropout": ((0.3 if is_large else 0.5) if is_rnn else 0.2, reason),
        "batch_size": (128 if is_large else min(32, max(4, num_texts // 20)), reason),
        "learning_rate": (2e-3 if is_rnn else 5e-4, ""),
        "epochs": (min(30, max(2, round(TEXTS / num_texts))), reason),
    }
    if settings.data is None:
        sizes = {"embedding_dim": 32, "units": 32, "dropout": 0.1, "epochs": 3 if is_rnn else 6}
        sizes |= {"learning_rate": 2e-3}
        choices |= {name: (value, "generated reviews") for name, value in sizes.items()}
    batch_size = settings.batch_size or choices["batch_size"][0]
    steps = (settings.epochs or choices["epochs"][0]) * -(-num_texts // batch_size)
    choices["warmup_steps"] = (min(500, max(1, steps // 10)), f"at most a tenth of {steps:,} steps")
    others = settings_of_other_models(settings, OF_MODELS)
    return {name: choice for name, choice in choices.items() if name not in others}


def train_tokenizer(
    settings: ClassifierSettings, texts: list[str], warn: Warn
) -> SentencePieceTokenizer:
    """Trains a tokenizer on the training texts."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.source"
        write_lines(path, texts)
        tokenizer = SentencePieceTokenizer.train(path, settings.vocabulary_size, settings.tokenizer)
    if settings.tokenizer != "char":
        warn_of_vocabulary(tokenizer.vocabulary_size, settings.vocabulary_size, warn)
    return tokenizer


def train_model(
    settings: ClassifierSettings, prepared: Prepared, run: RunDirectory, warn: Warn
) -> None:
    """Trains the model, or continues its training, and saves the best epoch."""
    steps = len(prepared.training)
    keras.utils.set_random_seed(settings.seed)
    with make_strategy(settings.strategy).scope():
        classifier: Any = make_model(
            settings, prepared.tokenizer.vocabulary_size, len(prepared.labels)
        )
        # The trainer has the layers of the classifier, but not its output of attention weights.
        trainer: Any = keras.Model(classifier.input, classifier.output["logits"])
        schedule = make_schedule(
            settings.learning_rate, settings.epochs * steps, settings.warmup_steps
        )
        trainer.compile(
            keras.optimizers.Adam(schedule, global_clipnorm=1.0),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            jit_compile=keras.backend.backend() == "jax",
        )
    print(f"{trainer.count_params():,} weights, {steps:,} steps in an epoch")
    logits = settings.batch_size * len(prepared.labels)
    report_memory(trainer, logits, "a smaller --vocabulary-size or a smaller model", warn)
    if settings.dry_run:
        stream = prepared.training.stream()
        print_estimate(trainer, stream, steps, len(prepared.validation), settings.epochs)
        return
    run_training(
        settings,
        trainer,
        prepared.training,
        [WarnOfProblems(warn=warn), BestCheckpoint(run, "val_accuracy", saved_model=classifier)],
        ShowProgress(settings.batch_size, "texts"),
        validation_data=prepared.validation,
        on_mismatch="warn",  # the schedule depends on the number of epochs
    )


def make_model(settings: ClassifierSettings, vocabulary_size: int, num_classes: int) -> keras.Model:
    """Creates an encoder with attention pooling (Yang et al., 2016) and an output layer."""
    initializer: Any = keras.initializers.RandomNormal(stddev=settings.embedding_dim**-0.5)
    embedding = keras.layers.Embedding(
        vocabulary_size, settings.embedding_dim, initializer, name="embedding"
    )
    shared: dict[str, Any] = {
        "num_layers": settings.layers,
        "dropout": settings.dropout,
        "end_token_id": None,
        "seed": settings.seed,
        "name": "encoder",
    }
    if settings.model == "rnn":
        cell = keras.layers.LSTMCell(settings.units)
        encoder = keras_attn.RNNEncoder(cell, embedding, **shared)
    else:
        block = keras_attn.TransformerEncoderBlock(
            settings.heads,
            4 * settings.embedding_dim,
            activation="gelu",
            dropout=settings.dropout,
            rotary=keras_attn.RotaryPositions(),
            seed=settings.seed,
        )
        encoder = keras_attn.TransformerEncoder(block, embedding, scale_embedding=True, **shared)
    return keras_attn.sequence_classifier(
        encoder,
        num_classes,
        pooling="attention",
        dropout=settings.dropout,
        return_attention_scores=True,
    )


def write_results(settings: ClassifierSettings, prepared: Prepared, run: RunDirectory) -> None:
    """Classifies validation and test texts with the best model, and writes the results."""
    run_dir, labels = settings.run_dir, prepared.labels
    classifier = run.load_model("classification")
    results: dict[str, Any] = {"labels": labels, "weights": classifier.count_params()}
    for split in ("valid", "test"):
        texts = prepared.splits[split]
        found = classify_texts(classifier, prepared.tokenizer, texts.texts, settings.max_length)
        predicted = [labels[int(each.probabilities.argmax())] for each in found]
        results[split] = score_labels(predicted, texts.labels)
        print(f"{split}: {label_score_text(results[split])}")
        rows = list(zip(texts.texts, texts.labels, predicted, found, strict=True))
    shown = rows[:: -(-len(rows) // SHOWN)]
    for text, label, guess, each in shown[:: -(-len(shown) // SAMPLES)]:
        words = ", ".join(f"{word} ({weight:.2f})" for word, weight in most_read_words(each))
        print(
            f"  {textwrap.shorten(text, 160)} -> {guess}   (reference: {label})\n    reads {words}"
        )
    examples = [
        {
            "source_tokens": each.pieces,
            "target_tokens": [f"{guess} ({each.probabilities.max():.0%})"],
            "alignments": each.weights,
        }
        for _, _, guess, each in shown
        if each.pieces
    ]
    write_alignment_html(run_dir / "attention.html", examples)
    run_files.write_results(settings, results)
    for name in (run.model_path.name, "attention.html", "results.json"):
        print(f"Wrote {run_dir / name}")
    export = run_files.export_command()
    print(
        f"Next:\n  keras-attn evaluate {run_dir}\n"
        f"  {export} onnx {run_dir} classifier.onnx\n"
        f"  keras-attn-runtime classify classifier.onnx < {run_dir}/data/test.source"
    )


def most_read_words(text: Classified, count: int = 3) -> list[tuple[str, float]]:
    """Returns the words with the largest weights. Each word has the sum over its pieces."""
    words: list[tuple[str, float]] = []
    for piece, weight in zip(text.pieces, np.asarray(text.weights, float).tolist(), strict=True):
        if piece.startswith("▁") or not words:
            words.append((piece.removeprefix("▁"), weight))
        else:
            words[-1] = words[-1][0] + piece, words[-1][1] + weight
    return sorted(words, key=lambda word: -word[1])[:count]
