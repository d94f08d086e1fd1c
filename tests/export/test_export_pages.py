"""The code of the guides that export, or that need a real translator, works as printed."""

import functools
import http.server
import logging
import queue
import shutil
import subprocess
import sys
import threading
import urllib.parse
from pathlib import Path

import keras
import numpy as np
import pytest
from keras_attn_runtime import Translator
from keras_attn_runtime._commands.main import main

import keras_attn
from keras_attn.export import (
    export_litert_steps,
    export_onnx,
    export_onnx_steps,
    export_onnx_text,
)
from keras_attn.text import SentencePieceTokenizer
from keras_attn_commands.export_parser import format_first
from keras_attn_commands.main import build_parser
from tests.export.conversion_steps import replace_conversion
from tests.export.small_translator import SOURCE, TARGET, make_translator
from tests.page_blocks import ROOT, blocks, commands, run_block, run_page
from tests.runtime.fake_classifier import LABELS, write_classifier
from tests.runtime.fake_model import train_tokenizer

NODE_MODULES = ROOT / "build" / "javascript" / "node_modules"
"""npm install --ignore-scripts --prefix build/javascript \
onnxruntime-node onnxruntime-web @agnai/sentencepiece-js"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def require_npm(*packages):
    """Links the npm packages into the folder of a test; skips the test without them."""
    if shutil.which("node") is None:
        pytest.skip("needs Node")
    missing = [package for package in packages if not (NODE_MODULES / package).is_dir()]
    if missing:
        pytest.skip(f"needs the npm packages {missing} in build/javascript")
    Path("node_modules").symlink_to(NODE_MODULES)


def small_transformer(*vocabulary_sizes):
    """Returns the encoder and the search of a Transformer with random weights."""
    sizes = {"embedding_dim": 8, "num_heads": 2, "num_layers": 1, "intermediate_dim": 8}
    encoder, decoder = keras_attn.transformer_seq2seq(*vocabulary_sizes, **sizes, seed=1)
    return encoder, keras_attn.BeamDecoder(decoder, beam_width=3, max_length=20)


REPORT = """
<script type="module">
  const output = document.querySelector("#translation");
  const report = () => output.textContent && fetch("/report?" + output.textContent);
  new MutationObserver(report).observe(output, { childList: true });
