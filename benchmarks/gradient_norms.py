"""Gradient norms of recurrent layers by distance in time, with and without clipping.

    python benchmarks/gradient_norms.py

A `SimpleRNN`, a `GRU` and an `LSTM` read one of four symbols, followed by random symbols from a
second set of four. The models learn to output the first symbol at the last step. During the
training, the script records

    g_d = || d loss / d s_{T-d} ||      (d = 0 ... T-1, mean over the examples of a batch)

This is the norm of the gradient with respect to the state d steps before the last step T. The state
of an LSTM consists of two tensors, h and c. Vanishing gradients fall exponentially with d ([Bengio
et al., 1994](https://doi.org/10.1109/72.279181)). Exploding gradients rise with d, and one update
can then undo the progress of the training. Clipping the global norm of the gradient prevents this
([Pascanu et al., 2013](https://arxiv.org/abs/1211.5063)). The initial recurrent weights are
orthogonal matrices.

Each cell is trained with Adam. The `SimpleRNN` is also trained with SGD. The updates of SGD are
proportional to the gradients, so clipping has the largest effect.

Writes `benchmarks/results/gradient_norms.json` and `docs/gradient_norms.png`.
"""

import json
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from arguments import argument_parser, settings_of
from results_file import versions, write_results

from keras_attn.files import atomic_replace

CELLS = {"SimpleRNN": keras.layers.SimpleRNNCell, "GRU": keras.layers.GRUCell}
CELLS["LSTM"] = keras.layers.LSTMCell
COLORS = {"SimpleRNN": "#d55e00", "GRU": "#0072b2", "LSTM": "#009e73"}
NUM_SYMBOLS = 4  # size of each of the two sets of symbols
COURSES = ("before", "after", "losses")  # keys of the lists in a row


def main():
    parser = argument_parser(__doc__, threads=1, seed=1)
    parser.add_argument("--steps", type=int, default=20, help="length T of the sequences")
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--updates", type=int, default=1000)
    parser.add_argument("--adam", type=float, default=0.01, help="learning rate of Adam")
    parser.add_argument("--sgd", type=float, default=0.5, help="learning rate of SGD")
    parser.add_argument("--clip", type=float, default=1.0, help="maximum global norm")
    args = parser.parse_args()
    rows = []
    trainings = [(name, "adam") for name in CELLS] + [("SimpleRNN", "sgd")]
    for name, optimizer in trainings:
        for clip in (None, args.clip):
            model = f"{name}, {optimizer}" + ("" if clip is None else ", clipped")
            rows.append({"model": model, **train(name, optimizer, clip, args)})
            print(json.dumps({k: v for k, v in rows[-1].items() if k not in COURSES}))
    draw(rows, Path(__file__).parents[1] / "docs" / "gradient_norms.png")
    courses = {row["model"]: {key: row.pop(key) for key in COURSES} for row in rows}
    path = args.out / "gradient_norms.json"
    found = versions("keras", "tensorflow", "numpy")
    settings = settings_of(args)
    write_results(path, rows, found, args.seed, settings=settings, courses=courses)


def train(name, optimizer, clip, args):
    """Returns the norms at the first update, their means at the last 20, and the losses."""
    keras.utils.set_random_seed(args.seed)
    cell = CELLS[name](args.units)  # Keras' recurrent initializer is orthogonal
    cell.build((args.batch, 2 * NUM_SYMBOLS))
    output = keras.layers.Dense(NUM_SYMBOLS)
    output.build((args.batch, args.units))
    variables = [*cell.trainable_variables, *output.trainable_variables]
    optimizer = keras.optimizers.get(
        {"class_name": optimizer, "config": {"learning_rate": getattr(args, optimizer)}}
    )
    optimizer.build(variables)
    sizes = cell.state_size if isinstance(cell.state_size, (list, tuple)) else [cell.state_size]

    @tf.function
    def gradients(symbols):
        with tf.GradientTape() as tape:
            states = [tf.zeros((args.batch, size)) for size in sizes]
            joined = []
            for step in range(args.steps):
                _, states = cell(tf.one_hot(symbols[:, step], 2 * NUM_SYMBOLS), states)
                # The next step reads parts of this tensor, so its gradient contains the gradients
                # of all states.
                joined.append(tf.concat(states, axis=-1))  # (batch, states)
                states = tf.split(joined[-1], sizes, axis=-1)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                symbols[:, 0], output(states[0])
            )
            loss = tf.reduce_sum(losses)
        of_states, of_weights = tape.gradient(loss, (joined, [each.value for each in variables]))
        norms = tf.reduce_mean(tf.norm(tf.stack(of_states[::-1]), axis=-1), axis=-1)  # (T,)
        return loss / args.batch, norms, [each / args.batch for each in of_weights]

    rng, losses, all_norms, largest = np.random.default_rng(args.seed), [], [], 0.0
    for _ in range(args.updates):
        first = rng.integers(0, NUM_SYMBOLS, (args.batch, 1))
        rest = rng.integers(NUM_SYMBOLS, 2 * NUM_SYMBOLS, (args.batch, args.steps - 1))
        symbols = np.concatenate([first, rest], axis=1).astype("int32")
        loss, norms, grads = gradients(symbols)
        norm = float(tf.linalg.global_norm(grads))
        if not np.isfinite(float(loss)) or not np.isfinite(norm):
            break
        scale = 1.0 if clip is None else min(1.0, clip / norm)
        optimizer.apply([scale * each for each in grads], variables)
        largest = max(largest, norm)
        losses.append(float(loss))
        all_norms.append(norms.numpy())
    last = np.mean(all_norms[-20:], axis=0)
    return {
        "updates": len(losses),
        "loss": float(np.mean(losses[-20:])),
        "largest_norm": largest,
        "first_to_last_step_before": float(all_norms[0][-1] / all_norms[0][0]),
        "first_to_last_step_after": float(last[-1] / last[0]),
        "before": [float(f"{each:.4g}") for each in all_norms[0]],
        "after": [float(f"{each:.4g}") for each in last],
        "losses": [round(float(np.mean(losses[i : i + 20])), 4) for i in range(0, len(losses), 20)],
    }


def draw(rows, path):
    """Draws the norms before and after the training with Adam, and the losses with SGD."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    for row in rows:
        name, optimizer, *clipped = row["model"].split(", ")
        style = {"linestyle": "--" if clipped else "-", "color": COLORS[name]}
        label = ", ".join([name, *clipped])
        if optimizer == "sgd":
            axes[2].plot(np.arange(len(row["losses"])) * 20, row["losses"], label=label, **style)
            continue
        if not clipped:  # clipping does not change the first gradients
            axes[0].semilogy(np.array(row["before"]) / row["before"][0], label=label, **style)
        axes[1].semilogy(np.array(row["after"]) / row["after"][0], label=label, **style)
    axes[0].set_title("before the training")
    axes[1].set_title("after the training (Adam)")
    axes[0].set_ylabel("gradient norm, relative to the last step")
    for axis in axes[:2]:
        axis.set_ylim(1e-7, 1e2)
        axis.set_xlabel("distance from the last step")
    axes[2].set_title("loss during the training (SGD)")
    axes[2].axhline(np.log(NUM_SYMBOLS), color="gray", linewidth=1, label="guessing")
    axes[2].set_ylim(bottom=0)
    axes[2].set_xlabel("update")
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    with atomic_replace(path) as partial:
        figure.savefig(partial, dpi=85)


if __name__ == "__main__":
    main()
