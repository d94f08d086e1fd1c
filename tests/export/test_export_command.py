"""Tests `keras-attn export` with a model. Tests without a model are in `tests/commands`."""

import runpy
import sys

import onnx
import pytest

import keras_attn
from keras_attn import export
from keras_attn.export import ExportReport, ParityReport
from keras_attn.export._checks.precision_report import PrecisionReport
from keras_attn.export._passes.precisions import PRECISIONS
from keras_attn.training import ModelCard, RunDirectory
from keras_attn_checks.export_options import FORMATS
from keras_attn_checks.options import option_fields
from keras_attn_checks.search_names import SEARCH_ARGUMENTS
from keras_attn_commands import main as program
from tests.export.conversion_steps import replace_conversion
from tests.export.small_translator import SOURCE
from tests.slow_cases import all_slow_but


def main(arguments):
    return program.main(["export", *arguments])


@pytest.fixture(scope="module")
def run(translator, tokenizers, tmp_path_factory):
    """Returns a run directory."""
    run = RunDirectory.create(tmp_path_factory.mktemp("run"), "generation", *tokenizers)
    run.save_model(translator)
    return run.path


def test_onnx(run, onnx_model, tmp_path, monkeypatch, capsys):
    # The conversion is slow and has its own tests.
    replace_conversion(monkeypatch, "export_onnx", onnx_model)
    sentences, out = tmp_path / "sentences.txt", tmp_path / "model.onnx"
    sentences.write_text("\ufeff" + "\n".join([*SOURCE, "a\u2028b"]), encoding="utf-8")
    arguments = ["onnx", str(run), str(out), "--parity-sentences", str(sentences)]
    out.write_bytes(b"years of work")
    assert main(arguments) == 1 and out.read_bytes() == b"years of work"
    assert "a file with other content" in capsys.readouterr().err
    out.write_bytes(b"\x08 an earlier export")
    assert main(arguments) == 0
    assert f"Wrote {out}. Compared with Keras on 200 sentences" in capsys.readouterr().out
    keys = {entry.key for entry in onnx.load(out).metadata_props}
    assert "keras_attn.source_tokenizer" in keys


def test_a_file_of_no_sentences_is_refused(run, tmp_path, capsys):
    (tmp_path / "empty").write_text("")
    arguments = [
        str(run),
        str(tmp_path / "model.onnx"),
        "--parity-sentences",
        str(tmp_path / "empty"),
    ]
    assert main(["onnx", *arguments]) == 1
    assert "Received: an empty" in capsys.readouterr().err


@pytest.fixture(scope="module")
def loaded(run):
    return RunDirectory(run).load_model()


@pytest.fixture
def load_once(loaded, monkeypatch):
    """Loads the model only once, because loading is slow. Other tests load it from the file."""
    monkeypatch.setattr("keras.saving.load_model", lambda *_, **options: loaded)


@pytest.fixture
def calls(load_once, monkeypatch):
    """Returns the list of the calls of export functions, which only return a report."""
    calls = []

    def record(*arguments, **options):
        calls.append((*arguments, options))
        return ParityReport(sentences=200)

    for name in FORMATS:
        monkeypatch.setattr(export, f"export_{name.replace('-', '_')}", record)
    return calls


@pytest.mark.parametrize("form", FORMATS)
def test_function_gets_only_the_given_options(run, tmp_path, calls, capsys, form):
    out = tmp_path / "model"
    assert main([form, str(run), str(out)]) == 0
    start = f"Wrote {out}. Compared with Keras on 200 sentences"
    assert capsys.readouterr().out.startswith(start)
    ((model, path, source, _, options),) = calls
    assert (model.name, path) == ("generation_model", out)
    assert source.model == (run / "source.spm").read_bytes()
    is_checkpoint = form in ("ctranslate2", "transformers")
    assert options == ({} if is_checkpoint else {"model_card": ModelCard()})


@pytest.mark.parametrize(
    "form, arguments, expected",
    [
        ("onnx", ["--alignments"], {"alignments": True}),
        (
            "onnx",
            ["--external-data", "--no-alignments"],
            {"external_data": True, "alignments": False},
        ),
        ("onnx", ["--tolerance", "2e-3"], {"tolerance": 0.002}),
        (
            "onnx",
            ["--accept-target-prefix", "--allow-nonfinite"],
            {"accept_target_prefix": True, "allow_nonfinite": True},
        ),
        ("litert-steps", ["--batch-size", "4"], {"batch_size": 4}),
        ("saved-model", ["--max-source-characters", "9"], {"max_source_characters": 9}),
        ("saved-model", ["--precision", "float32"], {}),
        ("onnx-text", ["--no-alignments"], {}),
    ],
)
def test_options_reach_the_function(run, tmp_path, calls, form, arguments, expected):
    out = str(tmp_path / "model")
    assert main([form, str(run), out, *arguments]) == 0
    assert main([*arguments, form, str(run), out]) == 0  # options may precede the format
    assert [call[-1] for call in calls] == [{**expected, "model_card": ModelCard()}] * 2


