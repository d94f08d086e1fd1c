"""Trains a vision Transformer on the 1,797 handwritten digits of scikit-learn.

    python examples/classify_images.py --out build/digits

The training takes about two minutes. The output directory contains the model, results.json, and, if
the backend of Keras is TensorFlow, an ONNX file.
"""

import argparse
import json
import time
from pathlib import Path

import keras
import numpy as np

from keras_attn import (
    LearnedPositions,
    PatchEmbedding,
    TransformerEncoder,
    TransformerEncoderBlock,
    sequence_classifier,
)
from keras_attn.files import atomic_replace
from keras_attn.training import RunDirectory

try:
    from sklearn.datasets import load_digits
except ImportError as error:
    raise SystemExit("The digits need scikit-learn: pip install scikit-learn") from error

EPOCHS, SEED = 15, 1

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--out", type=Path, default=Path("build/digits"), help="output directory")
args = parser.parse_args()
args.out.mkdir(parents=True, exist_ok=True)
keras.utils.set_random_seed(SEED)

digits = load_digits()
order = np.random.permutation(len(digits.target))
images, labels = digits.images[order, :, :, None].astype("float32") / 16, digits.target[order]
test, test_labels = images[:360], labels[:360]  # one fifth of the images
padded = np.pad(images[360:], ((0, 0), (1, 1), (1, 1), (0, 0)))  # (N, 10, 10, 1)
# Augment the training data: shift each image by up to one pixel in each direction.
train = [padded[:, y : y + 8, x : x + 8] for y in range(3) for x in range(3)]
train, train_labels = np.concatenate(train), np.tile(labels[360:], 9)

block = TransformerEncoderBlock(4, 128, activation="gelu", dropout=0.1, seed=SEED)
patches = PatchEmbedding(patch_size=2, embedding_dim=64)  # 16 patches and a class token
positions = LearnedPositions(17)
encoder = TransformerEncoder(block, patches, num_layers=3, positions=positions, name="encoder")
inputs = keras.Input((8, 8, 1), name="images")
model = sequence_classifier(encoder, 10, pooling="first", inputs=inputs)

steps = EPOCHS * len(train) // 64
schedule = keras.optimizers.schedules.CosineDecay(
    0.0, steps * 9 // 10, warmup_target=2e-3, warmup_steps=steps // 10
)
optimizer = keras.optimizers.AdamW(schedule, weight_decay=0.05)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
is_jax = keras.backend.backend() == "jax"  # which is slow without compilation
model.compile(optimizer, loss, metrics=["accuracy"], jit_compile=is_jax)
started = time.process_time()
model.fit(train, train_labels, batch_size=64, epochs=EPOCHS, verbose=2)

report = {
    "accuracy": model.evaluate(test, test_labels, verbose=0)[1],
    "images": len(test),
    "cpu_minutes": (time.process_time() - started) / 60,
    "arguments": {"epochs": EPOCHS, "seed": SEED},
}
RunDirectory.create(args.out, "classification").save_model(model)
print(f"accuracy: {report['accuracy']:.4f}\nwrote {args.out / 'model.keras'}")
try:
    from keras_attn.export import export_functional_onnx

    path, labels = args.out / "digits.onnx", [str(digit) for digit in range(10)]
    error = export_functional_onnx(model, path, test, labels=labels).largest_difference
    report["largest_onnx_difference"] = error
    print(f"wrote {path}, largest difference from Keras: {error:.1e}")
except (ImportError, RuntimeError) as error:  # the backend is not TensorFlow
    print(f"No ONNX file. {error}")
finally:  # keep the results even if the export fails
    with atomic_replace(args.out / "results.json") as partial:
        partial.write_text(json.dumps(report, indent=2, default=str))
