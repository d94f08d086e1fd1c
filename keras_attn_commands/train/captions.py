"""`keras-attn train captions`: trains a model that describes images."""

import dataclasses
import hashlib
import json
import math
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import layers

import keras_attn
from keras_attn.files import atomic_replace, write_lines
from keras_attn.text import SentencePieceTokenizer
from keras_attn.training import (
    BestCheckpoint,
    CaptionBatches,
    ImageFormat,
    ModelCard,
    RunDirectory,
    ShowProgress,
    WarnOfProblems,
    caption_texts,
    compile_for_training,
    make_strategy,
    read_captions,
    read_images,
)
from keras_attn_checks.message import Argument, Message
from keras_attn_commands.train import run_files, scene_captions, scenes
from keras_attn_commands.train.captions_settings import MAY_CHANGE, CaptionSettings
from keras_attn_commands.train.dry_run import print_estimate
from keras_attn_commands.train.memory import report_memory
from keras_attn_commands.train.run_training import make_schedule, run_training
from keras_attn_commands.train.scenes import Scene
from keras_attn_commands.train.setting_warnings import warn_of_vocabulary
from keras_attn_commands.train.settings import Warn, fill_settings
from keras_attn_commands.translation_scores import score_translations

SCENES = {"train": 20_000, "valid": 500, "test": 1000}
"""Dict from splits to the numbers of generated images."""
CAPTIONS = 200_000
"""Number of captions that a training reads, if its number of epochs is chosen by the data."""
LARGE = 2**30
"""Bytes of images that are mapped from a file instead of kept in memory."""

Captions = dict[str, list[str]]


@dataclasses.dataclass
class Split:
    """Captions of a split, with image files or generated scenes."""

    captions: Captions
    paths: list[Path] = dataclasses.field(default_factory=list)
    scenes: list[Scene] = dataclasses.field(default_factory=list)

    @property
    def checksum(self) -> str:
        """SHA-256 of the captions, and of the names and sizes of the image files."""
        files = [(path.name, path.stat().st_size) for path in self.paths]
        text = json.dumps([self.captions, files, len(self.scenes)])
        return hashlib.sha256(text.encode()).hexdigest()

    def images(self, size: int, cache: Path) -> np.ndarray:
        """Returns the images, uint8 `(images, size, size, 3)`."""
        if self.scenes:
            return np.stack([scenes.draw(scene) for scene in self.scenes])
        is_large = len(self.paths) * size * size * 3 > LARGE
        if not is_large:
            return read_images(self.paths, (size, size))
        if not cache.exists():
            cache.parent.mkdir(parents=True, exist_ok=True)
            read_images(self.paths, (size, size), cache)
        return np.load(cache, mmap_mode="r")


def train(settings: CaptionSettings, command: str, warn: Warn) -> None:
    """Trains a model that describes images, and writes it to the run directory.

    Args:
        settings: `CaptionSettings`. Settings that are `None` are chosen by the data.
        command: String, the command line, for the model card.
        warn: Function that shows the text of a warning.
    """
    # All captions and images are read and checked before an earlier training is removed.
    splits = read_splits(settings, warn)
    reasons = fill_settings(settings, defaults(settings, splits["train"].captions))
    check_sizes(settings)
    checksums = {name: split.checksum for name, split in splits.items()}
    run_dir = settings.run_dir
    tokenizer = train_tokenizer(settings, splits["train"].captions, warn)
    images = {
        name: split.images(
            settings.size, run_dir / "data" / f"{name}-{checksums[name][:12]}-{settings.size}.npy"
        )
        for name, split in splits.items()
    }
    batches = {
        name: CaptionBatches(
            images[name],
            splits[name].captions,
            tokenizer,
            min(settings.batch_size, len(caption_texts(splits[name].captions))),
            settings.seed,
        )
        for name in ("train", "valid")
    }
    with run_files.locked(run_dir):
        run_files.begin_training(settings, checksums, reasons, MAY_CHANGE, keep=("data",))
        data = "synthetic scenes" if settings.data is None else str(settings.data)
        run = RunDirectory.create(
            run_dir,
            "generation",
            None,
            tokenizer,
            model_card=ModelCard(data=data, recipe=command),
            image_format=ImageFormat(resize="bilinear"),  # the model itself scales the pixels
        )
        train_model(settings, batches, run, warn)
        if settings.dry_run:
            return
        write_results(settings, splits["test"], images["test"], run, warn)


