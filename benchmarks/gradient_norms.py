"""Gradient norms of recurrent layers over the distance in time, without and with clipping.

    python benchmarks/gradient_norms.py

The script trains a `SimpleRNN`, a `GRU` and an `LSTM` to output the first of `--steps` random
symbols after the last one, with SGD, which only works if gradients reach the first step. During the
training it records

    g_d = || d loss / d h_{T-d} ||      (d = 0 ... T-1, mean over the examples of a batch)

the norm of the gradient at the state of d steps before the last step T. Vanishing gradients fall
exponentially with d ([Bengio et al., 1994](https://doi.org/10.1109/72.279181)), exploding gradients
rise, and clipping the global norm ([Pascanu et al., 2013](https://arxiv.org/abs/1211.5063)) keeps
the weights of a training with exploding gradients finite. The initial recurrent weights are
orthogonal matrices times `--gain`.

Writes `benchmarks/results/gradient_norms.json` and `docs/gradient_norms.png`.
"""

import json
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from arguments import argument_parser, settings_of
from results_file import versions, write_results

CELLS = {"SimpleRNN": keras.layers.SimpleRNNCell, "GRU": keras.layers.GRUCell}
CELLS["LSTM"] = keras.layers.LSTMCell
COLORS = {"SimpleRNN": "#d55e00", "GRU": "#0072b2", "LSTM": "#009e73"}
NUM_SYMBOLS = 4


def main():
    parser = argument_parser(__doc__, threads=1, seed=1)
    parser.add_argument("--steps", type=int, default=50, help="length T of the sequences")
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--learning-rate", type=float, default=0.5)
    parser.add_argument("--clip", type=float, default=1.0, help="largest global norm")
    parser.add_argument("--gain", type=float, default=1.0)
    args = parser.parse_args()
    rows = []
    for name in CELLS:
        for clip in (None, args.clip):
            rows.append({"cell": name, "clip": clip, **train(name, clip, args)})
            shown = {key: value for key, value in rows[-1].items() if key not in ("start", "end")}
            print(json.dumps(shown))
    draw(rows, Path(__file__).parents[1] / "docs" / "gradient_norms.png")
    path = args.out / "gradient_norms.json"
    found = versions("keras", "tensorflow", "numpy")
    write_results(path, rows, found, args.seed, settings=settings_of(args))


def train(name, clip, args):
    """Returns the norms at the first and the last update, and the course of the training."""
    keras.utils.set_random_seed(args.seed)
    cell = CELLS[name](args.units, recurrent_initializer=keras.initializers.Orthogonal(args.gain))
    cell.build((args.batch, NUM_SYMBOLS))
    output = keras.layers.Dense(NUM_SYMBOLS)
    output.build((args.batch, args.units))
    weights = [each.value for each in [*cell.trainable_variables, *output.trainable_variables]]
    size = cell.state_size if isinstance(cell.state_size, (list, tuple)) else [cell.state_size]

    @tf.function
    def gradients(symbols):
        with tf.GradientTape() as tape:
            states = [tf.zeros((args.batch, each)) for each in size]
            outputs = []
            for step in range(args.steps):
                hidden, states = cell(tf.one_hot(symbols[:, step], NUM_SYMBOLS), states)
                outputs.append(hidden)
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
                symbols[:, 0], output(outputs[-1])
            )
            loss = tf.reduce_sum(loss)
        of_states, of_weights = tape.gradient(loss, (outputs, weights))
        norms = tf.reduce_mean(tf.norm(tf.stack(of_states[::-1]), axis=-1), axis=-1)  # (T,)
        return loss / args.batch, norms, [each / args.batch for each in of_weights]

    rng, losses, largest = np.random.default_rng(args.seed), [], 0.0
    first = last = None
    for _ in range(args.updates):
        symbols = rng.integers(0, NUM_SYMBOLS, (args.batch, args.steps)).astype("int32")
        loss, norms, grads = gradients(symbols)
        norm = tf.linalg.global_norm(grads)
        if not np.isfinite(float(loss)) or not np.isfinite(float(norm)):
            break
        largest = max(largest, float(norm))
        scale = 1.0 if clip is None else min(1.0, clip / float(norm))
        for weight, grad in zip(weights, grads, strict=True):
            weight.assign_sub(args.learning_rate * scale * grad)
        losses.append(float(loss))
        first = norms.numpy() if first is None else first
        last = norms.numpy()
    return {
        "updates": len(losses),
        "loss": float(np.mean(losses[-20:])),
        "largest_norm": largest,
        "start": first.tolist(),
        "end": last.tolist(),
    }


def draw(rows, path):
    """Draws the norms at the first update (left) and at the last one (right)."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for axis, key, title in zip(
        axes, ("start", "end"), ("before the training", "after the training"), strict=True
    ):
        for row in rows:
            if key == "start" and row["clip"] is not None:
                continue  # clipping does not change the first gradients
            label = row["cell"] + ("" if row["clip"] is None or key == "start" else ", clipped")
            style = "-" if row["clip"] is None else "--"
            axis.semilogy(row[key], style, color=COLORS[row["cell"]], label=label)
        axis.set_title(title)
        axis.set_xlabel("distance in time steps")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    axes[0].set_ylabel("gradient norm")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
