"""Compares `fit` with plain `model.fit` for the losses, metrics, optimizers and callbacks of Keras.

    KERAS_BACKEND=jax python -m tests.training.fit_table [NAME ...]

Each item is trained under several conditions. The reference is `model.fit` of one process, without
an interruption. Interruptions are copies of the directories at each step, as a killed process would
leave them. The result of a condition is one of these:

    equal      weights, logs, files and attributes of callbacks equal those of `model.fit`
    rejected   `fit` raises a ValueError before the first step
    Keras      they differ, and Keras' own `model.fit` differs in the same condition
    DIFFERENT  they differ without an error
    ERROR      `fit` raises another error, or after the first step

The program prints a JSON dict from items to dicts from conditions to results. From files with this
output, one for each backend, it makes the table in benchmarks/README.md:

    python -m tests.training.fit_table --summarize tensorflow.json jax.json torch.json
"""

import contextlib
import inspect
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import keras
import numpy as np

import keras_attn.training as ours

NUM_EPOCHS, STEPS_PER_EPOCH, EVEN, UNEVEN = 2, 4, 8, 7
BACKEND = keras.backend.backend()
ALL_CONDITIONS = [
    "uninterrupted",
    "interrupted",
    "validation",
    "two outputs",
    "two devices",
    "two devices, uneven batches",
    "two devices, uneven batches, two outputs",
]
CONDITIONS = ALL_CONDITIONS[:4] if BACKEND == "torch" else ALL_CONDITIONS

random = np.random.default_rng(0)
X = random.normal(size=(EVEN * STEPS_PER_EPOCH, 6, 5)).astype("float32")
CLASSES = random.integers(0, 3, len(X))
TOKENS = random.integers(0, 4, (len(X), 6))
TARGETS = {
    "real": random.normal(size=(len(X), 3)).astype("float32"),
    "positive": random.uniform(1, 2, (len(X), 3)).astype("float32"),
    "probability": random.dirichlet(np.ones(3), len(X)).astype("float32"),
    "sign": np.sign(random.normal(size=(len(X), 1))).astype("float32"),
    "binary": random.integers(0, 2, (len(X), 1)).astype("float32"),
    "one_hot": np.eye(3, dtype="float32")[CLASSES],
    "class": CLASSES[:, None].astype("int32"),
    "tokens": TOKENS.astype("int32"),
    "ctc": random.integers(1, 4, (len(X), 2)).astype("int32"),
}
HEADS = {
    "real": (3, None),
    "positive": (3, "softplus"),
    "probability": (3, "softmax"),
    "sign": (1, "tanh"),
    "binary": (1, "sigmoid"),
    "one_hot": (3, "softmax"),
    "class": (3, "softmax"),
    "tokens": (4, None),
    "ctc": (4, None),
}
LOSS_OF_TARGET = {
    "real": "mse",
    "positive": "poisson",
    "probability": "kl_divergence",
    "sign": "hinge",
    "binary": "binary_crossentropy",
    "one_hot": "categorical_crossentropy",
    "class": "sparse_categorical_crossentropy",
}

