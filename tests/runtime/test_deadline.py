"""Deadlines and cancellation of the methods of `Translator`."""

import gc
import itertools
import os
import pickle
import subprocess
import sys
import textwrap
import threading

import onnx
import pytest
from keras_attn_runtime import (
    Cancelled,
    CancelToken,
    DeadlineExceeded,
    SteppedModel,
    StreamingTranslator,
    Translator,
)
from keras_attn_runtime._calls.cancellation import Call
from keras_attn_runtime._file_format import Side
from keras_attn_runtime._text.sentencepiece_tokenizer import SentencePieceTokenizer

from tests.runtime.conftest import RUNTIME
from tests.runtime.endless import ENDLESS_ID, endless_model, within_a_minute, write_endless_steps
from tests.runtime.fake_model import metadata

ENDLESS = [[9, ENDLESS_ID]]
LINES = ["two dogs", "a tree", "the old man reads a book"]


@pytest.fixture(scope="module")
def endless(tokenizer_model, tmp_path_factory):
    """Returns a `Translator` that never finishes sentences with `ENDLESS_ID`."""
    path = tmp_path_factory.mktemp("endless") / "model.onnx"
    onnx.save(endless_model(tokenizer_model), path)
    return Translator(path, num_threads=1)


@pytest.fixture(scope="module")
def endless_scorer(tokenizer_model, tmp_path_factory):
    """Returns a `Translator` that copies the prefix and never finishes the text "b"."""
    path = tmp_path_factory.mktemp("endless") / "model.onnx"
    tokenizer = SentencePieceTokenizer(
        metadata(tokenizer_model)["keras_attn.source_tokenizer"], Side(40, 0)
    )
    onnx.save(endless_model(tokenizer_model, tokenizer.encode("b")[-1], prefix=True), path)
    return Translator(path, num_threads=1)


@pytest.fixture(scope="module")
def endless_steps(tokenizer_model, tmp_path_factory):
    directory = tmp_path_factory.mktemp("endless") / "steps"
    write_endless_steps(directory, tokenizer_model)
    return StreamingTranslator(directory)


@pytest.mark.parametrize("num_workers", [1, 2])
def test_timeout_ends_an_endless_search(endless, num_workers):
    translator = Translator(endless._model.files[0], num_threads=1, num_workers=num_workers)
    expected = translator.translate(LINES)
    with pytest.raises(
        TimeoutError, match=r"within timeout=0.5 seconds.*sentence .* is 0"
    ) as error:
        within_a_minute(lambda: translator.translate_ids(ENDLESS * 5, batch_size=1, timeout=0.5))
    assert isinstance(error.value, DeadlineExceeded)
    assert (error.value.index, error.value.translations) == (0, [None] * 5)
    assert translator.translate(LINES, timeout=60) == expected  # the session still works


def test_timeout_returns_what_is_finished(endless):
    sentences = [[9, 10, 11], *ENDLESS, [], [12, 13, 14]]
    expected = endless.translate_ids([each for each in sentences if each not in ENDLESS])
    with pytest.raises(DeadlineExceeded, match="is 1 ") as error:
        within_a_minute(lambda: endless.translate_ids(sentences, batch_size=1, timeout=0.5))
    first, none, *others = error.value.translations
    assert (error.value.index, none, [first, *others]) == (1, None, expected)


def test_timeout_of_an_iterator_gives_what_comes_before(endless_scorer):
    texts = ["a tree", "two", "b", "red"]
    expected = endless_scorer.translate(texts[:2])
    given = []

    def iterate():
        given.extend(endless_scorer.translate_iterable(texts, window=2, timeout=0.5))

    with pytest.raises(DeadlineExceeded) as error:
        within_a_minute(iterate)
    assert (error.value.index, given, error.value.translations) == (2, expected, [])


def test_timeout_holds_for_scores(endless_scorer):
    texts, targets = ["a tree", "b", "two dogs"], ["red", "red", "red"]
    expected = endless_scorer.score(["a tree", "two dogs"], targets[:2])
    with pytest.raises(DeadlineExceeded) as error:
        within_a_minute(lambda: endless_scorer.score(texts, targets, batch_size=1, timeout=0.5))
    first, none, last = error.value.translations
    assert (error.value.index, none, [first, last]) == (1, None, expected)
    given = []

    def iterate():
        given.extend(endless_scorer.score_iterable(texts, targets, batch_size=1, timeout=0.5))

    with pytest.raises(DeadlineExceeded):
        within_a_minute(iterate)
    assert given == expected[:1]


