"""`Classifier` on a file whose probabilities NumPy computes from the table and the pieces."""

import os
import pickle

import numpy as np
import pytest
import sentencepiece
from keras_attn_runtime import (
    Cancelled,
    CancelToken,
    Classification,
    Classifier,
    Forecaster,
    InputError,
    ModelFileError,
    Translator,
)

from tests.runtime.fake_classifier import LABELS, SOURCE, TABLE, settings, write_classifier
from tests.runtime.fake_forecaster import write_forecaster

TEXTS = ["two dogs run", "a small red house", "some text", "the old man reads a book", "a", "bus"]


@pytest.fixture
def write(tokenizer_model, tmp_path):
    return lambda **changes: write_classifier(
        tmp_path / "classifier.onnx", tokenizer_model, **changes
    )


@pytest.fixture(scope="module")
def path(tokenizer_model, tmp_path_factory):
    return write_classifier(tmp_path_factory.mktemp("classifier") / "c.onnx", tokenizer_model)


@pytest.fixture(scope="module")
def classifier(path):
    return Classifier(path, num_threads=1)


@pytest.fixture(scope="module")
def ids_of(tokenizer_model):
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer_model)
    return lambda text: [*processor.encode(text), SOURCE["end_token_id"]]


def logits_of(ids, columns=3):
    return TABLE[ids, :columns].mean(axis=0)


def softmax(logits):
    return np.exp(logits) / np.exp(logits).sum()


@pytest.mark.parametrize("batch_size", [1, 2, 32])
def test_classifier_returns_the_softmax_of_each_text_in_order(classifier, ids_of, batch_size):
    results = classifier.classify(TEXTS, batch_size=batch_size)
    for text, result in zip(TEXTS, results, strict=True):
        expected = softmax(logits_of(ids_of(text)))
        assert list(result.probabilities) == LABELS
        np.testing.assert_allclose(list(result.probabilities.values()), expected, atol=1e-6)
        assert result.label == LABELS[expected.argmax()]
        assert result.probability == max(result.probabilities.values())
    assert len({result.label for result in results}) > 1
    assert classifier(TEXTS) == [result.label for result in results]


def test_classifier_returns_a_weight_for_each_piece(classifier, ids_of):
    for text, result in zip(TEXTS, classifier.classify(TEXTS), strict=True):
        count = len(ids_of(text))
        assert len(result.pieces) == count and result.pieces[-1] == "</s>"
        assert "".join(result.pieces[:-1]).replace("▁", " ").strip() == text
        np.testing.assert_allclose(result.attention, np.full(count, 1 / count), rtol=1e-6)


def test_classifier_returns_a_row_of_weights_for_each_head(write, ids_of):
    results = Classifier(write(heads=2), num_threads=1).classify(TEXTS)
    for text, result in zip(TEXTS, results, strict=True):
        assert result.attention.shape == (2, len(ids_of(text)))


def test_classifier_without_attention_returns_none(write):
    classifier = Classifier(write(attention=None), num_threads=1)
    assert not classifier.has_attention
    assert classifier.classify(TEXTS[:1])[0].attention is None


def test_blank_text_has_no_label(classifier):
    blank, good, spaces = classifier.classify(["", TEXTS[0], "  "])
    nothing = Classification(None, None, {}, [], None, False)
    assert blank == spaces == nothing and good.label in LABELS
    assert classifier([""]) == [None] and classifier([]) == []


def test_texts_of_different_lengths_share_no_batch_if_padding_changes_the_results(write, ids_of):
    """The logits of label 0 grow with the number of columns, so padding would be seen."""
    source = SOURCE | {"ignores_padding": False}
    classifier = Classifier(write(reads_padding=True, source=source), num_threads=1)
    for text, result in zip(TEXTS, classifier.classify(TEXTS), strict=True):
        ids = ids_of(text)
        expected = softmax(logits_of(ids) + [len(ids), 0, 0])
        np.testing.assert_allclose(list(result.probabilities.values()), expected, atol=1e-6)


@pytest.mark.parametrize("activation", ["none", "sigmoid"])
def test_one_column_is_the_probability_of_the_second_label(write, ids_of, activation):
    table = TABLE[:, :1] if activation == "sigmoid" else np.abs(TABLE[:, :1]) / 5
    path = write(table=table, labels=["no", "yes"], activation=activation)
    for text, result in zip(TEXTS, Classifier(path).classify(TEXTS), strict=True):
        value = table[ids_of(text)].mean()
        expected = 1 / (1 + np.exp(-value)) if activation == "sigmoid" else value
        np.testing.assert_allclose(result.probabilities["yes"], expected, atol=1e-6)
        np.testing.assert_allclose(sum(result.probabilities.values()), 1, atol=1e-6)
        assert result.label == ("yes" if expected > 0.5 else "no")