def read_splits(settings: CaptionSettings, warn: Warn) -> dict[str, Split]:
    """Reads the captions of training, validation and test, or generates scenes."""
    if settings.data is None:
        generated = {
            name: scenes.generate(count, settings.seed, name) for name, count in SCENES.items()
        }
        splits = {
            name: Split(
                {
                    language: [scene_captions.caption(scene, language) for scene in several]
                    for language in scene_captions.LANGUAGES
                },
                scenes=several,
            )
            for name, several in generated.items()
        }
    else:
        names = ["train", *(n for n in ("valid", "test") if (settings.data / n).is_dir())]
        splits = {name: _read_split(settings.data / name, warn) for name in names}
        if "valid" not in splits:
            splits["train"], splits["valid"] = hold_out(splits["train"])
        splits = {n: splits.get(n, splits["valid"]) for n in ("train", "valid", "test")}
    languages = splits["train"].captions.keys()
    for name, split in splits.items():
        counts = [f"{language} {len(texts)}" for language, texts in split.captions.items()]
        print(
            f"{name}: captions of {len(split.paths or split.scenes):,} images ({', '.join(counts)})"
        )
        if different := languages ^ split.captions.keys():
            warn(
                f"{', '.join(sorted(different))}: a language only of train or only of {name}, "
                "which is not evaluated there."
            )
    return splits


def _read_split(directory, warn):
    files = read_captions(directory)
    if files.num_blank:
        warn(f"{files.num_blank:,} captions in {directory} are blank and left out.")
    if files.ignored:
        names = ", ".join(path.name for path in files.ignored[:5])
        rest = ", ..." if len(files.ignored) > 5 else ""
        warn(
            f"{len(files.ignored)} entries of {directory} are neither images nor captions and "
            f"ignored: {names}{rest}"
        )
    return Split(files.captions, files.paths)


def hold_out(split: Split) -> tuple[Split, Split]:
    """Returns the training images, and every twentieth image for the validation.

    Raises:
        ValueError: If there are less than two images.
    """
    count = len(split.paths)
    if count < 2:
        raise ValueError(
            f"Expected at least two images, because one is held out. Received: {count} in "
            f"{split.paths[0].parent}. Add images, or a directory valid/."
        )
    step = min(20, count)
    chosen = [row for row in range(count) if row % step == step - 1]
    others = [row for row in range(count) if row % step != step - 1]

    def part(rows):
        captions = {
            language: [texts[row] for row in rows] for language, texts in split.captions.items()
        }
        return Split(captions, [split.paths[row] for row in rows])

    return part(others), part(chosen)


