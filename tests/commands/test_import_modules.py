"""The option `--import`: modules are imported before a model; errors name wrong modules."""

import sys

import keras
import numpy as np
import pytest

from keras_attn.training import RunDirectory
from keras_attn_commands.import_modules import import_modules
from keras_attn_commands.main import main

pytest.importorskip("tensorflow")

LAYERS = """
import keras
from sizes import SCALE

@keras.saving.register_keras_serializable("import_option")
class Scaled(keras.layers.Layer):
    def call(self, inputs):
        return SCALE * inputs
"""


@pytest.fixture
def modules(monkeypatch):
    """Restores the imported modules, the search path and the classes that Keras knows."""
    names, classes = set(sys.modules), keras.saving.get_custom_objects()
    known = set(classes)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def forget():
        for name in set(sys.modules) - names:
            del sys.modules[name]
        for name in set(classes) - known:
            del classes[name]

    yield forget
    forget()


@pytest.fixture
def layers(tmp_path, modules):
    """The path of a file with a layer, which imports a file beside it."""
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "sizes.py").write_text("SCALE = 3.0\n")
    (folder / "own_layers.py").write_text(LAYERS)
    return folder / "own_layers.py"


@pytest.fixture
def run(tmp_path, layers, modules):
    """A run directory of a classifier with the layer, which Python has not imported."""
    import_modules([str(layers)])
    inputs = keras.Input((2,))
    outputs = keras.layers.Dense(2)(sys.modules["own_layers"].Scaled()(inputs))
    directory = RunDirectory.create(tmp_path / "run", "other")
    directory.save_model(keras.Model(inputs, outputs))
    modules()
    sys.path.remove(str(layers.parent))
    return directory.path


def load(run):
    return RunDirectory(run).load_model()


def test_a_class_that_is_not_imported_is_an_error_that_names_the_option(run):
    with pytest.raises(ValueError, match="Received: .*Scaled.* --import MODULE"):
        load(run)


def test_a_file_of_layers_makes_a_run_loadable(run, layers):
    import_modules([str(layers)])
    model = load(run)
    doubled = model(np.full((1, 2), 2.0))
    np.testing.assert_allclose(doubled, 2 * model(np.ones((1, 2))), rtol=1e-5)


def test_a_module_of_the_working_directory_is_found_by_its_name(run, layers, monkeypatch):
    monkeypatch.chdir(layers.parent)
    import_modules(["own_layers", "own_layers"])
    assert load(run).layers[1].__class__.__name__ == "Scaled"


def test_a_file_named_like_an_imported_module_does_not_replace_it(layers):
    (layers.parent / "json.py").write_text("VALUE = 5\n")
    json = sys.modules["json"]
    import_modules([str(layers.parent / "json.py")])
    assert sys.modules["json"] is json and sys.modules["json_of_program"].VALUE == 5


@pytest.mark.parametrize("command", ["evaluate", "export"])
@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("absent.py", "Received: --import absent.py, which does not exist. Check the path."),
        ("./layers.txt", "Expected a path that ends with .py, or the name of a module."),
        ("absent_layers", "--import absent_layers, which was not found."),
        ("absent.layers", "--import absent.layers, which was not found."),
        (
            "failing.py",
            "--import failing.py, which raised NameError: name 'missing' is not defined",
        ),
        ("failing", "--import failing, which raised NameError: name 'missing' is not defined"),
        ("syntax.py", "which raised SyntaxError: "),
        ("exits.py", "which raised SystemExit: 3 in line 2 of "),
        ("needs.py", "which raised ModuleNotFoundError: No module named 'absent_package'"),
    ],
)
def test_modules_that_cannot_be_imported_are_one_line(
    command, module, message, tmp_path, modules, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "failing.py").write_text("import math\n\nmath.sqrt(missing)\n")
    (tmp_path / "syntax.py").write_text("def f(:\n")
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(3)\n")
    (tmp_path / "needs.py").write_text("import absent_package\n")
    (tmp_path / "layers.txt").write_text("")
    RunDirectory.create(tmp_path / "run", "generation").save_model(
        keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    )
    (tmp_path / "text").write_text("one\n")
    arguments = {
        "evaluate": ["evaluate", "run", "--source", "text", "--target", "text"],
        "export": ["export", "onnx", "run", "model.onnx"],
    }[command]
    assert main([*arguments, "--import", module]) == 1
    error = capsys.readouterr().err
    assert message in error and error.startswith("Nothing was ") and "Traceback" not in error
    if module.startswith("failing"):
        assert f"in line 3 of {tmp_path / 'failing.py'}. Correct the module." in error
