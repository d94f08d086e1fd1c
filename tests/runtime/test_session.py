"""Providers, threads, and use without ONNX Runtime, Keras or TensorFlow."""

import os
import subprocess
import sys
from types import ModuleType

import pytest
from keras_attn_runtime import ModelFileError, ProviderError, Translator

from tests.runtime.conftest import RUNTIME


@pytest.mark.parametrize("providers", [None, "cpu", "CPUExecutionProvider", ["cpu"], [("cpu", {})]])
def test_cpu_by_its_names(model_path, providers):
    assert Translator(model_path, providers=providers)(["some text"]) == ["some text"]


@pytest.mark.parametrize("providers", ["tpu", [], [("cpu",)], [5], 5, ["cpu", "tpu"], [("cpu", 5)]])
def test_providers_that_do_not_exist(model_path, providers):
    with pytest.raises(ProviderError, match="Received: providers="):
        Translator(model_path, providers=providers)


def test_provider_that_is_not_installed_names_the_extra(model_path, monkeypatch):
    import onnxruntime

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(ProviderError, match=r"./export\[gpu\]"):
        Translator(model_path, providers="cuda")


def test_provider_that_does_not_start_is_an_error(model_path, monkeypatch, capsys):
    # If onnxruntime-gpu is installed without a driver, the provider is listed, and ONNX Runtime
    # creates a session without it.
    import onnxruntime

    make = onnxruntime.InferenceSession
    available = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: available)
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: print("no library"), raising=False)
    monkeypatch.setattr(
        onnxruntime,
        "InferenceSession",
        lambda path, options, providers, **rest: make(path, options, providers[1:], **rest),
    )
    with pytest.raises(ProviderError, match="CUDAExecutionProvider.* did not start"):
        Translator(model_path, providers=["cuda", "cpu"])
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err == "no library\n"


def test_a_provider_that_fails_while_the_session_is_made_is_not_a_damaged_file(
    model_path, tmp_path, monkeypatch
):
    # ONNX Runtime does this if there is no device with this number.
    import onnxruntime

    make = onnxruntime.InferenceSession

    def fail(path, options, providers, **rest):
        if providers[0] != "CPUExecutionProvider":
            raise RuntimeError("CUDA failure 100")
        return make(path, options, providers=providers, **rest)

    available = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: available)
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None, raising=False)
    monkeypatch.setattr(onnxruntime, "InferenceSession", fail)
    with pytest.raises(
        ProviderError, match="failure 100.*can load the file on the CPU.*'device_id': 9"
    ):
        Translator(model_path, providers=[("cuda", {"device_id": 9})])
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(b"no model")
    with pytest.raises(ModelFileError, match="export or copy it again"):
        Translator(damaged, providers="cuda")


def test_an_error_of_onnx_runtime_is_told_in_one_line(translator, monkeypatch):
    def run(*_):
        raise RuntimeError("Failed to allocate memory\n\nfor a buffer\n")

    monkeypatch.setattr(translator._model._sessions[0], "run", run)
    with pytest.raises(ModelFileError, match="memory for a buffer. Try a smaller batch"):
        translator(["two dogs"])


def test_no_fallback_while_running(translator):
    assert not translator._model._sessions[0].inference._enable_fallback


@pytest.mark.parametrize("num_threads", [0, -1, 1.5, "2", True])
def test_threads_out_of_range(model_path, num_threads):
    with pytest.raises(ValueError, match="num_threads"):
        Translator(model_path, num_threads=num_threads)


def test_threads_reach_the_session(model_path):
    translator = Translator(model_path, num_threads=2)
    assert translator._model._sessions[0].inference.get_session_options().intra_op_num_threads == 2


def test_workers_share_the_cores_that_the_process_may_use(model_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(6), raising=False)
    model = Translator(model_path, num_workers=3)._model
    assert model._sessions[0].inference.get_session_options().intra_op_num_threads == 2


def test_threads_are_as_many_as_cores_where_a_process_may_not_use_all(model_path, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(3), raising=False)
    options = Translator(model_path)._model._sessions[0].inference.get_session_options()
    assert options.intra_op_num_threads == 3
    monkeypatch.setattr(os, "cpu_count", lambda: 3)  # all cores: ONNX Runtime decides
    options = Translator(model_path)._model._sessions[0].inference.get_session_options()
    assert options.intra_op_num_threads == 0


def test_without_onnxruntime_the_extras_are_named(model_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r"./export\[cpu\]"):
        Translator(model_path)


def test_what_is_left_of_onnxruntime_is_not_onnxruntime(model_path, monkeypatch):
    # Uninstalling one of the two packages leaves their shared folder.
    monkeypatch.setitem(sys.modules, "onnxruntime", ModuleType("onnxruntime"))
    with pytest.raises(ImportError, match=r"incomplete.*./export\[cpu\]"):
        Translator(model_path)


def test_why_onnxruntime_cannot_be_loaded_is_told(model_path, tmp_path, monkeypatch):
    (tmp_path / "onnxruntime.py").write_text("raise ImportError('libsomething.so is missing')")
    monkeypatch.delitem(sys.modules, "onnxruntime")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=r"libsomething.so is missing"):
        Translator(model_path)


def test_a_translator_stays_in_its_process(model_path, monkeypatch):
    translator = Translator(model_path)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    for use in (translator, translator.translate, lambda texts: translator.translate_ids([[5]])):
        with pytest.raises(RuntimeError, match="created before a fork"):
            use(["some text"])


def test_neither_keras_nor_tensorflow_is_imported(model_path):
    code = (
        "import sys\n"
        "for name in ('keras', 'tensorflow', 'keras_attn'): sys.modules[name] = None\n"
        "from keras_attn_runtime import Translator\n"
        "print(Translator(sys.argv[1])(['some text']))\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", code, model_path],
        env={"PYTHONPATH": str(RUNTIME)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert output.stdout == "['some text']\n"