LOSSES = {
    "BinaryCrossentropy": "binary",
    "BinaryFocalCrossentropy": "binary",
    "CTC": "ctc",
    "CategoricalCrossentropy": "one_hot",
    "CategoricalFocalCrossentropy": "one_hot",
    "CategoricalGeneralizedCrossEntropy": "class",
    "CategoricalHinge": "one_hot",
    "Circle": "class",
    "CosineSimilarity": "real",
    "Dice": "binary",
    "Hinge": "sign",
    "Huber": "real",
    "KLDivergence": "probability",
    "LogCosh": "real",
    "MeanAbsoluteError": "real",
    "MeanAbsolutePercentageError": "positive",
    "MeanSquaredError": "real",
    "MeanSquaredLogarithmicError": "positive",
    "Poisson": "positive",
    "SparseCategoricalCrossentropy": "class",
    "SquaredHinge": "sign",
    "Tversky": "binary",
    "SequenceCrossentropy": "tokens",
}
METRICS = {
    "AUC": ("binary", {}),
    "Accuracy": ("binary", {}),
    "BinaryAccuracy": ("binary", {}),
    "BinaryCrossentropy": ("binary", {}),
    "BinaryIoU": ("binary", {"target_class_ids": [0, 1]}),
    "CategoricalAccuracy": ("one_hot", {}),
    "CategoricalCrossentropy": ("one_hot", {}),
    "CategoricalHinge": ("one_hot", {}),
    "ConcordanceCorrelation": ("real", {}),
    "CosineSimilarity": ("real", {}),
    "F1Score": ("one_hot", {}),
    "FBetaScore": ("one_hot", {}),
    "FalseNegatives": ("binary", {}),
    "FalsePositives": ("binary", {}),
    "Hinge": ("sign", {}),
    "IoU": ("class", {"num_classes": 3, "target_class_ids": [0], "sparse_y_pred": False}),
    "KLDivergence": ("probability", {}),
    "LogCoshError": ("real", {}),
    "MeanAbsoluteError": ("real", {}),
    "MeanAbsolutePercentageError": ("positive", {}),
    "MeanIoU": ("class", {"num_classes": 3, "sparse_y_pred": False}),
    "MeanSquaredError": ("real", {}),
    "MeanSquaredLogarithmicError": ("positive", {}),
    "OneHotIoU": ("one_hot", {"num_classes": 3, "target_class_ids": [0]}),
    "OneHotMeanIoU": ("one_hot", {"num_classes": 3}),
    "PearsonCorrelation": ("real", {}),
    "Poisson": ("positive", {}),
    "Precision": ("binary", {}),
    "PrecisionAtRecall": ("binary", {"recall": 0.5}),
    "R2Score": ("real", {}),
    "Recall": ("binary", {}),
    "RecallAtPrecision": ("binary", {"precision": 0.5}),
    "RootMeanSquaredError": ("real", {}),
    "SensitivityAtSpecificity": ("binary", {"specificity": 0.5}),
    "SparseCategoricalAccuracy": ("class", {}),
    "SparseCategoricalCrossentropy": ("class", {}),
    "SparseTopKCategoricalAccuracy": ("class", {"k": 2}),
    "SpecificityAtSensitivity": ("binary", {"sensitivity": 0.5}),
    "SquaredHinge": ("sign", {}),
    "TopKCategoricalAccuracy": ("one_hot", {"k": 2}),
    "TrueNegatives": ("binary", {}),
    "TruePositives": ("binary", {}),
    "Perplexity": ("tokens", {}),
    "TokenAccuracy": ("tokens", {}),
    "TokenCrossentropy": ("tokens", {}),
}
NOT_ITEMS = {
    "losses.Loss",
    "metrics.Metric",
    "metrics.Mean",  # of values instead of labels and predictions, as Sum and MeanMetricWrapper
    "metrics.Sum",
    "metrics.MeanMetricWrapper",
    "optimizers.Optimizer",
    "callbacks.Callback",
    "callbacks.CallbackList",
    "callbacks.ProgbarLogger",
    "callbacks.RemoteMonitor",  # sends logs to a server
    "callbacks.TensorBoard",  # its files contain times
    "callbacks.OrbaxCheckpoint",  # rejected, see test_resumed_callbacks.py
}
"""Public classes of Keras that are not in the table."""

OPTIMIZERS = {
    "Adadelta": {},
    "Adafactor": {},
    "Adagrad": {},
    "Adam": {"amsgrad": True},
    "AdamW": {"clipnorm": 0.5},
    "Adamax": {},
    "Ftrl": {},
    "Lamb": {},
    "Lion": {},
    "LossScaleOptimizer": {},
    "MultiOptimizer": {},
    "Muon": {},
    "Nadam": {},
    "RMSprop": {"momentum": 0.9},
    "SGD": {"momentum": 0.9, "gradient_accumulation_steps": 3},
    "ScheduleFreeAdamW": {},
    "ClippedAdam": {},
}