@pytest.mark.parametrize(
    "form, arguments, message",
    [
        ("litert", ["--precision", "int4"], "(choose from 'float32', 'float16', 'int8')"),
        ("onnx", ["--batch-size", "2"], "--batch-size: Only the formats litert and litert-steps"),
        ("saved-model", ["--precision", "int8"], "Only the formats onnx, onnx-text, litert, lit"),
        ("saved-model", ["--external-data"], "Only the format onnx has this option."),
        ("onnx-text", ["--alignments"], "--alignments: Only the formats onnx, onnx-steps, saved-m"),
        (
            "onnx-text",
            ["--parity-inputs", "file"],
            "--parity-inputs: Only the formats onnx, onnx-s",
        ),
        ("onnx-steps", ["--max-source-characters", "9"], "pass it to keras-attn-runtime."),
        ("onnx", ["--verify"], "--verify: Only the format transformers has this option."),
        ("ctranslate2", ["--tolerance", "1"], "--tolerance: Only the formats onnx, onnx-steps, on"),
    ],
)
def test_option_of_another_format_is_named(run, tmp_path, capsys, form, arguments, message):
    with pytest.raises(SystemExit) as end:
        main([form, str(run), str(tmp_path / "model"), *arguments])
    assert end.value.code == 2 and message in capsys.readouterr().err


@pytest.mark.parametrize("form", FORMATS)
def test_help_shows_the_options_of_the_format(capsys, form):
    with pytest.raises(SystemExit):
        main([form, "--help"])
    shown = capsys.readouterr().out
    assert ("--batch-size" in shown) == (form in ("litert", "litert-steps"))
    assert ("--external-data" in shown) == (form == "onnx")
    assert ("--verify" in shown) == (form == "transformers")
    assert ("--search-class" in shown) and ("--allow-nonfinite" in shown)


@pytest.mark.parametrize("precision", ["float32", "float16", "int8", "int8-rows", "int4"])
def test_every_precision_reaches_the_function(run, tmp_path, calls, precision):
    forms = ["onnx", "onnx-text"]
    if precision in ("float32", "float16", "int8"):
        forms += ["litert", "litert-steps", "ctranslate2"]
    for form in forms:
        assert main([form, str(run), str(tmp_path / "out"), "--precision", precision]) == 0
    assert [call[-1]["precision"] for call in calls] == [precision] * len(forms)


@pytest.mark.parametrize("precision", ["bfloat16", "int16"])
def test_every_precision_of_ctranslate2_reaches_the_function(run, tmp_path, calls, precision):
    assert main(["ctranslate2", str(run), str(tmp_path / "out"), "--precision", precision]) == 0
    assert calls[0][-1] == {"precision": precision}


def test_low_agreement_is_printed_first(run, load_once, tmp_path, monkeypatch, capsys):
    report = ParityReport(sentences=200, best_equal=0.9)
    monkeypatch.setattr(export, "export_onnx", lambda *_, **options: report)
    assert main(["onnx", str(run), str(tmp_path / "model.onnx")]) == 0
    shown = capsys.readouterr().out
    assert "model.onnx. WARNING, LOW AGREEMENT: 10.0% of the best hypotheses differ" in shown
    assert " from those of Keras. Most of the compared sources are random; " in shown
    assert " (keras-attn evaluate). Compared with Keras on 200 sentences" in shown


def test_a_refused_precision_is_named_as_an_option(run, load_once, tmp_path, monkeypatch, capsys):
    def refuse(*arguments, **options):
        PrecisionReport("int8", 20, 0.1, 9.0).check()

    monkeypatch.setattr(export, "export_onnx", refuse)
    out = str(tmp_path / "model.onnx")
    assert main(["onnx", str(run), out, "--precision", "int8"]) == 1
    message = capsys.readouterr().err
    assert "int8 changes the outputs" in message
    assert "with --precision float32." in message and "precision=" not in message


