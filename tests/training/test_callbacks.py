import json

import keras
import numpy as np
import pytest

from keras_attn.training import (
    AverageWeights,
    BestCheckpoint,
    BleuCallback,
    Perplexity,
    TokenAccuracy,
    TokenCrossentropy,
)
from keras_attn.training._best_checkpoint import monitored_direction


@pytest.fixture
def model():
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])


def run_epochs(callback, model, values, monitor="val_perplexity"):
    """Runs one epoch per value; the weights of the model are the number of the epoch."""
    callback.set_model(model)
    callback.on_train_begin()
    for epoch, value in enumerate(values):
        model.set_weights([np.full(weight.shape, float(epoch)) for weight in model.get_weights()])
        callback.on_epoch_end(epoch, {monitor: value})
    callback.on_train_end()


@pytest.mark.parametrize(
    "monitor, mode, values, best_epoch",
    [
        ("val_perplexity", "auto", [5.0, 3.0, 4.0], 1),
        ("val_bleu", "auto", [5.0, 3.0, 6.0, 6.0], 2),
        ("val_token_accuracy", "auto", [0.2, 0.7, 0.5], 1),
        ("val_loss", "max", [0.2, 0.7, 0.5], 1),
        ("val_loss", "auto", [float("nan"), 0.7, float("nan"), 0.5, float("nan")], 3),
    ],
)
def test_best_checkpoint_keeps_the_best_epoch(tmp_path, model, monitor, mode, values, best_epoch):
    callback = BestCheckpoint(tmp_path / "best.keras", monitor, mode)
    run_epochs(callback, model, values, monitor)
    assert callback.best == values[best_epoch]
    assert callback.best_epoch == best_epoch
    saved = keras.models.load_model(tmp_path / "best.keras")
    assert saved.get_weights()[0][0, 0] == best_epoch


ALL_METRICS = sorted(
    (each for each in vars(keras.metrics).values() if isinstance(each, type)),
    key=lambda each: each.__name__,
)
ARGUMENTS = {
    "IoU": {"num_classes": 2, "target_class_ids": [0]},
    "MeanIoU": {"num_classes": 2},
    "OneHotIoU": {"num_classes": 2, "target_class_ids": [0]},
    "OneHotMeanIoU": {"num_classes": 2},
    "MeanMetricWrapper": {"fn": keras.losses.mean_squared_error},
    "PrecisionAtRecall": {"recall": 0.5},
    "RecallAtPrecision": {"precision": 0.5},
    "SensitivityAtSpecificity": {"specificity": 0.5},
    "SpecificityAtSensitivity": {"sensitivity": 0.5},
}


def test_best_checkpoint_has_the_direction_of_keras(tmp_path):
    """Every metric of Keras and of this package, compared with a callback of Keras."""
    unknown = []
    for kind in [*ALL_METRICS, Perplexity, TokenAccuracy, TokenCrossentropy]:
        if kind is keras.metrics.Metric:
            continue
        metric = kind(**ARGUMENTS.get(kind.__name__, {}), name="metric")
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
        model.compile("sgd", "mse", metrics=[metric])
        model._compile_metrics.build(np.zeros((1, 2)), np.zeros((1, 2)))
        theirs = keras.callbacks.EarlyStopping("val_metric")
        theirs.set_model(model)
        ours = BestCheckpoint(tmp_path / "best.keras", "val_metric")
        ours.set_model(model)
        try:
            theirs._set_monitor_op()
        except ValueError:
            unknown.append(kind.__name__)
            with pytest.raises(ValueError, match="Received: monitor='val_metric', mode='auto'"):
                ours.on_train_begin()
            continue
        expected = {keras.ops.less: "min", keras.ops.greater: "max"}[theirs.monitor_op]
        assert monitored_direction(model, "val_metric") == expected, kind
    counts = ["FalseNegatives", "FalsePositives", "TrueNegatives", "TruePositives"]
    assert sorted(unknown) == sorted([*counts, "Mean", "Sum"])


def test_best_checkpoint_of_one_of_two_outputs(tmp_path):
    inputs = keras.Input((2,))
    names = ("encoder", "decoder")
    outputs = [keras.layers.Dense(1, "sigmoid", name=name)(inputs) for name in names]
    model = keras.Model(inputs, outputs)
    metrics = [["mse", "acc"], [keras.metrics.AUC(name="auc"), keras.metrics.AUC(name="auc")]]
    losses = ["mse", "binary_crossentropy"]
    model.compile("sgd", losses, metrics=metrics, weighted_metrics=[["mse"], []])
    x, y = np.ones((4, 2)), np.array([[0.0], [1.0], [0.0], [1.0]])
    keys = model.fit(x, [y, y], validation_data=(x, [y, y]), verbose=0).history.keys()
    directions = {key: monitored_direction(model, key) for key in keys if "val_" in key}
    assert directions == {
        "val_loss": "min",
        "val_encoder_loss": "min",
        "val_decoder_loss": "min",
        "val_encoder_mse": "min",
        "val_encoder_weighted_mse": "min",
        "val_encoder_acc": "max",
        "val_decoder_auc": "max",
        "val_decoder_auc_1": "max",
    }