def own(name):
    return getattr(ours, name, None)


def build_optimizer(name):
    if name == "LossScaleOptimizer":
        return keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam())
    if name == "MultiOptimizer":
        parts = {".*bias": keras.optimizers.SGD(0.1)}
        return keras.optimizers.MultiOptimizer(
            keras.optimizers.OptimizerMap(keras.optimizers.Adam(), parts)
        )
    return (own(name) or getattr(keras.optimizers, name))(**OPTIMIZERS[name])


def halve(epoch, rate):
    return rate * 0.5


CALLBACKS = {
    "CSVLogger": lambda folder: keras.callbacks.CSVLogger(folder / "log.csv"),
    "EarlyStopping": lambda folder: keras.callbacks.EarlyStopping(
        "loss", patience=1, mode="max", restore_best_weights=False
    ),
    "EarlyStopping, restore_best_weights": lambda folder: keras.callbacks.EarlyStopping(
        "loss", patience=1, mode="max", restore_best_weights=True
    ),
    "LambdaCallback": lambda folder: keras.callbacks.LambdaCallback(),
    "LearningRateScheduler": lambda folder: keras.callbacks.LearningRateScheduler(halve),
    "ModelCheckpoint": lambda folder: keras.callbacks.ModelCheckpoint(
        folder / "best.weights.h5", "loss", save_best_only=True, save_weights_only=True
    ),
    "ModelCheckpoint, save_freq": lambda folder: keras.callbacks.ModelCheckpoint(
        folder / "at-{batch}-{epoch}.weights.h5", save_freq=3, save_weights_only=True
    ),
    "ReduceLROnPlateau": lambda folder: keras.callbacks.ReduceLROnPlateau(
        "loss", patience=1, mode="max", factor=0.5
    ),
    "TerminateOnNaN": lambda folder: keras.callbacks.TerminateOnNaN(),
    "History": lambda folder: keras.callbacks.History(),
    "BackupAndRestore": lambda folder: keras.callbacks.BackupAndRestore(folder / "backup"),
    "SwapEMAWeights": lambda folder: keras.callbacks.SwapEMAWeights(),
    "AverageWeights": lambda folder: ours.AverageWeights(folder / "average", num_epochs=2),
    "BestCheckpoint": lambda folder: ours.BestCheckpoint(folder / "best.keras", "loss"),
}
"""Callbacks whose files can be compared. TensorBoard and RemoteMonitor write elsewhere or times."""


@contextlib.contextmanager
def devices(number):
    """Trains on `number` devices inside of the context."""
    if number == 1:
        yield
    elif BACKEND == "tensorflow":
        import tensorflow as tf

        with mirrored(tf).scope():
            yield
    else:
        keras.distribution.set_distribution(
            keras.distribution.DataParallel(devices=keras.distribution.list_devices()[:number])
        )
        try:
            yield
        finally:
            keras.distribution.set_distribution(None)


_strategy = []


def mirrored(tf):
    if not _strategy:
        _strategy.append(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]))
    return _strategy[0]


class CopyEachStep(keras.callbacks.Callback):
    """Copies directories at the beginning of each step but the first.

    Args:
        copies: Dict from directories to functions from the number of a step to a new path.
    """

    def __init__(self, copies):
        super().__init__()
        self.copies = copies
        self.steps = 0

    def on_train_batch_begin(self, batch, logs=None):
        for directory, copy in self.copies.items():
            if self.steps:
                shutil.copytree(directory, copy(self.steps), dirs_exist_ok=True)
        self.steps += 1