</script>
"""
"""Sends the translation of the web page to the server of `translation_of_page`."""


def translation_of_page(browser, folder):
    """Opens index.html of a folder in a browser, and returns the translation that it shows."""
    reports = queue.Queue()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self):
            path, _, text = urllib.parse.unquote(self.path).partition("?")
            if path == "/report":
                reports.put(text)
            super().do_GET()

        def log_message(self, *_):
            pass

    handler = functools.partial(Handler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/index.html"
        options = ["--headless=new", "--no-sandbox", f"--user-data-dir={folder}/profile"]
        process = subprocess.Popen([browser, *options, "--remote-debugging-port=0", address])
        try:
            return reports.get(timeout=120)
        finally:
            process.terminate()
            process.wait()
            server.shutdown()


@pytest.fixture
def logger():
    """The logger of phases, whose level is restored."""
    logger = logging.getLogger("keras_attn")
    yield logger
    logger.setLevel(logging.NOTSET)


def test_guide_of_export(
    translator, tokenizers, onnx_model, folder, monkeypatch, capsys, caplog, logger
):
    replace_conversion(monkeypatch, "export_onnx", onnx_model)  # the conversion is slow
    names = dict(zip(("source_tokenizer", "target_tokenizer"), tokenizers, strict=True))
    run_block("export.md", 1, {})
    names = run_block("export.md", 0, {"translator": translator, **names})
    assert logger.level == logging.INFO and "Comparing the file with Keras" in caplog.messages
    assert names["report"].best_equal > 0.95 and Path("translator.onnx").is_file()
    printed, page = capsys.readouterr().out, " ".join(" ".join(blocks("export.md", "")).split())
    for words in ("cut by max_length", "with ties", "largest difference of a score"):
        assert words in printed and words in page

    Path("RUN").mkdir()
    keras_attn.GenerationModel(*small_transformer(20, 20)).save("RUN/model.keras")
    run_block("export.md", 2, {})
    changed = keras.saving.load_model("RUN/model.keras", compile=False)
    assert changed.layers[-1].decoder.cache_block_size == 32


@pytest.mark.parametrize(
    "page", ["export", "runtime", "runtime-speed", "other-hosts", "litert", "phones"]
)
def test_commands_have_the_options_in_the_guides(page):
    calls = commands(f"{page}.md", "keras-attn")
    assert calls
    for command, *arguments in calls:
        build_parser().parse_args([command, *format_first(arguments)])


@pytest.mark.slow
def test_guide_of_the_runtime(folder, capsys):
    tokenizers = []
    for lines in ([*SOURCE, "some more text"], [*TARGET, "the a text"]):
        Path("text").write_text("\n".join(lines * 5), encoding="utf-8")
        tokenizers.append(SentencePieceTokenizer.train("text", 40, "char"))
    sizes = [each.vocabulary_size for each in tokenizers]
    translator = make_translator(vocabulary_sizes=sizes, relative_max_length=None)
    options = {"accept_target_prefix": True, "accept_constraints": True, "alignments": True}
    export_onnx(translator, "model.onnx", *tokenizers, **options)
    write_classifier(folder / "classifier.onnx", train_tokenizer())
    Path("in.txt").write_text("some text\n\nmore text\n", encoding="utf-8")
    names = run_page("runtime.md", {})
    assert len(names["translations"]) == 2 and names["result"].label in LABELS
    assert names["translator"](["some text"], target_prefix="the")[0].startswith("the")
    assert names["results"][1].constraints_met == [True, True]
    assert names["translator"].score(["some text"], ["a text"])[0].log_prob < 0
    assert len(capsys.readouterr().out.splitlines()) >= 6


@pytest.mark.slow
def test_guide_of_other_hosts_runs_strings_and_steps(translator, tokenizers, folder, capsys):
    pytest.importorskip("onnxruntime_extensions")
    pytest.importorskip("tensorflow_text")
    export_onnx_text(translator, "model.text.onnx", *tokenizers)
    export_onnx_steps(translator, "model-steps", *tokenizers)
    # In a separate process, because ONNX Runtime would crash after the import of TensorFlow.
    strings = blocks("other-hosts.md", "python")[1] + "\nprint(translations.shape)"
    found = subprocess.run([sys.executable, "-c", strings], capture_output=True, check=True)
    assert found.stdout.split() == [b"(1,", b"2)"]
    run_block("other-hosts.md", 2, {})
    assert capsys.readouterr().out


@pytest.mark.slow
def test_guides_of_litert(tokenizers, folder, capsys):
    pytest.importorskip("ai_edge_litert")
    source_tokenizer, target_tokenizer = tokenizers
    sizes = [each.vocabulary_size for each in tokenizers]
    # A Transformer, because LiteRT computes recurrent translators wrongly in some runs.
    translator = keras_attn.GenerationModel(*small_transformer(*sizes))
    token_ids = keras.Input((None,), dtype="int32", name="token_ids")
    embedded = keras.layers.Embedding(source_tokenizer.vocabulary_size, 4)(token_ids)
    pooled = keras_attn.AttentionPooling(4)(embedded)
    names = {
        "translator": translator,
        "source_tokenizer": source_tokenizer,
        "target_tokenizer": target_tokenizer,
        "tokenizer": source_tokenizer,
        "classifier": keras.Model(token_ids, keras.layers.Dense(2, name="logits")(pooled)),
        "sample_ids": np.array([[5, 6, 7, 2]]),
    }
    assert run_block("litert.md", 0, names)["report"].sentences == 200
    run_block("litert.md", 1, names)
    assert main(["extract", "classifier.tflite", "--tokenizers", "."]) == 0
    assert run_block("phones.md", 1, {})["logits"].shape == (2,)
    export_litert_steps(translator, "steps.tflite", *tokenizers)
    assert run_block("phones.md", 2, {})["best"].ndim == 1
    run_block("keras-export.md", 0, {"keras": keras, "model": names["classifier"]})
    assert Path("model.tflite").is_file()


class TestJavaScript:
    """The programs in docs/javascript.md."""

    @pytest.fixture
    def texts(self, exported, folder):
        """Copies the files that the programs read. Returns the translations of the runtime."""
        shutil.copy(exported[0], "translator.onnx")
        arguments = ["--tokenizers", "tokenizers", "--settings", "settings.json"]
        assert main(["extract", "translator.onnx", *arguments]) == 0
        texts = [*SOURCE, "the  cat", "a bird eats", "dog", "two cats; unknown: ü"]
        return dict(zip(texts, Translator("translator.onnx")(texts), strict=True))

    def test_node_translates_as_python_does(self, texts):
        require_npm("onnxruntime-node", "@agnai/sentencepiece-js")
        (program,) = blocks("javascript.md", "js")
        Path("translate.mjs").write_text(program, encoding="utf-8")
        found = subprocess.run(
            ["node", "translate.mjs", *texts], capture_output=True, check=True, encoding="utf-8"
        )
        assert found.stdout.split("\n")[:-1] == list(texts.values())

    @pytest.mark.slow
    def test_web_page_translates_as_python_does(self, texts, folder):
        browser = shutil.which("chromium") or shutil.which("google-chrome")
        if browser is None:
            pytest.skip("needs Chromium")
        require_npm("onnxruntime-web", "@agnai/sentencepiece-js")
        (page,) = blocks("javascript.md", "html")
        text = SOURCE[0]
        page = page.replace("some text", text) + REPORT
        Path("index.html").write_text(page, encoding="utf-8")
        assert translation_of_page(browser, folder) == texts[text]
