"""Trains small models on one and on two CPU devices, with even and uneven batches.

    python uneven_training.py REPORT.json [--uneven] [CASE ...]

One device trains with `model.fit` of Keras, two devices with `keras_attn.training.fit`. The report
maps each case and kind of batches to "equal", "rejected: ..." or the difference. If even batches
differ, "different in Keras itself" means that `model.fit` on two devices has our results.
TensorFlow supports one MirroredStrategy per process, so the tests run this in a separate process.
"""

import contextlib
import inspect
import json
import sys
from pathlib import Path

import keras
import numpy as np
from keras import layers, ops

from keras_attn.training import SequenceCrossentropy, TokenAccuracy, fit

BACKEND = keras.backend.backend()
SIZES = {"even": (6, 4, 8, 2), "uneven": (7, 4, 1, 6)}
VALIDATION_SIZES = {"even": (6, 2), "uneven": (5, 3)}
CLASSES, FEATURES, TIME = 3, 5, 4


class Batches:
    """Batches of random rows: inputs, labels and sample weights made by `rows(generator, size)`."""

    def __init__(self, rows, sizes, seed):
        self.steps_per_epoch = len(sizes)
        generator = np.random.default_rng(seed)
        self.batches = [rows(generator, size) for size in sizes]

    def stream(self, start_step=0):
        for step in range(start_step, 1000):
            yield self.batches[step % self.steps_per_epoch]

    def dataset(self, start_step=0):
        import tensorflow as tf

        signature = keras.tree.map_structure(
            lambda each: tf.TensorSpec((None, *each.shape[1:]), each.dtype), self.batches[0]
        )
        return tf.data.Dataset.from_generator(
            lambda: self.stream(start_step), output_signature=signature
        )

    def epoch(self):
        import tensorflow as tf

        def copy(*parts):  # else two devices sometimes read other rows from a generator
            return tf.nest.map_structure(lambda each: tf.concat([each, each[:0]], 0), parts)

        steps = tf.data.experimental.assert_cardinality(self.steps_per_epoch)
        return self.dataset().take(self.steps_per_epoch).map(copy).apply(steps)


def rows_with(labels, weighted=False):
    """Returns a function that makes rows of features with labels of a kind."""

    def rows(generator, size):
        inputs = generator.normal(size=(size, FEATURES)).astype("float32")
        classes = (inputs[:, 0] > 0).astype("int32") + (inputs[:, 1] > 0)
        y = {
            "binary": (classes[:, None] > 0).astype("float32"),
            "one-hot": np.eye(CLASSES, dtype="float32")[classes],
            "classes": classes.astype("int32"),
            "class column": classes[:, None].astype("int32"),
            "signs": np.where(inputs[:, :CLASSES] > 0, 1.0, -1.0).astype("float32"),
            "numbers": np.abs(inputs[:, :CLASSES]) + 0.5,
        }[labels]
        weights = generator.uniform(0, 2, size).astype("float32")
        weights[:1] = 0
        return (inputs, y, weights) if weighted else (inputs, y)

    return rows


def dense_model(units=CLASSES, activation=None, layer=None):
    inputs = keras.Input((FEATURES,))
    hidden = layers.Dense(4, "tanh")(inputs)
    if layer is not None:
        hidden = layer(hidden)
    return keras.Model(inputs, layers.Dense(units, activation)(hidden))


# Cases: functions that return a compiled model and rows.


def case_of_loss(
    loss, labels="numbers", activation=None, units=CLASSES, weighted=False, metric=None, **compile
):
    def case():
        model = dense_model(units, activation)
        metrics = None if metric is None else [metric()]
        model.compile(keras.optimizers.SGD(0.1), loss, metrics=metrics, **compile)
        return model, rows_with(labels, weighted)

    return case


def several_outputs():
    """Two outputs with weighted losses, sample weights, a regularizer and metrics."""
    inputs = keras.Input((FEATURES,))
    hidden = layers.Dense(4, "tanh", kernel_regularizer=keras.regularizers.L2(0.01))(inputs)
    outputs = {
        "a": layers.Dense(1, "sigmoid", name="a")(hidden),
        "b": layers.Dense(CLASSES, "softmax", name="b")(hidden),
    }
    model = keras.Model(inputs, outputs)
    losses = {
        "a": keras.losses.BinaryCrossentropy(reduction="sum"),
        "b": keras.losses.CategoricalCrossentropy(reduction="mean_with_sample_weight"),
    }
    accuracy = {"a": [keras.metrics.AUC(), "accuracy"], "b": ["accuracy"]}
    model.compile(
        keras.optimizers.Adam(0.01),
        losses,
        loss_weights={"a": 0.3, "b": 2.0},
        metrics=accuracy,
        weighted_metrics={"a": ["mse"], "b": [keras.metrics.F1Score(average="macro")]},
    )

    def rows(generator, size):
        x, a = rows_with("binary")(generator, size)
        b = np.eye(CLASSES, dtype="float32")[generator.integers(0, CLASSES, size)]
        weights = {name: generator.uniform(0, 2, size).astype("float32") for name in "ab"}
        return x, {"a": a, "b": b}, weights

    return model, rows