@pytest.mark.slow
def test_the_search_may_be_another_than_in_the_training(run, tmp_path, monkeypatch, capsys):
    calls = []
    monkeypatch.setattr(
        export,
        "export_onnx",
        lambda model, *arguments, **options: calls.append(model) or ExportReport(),
    )
    start = ["onnx", str(run), str(tmp_path / "model.onnx")]
    settings = ["beam_width=1", "length_penalty_form=gnmt", "patience=2.5"]
    settings += ["suppressed_token_ids=[0, 1, 3]", "relative_max_length=None", "min_length=2"]
    settings += ["return_alignments=False"]
    assert main([*start, *(part for each in settings for part in ("--search", each))]) == 0
    search = calls.pop().search
    assert search.beam_width == search.num_hypotheses == 1
    assert search.length_penalty_form == "gnmt" and search.relative_max_length is None
    assert search.min_length == 2 and search.return_alignments is False
    assert search.patience == 2.5 and search.suppressed_token_ids == [0, 1, 3]
    assert search.max_length == 30  # not changed
    for name in ("GreedyDecoder", "BeamDecoder", "AlternativesDecoder"):
        assert main([*start, "--search-class", name]) == 0
        assert type(calls.pop().search).__name__ == name
    options = ["--search-class", "SamplingDecoder", "--search", "temperature=0.5"]
    assert main([*start, *options]) == 0
    search = calls.pop().search
    assert type(search).__name__ == "SamplingDecoder" and search.temperature == 0.5
    for wrong, message in [
        ("beam=1", "beam_width"),
        ("beam_width=many", "'many'"),
        ("return_alignments=no", "return_alignments='no'"),
        ("suppressed_token_ids=3", "suppressed_token_ids=3"),
    ]:
        assert main([*start, "--search", wrong]) == 1
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*start, "--search", "beam_width"])
    assert "expected NAME=VALUE, received 'beam_width'" in capsys.readouterr().err and not calls


@pytest.mark.parametrize("name", ["run.json", "model.keras", "source.spm", "target.spm"])
def test_a_missing_file_is_named(run, tmp_path, capsys, name):
    for each in run.iterdir():
        if each.name != name:
            (tmp_path / each.name).write_bytes(each.read_bytes())
    assert main(["onnx", str(tmp_path), str(tmp_path / "model.onnx")]) == 1
    message = capsys.readouterr().err
    assert "Nothing was exported." in message and f"{name} is missing" in message


@pytest.mark.parametrize("name", ["run.json", "model.keras", "target.spm"])
def test_a_damaged_file_is_refused(run, tmp_path, capsys, name):
    for each in run.iterdir():
        content = each.read_bytes()
        (tmp_path / each.name).write_bytes(
            content[: len(content) // 2] if each.name == name else content
        )
    assert main(["onnx", str(tmp_path), str(tmp_path / "model.onnx")]) == 1
    assert name in capsys.readouterr().err
    assert not (tmp_path / "model.onnx").exists()


def test_a_path_in_no_directory_is_refused_before_the_work(run, tmp_path, capsys):
    assert main(["onnx", str(run), str(tmp_path / "missing" / "model.onnx")]) == 1
    assert "existing directory" in capsys.readouterr().err


def test_choices_are_those_of_the_exporter():
    (precision,) = (each for each in option_fields(FORMATS["onnx"]) if each.name == "precision")
    assert precision.metadata["kind"].choices == tuple(PRECISIONS)
    assert set(SEARCH_ARGUMENTS) <= set(keras_attn.__all__)


def test_module_is_the_same_command(monkeypatch):
    calls = []
    monkeypatch.setattr(program, "main", lambda arguments: calls.append(arguments) or 1)
    monkeypatch.setattr(sys, "argv", ["", "onnx", "RUN", "OUT"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("keras_attn.export", run_name="__main__")
    assert end.value.code == 1 and calls == [["export", "onnx", "RUN", "OUT"]]


def test_a_layer_that_is_not_registered_is_named(run, tmp_path, monkeypatch, capsys):
    def load_model(*arguments, **options):
        raise TypeError("Could not locate class 'Mine'")

    monkeypatch.setattr("keras.saving.load_model", load_model)
    assert main(["onnx", str(run), str(tmp_path / "model.onnx")]) == 1
    shown = capsys.readouterr().err
    assert "Nothing was exported. Expected only classes that Python has imported" in shown
    assert "Received: Mine. Import its module" in shown


@pytest.mark.parametrize(
    "form", all_slow_but("onnx", cases=["onnx", "onnx-steps", "onnx-text", "saved-model"])
)
def test_full_disk_is_one_line_and_leaves_nothing(
    run, onnx_model, tmp_path, monkeypatch, capsys, form
):
    """A limit on the file size simulates a full disk: the same calls fail."""
    if form == "onnx":
        replace_conversion(monkeypatch, "export_onnx", onnx_model)
    resource = pytest.importorskip("resource", reason="Windows has no such limit")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        assert main([form, str(run), str(tmp_path / "model")]) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    *phases, message = capsys.readouterr().err.splitlines()
    assert message.startswith("Nothing was exported.") and "too large" in message
    assert phases[0] == f"Reading {run}" and "Nothing" not in "".join(phases)
    assert list(tmp_path.iterdir()) == []