def test_best_checkpoint_rejects_an_array(tmp_path, model):
    callback = BestCheckpoint(tmp_path / "best.keras", "val_f1_score", "max")
    with pytest.raises(ValueError, match=r"monitor='val_f1_score', an array of shape \(3,\)"):
        run_epochs(callback, model, [np.zeros(3)], "val_f1_score")


def test_best_checkpoint_saves_weights_and_another_model(tmp_path, model):
    other = keras.Sequential([keras.Input((2,)), *model.layers, keras.layers.Dense(3)])
    path = tmp_path / "new" / "best.weights.h5"
    run_epochs(BestCheckpoint(path, saved_model=other), model, [5.0, 3.0])
    model.set_weights([np.full(weight.shape, 7.0) for weight in model.get_weights()])
    other.load_weights(path)
    assert model.get_weights()[0][0, 0] == 1.0


def test_best_checkpoint_knows_the_best_after_a_restart(tmp_path, model):
    callback = BestCheckpoint(tmp_path / "best.keras")
    run_epochs(callback, model, [5.0, 3.0])
    restarted = BestCheckpoint(tmp_path / "best.keras")
    restarted.set_state(json.loads(json.dumps(callback.get_state())))
    run_epochs(restarted, model, [4.0])
    assert (restarted.best, restarted.best_epoch) == (3.0, 1)


def test_best_checkpoint_survives_a_failed_save(tmp_path, model, monkeypatch):
    callback = BestCheckpoint(tmp_path / "best.keras")
    run_epochs(callback, model, [5.0])

    def full_disk(path):
        path.write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(model, "save", full_disk)
    with pytest.raises(OSError, match="No space left"):
        callback.on_epoch_end(1, {"val_perplexity": 3.0})
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"best.keras", ".best.keras.lock"}
    assert keras.models.load_model(tmp_path / "best.keras").get_weights()[0][0, 0] == 0
    assert callback.best == 5.0


def test_best_checkpoint_bad_arguments(tmp_path, model):
    with pytest.raises(ValueError, match="Received: path='best.h5'"):
        BestCheckpoint("best.h5")
    with pytest.raises(ValueError, match="Received: mode='best'"):
        BestCheckpoint("best.keras", mode="best")
    with pytest.raises(ValueError, match=r"one of \['loss'\]. Received: monitor='val_bleu'"):
        BestCheckpoint(tmp_path / "best.keras", "val_bleu").on_epoch_end(0, {"loss": 1.0})


def test_average_weights_is_the_mean_of_the_last_epochs(tmp_path, model):
    average = AverageWeights(tmp_path / "average", num_epochs=3)
    run_epochs(average, model, [0.0] * 5)
    average.apply()
    for weight in model.get_weights():
        np.testing.assert_array_equal(weight, np.full(weight.shape, (2 + 3 + 4) / 3, "float32"))
    kept = list((tmp_path / "average").glob("weights-*.npz"))
    assert len(kept) == 4  # and one for an earlier state


def test_average_weights_of_few_epochs_and_after_a_restart(tmp_path, model):
    # Files of an earlier training must be ignored.
    run_epochs(AverageWeights(tmp_path), model, [0.0] * 4)
    average = AverageWeights(tmp_path)
    run_epochs(average, model, [0.0] * 2)
    restarted = AverageWeights(tmp_path)
    restarted.set_state(json.loads(json.dumps(average.get_state())))
    restarted.apply(model)
    assert model.get_weights()[0][0, 0] == 0.5


def test_average_weights_from_a_state_of_before_the_last_epoch(tmp_path, model):
    """The process was killed after the end of an epoch, before its state was saved."""
    average = AverageWeights(tmp_path, num_epochs=2)
    run_epochs(average, model, [0.0] * 3)
    before = {"kept_epochs": [0, 1]}
    average.set_state(before)
    average.apply()
    assert model.get_weights()[0][0, 0] == 0.5


def test_average_weights_says_where_it_cannot_write_before_anything_is_trained(tmp_path, model):
    (tmp_path / "average").touch()
    with pytest.raises(OSError, match="average"):
        AverageWeights(tmp_path / "average").on_train_begin()


def test_average_weights_of_a_second_training(tmp_path, model):
    average = AverageWeights(tmp_path, num_epochs=5)
    run_epochs(average, model, [0.0] * 4)
    run_epochs(average, model, [0.0] * 3)
    average.apply()
    assert average.kept_epochs == [3, 0, 1, 2]
    assert model.get_weights()[0][0, 0] == (3 + 0 + 1 + 2) / 4