def masked(loss):
    """A recurrent tagger with an implicit mask: the loss only has the tokens of the mask."""

    def case():
        inputs = keras.Input((TIME,), dtype="int32")
        hidden = layers.SimpleRNN(4, return_sequences=True)(
            layers.Embedding(9, 4, mask_zero=True)(inputs)
        )
        model = keras.Model(inputs, layers.Dense(CLASSES)(hidden))
        model.compile(
            keras.optimizers.SGD(0.1),
            loss,
            metrics=["sparse_categorical_accuracy"],
            weighted_metrics=["sparse_categorical_crossentropy"],
        )

        def rows(generator, size):
            ids = generator.integers(1, 9, (size, TIME)).astype("int32")
            for row, length in enumerate(generator.integers(1, TIME + 1, size)):
                ids[row, length:] = 0
            return ids, (ids % CLASSES).astype("int32")

        return model, rows

    return case


def ours(case_loss):
    """The loss of this package with another class to ignore, alone or in a list or dict."""

    def case():
        inputs = keras.Input((TIME,), dtype="int32")
        hidden = layers.Dense(4)(layers.Embedding(9, 4)(inputs))
        model = keras.Model(inputs, layers.Dense(CLASSES, name="tags")(hidden))
        model.compile(keras.optimizers.SGD(0.1), case_loss(), metrics=[TokenAccuracy(-100)])

        def rows(generator, size):
            ids = generator.integers(0, 9, (size, TIME)).astype("int32")
            return ids, np.where(ids > 6, -100, ids % CLASSES).astype("int32")

        return model, rows

    return case


def scalar_loss(y_true, y_pred):
    return ops.sqrt(ops.mean(ops.square(y_true - y_pred)))


class OwnTrainStep(keras.Model):
    def train_step(self, *args):
        return super().train_step(*args)


class OwnLoss(keras.Model):
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return ops.mean(ops.abs(y - y_pred))


class OwnMetrics(keras.Model):
    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        return super().compute_metrics(x, y, y_pred, sample_weight)


