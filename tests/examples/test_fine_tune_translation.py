import fine_tune_translation
import pytest

from keras_attn.files import write_lines
from keras_attn.training import RunDirectory


def test_fine_tune_options_need_all_text_files(capsys):
    with pytest.raises(SystemExit):
        fine_tune_translation.parse_arguments(["--run", "run", "--source", "train.en"])
    assert "the four text files, or none" in capsys.readouterr().err


@pytest.mark.parametrize("out", ["run", "run/tuned", ".", "link"])
def test_fine_tuning_does_not_replace_the_run(out, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to("run")
    texts = [f"--{name}=text" for name in ("source", "target", "valid-source", "valid-target")]
    with pytest.raises(SystemExit):
        fine_tune_translation.parse_arguments(["--run", "run", "--out", out, *texts])
    assert "Expected --out outside of --run" in capsys.readouterr().err


@pytest.mark.slow
def test_fine_tune_lowers_the_loss(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fine_tune_translation, "DATES", 1500)
    run, files = fine_tune_translation.train_on_dates(tmp_path)
    before, after = fine_tune_translation.fine_tune(run, files, tmp_path / "tuned", tmp_path)
    assert after < before - 0.05
    model = RunDirectory(tmp_path / "tuned").load_model("generation")
    assert not any("lora" in weight.name for weight in model.weights)
    assert len(model.generate([[5, 6, 7, 2]])) == 1

    def run_program(**changed):  # with other files in place of these
        names = ("source", "target", "valid-source", "valid-target")
        options = {"run": run, "out": tmp_path / "again"}
        options |= dict(zip(names, files, strict=True)) | changed
        values = [f"--{name}={value}" for name, value in options.items()]
        monkeypatch.setattr("sys.argv", ["fine_tune_translation.py", *values])
        fine_tune_translation.main()

    write_lines(tmp_path / "short", ["de: 1. Mai 2021"])
    for name in ("short", "absent"):
        with pytest.raises(SystemExit, match=name):
            run_program(target=tmp_path / name)
    assert not (tmp_path / "again").exists()
    write_lines(tmp_path / "mixed.source", ["", "1 " * 200, "de: 1. Mai 2021"])
    write_lines(tmp_path / "mixed.target", ["2021-05-01"] * 3)
    capsys.readouterr()
    run_program(source=tmp_path / "mixed.source", target=tmp_path / "mixed.target")
    assert "1 pairs, without 1 with an empty side and 1 of more than" in capsys.readouterr().out