class Item:
    """One row of the table.

    Args:
        name: String.
        targets: Names of targets, one for each output.
        options: Function that returns the arguments of `compile`.
        callback: Function from a folder to a callback, or `None`.
    """

    def __init__(self, name, targets, options, callback=None):
        self.name, self.targets, self.options, self.callback = name, targets, options, callback

    def with_two_outputs(self):
        def options():
            given = self.options()
            for name in ("loss", "metrics"):
                if name in given and "y" in self.targets:
                    given[name] = {"y": given[name]}
            if "y" in self.targets:
                given["loss"]["z"] = "mse"
                given["loss_weights"] = {"y": 0.5, "z": 2.0}
            return given

        targets = {**self.targets, **({"z": "real"} if "y" in self.targets else {})}
        return Item(self.name, targets, options, self.callback)

    def model(self):
        keras.utils.set_random_seed(0)
        inputs = keras.Input((6, 5))
        outputs = {}
        for name, target in self.targets.items():
            units, activation = HEADS[target]
            hidden = keras.layers.Dense(4, activation="tanh")(inputs)
            if target not in ("tokens", "ctc"):
                hidden = keras.layers.Flatten()(hidden)
            outputs[name] = keras.layers.Dense(units, activation=activation, name=name)(hidden)
        single = len(outputs) == 1
        model = keras.Model(inputs, next(iter(outputs.values())) if single else outputs)
        model.compile(**self.options())
        if isinstance(model.optimizer, keras.optimizers.ScheduleFreeAdamW):
            # Otherwise model.fit on TensorFlow traces the initialization of its momentums as a part
            # of each step. A training with a directory always builds the optimizer first.
            model.optimizer.build(model.trainable_variables)
        return model

    def data(self, rows):
        y = {name: TARGETS[target][rows] for name, target in self.targets.items()}
        return X[rows], next(iter(y.values())) if len(y) == 1 else y

    def train(self, run, folder, batch_size, validation, number, *more):
        """Trains a new model and returns everything that must be equal."""
        keras.backend.clear_session()  # equal names in all trainings
        with devices(number):
            model = self.model()
            callback = None if self.callback is None else self.callback(folder)
            x, y = self.data(slice(0, batch_size * STEPS_PER_EPOCH))
            options = {"batch_size": batch_size, "epochs": NUM_EPOCHS, "shuffle": False}
            if validation:
                options["validation_data"] = self.data(slice(3, 3 + 2 * batch_size))
            callbacks = [*([] if callback is None else [callback]), *more]
            history = run(model, x, y, callbacks=callbacks, verbose=0, **options)
            results = {f"log {k}": np.asarray(v) for k, v in history.history.items()}
            results["epochs"] = np.asarray(history.epoch)
            for index, variable in enumerate([*model.variables, *model.optimizer.variables]):
                array = np.asarray(keras.ops.convert_to_numpy(variable), "float64")
                results[f"{index} {variable.name}"] = array
            for name in ("best", "wait", "stopped_epoch", "best_epoch", "cooldown_counter"):
                value = getattr(callback, name, None)
                if isinstance(value, (int, float)):
                    results[f"callback.{name}"] = np.asarray(value)
        for path in sorted(folder.rglob("*")) if folder is not None else ():
            name = f"file {path.relative_to(folder)}"
            results[name] = np.asarray("")
            if path.suffix == ".csv":
                header, *rows = path.read_text().replace("NA", "nan").split()
                results[f"{name} {header}"] = np.asarray([row.split(",") for row in rows], float)
        return results


def fit_model(model, x, y, **options):
    return model.fit(x, y, **options)


def fit_in(directory):
    def run(model, x, y, **options):
        return ours.fit(model, x, y, directory=directory, save_steps=1, **options)

    return run


def differences(expected, received, tolerance):
    names = sorted(expected.keys() ^ received.keys())
    for name in expected.keys() & received.keys():
        one, other = expected[name], received[name]
        if one.dtype.kind in "US":
            same = one.shape == other.shape and bool((one == other).all())
        else:
            same = one.shape == other.shape and np.allclose(
                one, other, rtol=tolerance, atol=tolerance, equal_nan=True
            )
        if not same:
            names.append(name)
    return names