class Maximum(keras.metrics.Metric):
    """Metric whose state is not a sum."""

    def __init__(self):
        super().__init__(name="maximum")
        self.value = self.add_variable((), "zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.value.assign(ops.maximum(self.value, ops.max(y_pred, initial=0.0)))

    def result(self):
        return self.value


def subclass(model_class):
    def case():
        inputs = keras.Input((FEATURES,))
        model = model_class(inputs, layers.Dense(CLASSES)(layers.Dense(4, "tanh")(inputs)))
        model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"])
        return model, rows_with("numbers")

    return case


def with_layer(layer):
    def case():
        model = dense_model(layer=layer())
        model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"])
        return model, rows_with("numbers")

    return case


def with_optimizer(make):
    def case():
        model = dense_model()
        model.compile(make(), "mse", metrics=["mae"])
        if isinstance(model.optimizer, keras.optimizers.ScheduleFreeAdamW):
            # Otherwise Keras on TensorFlow initializes the momentums again in each step.
            model.optimizer.build(model.trainable_variables)
        return model, rows_with("numbers")

    return case


LOSSES = {
    "BinaryCrossentropy": ("binary", "sigmoid", 1),
    "BinaryFocalCrossentropy": ("binary", "sigmoid", 1),
    "CategoricalCrossentropy": ("one-hot", "softmax"),
    "CategoricalFocalCrossentropy": ("one-hot", "softmax"),
    "CategoricalGeneralizedCrossEntropy": ("classes", "softmax"),
    "CategoricalHinge": ("one-hot", None),
    "Circle": ("classes", None),
    "CosineSimilarity": ("numbers", None),
    "Dice": ("one-hot", "softmax"),
    "Hinge": ("signs", None),
    "Huber": ("numbers", None),
    "KLDivergence": ("one-hot", "softmax"),
    "LogCosh": ("numbers", None),
    "MeanAbsoluteError": ("numbers", None),
    "MeanAbsolutePercentageError": ("numbers", None),
    "MeanSquaredError": ("numbers", None),
    "MeanSquaredLogarithmicError": ("numbers", "softplus"),
    "Poisson": ("numbers", "softplus"),
    "SparseCategoricalCrossentropy": ("classes", "softmax"),
    "SquaredHinge": ("signs", None),
    "Tversky": ("one-hot", "softmax"),
}
"""Labels, activation and units for each loss of Keras but CTC, which has sequences."""

WEIGHTED = ("sum", "mean", "sum_over_batch_size", "mean_with_sample_weight", None)

METRICS = {
    "binary": ("sigmoid", 1),
    "one-hot": ("softmax", CLASSES),
    "classes": ("softmax", CLASSES),
    "class column": ("softmax", CLASSES),
    "numbers": ("softplus", CLASSES),
    "signs": (None, CLASSES),
}

OF_LABELS = {
    "binary": (
        "AUC BinaryAccuracy BinaryCrossentropy FalseNegatives FalsePositives Precision Recall "
        "TrueNegatives TruePositives BinaryIoU MeanSquaredError"
    ),
    "one-hot": (
        "Accuracy CategoricalAccuracy CategoricalCrossentropy CategoricalHinge F1Score FBetaScore "
        "KLDivergence OneHotIoU OneHotMeanIoU TopKCategoricalAccuracy"
    ),
    "classes": (
        "SparseCategoricalAccuracy SparseCategoricalCrossentropy SparseTopKCategoricalAccuracy"
    ),
    "numbers": (
        "ConcordanceCorrelation CosineSimilarity LogCoshError MeanAbsoluteError "
        "MeanAbsolutePercentageError MeanSquaredError MeanSquaredLogarithmicError "
        "PearsonCorrelation Poisson R2Score RootMeanSquaredError"
    ),
    "signs": "Hinge SquaredHinge",
}
ARGUMENTS = {
    "BinaryIoU": {"threshold": 0.5},
    "OneHotIoU": {"num_classes": CLASSES, "target_class_ids": [0, 2]},
    "OneHotMeanIoU": {"num_classes": CLASSES},
}
AT_VALUES = "PrecisionAtRecall RecallAtPrecision SensitivityAtSpecificity SpecificityAtSensitivity"


def metrics_of(labels):
    names = OF_LABELS[labels].split()
    metrics = [getattr(keras.metrics, name)(**ARGUMENTS.get(name, {})) for name in names]
    if labels == "binary":
        metrics += [getattr(keras.metrics, name)(0.5) for name in AT_VALUES.split()]
    return metrics


def case_of_metrics(labels):
    def case():
        activation, units = METRICS[labels]
        model = dense_model(units, activation)
        loss = "sparse_categorical_crossentropy" if labels == "classes" else "mse"
        model.compile(
            keras.optimizers.SGD(0.1),
            loss,
            metrics=metrics_of(labels),
            weighted_metrics=metrics_of(labels),
        )
        return model, rows_with(labels, weighted=True)

    return case


def optimizers():
    """Returns the classes of optimizers that are trained by their default arguments."""
    found = dict(inspect.getmembers(keras.optimizers, inspect.isclass))
    for name in ("Optimizer", "LossScaleOptimizer", "MultiOptimizer", "Muon"):
        found.pop(name, None)
    return {name: each for name, each in found.items() if issubclass(each, keras.Optimizer)}


CASES = {
    "several outputs": several_outputs,
    "masked": masked(keras.losses.SparseCategoricalCrossentropy(from_logits=True)),
    "masked, ignored class": masked(
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=1)
    ),
    "loss of this package": ours(lambda: SequenceCrossentropy(ignore_class=-100)),
    "loss of this package in a list": ours(lambda: [SequenceCrossentropy(ignore_class=-100)]),
    "loss of this package in a dict": ours(
        lambda: {"tags": SequenceCrossentropy(ignore_class=-100)}
    ),
    "scalar loss": case_of_loss(scalar_loss),
    "metric of a maximum": case_of_loss("mse", metric=Maximum),
    "metric function of one number": case_of_loss("mse", metric=lambda: scalar_loss),
    "train_step": subclass(OwnTrainStep),
    "compute_loss": subclass(OwnLoss),
    "compute_metrics": subclass(OwnMetrics),
    "BatchNormalization": with_layer(layers.BatchNormalization),
    "BatchNormalization, synchronized": with_layer(
        lambda: layers.BatchNormalization(synchronized=BACKEND == "tensorflow")
    ),
    "LayerNormalization": with_layer(layers.LayerNormalization),
    "activity regularizer": with_layer(lambda: layers.ActivityRegularization(l2=0.01)),
    "clipnorm": with_optimizer(lambda: keras.optimizers.SGD(0.1, global_clipnorm=0.1)),
    "run_eagerly": case_of_loss("mse", metric=lambda: "mae", run_eagerly=True),
    "steps_per_execution": case_of_loss("mse", metric=lambda: "mae", steps_per_execution=2),
    **{
        f"loss {name}": case_of_loss(
            getattr(keras.losses, name)(**({"gamma": 1.0} if name == "Circle" else {})),
            *arguments,
            # Larger steps turn rounding errors of percentages into differences.
            **({"loss_weights": [0.01]} if name == "MeanAbsolutePercentageError" else {}),
        )
        for name, arguments in LOSSES.items()
    },
    **{
        f"weighted loss, reduction={reduction}": case_of_loss(
            keras.losses.MeanSquaredError(reduction=reduction), weighted=True
        )
        for reduction in WEIGHTED
    },
    **{f"metrics of {labels}": case_of_metrics(labels) for labels in OF_LABELS},
    **{f"optimizer {name}": with_optimizer(each) for name, each in optimizers().items()},
}


