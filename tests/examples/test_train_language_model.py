"""A short run of the example, copied out of the checkout, which is then exported."""

import pytest

from keras_attn_commands.main import main
from tests.examples.scripts import EXAMPLES, python


@pytest.mark.slow
def test_train_language_model_writes_a_run_that_is_exported(tmp_path, capsys):
    program = (EXAMPLES / "train_language_model.py").read_text()
    assert program.count("\n") <= 150
    sizes = "WINDOW, BATCH_SIZE, EPOCHS = 64, 16, 40"
    assert sizes in program
    program = program.replace(sizes, "WINDOW, BATCH_SIZE, EPOCHS = 32, 64, 3")
    (tmp_path / "example.py").write_text(program)
    output = python(tmp_path, "example.py", "--run-dir", "run").stdout
    assert "epoch 3 of 3: " in output and " of 500 held-out sums are right." in output
    assert "Next: keras-attn export onnx run adder.onnx" in output
    adder = tmp_path / "adder.onnx"
    assert main(["export", "onnx", str(tmp_path / "run"), str(adder)]) == 0
    translator = pytest.importorskip("keras_attn_runtime").Translator(adder)
    assert set(translator(["12+30="])[0]) <= set("0123456789+=")
