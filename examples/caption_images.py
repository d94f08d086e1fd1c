"""Trains a model that describes images of two shapes, such as "a red square above a blue disc".

    python examples/caption_images.py --run-dir build/captions

The training takes about two minutes. If it is interrupted, run the same command again to continue.
Afterwards, the run directory contains:

    run.json, model.keras, target.spm   the model and the tokenizer of the captions
    history.json                        loss, perplexity and accuracy of each epoch
    test/images/*.png                   five images

Export the model and describe the images:

    cd build/captions
    keras-attn export onnx . captions.onnx --accept-target-prefix
    keras-attn-runtime translate captions.onnx --images test/images --target-prefix en:

To train on your own images, replace `draw_shapes` by `keras_attn.training.read_captions` and
`read_images`, or use the full program: `keras-attn train captions --help`.
"""

import argparse
import random
from itertools import product
from pathlib import Path

import keras
import numpy as np
from keras import layers

import keras_attn
from keras_attn.files import write_lines
from keras_attn.text import SentencePieceTokenizer
from keras_attn.training import (
    BestCheckpoint,
    CaptionBatches,
    HistoryFile,
    ImageFormat,
    RunDirectory,
    ShowProgress,
    caption_texts,
    compile_for_training,
    fit,
)

EPOCHS, IMAGES, SIZE = 12, 4000, 32
COLORS = {"red": (230, 40, 40), "green": (40, 190, 60), "blue": (60, 90, 250)}
SHAPES = ("square", "disc", "cross")


def draw_shapes(count, seed):
    """Returns `count` images, uint8 `(count, 32, 32, 3)`, and their captions."""
    looks, generator = list(product(COLORS, SHAPES)), random.Random(seed)
    images = np.full((count, SIZE, SIZE, 3), 25, "uint8")
    captions = []
    y, x = np.mgrid[:SIZE, :SIZE]
    for image in images:
        pair, relation = generator.sample(looks, 2), generator.choice(["left of", "above"])
        for (color, shape), center in zip(pair, (8, 24), strict=True):
            other = generator.randrange(8, 25)
            row, column = (other, center) if relation == "left of" else (center, other)
            down, right = abs(y - row), abs(x - column)
            inside = {
                "square": np.maximum(down, right) < 6,
                "disc": down**2 + right**2 < 36,
                "cross": (np.minimum(down, right) < 2) & (np.maximum(down, right) < 6),
            }
            image[inside[shape]] = COLORS[color]
        first, second = (f"a {color} {shape}" for color, shape in pair)
        captions.append(f"{first} {relation} {second}")
    return images, captions


def make_model(vocabulary_size):
    """Returns a convolutional encoder, and an LSTM with attention over its 4 x 4 positions."""
    image = keras.Input((SIZE, SIZE, 3), name="image")
    grid = layers.Rescaling(1 / 127.5, -1.0)(image)
    for filters in (16, 32, 64):
        grid = layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(grid)
    features = keras_attn.LearnedPositions(16)(layers.Reshape((16, 64))(grid))
    outputs = {"encoder_outputs": features, "encoder_state": [layers.Flatten()(grid)]}
    cell = keras_attn.AttentionRNNCell(layers.LSTMCell(96), keras_attn.BahdanauAttention(48))
    decoder = keras_attn.RNNDecoder(
        cell, layers.Embedding(vocabulary_size, 32), head=layers.Dense(vocabulary_size)
    )
    return keras.Model(image, outputs, name="encoder"), decoder


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--run-dir", type=Path, default=Path("build/captions"), help="run directory to write"
    )
    run_dir = parser.parse_args().run_dir
    (run_dir / "test" / "images").mkdir(parents=True, exist_ok=True)

    # 1. Data: a caption begins with its language, which a user of the model can choose.
    splits = {name: draw_shapes(count, name) for name, count in (("train", IMAGES), ("test", 200))}
    write_lines(run_dir / "captions.txt", caption_texts({"en": splits["train"][1]}))
    tokenizer = SentencePieceTokenizer.train(run_dir / "captions.txt", 80, "bpe")
    training, validation = (
        CaptionBatches(images, {"en": captions}, tokenizer, batch_size=64, seed=1)
        for images, captions in splits.values()
    )
    image_format = ImageFormat(resize="bilinear")  # the model itself scales the pixels
    run = RunDirectory.create(run_dir, "generation", None, tokenizer, image_format=image_format)

    # 2. Model, and the beam search, whose length does not depend on the size of the image.
    keras.utils.set_random_seed(1)
    encoder, decoder = make_model(tokenizer.vocabulary_size)
    search = keras_attn.BeamDecoder(
        decoder, beam_width=4, max_length=20, relative_max_length=None, return_alignments=True
    )
    captioner = keras_attn.GenerationModel(encoder, search)

    # 3. Training: the decoder sees the previous tokens of the caption and predicts the next ones.
    trainer = keras_attn.TrainingModel(encoder, decoder)
    schedule = keras.optimizers.schedules.CosineDecay(3e-3, EPOCHS * len(training))
    compile_for_training(trainer, schedule, label_smoothing=0.0)
    fit(
        trainer,
        training,
        epochs=EPOCHS,
        directory=run_dir / "state",
        validation_data=validation,
        callbacks=[
            BestCheckpoint(run, saved_model=captioner),
            HistoryFile(run_dir / "history.json"),
            ShowProgress(64, "captions"),
        ],
        verbose=0,
    )

    # 4. Captions of images that the model has not seen.
    images, references = splits["test"]
    best = run.load_model("generation")
    found = best.generate(images.astype("float32"), None, tokenizer, target_prefix="en:")
    captions = [text.removeprefix("en:").strip() for text in found]
    for number in range(5):
        print(f"{captions[number]}   (reference: {references[number]})")
        path = run_dir / "test" / "images" / f"{number}.png"
        keras.utils.save_img(path, images[number], scale=False)
    right = sum(text == expected for text, expected in zip(captions, references, strict=True))
    print(f"{right} of {len(captions)} captions are right.")
    command = f"keras-attn export onnx {run_dir} captions.onnx --accept-target-prefix"
    print(f"Wrote {run.model_path}. Next: {command}")


if __name__ == "__main__":
    main()