class LogsOfSteps(keras.callbacks.Callback):
    """Stores the loss of each step."""

    def __init__(self):
        super().__init__()
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(float(logs["loss"]))


def train(case, kind, devices, by_keras):
    """Returns the weights, the history and the logs of each step of a training."""
    keras.utils.clear_session()  # equal names
    keras.utils.set_random_seed(1)
    with devices() as _:
        model, rows = case()
        before = model.get_weights()
        batches = Batches(rows, SIZES[kind], 0)
        validation = Batches(rows, VALIDATION_SIZES[kind], 1)
        logs = LogsOfSteps()
        if not by_keras:
            history = fit(
                model,
                batches,
                epochs=2,
                validation_data=validation,
                callbacks=[logs],
                verbose=0,
            )
        elif BACKEND == "tensorflow":
            history = model.fit(
                batches.epoch(),
                epochs=2,
                validation_data=validation.epoch(),
                callbacks=[logs],
                verbose=0,
            )
        else:
            history = model.fit(
                batches.stream(),
                steps_per_epoch=batches.steps_per_epoch,
                epochs=2,
                validation_data=one_epoch(validation),
                callbacks=[logs],
                verbose=0,
            )
    weights = model.get_weights()
    assert any(map(np.any, (a - b for a, b in zip(weights, before, strict=True))))
    return weights, history.history, logs.losses


def one_epoch(batches):
    class Dataset(keras.utils.PyDataset):
        def __len__(self):
            return batches.steps_per_epoch

        def __getitem__(self, index):
            return batches.batches[index]

    return Dataset()


def difference(received, expected):
    """Returns the first difference of two trainings, or `None`."""
    for name, values in (("weights", 0), ("history", 1), ("losses of steps", 2)):
        first, second = received[values], expected[values]
        if name == "history":
            if first.keys() != second.keys():
                return f"logs {sorted(first)} instead of {sorted(second)}"
            pairs = [(f"{name} {key}", first[key], second[key]) for key in first]
        elif name == "weights":
            pairs = [(name, *pair) for pair in zip(first, second, strict=True)]
        else:
            pairs = [(name, first, second)]
        for part, one, other in pairs:
            if not np.allclose(one, other, rtol=2e-4, atol=2e-5):
                return f"{part}: {np.max(np.abs(np.asarray(one) - np.asarray(other))):.2g} away"
    return None


def outcome(case, kind, one, two):
    try:
        received = train(case, kind, two, by_keras=False)
    except ValueError as error:
        return f"rejected: {error}"
    expected = train(case, kind, one, by_keras=True)
    found = difference(received, expected)
    if found is None:
        return "equal"
    if kind == "uneven":
        return f"different ({found})"
    for _ in range(4):  # on two devices, a step of Keras with TensorFlow is sometimes another one
        other = difference(received, train(case, kind, two, by_keras=True))
        if other is None:
            return f"different in Keras itself ({found})"
    return f"different ({found}), also from Keras on two devices ({other})"


def devices():
    """Returns functions that return the contexts of a training on one and on two devices."""
    if BACKEND == "tensorflow":
        import tensorflow as tf

        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * 2
        )
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        return contextlib.nullcontext, strategy.scope
    all_devices = keras.distribution.list_devices("cpu")
    assert len(all_devices) == 2

    def distribution(number):
        parallel = keras.distribution.DataParallel(devices=all_devices[:number])
        keras.distribution.set_distribution(parallel)
        return contextlib.nullcontext()

    return lambda: distribution(1), lambda: distribution(2)


def main(path, *names):
    kinds = ("uneven",) if "--uneven" in names else ("even", "uneven")
    names = [name for name in names if name != "--uneven"]
    one, two = devices()
    report = {}
    for name in names or CASES:
        for kind in kinds:
            report[f"{name}, {kind}"] = outcome(CASES[name], kind, one, two)
            print(f"{name}, {kind}: {report[f'{name}, {kind}']}", flush=True)
    path.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    if BACKEND == "jax":
        import jax

        jax.config.update("jax_num_cpu_devices", 2)
    main(Path(sys.argv[1]), *sys.argv[2:])
