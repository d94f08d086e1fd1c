import fine_tune_translation
import pytest

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
@pytest.mark.parametrize("options", [["--lora-feed-forward", "--accumulate", "2"], []])
def test_fine_tune_lowers_the_loss(tmp_path, monkeypatch, options):
    if not options:
        options = ["--lora-rank", "0", "--freeze", "encoder"]
    values = ["--out", str(tmp_path / "tuned"), "--pairs", "1500", *options]
    args = fine_tune_translation.parse_arguments(values)
    fine_tune_translation.write_default_run(args)
    before, after = fine_tune_translation.fine_tune(args)
    assert after < before - 0.05
    model = RunDirectory(tmp_path / "tuned").load_model("generation")
    assert not any("lora" in weight.name for weight in model.weights)
    assert len(model.generate([[5, 6, 7, 2]])) == 1