def result(item, condition):
    """Returns the result of an item under a condition, and what differs."""
    with tempfile.TemporaryDirectory() as root:
        return _result(item, condition, Path(root))


def _result(item, condition, root):
    uneven = "uneven" in condition
    number = 2 if "two devices" in condition else 1
    validation = condition in ("validation", "two devices", "two devices, uneven batches")
    batch_size = UNEVEN if uneven else EVEN
    tolerance = 2e-5 if number == 2 else 0.0
    if "two outputs" in condition:
        item = item.with_two_outputs()

    def folder(name):
        path = root / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    settings = batch_size, validation
    expected = item.train(fit_model, folder("model.fit"), *settings, 1)
    steps = CopyEachStep({})
    copies = CopyEachStep(
        {
            folder("run"): lambda step: root / f"run-{step}",
            folder("files"): lambda step: root / f"files-{step}",
        }
    )
    try:
        more = [copies if condition == "interrupted" else steps]
        received = item.train(fit_in(root / "run"), folder("files"), *settings, number, *more)
    except Exception as error:  # any error is a result
        begun = copies.steps or steps.steps
        kind = "rejected" if isinstance(error, ValueError) and not begun else "ERROR"
        return kind, f"{type(error).__name__}: {error}"
    found = differences(expected, received, tolerance)
    if found and number == 2:
        try:
            keras_too = item.train(fit_model, folder("keras"), *settings, number)
        except Exception as error:  # Keras rejects this training itself
            return "DIFFERENT", f"{found[:4]}; Keras: {type(error).__name__}"
        if set(found) <= set(differences(expected, keras_too, tolerance)):
            return "Keras", ", ".join(found[:4])
    if found:
        return "DIFFERENT", ", ".join(found[:4])
    for step in range(1, copies.steps):
        try:
            received = item.train(
                fit_in(root / f"run-{step}"), root / f"files-{step}", *settings, 1
            )
        except Exception as error:  # any error is a result
            return "ERROR", f"after step {step}: {type(error).__name__}: {error}"
        found = differences(expected, received, tolerance)
        if found:
            return "DIFFERENT", f"after step {step}: {', '.join(found[:4])}"
    return "equal", ""


def sgd(**options):
    return {"optimizer": keras.optimizers.SGD(0.05), **options}


def build_loss(name):
    kind = own(name) or getattr(keras.losses, name)
    # Circle's default gamma of 80 turns rounding errors into differences of 0.1 % within 8 steps.
    return kind(gamma=1.0) if name == "Circle" else kind()


def build_metric(name):
    kind = own(name) or getattr(keras.metrics, name)
    return kind(**METRICS[name][1])


def loss_for(target):
    return ours.SequenceCrossentropy() if target == "tokens" else LOSS_OF_TARGET[target]


def metrics_item(names):
    target = METRICS[names[0]][0]

    def options():
        return sgd(loss=loss_for(target), metrics=[build_metric(name) for name in names])

    return Item("metric " + ", ".join(names), {"y": target}, options)


