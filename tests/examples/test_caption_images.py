"""A short run of the example, copied out of the checkout, which is then exported."""

import pytest

from keras_attn_commands.main import main
from tests.examples.scripts import EXAMPLES, python


@pytest.mark.slow
def test_caption_images_writes_a_run_that_is_exported(tmp_path, capfd):
    pytest.importorskip("PIL")
    runtime = pytest.importorskip("keras_attn_runtime._commands.main")
    program = (EXAMPLES / "caption_images.py").read_text()
    assert program.count("\n") <= 150
    sizes = "EPOCHS, IMAGES, SIZE = 12, 4000, 32"
    assert sizes in program
    (tmp_path / "example.py").write_text(
        program.replace(sizes, "EPOCHS, IMAGES, SIZE = 2, 400, 32")
    )
    output = python(tmp_path, "example.py", "--run-dir", "run").stdout
    assert "epoch 2 of 2: " in output and " of 200 captions are right." in output
    captioner, run = tmp_path / "captions.onnx", tmp_path / "run"
    assert main(["export", "onnx", str(run), str(captioner), "--accept-target-prefix"]) == 0
    images = ["--images", str(run / "test" / "images"), "--target-prefix", "en:"]
    capfd.readouterr()
    assert runtime.main(["translate", str(captioner), *images]) == 0
    lines = [line.split("\t") for line in capfd.readouterr().out.splitlines()]
    assert [name for name, _ in lines] == [f"{number}.png" for number in range(5)]
    expected = [line.partition("   (reference")[0] for line in output.splitlines()[-7:-2]]
    assert [text.removeprefix("en:").strip() for _, text in lines] == expected
