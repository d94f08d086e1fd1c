"""Trains a model that describes images in two languages, and exports it to one ONNX file.

    python examples/caption_images.py --run-dir build/captions

This command trains on synthetic images of scenes (see `scenes.py`). It then describes test scenes
whose combinations of objects do not occur in the training data. With `--data DIR`, the images and
captions are read from `DIR/train` and `DIR/test`, see `caption_data.read_directory`. After the
training, the run directory contains

    run.json, model.keras, target.spm   the model and the tokenizer of the captions
    captions.onnx                       the exported file
    test/                               images and captions of 20 test scenes
    attention-en.png, ...               where the model attends at each word of a caption
    results.json                        fractions of correct captions of the exported file

The encoder is a convolutional network, or with `--encoder patches` a vision Transformer. The
decoder is an LSTM with attention, a gate and the doubly stochastic loss of Xu et al., 2015
(https://arxiv.org/abs/1502.03044), or with `--decoder transformer` a Transformer. A caption begins
with its language, which the caller of the exported file chooses: `target_prefix="de:"`.
"""

import argparse
import json
import time
from pathlib import Path

import keras
import numpy as np
import scene_captions
import scenes
from caption_data import CaptionBatches, describe_scenes, read_directory
from keras_attn_runtime import Translator

import keras_attn
from keras_attn.export import export_onnx
from keras_attn.files import atomic_replace, separate_paths_problem
from keras_attn.text import SentencePieceTokenizer
from keras_attn.training import ImageFormat, ModelCard, RunDirectory, compile_for_training

VOCABULARY_SIZE = 300
FEATURES = 96
CLOCKS = time.monotonic, time.process_time


def main():
    args = parse_arguments()
    keras.utils.set_random_seed(args.seed)
    args.run_dir.mkdir(parents=True, exist_ok=True)
    test_scenes = None
    if args.data is None:
        training = describe_scenes(scenes.generate(args.scenes, args.seed, "train"))
        test_scenes = scenes.generate(args.test, args.seed, "test")
        test = describe_scenes(test_scenes)
        scene_captions.write_files(args.run_dir / "test", test_scenes[:20])
    else:
        training, test = (
            read_directory(args.data / split, args.side) for split in ("train", "test")
        )
    tokenizer = train_tokenizer(args.run_dir / "captions.txt", training)
    image = keras.Input(training.images.shape[1:], name="image")
    encoder, decoder = make_model(args, image, tokenizer.vocabulary_size)
    batches = CaptionBatches(training, tokenizer, args.batch_size, args.seed)
    minutes = train(args, keras_attn.TrainingModel(encoder, decoder), batches)

    limit = batches.labels.shape[1] + 10
    search = keras_attn.BeamDecoder(
        decoder, beam_width=4, max_length=limit, relative_max_length=None, return_alignments=True
    )
    captioner = keras_attn.GenerationModel(encoder, search)
    data = "synthetic scenes" if args.data is None else str(args.data)
    card = ModelCard(data=data, recipe="examples/caption_images.py")
    image_format = ImageFormat(resize="bilinear")  # the model itself scales the pixels
    run = RunDirectory.create(
        args.run_dir, "generation", None, tokenizer, model_card=card, image_format=image_format
    )
    run.save_model(captioner)
    file = args.run_dir / "captions.onnx"
    parity = export_onnx(
        captioner,
        file,
        target_tokenizer=tokenizer,
        parity_inputs=test.images[:100].astype("float32"),
        accept_target_prefix=True,
        model_card=card,
        image_format=image_format,
    )
    print(f"Compared with Keras on {parity}")
    translator = Translator(file)
    report = {
        "minutes": minutes[0],
        "cpu_minutes": minutes[1],
        "arguments": vars(args),
        "parity": {"best_equal": parity.best_equal, "difference": parity.largest_difference},
        "captions": evaluate(translator, test, test_scenes),
    }
    with atomic_replace(args.run_dir / "results.json") as partial:
        partial.write_text(json.dumps(report, indent=2, default=str))
    print(json.dumps(report["captions"], indent=2))
    for language in test.captions:
        plot_attention(translator, test.images[0], language, args.run_dir)


def parse_arguments():
    parser = argparse.ArgumentParser(description="Train a model that describes images.")
    parser.add_argument("--run-dir", type=Path, default=Path("build/captions"))
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="read DIR/train/images/, DIR/train/captions.LANGUAGE (one line per image, in the "
        "order of the sorted file names) and the same in DIR/test. Default: synthetic scenes",
    )
    parser.add_argument(
        "--side",
        type=int,
        default=scenes.SIDE,
        help="width and height to which the images of --data are resized. A multiple of 8",
    )
    parser.add_argument("--encoder", choices=("cnn", "patches"), default="cnn")
    parser.add_argument("--decoder", choices=("rnn", "transformer"), default="rnn")
    parser.add_argument("--scenes", type=int, default=20_000, help="training scenes")
    parser.add_argument("--test", type=int, default=1000, help="test scenes")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.side < 8 or args.side % 8:
        parser.error(f"--side must be a multiple of 8. Received: {args.side}")
    if args.data is None and args.side != scenes.SIDE:
        parser.error("--side is the size of the images of --data DIR")
    if problem := separate_paths_problem(
        {"--run-dir": args.run_dir}, {"--data": args.data}, only_equal=True
    ):
        parser.error(problem)
    return args