@pytest.mark.parametrize("method", ["translate", "translate_iterable"])
def test_timeout_holds_while_the_input_blocks(translator, method):
    never = threading.Event()

    def texts():
        yield "two dogs"
        never.wait()

    def run(**options):
        return list(getattr(translator, method)(texts(), timeout=0.3, **options))

    with pytest.raises(DeadlineExceeded):
        within_a_minute(run)
    with pytest.raises(DeadlineExceeded):
        within_a_minute(lambda: list(translator.translate_iterable(texts(), timeout=0.3)))
    never.set()


def test_timeout_holds_while_prefixes_block(endless_scorer):
    never = threading.Event()
    prefixes = (never.wait() for _ in itertools.count())
    with pytest.raises(DeadlineExceeded):
        within_a_minute(lambda: endless_scorer.translate(["red"], prefixes, timeout=0.3))
    never.set()


def test_timeout_holds_in_an_operator_that_does_not_end(translator, monkeypatch):
    """ONNX Runtime stops only between operators; the call does not wait for the current one."""
    never, search = threading.Event(), translator._model._search

    def blocked(feeds, call):
        never.wait()
        return search(feeds, call)

    monkeypatch.setattr(translator._model, "_search", blocked)
    with pytest.raises(DeadlineExceeded):
        within_a_minute(lambda: translator(["two dogs"], timeout=0.3))
    monkeypatch.undo()
    assert within_a_minute(lambda: translator(["two dogs"])) == ["two dogs"]
    never.set()


def test_timeout_of_zero_is_over_at_once(translator):
    for method in (translator, translator.translate):
        with pytest.raises(DeadlineExceeded):
            method(LINES, timeout=0)
    with pytest.raises(DeadlineExceeded):
        translator.translate_ids([[9, 10]], timeout=0)
    with pytest.raises(DeadlineExceeded):
        list(translator.translate_iterable(iter(LINES), timeout=0))


def test_timeout_that_is_long_enough_changes_nothing(translator):
    expected = translator.translate(LINES)
    assert translator.translate(LINES, timeout=60) == expected
    assert translator.translate(iter(LINES), timeout=60, window=2) == expected
    assert list(translator.translate_iterable(iter(LINES), timeout=60, window=1)) == expected
    assert translator.translate(LINES, cancel_token=CancelToken()) == expected


def test_errors_of_the_input_pass_through_a_timeout(translator):
    def texts():
        yield "two dogs"
        raise KeyError("no more")

    given = []
    with pytest.raises(KeyError, match="no more"):
        given.extend(translator.translate_iterable(texts(), timeout=60))
    results = translator.translate_iterable(texts(), timeout=60)
    assert next(results).text == "two dogs"
    with pytest.raises(KeyError):
        next(results)


@pytest.mark.parametrize("timeout", [-1, "1", float("nan"), True, float("inf")])
def test_timeout_out_of_range(translator, timeout):
    with pytest.raises(ValueError, match="Expected timeout to be a number of seconds"):
        translator(LINES, timeout=timeout)


def test_cancel_token_of_another_type(translator):
    with pytest.raises(ValueError, match="Expected cancel_token to be a CancelToken"):
        translator(LINES, cancel_token=threading.Event())


def test_cancel_token_ends_a_search_of_another_thread(endless):
    expected, token = endless.translate_ids([[9, 10]]), CancelToken()
    threading.Timer(0.3, token.cancel).start()
    with pytest.raises(Cancelled, match="cancelled by its cancel_token") as error:
        within_a_minute(lambda: endless.translate_ids([*ENDLESS, [9, 10]], cancel_token=token))
    assert error.value.index == 0
    assert token.is_cancelled
    with pytest.raises(Cancelled):  # stays cancelled
        endless.translate_ids([[9, 10]], cancel_token=token)
    assert endless.translate_ids([[9, 10]], cancel_token=CancelToken()) == expected


