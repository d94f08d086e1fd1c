"""The guides of training and generation: their Python runs as printed, each page by itself."""

import contextlib
import io
import re
import shlex
import shutil
from pathlib import Path

import pytest

import keras_attn
from keras_attn.files import write_lines
from keras_attn.text import SentencePieceTokenizer, generate_dates
from keras_attn.training import RunDirectory
from keras_attn_checks.options import option_names
from keras_attn_checks.search_options import OPTIONS
from tests.test_documentation import ROOT, run_blocks

GUIDES = (
    "captioning classify-texts convert convert-opennmt convert-tokenizers custom-training devices "
    "evaluate export-checkpoints fine-tune forecasting generate language-models run-directory "
    "sampling search search-names small-corpora supported-checkpoints train-translator training "
    "training-speed"
).split()
COMMANDS = re.compile(r"^    (keras-attn(?:-runtime)? .*(?:(?<=\\)\n.*)*)", re.MULTILINE)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Folder with the files that readers of the guides have: texts, and the run of a training."""
    folder = tmp_path_factory.mktemp("files")
    dates = dict(zip(("en", "de"), generate_dates(120, seed=1), strict=True))
    (folder / "data").mkdir()
    for side, texts in dates.items():
        write_lines(folder / f"train.{side}", texts)
    for side, texts in zip(("source", "target"), dates.values(), strict=True):
        write_lines(folder / f"data/valid.{side}", texts[:5])
    write_lines(folder / "fra.txt", map("\t".join, zip(*dates.values(), strict=True)))
    tunes = "\n".join(f"X:{number}\nabc|def|\n" for number in range(60))
    (folder / "tunes.abc").write_text(tunes, encoding="utf-8")
    tokenizer = SentencePieceTokenizer.train([folder / f"train.{side}" for side in dates], 90)
    size = tokenizer.vocabulary_size
    encoder, decoder = keras_attn.transformer_seq2seq(
        size, size, num_layers=1, num_heads=2, embedding_dim=16, intermediate_dim=16
    )
    search = keras_attn.BeamDecoder(decoder, max_length=8)
    run = RunDirectory.create(folder / "RUN", "generation", tokenizer)
    run.save_model(keras_attn.GenerationModel(encoder, search))
    return folder


def run_page(page, files, tmp_path, monkeypatch):
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return run_blocks(f"docs/{page}.md", {})


def test_training_a_translator(files, tmp_path, monkeypatch):
    names = run_page("train-translator", files, tmp_path, monkeypatch)
    assert RunDirectory("RUN").load_model("generation").search.return_alignments
    assert names["trainer"].decoder is names["decoder"]
    assert "val_bleu" in Path("RUN/history.json").read_text()


def test_fine_tuning(files, tmp_path, monkeypatch):
    run_page("fine-tune", files, tmp_path, monkeypatch)
    assert RunDirectory("TUNED").load_model().search.max_length == 8


def test_evaluating(files, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    run_page("evaluate", files, tmp_path, monkeypatch)
    assert Path("attention.png").stat().st_size > 1000
    assert Path("attention.html").exists()


def test_language_models(files, tmp_path, monkeypatch):
    names = run_page("language-models", files, tmp_path, monkeypatch)
    assert names["classifier"].output_shape == (None, 2)
    assert sorted(Path("windows").iterdir())


@pytest.mark.parametrize("page", ["devices", "training-speed", "custom-training", "search-names"])
def test_other_guides(page, files, tmp_path, monkeypatch):
    run_page(page, files, tmp_path, monkeypatch)


@pytest.mark.parametrize("page", ["generate", "run-directory"])
def test_run_directories(page, files, tmp_path, monkeypatch, capsys):
    run_page(page, files, tmp_path, monkeypatch)
    assert capsys.readouterr().out


@pytest.mark.parametrize(("page", "shown_outputs"), [("search", 11), ("sampling", 2)])
def test_search_outputs(page, shown_outputs):
    """Each block prints what the page shows. Both pages use the model of the first block."""
    names, shown = {}, 0
    pairs = code_and_outputs("search")[:1] + code_and_outputs(page)[page == "search" :]
    for code, output in pairs:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, f"docs/{page}.md", "exec"), names)
        assert printed.getvalue() == output
        shown += bool(output)
    assert shown >= shown_outputs


def code_and_outputs(page):
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", text, re.DOTALL)


def test_search_options_are_all_shown():
    text = "".join((ROOT / f"docs/{page}.md").read_text("utf-8") for page in ("search", "sampling"))
    not_shown = {"start_token_id", "end_token_id", "pad_token_id", "seed"}
    for options in OPTIONS.values():
        names = set(option_names(options)) - not_shown
        assert not [name for name in names if not re.search(rf"\b{name}\b", text)]


def rows_of_names():
    """Yields name of the table, their option and the cell with ours."""
    library = ""
    for line in (ROOT / "docs/search-names.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            library = line.split()[1]
        if line.startswith("| `") and not line.endswith("| ours |"):
            _, theirs, ours, _ = line.split("|")
            yield library, theirs.strip(), ours.strip()


def test_names_of_our_options():
    _, decoder = keras_attn.rnn_seq2seq(30, 30, units=4, embedding_dim=4)
    constructed = 0
    for library, theirs, ours in rows_of_names():
        settings = re.match(r"`(\w+=[^`]*)`", ours)
        if settings is None:
            known = ("not available", "always", "`")
            assert ours.startswith(known), (library, theirs)
            continue
        values = eval(f"dict({settings[1]})")
        sampling = {"temperature", "top_k", "top_p", "min_p"} & set(values)
        search = keras_attn.SamplingDecoder if sampling else keras_attn.BeamDecoder
        if "num_hypotheses" in values or "num_groups" in values:
            values.setdefault("beam_width", 12)
        search = search(decoder, **values)
        assert all(getattr(search, name) == value for name, value in values.items()), theirs
        constructed += 1
    assert constructed > 50


def test_names_of_transformers():
    generation_config = pytest.importorskip("transformers").GenerationConfig
    known = set(vars(generation_config()))
    for library, theirs, _ in rows_of_names():
        if library == "transformers":
            names = {name.split("=")[0] for name in re.findall(r"`([^`]*)`", theirs)}
            assert names <= known


def test_names_of_ctranslate2():
    translator = pytest.importorskip("ctranslate2").Translator
    for library, theirs, _ in rows_of_names():
        if library == "CTranslate2":
            for name in re.findall(r"`(\w+)", theirs):
                assert f"{name}:" in translator.translate_batch.__doc__


@pytest.mark.parametrize("page", GUIDES)
def test_command_lines(page):
    """The commands of a guide have options that exist."""
    from keras_attn_runtime._commands import main as runtime

    from keras_attn_commands import main
    from keras_attn_commands.export_parser import format_first

    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    for line in COMMANDS.findall(text):
        program, *words = shlex.split(line.replace("\\\n", ""), comments=True)
        words = words[: next((n for n, word in enumerate(words) if word in "<>|"), len(words))]
        if program == "keras-attn-runtime":
            runtime.build_parser().parse_args(words)
            continue
        if words[0] == "export":
            words[1:] = format_first(words[1:])
        main.build_parser().parse_args(words)
