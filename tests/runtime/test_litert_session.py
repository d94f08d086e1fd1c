"""A LiteRT run whose memory has just grown is repeated."""

import threading

import numpy as np
import pytest
from keras_attn_runtime._calls.cancellation import Call
from keras_attn_runtime._engines.litert_session import LiteRTSession


class FakeRunner:
    """Stands for a `SignatureRunner`; counts the calls of each source length."""

    def __init__(self):
        self.lengths = []

    def get_input_details(self):
        detail = {"dtype": np.int32, "shape_signature": np.array([1, -1])}
        scalar = {"dtype": np.int32, "shape_signature": np.array([], int)}
        return {"source_ids": detail, "max_length": scalar}

    def get_output_details(self):
        return {}

    def __call__(self, source_ids, max_length):
        self.lengths.append(source_ids.shape[1])
        return {"run": np.array(len(self.lengths))}


def test_only_the_first_run_with_more_memory_is_repeated():
    runner = FakeRunner()
    session = LiteRTSession(runner, threading.Lock())
    results = []
    for length in (5, 5, 3, 8, 8, 6, 9):
        feeds = {"source_ids": np.ones((1, length), "int32"), "max_length": np.array(7)}
        results += session.run(["run"], feeds, Call())
    assert runner.lengths == [5, 5, 3, 8, 8, 8, 6, 9, 9]
    assert [int(each) for each in results] == [1, 2, 3, 5, 6, 7, 9]


@pytest.mark.slow
def test_a_recurrent_search_is_correct_after_a_longer_source(tmp_path, monkeypatch):
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    pytest.importorskip("tf2onnx")
    from keras_attn_runtime import Translator

    from keras_attn.export import export_litert
    from tests.export.small_translator import make_translator

    monkeypatch.chdir(tmp_path)
    export_litert(make_translator(), "model.tflite", runtime_settings=[])
    without_delegate = interpreter.Interpreter(
        "model.tflite",
        experimental_op_resolver_type=interpreter.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    ).get_signature_runner()
    rng = np.random.default_rng(0)
    rows = [[*rng.integers(4, 20, length - 1).tolist(), 2] for length in (15, 16, 17, 33)]
    inputs = {"max_length": np.array(5, "int32"), "length_penalty": np.array(1.0, "float32")}
    expected = [without_delegate(source_ids=np.array([row], "int32"), **inputs) for row in rows]
    scores = [float(each["scores"][0, 0]) for each in expected]
    for _ in range(50):
        translator = Translator("model.tflite", num_threads=1)
        for row, score in zip(rows, scores, strict=True):
            (result,) = translator.translate_ids([row], max_length=5, length_penalty=1.0)
            assert result.score == pytest.approx(score, abs=1e-4)
