"""Errors name the format of files of other programs."""

import re
import zipfile

import pytest
from keras_attn_runtime import ModelFileError, StreamingTranslator, Translator


@pytest.fixture
def foreign(tmp_path):
    """Writes a file with this content, or an archive or directory with these file names."""

    def write(name, content=None, names=()):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        elif name.endswith("/"):
            for each in names:
                (path / each).parent.mkdir(parents=True, exist_ok=True)
                (path / each).write_bytes(b"content")
        else:
            with zipfile.ZipFile(path, "w") as archive:
                for each in names:
                    archive.writestr(each, "content")
        return path

    return write


FILES = [
    ("model.keras", None, ("metadata.json", "config.json", "model.weights.h5"), "a Keras file"),
    ("model.pt", None, ("archive/data.pkl", "archive/version"), "a PyTorch file"),
    ("model.zip", None, ("model.onnx",), "a zip archive"),
    ("model.h5", b"\x89HDF\r\n\x1a\n" + bytes(100), (), "an HDF5 file"),
    ("model.tflite", b"\x1c\0\0\0TFL3" + bytes(100), (), "a TensorFlow Lite file"),
    ("model.onnx.gz", b"\x1f\x8b\x08" + bytes(100), (), "a gzip archive"),
    ("model.gguf", b"GGUF\x03\0\0\0" + bytes(100), (), "a GGUF file"),
    ("model.safetensors", b"\x08\0\0\0\0\0\0\0{      }", (), "a file of weights"),
    ("model.onnx", b"version https://git-lfs.github.com/spec/v1\noid 1", (), "a Git LFS pointer"),
]


@pytest.mark.parametrize("name, content, names, kind", FILES, ids=[each[0] for each in FILES])
def test_foreign_file_is_named(foreign, name, content, names, kind):
    path = foreign(name, content, names)
    expected = "a LiteRT file exported by keras_attn" if "tflite" in name else "an ONNX file"
    pattern = f"Expected {expected}. Received: '{re.escape(str(path))}', {kind}"
    with pytest.raises(ModelFileError, match=pattern):
        Translator(path)


@pytest.mark.parametrize(
    "names, kind",
    [
        (("saved_model.pb", "variables/variables.index"), "a TensorFlow SavedModel"),
        (("run.json", "model.keras"), "the directory of a training run"),
        (("something.else",), "a directory without"),
    ],
    ids=["SavedModel", "run", "other"],
)
@pytest.mark.parametrize("kind_of_translator", [Translator, StreamingTranslator])
def test_foreign_directory_is_named(foreign, names, kind, kind_of_translator):
    with pytest.raises(OSError, match=f"Expected .*{kind}"):
        kind_of_translator(foreign("model/", names=names))


def test_file_of_a_saved_model_is_named(foreign):
    directory = foreign("model/", names=("saved_model.pb", "variables/variables.index"))
    with pytest.raises(ModelFileError, match="a file of a TensorFlow SavedModel"):
        Translator(directory / "saved_model.pb")


CONVERT = "`keras-attn convert {path} RUN`, then `keras-attn export onnx RUN model.onnx`."
DIRECTORIES = [
    (("config.json", "model.safetensors"), "a checkpoint folder of transformers", CONVERT),
    (("config.json", "pytorch_model.bin"), "a checkpoint folder of transformers", CONVERT),
    (("ckpt-1.index", "checkpoint"), "a folder of TensorFlow checkpoints", CONVERT),
    (("config.json", "model.bin"), "a model of CTranslate2", "`keras-attn export onnx RUN"),
    (("config.json", "encoder_model.onnx"), "an export of Optimum", "`keras-attn convert FOLDER"),
    (("run.json",), "the directory of a training run", "`keras-attn export onnx {path} model.onn"),
    (("saved_model.pb",), "a TensorFlow SavedModel", "`keras-attn export onnx RUN model.onnx`"),
    (("en-de.onnx", "notes.txt"), "a directory with en-de.onnx", "Pass '{path}/en-de.onnx'."),
    (("a.tflite",), "a directory with a.tflite", "Pass '{path}/a.tflite'."),
    (("model.keras",), "a directory with model.keras", "keras_attn.export.export_onnx("),
]


@pytest.mark.parametrize("names, kind, advice", DIRECTORIES, ids=lambda value: str(value)[:40])
def test_advice_for_directories_names_the_command(foreign, names, kind, advice):
    path = foreign("model/", names=names)
    with pytest.raises(OSError) as error:
        Translator(path)
    assert f"Received: {str(path)!r}, {kind}" in str(error.value)
    assert advice.format(path=path) in str(error.value)


def test_advice_for_files_names_their_directory(foreign):
    checkpoint = foreign("checkpoint/", names=("config.json", "model.safetensors"))
    for name in ("config.json", "model.safetensors"):
        with pytest.raises(ModelFileError) as error:
            Translator(checkpoint / name)
        assert CONVERT.format(path=checkpoint) in str(error.value)
    archive = ("metadata.json", "config.json", "model.weights.h5")
    with pytest.raises(ModelFileError, match="Export it in Python: `keras_attn.export.export_onn"):
        Translator(foreign("model.keras", names=archive))
    run = foreign("my run/", names=("run.json",))
    with pytest.raises(ModelFileError, match="`keras-attn export onnx '.*my run' model.onnx`"):
        Translator(foreign("my run/model.keras", names=archive))
    with pytest.raises(ModelFileError, match="a file of the directory of a training run"):
        Translator(run / "run.json")
    pickled = foreign("checkpoint/pytorch_model.bin", names=("archive/data.pkl",))
    with pytest.raises(ModelFileError, match=f"a PyTorch file.*keras-attn convert {checkpoint} "):
        Translator(pickled)