def items():
    found = []
    for name, target in LOSSES.items():
        found.append(
            Item(f"loss {name}", {"y": target}, lambda name=name: sgd(loss=build_loss(name)))
        )
    two = {"a": "real", "b": "binary"}

    def losses(names):
        return {"a": build_loss(names[0]), "b": build_loss(names[1])}

    found.append(
        Item(
            "two outputs, losses, weights and metrics",
            two,
            lambda: sgd(
                loss=losses(["MeanSquaredError", "BinaryCrossentropy"]),
                loss_weights={"a": 0.3, "b": 2.0},
                metrics={"a": ["mae"], "b": ["acc", build_metric("AUC")]},
                weighted_metrics={"a": ["mse"]},
            ),
        )
    )
    for target in sorted({each for each, _ in METRICS.values()}):
        found.append(metrics_item([name for name in METRICS if METRICS[name][0] == target]))
    for name in OPTIMIZERS:
        found.append(
            Item(
                f"optimizer {name}",
                {"y": "real"},
                lambda name=name: {"optimizer": build_optimizer(name), "loss": "mse"},
            )
        )
    for name, callback in CALLBACKS.items():
        found.append(
            Item(
                f"callback {name}",
                {"y": "real"},
                lambda name=name: {
                    "optimizer": keras.optimizers.SGD(0.05, use_ema="SwapEMA" in name),
                    "loss": "mse",
                },
                callback,
            )
        )
    return found


def missing_items():
    """Returns the public classes of Keras that the table does not contain."""
    callbacks = {name.split(",")[0] for name in CALLBACKS}
    kinds = [
        (keras.losses, keras.losses.Loss, LOSSES.keys()),
        (keras.metrics, keras.metrics.Metric, METRICS.keys()),
        (keras.optimizers, keras.Optimizer, OPTIMIZERS.keys()),
        (keras.callbacks, keras.callbacks.Callback, callbacks),
    ]
    missing = []
    for module, base, known in kinds:
        for name, each in vars(module).items():
            if inspect.isclass(each) and issubclass(each, base) and name not in known:
                missing.append(f"{module.__name__.split('.')[-1]}.{name}")
    return missing


def show(item, condition):
    kind, detail = result(item, condition)
    print(f"{item.name} | {condition} | {kind} | {detail}", file=sys.stderr, flush=True)
    return kind


def summary(tables):
    """Returns a Markdown table of the conditions, and one of the items that are not equal.

    Args:
        tables: Dict from the names of backends to tables.
    """
    backends = list(tables)
    lines = [f"| condition | {' | '.join(backends)} |", "|---" * (len(tables) + 1) + "|"]
    for condition in ALL_CONDITIONS:
        cells = [condition]
        for table in tables.values():
            results = [each[condition] for each in table.values() if condition in each]
            counts = {kind: results.count(kind) for kind in sorted(set(results))}
            cells.append(", ".join(f"{number} {kind}" for kind, number in counts.items()) or "-")
        lines.append(f"| {' | '.join(cells)} |")
    exceptions = {}
    for backend, table in tables.items():
        for item, results in table.items():
            for condition, kind in results.items():
                if kind != "equal":
                    exceptions.setdefault((backend, condition, kind), []).append(item)
    grouped = {}
    for (backend, condition, kind), names in exceptions.items():
        grouped.setdefault((backend, kind, ", ".join(names)), []).append(condition)
    lines += ["", "| backend | result | conditions | items |", "|---|---|---|---|"]
    for (backend, kind, names), found in grouped.items():
        lines.append(f"| {backend} | {kind} | {'; '.join(found)} | {names} |")
    return "\n".join(lines)


def main(names):
    if names[:1] == ["--summarize"]:
        paths = [Path(name) for name in names[1:]]
        print(summary({path.stem: json.loads(path.read_text()) for path in paths}))
        return
    if BACKEND == "tensorflow":
        import tensorflow as tf

        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * 2
        )
    table = {}
    for item in items():
        if names and not any(name in item.name for name in names):
            continue
        kind, _, members = item.name.partition(" ")
        members = members.split(", ") if kind == "metric" else [members]
        for condition in CONDITIONS:
            results = show(item, condition)
            if kind == "metric" and len(members) > 1 and results != "equal":
                for member in members:
                    alone = show(metrics_item([member]), condition)
                    table.setdefault(f"metric {member}", {})[condition] = alone
            else:
                for member in members:
                    table.setdefault(f"{kind} {member}", {})[condition] = results
    print(json.dumps(table))


if __name__ == "__main__":
    main(sys.argv[1:])