def test_cancel_token_ends_several_calls_and_a_blocked_input(endless):
    token, never = CancelToken(), threading.Event()
    texts = (never.wait() for _ in itertools.count())
    runs = [
        lambda: endless.translate_ids(ENDLESS, cancel_token=token),
        lambda: endless.translate_ids(ENDLESS * 2, cancel_token=token),
        lambda: list(endless.translate_iterable(texts, cancel_token=token)),
    ]
    errors = []

    def run(each):
        try:
            each()
        except Cancelled as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(each,), daemon=True) for each in runs]
    for thread in threads:
        thread.start()
    token.cancel()
    for thread in threads:
        thread.join(60)
    assert len(errors) == 3
    never.set()


def test_a_cancelled_batch_is_not_tried_in_halves(endless, monkeypatch):
    within_a_minute(lambda: endless.translate_ids([[9]]))  # after the batches of other tests
    sizes, token, search = [], CancelToken(), endless._model._search
    started = threading.Event()

    def count(feeds, call):
        sizes.append(len(feeds["source_ids"]))
        started.set()
        return search(feeds, call)

    monkeypatch.setattr(endless._model, "_search", count)
    threading.Thread(target=lambda: (started.wait(), token.cancel()), daemon=True).start()
    with pytest.raises(Cancelled):
        within_a_minute(lambda: endless.translate_ids(ENDLESS * 4, cancel_token=token))
    within_a_minute(lambda: endless.translate_ids([[9]]))  # after the work of the worker
    assert sizes == [4, 1]


def test_an_abandoned_iterator_stops_what_it_started(translator, monkeypatch):
    stopped = []
    monkeypatch.setattr(Call, "stop", lambda call: stopped.append(call))
    results = translator.translate_iterable(LINES, window=1)
    next(results)
    results.close()
    assert len(stopped) == 1


@pytest.mark.parametrize("method", ["stream", "translate"])
def test_timeout_ends_a_search_in_steps(endless_steps, method):
    def run(**options):
        if method == "stream":
            return list(endless_steps.stream("two dogs", **options))
        return endless_steps.translate(["two dogs"], **options)

    with pytest.raises(DeadlineExceeded):
        within_a_minute(lambda: run(timeout=0.5))
    token = CancelToken()
    threading.Timer(0.3, token.cancel).start()
    with pytest.raises(Cancelled):
        within_a_minute(lambda: run(cancel_token=token))


def test_threads_run_at_the_same_time_in_one_worker_each(translator, monkeypatch):
    barrier, search = threading.Barrier(3), translator._model._search

    def meet(feeds, call):
        barrier.wait(60)
        return search(feeds, call)

    monkeypatch.setattr(translator._model, "_search", meet)
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(translator(["two dogs"])), daemon=True)
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [["two dogs"]] * 3


def worker_threads():
    return {each for each in threading.enumerate() if each.name == "keras-attn-worker"}


@pytest.mark.parametrize("num_workers", [1, 3])
def test_threads_end_with_their_translator(model_path, num_workers):
    before = worker_threads()
    translator = Translator(model_path, num_threads=1, num_workers=num_workers)
    translator.translate(["two dogs"] * 50, batch_size=1)
    mine = worker_threads() - before
    assert mine and len(mine) <= max(num_workers, 2)
    del translator
    gc.collect()
    for thread in mine:
        thread.join(60)
        assert not thread.is_alive()


def test_errors_that_end_a_call_can_be_pickled(translator):
    with pytest.raises(DeadlineExceeded) as caught:
        translator(LINES, timeout=0)
    error = pickle.loads(pickle.dumps(caught.value))
    assert (type(error), str(error), error.index) == (
        DeadlineExceeded,
        str(caught.value),
        caught.value.index,
    )


