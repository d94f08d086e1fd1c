"""Pickling of translators and errors."""

import concurrent.futures
import copy
import multiprocessing
import pickle

import keras_attn_runtime as runtime
import pytest
from keras_attn_runtime import (
    GenerationResult,
    InputError,
    ModelFileError,
    ProviderError,
    Translator,
)
from keras_attn_runtime._errors import BatchError, Cancelled, DeadlineExceeded
from keras_attn_runtime._models.exported_model import ExportedModel

TEXTS = ["some text", "two dogs run", ""]


@pytest.mark.parametrize("method", [copy.copy, copy.deepcopy])
def test_translator_copy_translates(translator, method):
    assert method(translator)(TEXTS) == translator(TEXTS)


def test_translator_pickles_as_its_arguments(model_path):
    translator = Translator(
        model_path, "cpu", num_threads=3, num_workers=2, max_source_length=2, truncate=True
    )
    content = pickle.dumps(translator)
    assert len(content) < 1000
    restored = pickle.loads(content)
    assert restored.translate(TEXTS) == translator.translate(TEXTS)
    assert restored.max_source_length == 2 and restored.translate(TEXTS)[1].truncated
    sessions = restored._model._sessions
    assert [each.inference.get_session_options().intra_op_num_threads for each in sessions] == [
        3,
        3,
    ]


def test_translator_pickles_arguments_of_a_subclass(model_path):
    restored = pickle.loads(pickle.dumps(Shouting(model_path, mark="!!")))
    assert restored(["some text"]) == ["some text!!"]


def test_model_pickles(model_path):
    model = pickle.loads(pickle.dumps(ExportedModel(model_path, num_threads=1)))
    assert model.settings == ExportedModel(model_path).settings


def test_translator_in_a_spawned_process(translator):
    with _spawned_process() as pool:
        assert pool.submit(translator, TEXTS).result(timeout=60) == translator(TEXTS)
        with pytest.raises(InputError, match="expected a string") as caught:
            pool.submit(translator, ["some text", 5]).result(timeout=60)
    assert caught.value.index == 1


def test_pickle_of_a_missing_file(model_path, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(model_path.read_bytes())
    content = pickle.dumps(Translator(path))
    path.unlink()
    with pytest.raises(FileNotFoundError, match="model.onnx"):
        pickle.loads(content)


@pytest.mark.parametrize(
    "error",
    [
        ModelFileError("damaged"),
        BatchError("no memory"),
        BatchError("no memory", 3),
        ProviderError("no driver"),
        InputError(4, "too long"),
        DeadlineExceeded("too slow", 5),
        Cancelled("not wanted", 6),
    ],
)
def test_error_pickles(error):
    restored = pickle.loads(pickle.dumps(error))
    assert type(restored) is type(error)
    assert str(restored) == str(error) and vars(restored) == vars(error)


def test_translation_pickles(translator):
    translation = translator.translate(TEXTS, num_hypotheses=2)[1]
    assert pickle.loads(pickle.dumps(translation)) == translation


@pytest.mark.parametrize("name", runtime.__all__)
def test_public_object_pickles_by_its_public_name(name):
    value = getattr(runtime, name)
    assert value.__module__ == "keras_attn_runtime"
    assert pickle.loads(pickle.dumps(value)) is value


MODULES_OF_OLDER_PICKLES = {
    "AddedToken": "added_tokens",
    "CancelToken": "cancellation",
    "Forecaster": "forecaster",
    "Hypothesis": "translation",
    "ImageFormat": "image_format",
    "Input": "file_format.inputs",
    "Language": "languages",
    "ModelFileError": "errors",
    "Quarter": "series_times",
    "SeriesTable": "series_table",
    "Settings": "file_format.settings",
    "Side": "file_format.settings",
    "SteppedModel": "stepped_model",
    "StreamingTranslator": "streaming_translator",
    "Translator": "translator",
    "read_image": "image_files",
}


@pytest.mark.parametrize("name", MODULES_OF_OLDER_PICKLES)
def test_older_pickle_loads(name):
    module = MODULES_OF_OLDER_PICKLES[name]
    value = pickle.loads(f"ckeras_attn_runtime.{module}\n{name}\n.".encode())
    assert (value.__name__, value) == (name, getattr(runtime, name, value))


@pytest.mark.parametrize("name", ["SentenceError", "errors.SentenceError"])
def test_older_pickle_of_an_input_error_loads(name):
    error = InputError(4, "too long")
    restored = pickle.loads(_renamed_pickle(error, name))
    assert type(restored) is InputError and vars(restored) == vars(error)


@pytest.mark.parametrize("name", ["Translation", "translation.Translation"])
def test_older_pickle_of_a_generation_result_loads(translator, name):
    (result,) = translator.translate(TEXTS[:1])
    restored = pickle.loads(_renamed_pickle(result, name))
    assert type(restored) is GenerationResult and restored == result


class Shouting(Translator):
    """A subclass with an additional argument."""

    def __init__(self, path, *, mark):
        super().__init__(path)
        self.mark = mark

    def __call__(self, texts, **options):
        return [text + self.mark for text in super().__call__(texts, **options)]


def _renamed_pickle(value, name):
    """Pickles an object under another name of its class."""
    content = pickle.dumps(value, protocol=0)  # names without their lengths
    names = [f"ckeras_attn_runtime\n{type(value).__name__}\n".encode()]
    *module, former = name.split(".")
    names.append(f"c{'.'.join(['keras_attn_runtime', *module])}\n{former}\n".encode())
    assert content.count(names[0]) == 1
    return content.replace(*names)


def _spawned_process():
    context = multiprocessing.get_context("spawn")
    return concurrent.futures.ProcessPoolExecutor(1, mp_context=context)