def train_tokenizer(path, training):
    """Trains a tokenizer. In its vocabulary, most words of the captions are single pieces."""
    lines = [text for number in range(len(training.images)) for text in training.texts(number)]
    with atomic_replace(path) as partial:
        partial.write_text("\n".join(lines[:20_000]), encoding="utf-8")
    return SentencePieceTokenizer.train(path, VOCABULARY_SIZE, "bpe")


def make_model(args, image, vocabulary_size):
    """Returns the encoder of images and the decoder of captions."""
    layers = keras.layers
    pixels = layers.Rescaling(1 / 127.5, -1.0)(image)
    if args.encoder == "cnn":
        for filters in (32, 64, FEATURES):
            convolution = layers.Conv2D(filters, 3, strides=2, padding="same", use_bias=False)
            pixels = layers.BatchNormalization(momentum=0.9)(convolution(pixels))
            pixels = layers.Activation("relu")(pixels)
        grid = pixels  # (B, height / 8, width / 8, F)
        features = layers.Reshape((-1, FEATURES))(grid)
        features = keras_attn.LearnedPositions(features.shape[1])(features)
    else:
        block = keras_attn.TransformerEncoderBlock(4, 4 * FEATURES, activation="gelu")
        patches = keras_attn.PatchEmbedding(8, FEATURES, class_token=False)
        rows, columns = image.shape[1] // 8, image.shape[2] // 8
        positions = keras_attn.LearnedPositions(rows * columns)
        transformer = keras_attn.TransformerEncoder(
            block, patches, num_layers=3, positions=positions
        )
        features = transformer(pixels)["encoder_outputs"]
        grid = layers.Reshape((rows, columns, FEATURES))(features)
    outputs = {"encoder_outputs": features}
    if args.decoder == "transformer":
        block = keras_attn.TransformerDecoderBlock(4, 4 * FEATURES, activation="gelu")
        embedding = layers.ReversibleEmbedding(vocabulary_size, FEATURES)
        decoder = keras_attn.TransformerDecoder(block, embedding, num_layers=3)
    else:
        # The initial state of the LSTM is computed from all positions together. The paper uses the
        # mean over the positions, which does not contain where an object is.
        summary = layers.Conv2D(16, 1, activation="relu")(grid)
        outputs["encoder_state"] = [layers.Flatten()(summary)]
        cell = keras_attn.AttentionRNNCell(
            layers.LSTMCell(192),
            keras_attn.BahdanauAttention(64),
            query_from=("previous_state", "inputs"),
            input_feeding=False,
            context_gate=True,
        )
        embedding = layers.Embedding(vocabulary_size, 64)
        decoder = keras_attn.RNNDecoder(
            cell, embedding, head=layers.Dense(vocabulary_size), doubly_stochastic_loss=0.001
        )
    return keras.Model(image, outputs, name="encoder"), decoder


def train(args, trainer, batches):
    """Trains the model. Returns the wall-clock minutes and the CPU minutes."""
    steps = args.epochs * len(batches)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, steps * 19 // 20, warmup_target=args.learning_rate, warmup_steps=steps // 20 + 1
    )
    compile_for_training(trainer, learning_rate=schedule, label_smoothing=0.0)
    print(f"{trainer.count_params():,} weights, {steps} steps")
    started = [clock() for clock in CLOCKS]
    trainer.fit(batches, epochs=args.epochs, shuffle=False, verbose=2)
    return [(clock() - start) / 60 for clock, start in zip(CLOCKS, started, strict=True)]


def evaluate(translator, test, test_scenes=None):
    """Returns the fraction of captions that equal the reference, and of captions that are true."""
    report = {}
    for language, expected in test.captions.items():
        prefix = f"{language}:"
        found = translator.generate({"image": test.images}, target_prefix=prefix)
        texts = [each.text.removeprefix(prefix).strip() for each in found]
        pairs = zip(texts, expected, strict=True)
        report[language] = {"exact": float(np.mean([text == each for text, each in pairs]))}
        if test_scenes is not None:
            pairs = zip(texts, test_scenes, strict=True)
            are_true = [scene_captions.is_true(text, scene, language) for text, scene in pairs]
            report[language]["true"] = float(np.mean(are_true))
    return report


def plot_attention(translator, image, language, directory):
    """Writes a picture of the attention over an image at each word of its caption."""
    try:
        import matplotlib
    except ImportError:
        print("Pictures of the attention need Matplotlib: pip install matplotlib")
        return
    matplotlib.use("Agg")
    from keras_attn.visualize import plot_attention_over_image

    (found,) = translator.generate({"image": image[None]}, target_prefix=f"{language}:")
    first = (
        next((number for number, piece in enumerate(found.pieces) if piece.endswith(":")), -1) + 1
    )  # index of the first piece after the prefix
    count = len(found.pieces)
    # By default, the positions form a square grid, which is right because the images are square.
    figure = plot_attention_over_image(image, found.pieces[first:], found.alignments[first:count])
    with atomic_replace(directory / f"attention-{language}.png") as partial:
        figure.savefig(partial, dpi=100)


if __name__ == "__main__":
    main()
