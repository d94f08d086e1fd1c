"""Tests `keras-attn export` with a model. Tests without a model are in `tests/commands`."""

import runpy
import sys

import onnx
import pytest

import keras_attn
from keras_attn import export
from keras_attn.export.checks.precision_report import PrecisionReport
from keras_attn.export.passes.precisions import PRECISIONS
from keras_attn.training import ModelCard, RunDirectory
from keras_attn_commands import export as command
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
    arguments = ["onnx", str(run), str(out), "--sentences", str(sentences)]
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
    arguments = [str(run), str(tmp_path / "model.onnx"), "--sentences", str(tmp_path / "empty")]
    assert main(["onnx", *arguments]) == 1
    assert "Received: an empty" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["saved-model", "onnx-steps"])
def test_other_forms(run, tmp_path, monkeypatch, capsys, form):
    calls = []
    monkeypatch.setattr(
        export,
        f"export_{form.replace('-', '_')}",
        lambda *arguments, **options: calls.append((*arguments, options)) or "a report",
    )
    assert main([form, str(run), str(tmp_path / "model")]) == 0
    assert capsys.readouterr().out.endswith("Compared with Keras on a report.\n")
    ((model, out, source, _, options),) = calls
    assert (model.name, out) == ("generation_model", tmp_path / "model")
    assert options.pop("card") == ModelCard()
    plain = {"alignments": None, "target_prefix": False, "allow_nonfinite": False}
    assert options == {"sentences": None, **plain}
    options["card"] = ModelCard()
    if form == "saved-model":
        assert main([form, str(run), str(out), "--max-source-characters", "9"]) == 0
        assert calls[1][-1] == {**options, "max_source_characters": 9}
    assert source.model == (run / "source.spm").read_bytes()


@pytest.mark.parametrize("form", ["onnx", "onnx-text", "litert-steps"])
def test_options_that_not_all_forms_have_are_handed_on(run, tmp_path, monkeypatch, capsys, form):
    calls = []
    monkeypatch.setattr(
        export,
        f"export_{form.replace('-', '_')}",
        lambda *arguments, **options: calls.append(options) or "a report",
    )
    out = str(tmp_path / "model.onnx")
    plain = {"target_prefix": False, "allow_nonfinite": False, "card": ModelCard()}
    if form == "onnx":
        plain |= {"external_data": False}
    if form != "onnx-text":
        plain |= {"alignments": None}
    assert main([form, str(run), out, "--precision", "int8"]) == 0
    assert calls.pop() == {"sentences": None, "precision": "int8", **plain}
    if form == "litert-steps":
        assert main([form, str(run), out, "--batch-size", "4"]) == 0
        expected = {"sentences": None, "precision": "float32", "batch_size": 4}
        assert calls.pop() == {**expected, **plain}
    if form == "onnx":
        for arguments, expected in [
            (["--alignments"], {"alignments": True}),
            (["--tolerance", "2e-3"], {"tolerance": 0.002}),
            (["--external-data"], {"external_data": True}),
            (["--external-data", "--no-alignments"], {"external_data": True, "alignments": False}),
            (["--target-prefix"], {"target_prefix": True}),
            (["--allow-nonfinite"], {"allow_nonfinite": True}),
        ]:
            assert main([form, str(run), out, *arguments]) == 0
            assert calls.pop() == {"sentences": None, "precision": "float32", **plain, **expected}
    for other, options, message in [
        ("litert", ["--precision", "int4"], "the format litert has the precisions"),
        ("onnx", ["--batch-size", "2"], "formats litert and litert-steps have a fixed batch size"),
        ("saved-model", ["--precision", "int8"], "have a precision, received int8"),
        ("saved-model", ["--external-data"], "only the format onnx can have external data"),
        ("onnx-text", ["--alignments"], "the format onnx-text has no alignments"),
        ("onnx-steps", ["--max-source-characters", "9"], "have a limit of characters"),
    ]:
        with pytest.raises(SystemExit):
            main([other, str(run), str(tmp_path / "model"), *options])
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("precision", ["float32", "float16", "int8", "int8-rows", "int4"])
def test_every_precision_reaches_the_function(run, tmp_path, monkeypatch, precision):
    forms = ["onnx", "onnx-text"]
    if precision in command.FEW_PRECISIONS:
        forms += ["litert", "litert-steps", "ctranslate2"]
    for form in forms:
        calls = []
        monkeypatch.setattr(
            export,
            f"export_{form.replace('-', '_')}",
            lambda *arguments, calls=calls, **options: calls.append(options) or "a report",
        )
        assert main([form, str(run), str(tmp_path / "out"), "--precision", precision]) == 0
        assert [each["precision"] for each in calls] == [precision]


def test_a_refused_precision_is_named_as_an_option(run, tmp_path, monkeypatch, capsys):
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
        lambda model, *arguments, **options: calls.append(model) or "a report",
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
    for name in ("GreedyDecoder", "BeamDecoder"):
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
    assert command.PRECISIONS == tuple(PRECISIONS)
    searches = {name for name in keras_attn.__all__ if name in command.SEARCH_CLASSES}
    assert searches == set(command.SEARCH_CLASSES)
    for name in command.FORMATS:
        assert f"export_{name.replace('-', '_')}" in export.__all__


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
    assert "Nothing was exported. Could not locate class 'Mine'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "form", all_slow_but("onnx", cases=["onnx", "onnx-steps", "onnx-text", "saved-model"])
)
def test_full_disk_is_one_line_and_leaves_nothing(run, tmp_path, capsys, form):
    """A limit on the file size simulates a full disk: the same calls fail."""
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
