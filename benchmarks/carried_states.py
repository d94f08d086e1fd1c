"""Bits per character of LSTMs that are trained with and without carried states, in equal CPU time.

    python benchmarks/carried_states.py --data TINYSHAKESPEARE --minutes 8

TINYSHAKESPEARE is a folder with `train.txt` (or `train.txt.gz`) and `valid.txt`. Three
character-level models with the same layers are trained for the same CPU time:

- windows of 64 characters, starting from the final state of the previous window
  (truncated backpropagation through time);
- windows of 64 characters, starting from states of zeros;
- windows of 256 characters, starting from states of zeros.

The batches have the same number of rows. The learning rate decreases linearly to zero during the
training. Each model is trained in a separate process.

After the training, each model predicts the validation text twice: with states that are carried
through the text, and in windows that start from zeros. These windows are as long as the windows of
the training.

Writes `benchmarks/results/carried_states-NAME.json`.
"""

import time
from pathlib import Path

from arguments import argument_parser, settings_of
from own_process import main_or_measurement, measure_in_turn
from results_file import versions, write_results

SIDES = {
    "windows of 64, carried": (64, True),
    "windows of 64, not carried": (64, False),
    "windows of 256, not carried": (256, False),
}


def main():
    parser = argument_parser(__doc__, threads=1, seed=1)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--name", default="tinyshakespeare", help="name of the results file")
    parser.add_argument("--minutes", type=float, default=8.0, help="CPU minutes of each training")
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--units", type=int, default=256)
    parser.add_argument("--learning-rate", type=float, default=4e-3)
    parser.add_argument("--rounds", type=int, default=1, help="trainings of each model")
    args = parser.parse_args()
    found = measure_in_turn(__file__, list(SIDES), args, data=str(args.data.resolve()))
    rows = [{"model": side, **each} for side in SIDES for each in found[side]]
    path = args.out / f"carried_states-{args.name}.json"
    found_versions = versions("keras", "tensorflow", "numpy")
    write_results(path, rows, found_versions, args.seed, settings=settings_of(args))


def measure(args, side, data):
    """Trains one model. Returns its bits per character and the number of its steps."""
    import keras
    import numpy as np

    from keras_attn.files import read_lines
    from keras_attn.training import CarryStates, ConsecutiveWindows

    window, carried = SIDES[side]
    keras.utils.set_random_seed(args.seed)
    data = Path(data)
    path = data / "train.txt"
    texts = [
        "\n".join(read_lines(each))
        for each in (path if path.exists() else data / "train.txt.gz", data / "valid.txt")
    ]
    characters = {each: index for index, each in enumerate(sorted(set("".join(texts))), start=1)}
    train, valid = (np.array([characters[each] for each in text]) for text in texts)
    classes = len(characters) + 1  # 0 is padding

    embedding = keras.layers.Embedding(classes, 64)
    lstm = keras.layers.LSTM(args.units, return_sequences=True, stateful=carried)
    output = keras.layers.Dense(classes)
    inputs = keras.Input((window,), batch_size=args.rows, dtype="int32")
    model = keras.Model(inputs, output(lstm(embedding(inputs))))
    optimizer = keras.optimizers.Adam(args.learning_rate, global_clipnorm=1.0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, jit_compile=False)

    class CpuTime(keras.callbacks.Callback):
        """Decreases the learning rate to zero, and stops after `--minutes` of CPU time."""

        steps, started = 0, None

        def on_train_batch_begin(self, batch, logs=None):
            if self.started is None and self.steps:  # the first step includes tracing
                self.started = time.process_time()
            spent = 0.0 if self.started is None else time.process_time() - self.started
            rest = max(0.0, 1 - spent / (60 * args.minutes))
            self.model.optimizer.learning_rate = args.learning_rate * rest

        def on_train_batch_end(self, batch, logs=None):
            self.steps += 1
            if self.started and time.process_time() - self.started > 60 * args.minutes:
                self.model.stop_training = True

    windows = ConsecutiveWindows(train, window, args.rows)
    timer = CpuTime()
    model.fit(
        windows.dataset(),
        steps_per_epoch=windows.steps_per_epoch,
        epochs=10**6,
        shuffle=False,
        verbose=0,
        callbacks=[timer, *([CarryStates()] if carried else [])],
    )

    # A model with the same weights for any length, which starts each batch from zeros.
    free = keras.layers.LSTM(args.units, return_sequences=True)
    texts = keras.Input((None,), dtype="int32")
    reader = keras.Model(texts, output(free(embedding(texts))))
    free.set_weights(lstm.get_weights())

    def bits(rows):
        count = rows[:, 1:].size
        logits = reader.predict(rows[:, :-1], batch_size=args.rows, verbose=0)
        losses = keras.losses.sparse_categorical_crossentropy(rows[:, 1:], logits, from_logits=True)
        return float(np.sum(losses) / count / np.log(2))

    def rows_of(length):
        """Returns windows `(rows, length + 1)` in which each character is a label once."""
        starts = range(0, len(valid) - length, length)
        return np.stack([valid[start : start + length + 1] for start in starts])

    return {
        "bits_per_character_carried": bits(rows_of(len(valid) // 8 - 1)),
        "bits_per_character_from_zeros": bits(rows_of(window)),
        "steps": timer.steps,
        "epochs": timer.steps / windows.steps_per_epoch,
        "cpu_minutes": (time.process_time() - timer.started) / 60,
    }


if __name__ == "__main__":
    main_or_measurement(main, measure)