def defaults(settings: CaptionSettings, captions: Captions) -> dict[str, tuple[Any, str]]:
    """Returns the settings for captions by their number and their words."""
    texts = caption_texts(captions)
    words = len({word for text in texts for word in text.split()})
    reason = f"{len(texts):,} captions"
    size = settings.size or (scenes.SIDE if settings.data is None else 96)
    return {
        "size": (size, "scenes" if settings.data is None else ""),
        "halvings": (max(1, round(math.log2(size / 6))), f"{size} pixels"),
        "vocabulary_size": (min(8000, max(300, words)), f"{words:,} different words"),
        "batch_size": (min(64, max(1, len(texts) // 20)), reason),
        "epochs": (min(40, max(3, round(CAPTIONS / len(texts)))), reason),
        "dropout": (0.0 if settings.data is None else 0.1, ""),
        # Most positions of the scenes are empty.
        "coverage": (0.001 if settings.data is None else 0.1, ""),
    }


def check_sizes(settings: CaptionSettings) -> None:
    """Raises a `ValueError` if the size cannot be halved, or if heads do not divide features."""
    if settings.size % 2**settings.halvings:
        raise ValueError(
            Message(
                "Expected ",
                Argument("size"),
                f" to be a multiple of {2**settings.halvings}. Received: ",
                Argument("size", settings.size),
                ", ",
                Argument("halvings", settings.halvings),
                ". Choose another size.",
            )
        )
    if settings.features % settings.heads:
        raise ValueError(
            Message(
                "Expected ",
                Argument("features"),
                " to be a multiple of the heads. Received: ",
                Argument("features", settings.features),
                ", ",
                Argument("heads", settings.heads),
                ".",
            )
        )
    if settings.data is None and settings.size != scenes.SIDE:
        raise ValueError(
            Message(
                "Expected ",
                Argument("data"),
                " with ",
                Argument("size", settings.size),
                f". Received: generated images of {scenes.SIDE} pixels. Pass a directory.",
            )
        )


def train_tokenizer(
    settings: CaptionSettings, captions: Captions, warn: Warn
) -> SentencePieceTokenizer:
    """Trains a tokenizer. In its vocabulary, most words of the captions are single pieces."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "captions.txt"
        write_lines(path, caption_texts(captions))
        tokenizer = SentencePieceTokenizer.train(path, settings.vocabulary_size, "bpe")
    warn_of_vocabulary(tokenizer.vocabulary_size, settings.vocabulary_size, warn)
    return tokenizer


def train_model(
    settings: CaptionSettings, batches: dict[str, CaptionBatches], run: RunDirectory, warn: Warn
) -> None:
    """Trains the model, or continues its training, and saves the model of the best epoch."""
    training = batches["train"]
    tokenizer: Any = run.target_tokenizer  # always given for this program
    vocabulary_size, steps = tokenizer.vocabulary_size, len(training)
    keras.utils.set_random_seed(settings.seed)
    with make_strategy(settings.strategy).scope():
        encoder, decoder = make_model(settings, vocabulary_size)
        total = settings.epochs * steps
        schedule = make_schedule(settings.learning_rate, total, total // 20 + 1)
        trainer = compile_for_training(
            keras_attn.TrainingModel(encoder, decoder), schedule, label_smoothing=0.0
        )
        search = keras_attn.BeamDecoder(
            decoder,
            beam_width=settings.beam_width,
            max_length=training.max_length + 10,
            relative_max_length=None,  # the length of a caption does not depend on the grid
            return_alignments=True,
        )
        captioner = keras_attn.GenerationModel(encoder, search)
    print(f"{trainer.count_params():,} weights, {steps:,} steps in an epoch")
    report_memory(
        trainer,
        training.batch_size * training.max_length * vocabulary_size,
        "a smaller --batch-size, --vocabulary-size or model",
        warn,
    )
    if settings.dry_run:
        print_estimate(trainer, training.stream(), steps, len(batches["valid"]), settings.epochs)
        return
    run_training(
        settings,
        trainer,
        training,
        [
            WarnOfProblems(vocabulary_size, total // 20 + 1, warn),
            BestCheckpoint(run, saved_model=captioner),
        ],
        ShowProgress(training.batch_size, "captions"),
        validation_data=batches["valid"],
        on_mismatch="warn",  # the schedule depends on the number of epochs
    )


def make_model(
    settings: CaptionSettings, vocabulary_size: int
) -> tuple[keras.Model, keras_attn.StepDecoder]:
    """Returns the encoder of images and the decoder of captions."""
    side, features = settings.size // 2**settings.halvings, settings.features
    image = keras.Input((settings.size, settings.size, 3), name="image")
    pixels = layers.Rescaling(1 / 127.5, -1.0)(image)
    if settings.encoder == "cnn":
        for number in range(settings.halvings):
            filters = min(features, 32 * 2**number) if number < settings.halvings - 1 else features
            convolution = layers.Conv2D(filters, 3, strides=2, padding="same", use_bias=False)
            pixels = layers.BatchNormalization(momentum=0.9)(convolution(pixels))
            pixels = layers.Activation("relu")(pixels)
        grid = pixels  # (B, side, side, features)
        memory = layers.Reshape((side * side, features))(grid)
        memory = keras_attn.LearnedPositions(side * side)(memory)
    else:
        transformer = keras_attn.TransformerEncoder(
            keras_attn.TransformerEncoderBlock(
                settings.heads, 4 * features, activation="gelu", dropout=settings.dropout
            ),
            keras_attn.PatchEmbedding(2**settings.halvings, features, class_token=False),
            num_layers=settings.layers,
            positions=keras_attn.LearnedPositions(side * side),
        )
        memory = transformer(pixels)["encoder_outputs"]
        grid = layers.Reshape((side, side, features))(memory)
    outputs = {"encoder_outputs": memory}
    if settings.decoder == "transformer":
        block = keras_attn.TransformerDecoderBlock(
            settings.heads, 4 * features, activation="gelu", dropout=settings.dropout
        )
        embedding = layers.ReversibleEmbedding(vocabulary_size, features)
        decoder = keras_attn.TransformerDecoder(block, embedding, num_layers=settings.layers)
        return keras.Model(image, outputs, name="encoder"), decoder
    # The initial state of the LSTM is computed from all positions together. The paper uses the
    # mean over the positions, which does not contain where an object is.
    outputs["encoder_state"] = [layers.Flatten()(layers.Conv2D(16, 1, activation="relu")(grid))]
    # Xu et al., 2015, https://arxiv.org/abs/1502.03044
    cell = keras_attn.AttentionRNNCell(
        layers.LSTMCell(settings.units),
        keras_attn.BahdanauAttention(64),
        query_from=("previous_state", "inputs"),
        input_feeding=False,
        context_gate=True,
    )
    decoder = keras_attn.RNNDecoder(
        cell,
        layers.Embedding(vocabulary_size, 64),
        head=layers.Dense(vocabulary_size),
        dropout=settings.dropout,
        doubly_stochastic_loss=settings.coverage,
        seed=settings.seed,
    )
    return keras.Model(image, outputs, name="encoder"), decoder


def write_results(
    settings: CaptionSettings, test: Split, images: np.ndarray, run: RunDirectory, warn: Warn
) -> None:
    """Describes the test images with the model of the best epoch, and writes the results."""
    run_dir, tokenizer = settings.run_dir, run.target_tokenizer
    captioner = run.load_model("generation")
    report: dict[str, Any] = {}
    for language, references in test.captions.items():
        rows = [row for row, text in enumerate(references) if text][: settings.evaluated]
        prefix = f"{language}:"
        captions = []
        for start in range(0, len(rows), 256):
            pixels = images[rows[start : start + 256]].astype("float32")
            found = captioner.generate(pixels, None, tokenizer, target_prefix=prefix)
            captions += [text.removeprefix(prefix).strip() for text in found]
        report[language] = scores(captions, [references[row] for row in rows], warn)
        if test.scenes:
            facts = zip(captions, (test.scenes[row] for row in rows), strict=True)
            true = [scene_captions.is_true(text, scene, language) for text, scene in facts]
            report[language]["true"] = float(np.mean(true))
        print(f"{language}: {captions[0]}\n  reference: {references[rows[0]]}")
    print(json.dumps(report, indent=2))
    run_files.write_results(settings, {"captions": report, "weights": captioner.count_params()})
    folder = run_dir / "data" / "test"
    if test.scenes:
        scene_captions.write_files(folder, test.scenes[:20])
        print(f"Wrote {folder}")
    else:
        folder = test.paths[0].parent.parent
    written = [run.model_path.name, "results.json"]
    written += plot_attention(captioner, images[0], report, run, warn)
    for name in written:
        print(f"Wrote {run_dir / name}")
    export = run_files.export_command()
    print(
        f"Next:\n  {export} onnx {run_dir} captions.onnx --accept-target-prefix\n"
        f"  keras-attn-runtime translate captions.onnx --images {folder / 'images'} "
        f"--target-prefix {next(iter(report))}:"
    )


def scores(captions: list[str], references: list[str], warn: Warn) -> dict[str, Any]:
    """Returns the share of captions that equal the reference, and BLEU and chrF."""
    try:
        return score_translations(captions, references)
    except ImportError as error:
        warn(f"BLEU and chrF are not computed. {error}")
        return {
            "equal": float(np.mean([a == b for a, b in zip(captions, references, strict=True)]))
        }


def plot_attention(
    captioner: keras_attn.GenerationModel,
    image: np.ndarray,
    languages: Iterable[str],
    run: RunDirectory,
    warn: Warn,
) -> list[str]:
    """Plots the attention at each word of the caption of an image; returns the file names."""
    try:
        from keras_attn.visualize import plot_attention_over_image

        names = []
        for language in languages:
            prefix = f"{language}:"
            (found,) = captioner.generate(
                image[None].astype("float32"),
                None,
                run.target_tokenizer,
                return_details=True,
                target_prefix=prefix,
            )
            ends = [row for row, piece in enumerate(found.pieces) if piece.endswith(":")]
            first, count = ends[0] + 1 if ends else 0, len(found.pieces)
            if first == count:
                continue
            figure = plot_attention_over_image(
                image, found.pieces[first:], found.alignments[first:count]
            )
            names.append(f"attention-{language}.png")
            with atomic_replace(run.path / names[-1]) as partial:
                figure.savefig(partial, format="png", dpi=100)
        return names
    except ImportError as error:  # Matplotlib
        warn(f"No picture was drawn. {error}")
        return []