DENORMALS = """
import sys, threading
import numpy as np, onnxruntime as ort
from keras_attn_runtime import Translator
from onnx import TensorProto, helper

info = helper.make_tensor_value_info
graph = helper.make_graph(
    [helper.make_node("Mul", ["a", "a"], ["b"])],
    "square",
    [info("a", TensorProto.FLOAT, [4])],
    [info("b", TensorProto.FLOAT, [4])],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
feeds = {"a": np.full(4, 1e-20, "float32")}
ready, made, found = threading.Event(), threading.Event(), []

def older():  # a server thread, created before the sessions
    ready.set()
    made.wait()
    translate()

def translate():
    search = translator._model._search
    def seen(arguments, call):
        found.append((float(session.run(None, feeds)[0][0]), threading.get_ident()))
        return search(arguments, call)
    translator._model._search = seen
    assert translator(["two dogs"] * 4, batch_size=1) == ["two dogs"] * 4
    translator._model._search = search

thread = threading.Thread(target=older)
thread.start()
ready.wait()
translator = Translator(sys.argv[1], num_threads=1, num_workers=int(sys.argv[2]))
options = ort.SessionOptions()
options.intra_op_num_threads = 1
session = ort.InferenceSession(model.SerializeToString(), options)
made.set()
thread.join()
translate()
assert {value for value, _ in found} == {0.0}, found
assert all(ident not in (thread.ident, threading.get_ident()) for _, ident in found)
print("flushed")
"""


@pytest.mark.parametrize("num_workers", ["1", "2"])
def test_denormals_are_flushed_also_for_older_threads(model_path, num_workers):
    result = subprocess.run(
        [sys.executable, "-c", DENORMALS, str(model_path), num_workers],
        env=dict(os.environ, PYTHONPATH=str(RUNTIME)),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.stdout == "flushed\n", result.stderr


INTERRUPTED = """
import os, signal, sys, threading
from keras_attn_runtime import Translator

signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
translator = Translator(sys.argv[1], num_threads=1)
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    translator.translate_ids([[9, 63]])
except KeyboardInterrupt:
    print(translator.translate_ids([[9, 10]])[0].token_ids)
"""

AT_THE_END = """
import sys, threading
from keras_attn_runtime import Translator

translator = Translator(sys.argv[1], num_threads=1)
started, search = threading.Event(), translator._model._search
def notify(feeds, call):
    started.set()
    return search(feeds, call)
translator._model._search = notify
threading.Thread(target=lambda: translator.translate_ids([[9, 63]]), daemon=True).start()
started.wait()
print("end")
"""


@pytest.mark.parametrize("program, expected", [(INTERRUPTED, "[9, 10]\n"), (AT_THE_END, "end\n")])
def test_an_endless_run_keeps_back_neither_an_interrupt_nor_the_end(endless, program, expected):
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(endless._model.files[0])],
        env=dict(os.environ, PYTHONPATH=str(RUNTIME)),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (result.returncode, result.stdout) == (0, expected), result.stderr


FIFO = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")


@FIFO
def test_a_named_pipe_is_no_model(tmp_path, model_path, endless_steps):
    os.mkfifo(tmp_path / "model.onnx")
    with pytest.raises(ValueError, match="Expected a regular file.*a named pipe"):
        within_a_minute(lambda: Translator(tmp_path / "model.onnx"))
    with pytest.raises(IsADirectoryError, match=r"a directory with model\.onnx"):
        within_a_minute(lambda: Translator(tmp_path))
    os.mkfifo(tmp_path / "step.onnx")
    for name in ("start.onnx", "finish.onnx"):
        (tmp_path / name).write_bytes(model_path.read_bytes())
    with pytest.raises(ValueError, match="Expected a regular file.*a named pipe"):
        within_a_minute(lambda: SteppedModel(tmp_path))


@FIFO
def test_a_named_pipe_is_no_weights(tmp_path, model_path):
    (tmp_path / "model.onnx").write_bytes(model_path.read_bytes())
    os.mkfifo(tmp_path / "model.weights")
    with pytest.raises(ValueError, match="model.weights'?.*a named pipe"):
        within_a_minute(lambda: Translator(tmp_path))


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs /dev/zero")
def test_a_device_is_no_model():
    with pytest.raises(ValueError, match="Expected a regular file.*a device"):
        within_a_minute(lambda: Translator("/dev/zero"))


@pytest.mark.skipif(sys.platform != "linux", reason="needs names of any bytes")
def test_a_name_that_is_not_utf8_is_refused(tmp_path, model_path):
    path = tmp_path / os.fsdecode(b"mod\xe8le.onnx")
    path.write_bytes(model_path.read_bytes())
    with pytest.raises(ValueError, match=r"Expected a path of valid UTF-8.*mod\\udce8le.*Rename"):
        Translator(path)
