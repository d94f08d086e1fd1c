"""The Python of README and of the guides runs as it is printed, on small sizes."""

import re
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_attn
from keras_attn.files import write_lines
from keras_attn.text import generate_dates
from keras_attn_commands.train import scene_captions, scenes

ROOT = Path(__file__).parents[1]
SMALLER = {
    r"rnn_seq2seq\(8000, 8000": "rnn_seq2seq(300, 300, units=32, embedding_dim=32",
    r"rnn_seq2seq\(size, size": "rnn_seq2seq(size, size, units=32, embedding_dim=32",
    "corpus, 2048": "corpus, 1000",
    r"num_layers=6": "num_layers=1",
    r"LSTM\(256": "LSTM(16",
    "epochs=(10|18)": "epochs=1",
    "20_000": "1000",
    "8000": "300",
    "2048": "64",
    "512": "32",
}


def test_training_steps_are_compiled_on_jax():
    """Keras runs a step of JAX operation by operation if `jit_compile` is `False`."""
    paths = [
        *(ROOT / "examples").glob("*.py"),
        *(ROOT / "keras_attn_commands").rglob("*.py"),
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "README.md",
    ]
    texts = {path: path.read_text("utf-8") for path in paths}
    assert sum("jit_compile=" in text for text in texts.values()) >= 4
    assert [path.name for path, text in texts.items() if "jit_compile=False" in text] == []


def run_blocks(document, names, first=0, last=None):
    """Runs Python blocks of a document one after the other; returns the names they defined."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text("utf-8"), re.DOTALL)
    assert blocks[first:last]
    for number, block in enumerate(blocks[first:last], first):
        for size, smaller in SMALLER.items():
            block = re.sub(rf"\b{size}\b", smaller, block)
        exec(compile(block, f"{document}, block {number}", "exec"), names)
    return names


def test_readme_and_the_guide_of_training(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    for suffix, texts in zip(("en", "de"), generate_dates(300, seed=1), strict=True):
        write_lines(f"train.{suffix}", texts)
    run_blocks("README.md", {})
    assert sorted(Path("state").iterdir())


@pytest.mark.slow
def test_the_guide_of_captioning(tmp_path, monkeypatch):
    pytest.importorskip("PIL")
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    scene_captions.write_files(tmp_path / "DIR/train", scenes.generate(32))
    names = run_blocks("docs/captioning.md", {})
    assert names["captioner"].search.return_alignments
    assert Path("attention.png").stat().st_size > 1000


@pytest.mark.parametrize("page", ["add-attention", "custom-layers", "masks", "quickstart"])
def test_guides_for_layers(page, tmp_path, monkeypatch):
    pytest.importorskip("tf2onnx")
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    run_blocks(f"docs/{page}.md", {})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive:UserWarning")
@pytest.mark.parametrize("name", sorted(each.stem for each in (ROOT / "docs/tutorials").iterdir()))
def test_tutorials(name):
    pytest.importorskip("tf2onnx")
    pytest.importorskip("safetensors")
    pytest.importorskip("matplotlib").use("Agg")
    run_blocks(f"docs/tutorials/{name}.md", {})


def test_the_guide_of_attention():
    names = {"keras": keras, "keras_attn": keras_attn}
    names |= {"query": np.ones((2, 3, 5), "float32"), "value": np.ones((2, 7, 4), "float32")}
    names |= {"mask": np.ones((2, 7), bool)}
    names = run_blocks("docs/attention.md", names)
    trainer = keras_attn.TrainingModel(
        keras_attn.rnn_seq2seq(300, 300, units=16, embedding_dim=16)[0], names["decoder"]
    )
    assert trainer.output_shape[-1] == 300


@pytest.mark.slow
def test_the_guide_of_forecasting(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    names = run_blocks("docs/forecasting-models.md", {})
    assert names["results"]["attention_scores"].shape == (2, 12, 36)
    assert Path("forecast.png").exists() and Path("forecaster.keras").exists()


def test_the_guide_of_conversions(tmp_path, monkeypatch, capsys):
    for module in ("safetensors", "sentencepiece", "google.protobuf"):
        pytest.importorskip(module)
    from tests.convert.small_checkpoints import (
        MARIAN_CONFIG,
        marian_weights,
        write_folder,
        write_marian_tokenizers,
    )

    monkeypatch.chdir(tmp_path)
    Path("opus-mt-en-de").mkdir()
    size = write_marian_tokenizers(Path("opus-mt-en-de"))
    pad = {name: size - 1 for name in ("pad_token_id", "decoder_start_token_id")}
    weights = marian_weights(vocabulary_size=size)
    write_folder(Path("opus-mt-en-de"), {**MARIAN_CONFIG, "vocab_size": size, **pad}, weights)
    # tests/convert/test_guide.py runs the others, because they need folders of transformers.
    names = run_blocks("docs/convert.md", {}, 2, 3)
    assert len(names["texts"]) == 1 and Path("RUN/model.keras").is_file()
    assert "architecture: MarianMTModel" in capsys.readouterr().out
    run_blocks("docs/export-checkpoints.md", {})
    assert Path("tuned/model.safetensors").is_file()