def test_huge_logits_have_probabilities_of_0_and_1(write):
    for columns, activation in ((3, "softmax"), (1, "sigmoid")):
        labels = LABELS if columns == 3 else LABELS[:2]
        path = write(table=TABLE[:, :columns] * 1e6, labels=labels, activation=activation)
        for result in Classifier(path).classify(TEXTS):
            assert sorted(result.probabilities.values())[-1] == 1
            assert sum(result.probabilities.values()) == 1


def test_classify_ids_adds_the_end_token(classifier, ids_of):
    expected = classifier.classify(TEXTS)
    rows = [ids_of(text) for text in TEXTS]
    padded = np.zeros((len(rows), 20), int)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    for sentences in (rows, [ids[:-1] for ids in rows], padded):
        assert classifier.classify_ids(sentences) == expected


def test_classify_iterable_is_lazy_and_yields_before_an_error(classifier):
    def texts():
        yield from TEXTS
        yield 5

    results = classifier.classify_iterable(texts(), window=2)
    assert [next(results).label for _ in TEXTS] == classifier(TEXTS)
    with pytest.raises(InputError, match="Sentence 6 .*expected a string"):
        next(results)


def test_long_texts_are_refused_or_cut(path):
    with pytest.raises(InputError, match="at most max_source_length=3 tokens"):
        Classifier(path, max_source_length=3)([TEXTS[3]])
    (result,) = Classifier(path, max_source_length=3, truncate=True).classify([TEXTS[3]])
    assert result.truncated and len(result.pieces) == 4


def test_classifier_runs_with_several_workers_and_after_pickling(path, classifier):
    several = pickle.loads(pickle.dumps(Classifier(path, num_workers=2)))
    assert several.classify(TEXTS * 3, batch_size=2) == classifier.classify(TEXTS * 3)
    (result,) = classifier.classify(TEXTS[:1])
    assert pickle.loads(pickle.dumps(result)) == result


def test_cancelled_call_raises_and_contains_the_finished_results(classifier):
    token = CancelToken()

    def texts():
        yield from TEXTS[:4]
        token.cancel()
        yield TEXTS[4]

    results = classifier.classify_iterable(texts(), batch_size=2, window=2, cancel_token=token)
    assert [next(results).label for _ in range(4)] == classifier(TEXTS[:4])
    with pytest.raises(Cancelled):
        next(results)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_classifier_refuses_a_process_that_was_forked_later(classifier, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="This Classifier was created before a fork"):
        classifier(TEXTS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": None}, "without a tokenizer or labels. Run it with ONNX Runtime"),
        ({"classes": None, "outputs": 3}, r"and the outputs \[\] without a tokenizer"),
        ({"source": None}, "inputs .'ids', 'mask', 'lengths'. and the outputs .'logits'."),
        ({"kind": "tree"}, "kind='tree', a model of the kind 'tree'. Run it with a newer"),
        ({"attention": "other"}, "outputs .'logits', 'other'.. Received: .*'weights'"),
        ({"activation": "tanh"}, "in .'none', 'sigmoid', 'softmax'.*activation='tanh'"),
        ({"labels": ["one"]}, "at least two names.*labels="),
        ({"source": SOURCE | {"tokenizer": "none"}}, "with a tokenizer. Received: tokenizer='none"),
        ({"inputs": settings()["inputs"] | {"x": {"kind": "image", "dtype": "int32", "shape": []}}},
         "one input of the kind ids"),
    ],
)  # fmt: skip
def test_classifier_refuses_other_files(write, changes, message):
    with pytest.raises(ModelFileError, match=message):
        Classifier(write(**changes))


def test_classifier_refuses_an_output_of_another_size(write):
    classifier = Classifier(write(table=TABLE[:, :2]))
    with pytest.raises(ModelFileError, match=r"of shape \(1, 3\). Received: shape=\(1, 2\)"):
        classifier(TEXTS[:1])


def test_classifier_refuses_attention_of_another_size(write):
    with pytest.raises(
        ModelFileError, match=r"each of \d+ ids in 1 rows. Received: shape=\(1, 3\)"
    ):
        Classifier(write(attention="logits"))(TEXTS[3:4])


def test_classifier_refuses_nan(write):
    with pytest.raises(ModelFileError, match="finite numbers in the output 'logits'"):
        Classifier(write(table=TABLE * np.nan))(TEXTS[:1])


def test_files_of_other_kinds_name_the_class_that_runs_them(path, model_path, tmp_path):
    for kind in (Translator, Forecaster):
        with pytest.raises(ModelFileError, match="Run it with a Classifier, or `keras-attn-runt"):
            kind(path)
    with pytest.raises(ModelFileError, match="Run it with a Translator"):
        Classifier(model_path)
    with pytest.raises(ModelFileError, match="Run it with a Forecaster"):
        Classifier(write_forecaster(tmp_path / "forecaster.onnx"))