def test_average_weights_of_fewer_epochs_than_were_kept(tmp_path, model):
    before = AverageWeights(tmp_path, num_epochs=4)
    run_epochs(before, model, [0.0] * 4)
    fewer = AverageWeights(tmp_path, num_epochs=2)
    fewer.set_state(before.get_state())
    fewer.apply(model)
    assert model.get_weights()[0][0, 0] == (2 + 3) / 2


def test_weights_that_are_no_numbers_are_not_averaged(tmp_path, model):
    average = AverageWeights(tmp_path, num_epochs=2)
    run_epochs(average, model, [0.0] * 2)
    model.set_weights([np.full_like(weight, np.nan) for weight in model.get_weights()])
    average.on_epoch_end(2)  # stopped by `TerminateOnNaN`
    average.apply()
    assert average.kept_epochs == [0, 1] and model.get_weights()[0][0, 0] == (0 + 1) / 2


def test_average_weights_bad_use(tmp_path, model):
    with pytest.raises(ValueError, match="Received: num_epochs=0"):
        AverageWeights(tmp_path, num_epochs=0)
    with pytest.raises(ValueError, match="at least one finished epoch"):
        AverageWeights(tmp_path).apply(model)


def test_bleu_is_sacrebleu_13a_cased():
    sacrebleu = pytest.importorskip("sacrebleu")
    sources = ["a", "b"]
    references = ["The cat sat on the mat, there.", "Two dogs run across a green field."]
    translations = {"a": "The cat sat on a mat, there.", "b": "two dogs run across a green field."}
    callback = BleuCallback(
        lambda texts: [translations[text] for text in texts], sources, references
    )
    logs = {}
    callback.on_epoch_end(0, logs)
    expected = sacrebleu.corpus_bleu(list(translations.values()), [references]).score
    chrf = sacrebleu.corpus_chrf(list(translations.values()), [references]).score
    assert logs == {"val_bleu": expected, "val_chrf": chrf}
    assert 10 < expected < 100
    assert "tok:13a" in callback.signatures[0] and "case:mixed" in callback.signatures[0]


def test_bleu_takes_a_share_of_the_time(monkeypatch):
    pytest.importorskip("sacrebleu")
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    printed = []

    def translate(texts):
        clock[0] += 10.0
        return texts

    callback = BleuCallback(
        translate, ["a", "b"], ["a", "c"], time_share=0.1, num_samples=1, write=printed.append
    )
    callback.set_params({"epochs": 12})
    callback.on_train_begin()
    evaluated = []
    for epoch in range(12):
        clock[0] += 30.0
        logs = {}
        callback.on_epoch_end(epoch, logs)
        if logs:
            evaluated.append(epoch)
        if epoch == 4:
            state = callback.get_state()
            callback = BleuCallback(translate, ["a"], ["a"], time_share=0.1)
            callback.set_params({"epochs": 12})
            callback.on_train_begin()
            callback.set_state(state)
    # Two evaluations are 20 s of 220, three are 30 s of 320. The last epoch is always evaluated.
    assert evaluated == [0, 6, 9, 11]
    assert printed == ["  a -> a   (reference: a)"]
    with pytest.raises(ValueError, match="Received: time_share=0"):
        BleuCallback(translate, ["a"], ["a"], time_share=0)


def test_bleu_prints_samples_from_all_parts_of_the_set():
    pytest.importorskip("sacrebleu")
    sources = [str(number) for number in range(100)]
    printed = []
    callback = BleuCallback(list, sources, sources, num_samples=3, write=printed.append)
    callback.on_epoch_end(0, {})
    assert [line.split()[0] for line in printed] == ["0", "33", "66"]


def test_bleu_of_perfect_and_of_empty_translations():
    pytest.importorskip("sacrebleu")
    references = ["The cat sat on the mat."]
    for translation, score in ((references[0], 100.0), ("", 0.0)):
        logs = {}
        BleuCallback(lambda _, text=translation: [text], ["x"], references).on_epoch_end(0, logs)
        assert logs["val_bleu"] == pytest.approx(score)


def test_bleu_bad_input():
    pytest.importorskip("sacrebleu")
    with pytest.raises(ValueError, match="Received: 0 sources"):
        BleuCallback(list, [], [])
    with pytest.raises(ValueError, match="Received: 2 sources, 1 references"):
        BleuCallback(list, ["a", "b"], ["a"])
    with pytest.raises(ValueError, match="2 translations. Received: 1"):
        BleuCallback(lambda texts: texts[:1], ["a", "b"], ["a", "b"]).on_epoch_end(0, {})


def test_bleu_without_sacrebleu(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sacrebleu", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[text\]'"):
        BleuCallback(list, ["a"], ["a"])
