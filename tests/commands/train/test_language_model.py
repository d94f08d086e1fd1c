"""The program that trains language models: settings by the data, refused texts, and whole runs."""

import json
import tomllib

import numpy as np
import pytest

pytest.importorskip("sentencepiece")
pytest.importorskip("tensorflow")

from keras_attn.training import RunDirectory
from keras_attn_commands.main import main
from keras_attn_commands.train import language_model, run_training
from keras_attn_commands.train.language_model_settings import LanguageModelSettings

MODEL = "--embedding-dim 16 --layers 1 --heads 2 --window 32".split()
SMALL = [*MODEL, *"--samples 3 --sample-length 20 --epochs 2".split()]


def train(*arguments):
    return main(["train", "language-model", *map(str, arguments)])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Directory of a run of two epochs on sums, and its results."""
    folder = tmp_path_factory.mktemp("sums")
    options = ["--learning-rate", 0.01, "--batch-size", 64, *SMALL]
    assert train("--run-dir", folder, *options) == 0
    return folder, json.loads((folder / "results.json").read_text())


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text"
    path.write_text("row, row\nrow your boat\n\n" * 100, encoding="utf-8")
    return path


@pytest.mark.slow
def test_results_are_better_than_chance_and_count_all_characters(run):
    folder, report = run
    assert report["bits_per_character"] < np.log2(14) - 0.5  # 13 characters and the end
    sums = (folder / "data" / "valid.txt").read_text().split()
    assert len(set(sums)) == 500 and not set(sums) & set(
        (folder / "data" / "train.txt").read_text().split()
    )
    # Of each sum its characters and its end; of the first one the start is the first input.
    assert report["characters"] == sum(len(line) + 1 for line in sums)
    history = json.loads((folder / "history.json").read_text())["history"]
    assert min(history["val_bits_per_character"]) == report["bits_per_character"]
    samples = (folder / "samples.txt").read_text().removesuffix("\n").split("\n\n")
    assert len(samples) == 3
    assert all(len(sample) <= 20 and set(sample) <= set("0123456789+=\n") for sample in samples)


@pytest.mark.slow
def test_bits_per_character_are_those_of_the_saved_model(run):
    """Each token is predicted once, from all tokens before it or from at least 16."""
    folder, report = run
    model = RunDirectory(folder).load_model("generation").decoder
    tokenizer = RunDirectory(folder).source_tokenizer
    documents = (folder / "data" / "valid.txt").read_text().removesuffix("\n").split("\n\n")
    stream = np.concatenate([[1, *ids, 2] for ids in tokenizer.encode(documents)])
    ends = [end for end in range(1, len(stream)) if stream[end] != 1]
    starts = [0 if end <= 32 else (end - 17) // 16 * 16 for end in ends]
    rows = sorted(set(starts))
    padded = np.pad(stream, (0, 32))
    logits = np.asarray(model(np.stack([padded[start : start + 32] for start in rows])))
    bits = 0.0
    for start, end in zip(starts, ends, strict=True):
        scores = logits[rows.index(start), end - start - 1]
        bits -= (scores[stream[end]] - np.log(np.exp(scores).sum())) / np.log(2)
    assert bits / len(ends) == pytest.approx(report["bits_per_character"], rel=1e-4)


@pytest.mark.slow
def test_a_run_is_exported_and_samples_in_the_runtime(run, tmp_path):
    runtime = pytest.importorskip("keras_attn_runtime")
    path = tmp_path / "writer.onnx"
    options = ["--search-class", "SamplingDecoder", "--search", "temperature=0.8"]
    assert main(["export", "onnx", str(run[0]), str(path), *options]) == 0
    writer = runtime.Translator(path)
    first, again = (writer([""] * 20 + ["12+30="] * 20, seed=3) for _ in range(2))
    assert first == again and len(set(first)) > 5
    assert set("".join(first)) <= set("0123456789+=")


@pytest.mark.slow
def test_a_training_is_not_repeated_or_mixed(text, tmp_path, capsys):
    run = tmp_path / "run"
    options = ["--run-dir", run, *SMALL]
    assert train("--data", text, "--prompt", "row\n", *options) == 0
    output = capsys.readouterr().out
    assert "epoch 2 of 2: loss " in output and f"Wrote {run / 'model.keras'}\n" in output
    assert f"\nNext:\n  keras-attn export onnx {run} writer.onnx --search-class Sampl" in output
    settings = tomllib.loads((run / "settings.toml").read_text(encoding="utf-8"))
    assert settings["prompt"] == "row\n" and settings["window"] == 32
    samples = (run / "samples.txt").read_text()
    assert samples.startswith("row\n") and samples.count("row\n") >= 3
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    assert train("--data", text, "--prompt", "row\n", *options) == 0
    assert "epoch" not in capsys.readouterr().out.partition("steps in an epoch")[2]
    assert (run / "samples.txt").read_text() == samples
    assert train("--data", text, *options, "--heads", 4) == 1
    assert "heads = 2 (now 4)" in capsys.readouterr().err
    text.write_text("row, row\nrow your boat\n\n" * 99, encoding="utf-8")
    assert train("--data", text, *options) == 1
    assert "differences in the text of train.txt" in capsys.readouterr().err
    after = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    for name in before.keys() - {"results.json", "model.keras", "run.json"}:  # times in archives
        assert before[name] == after[name], name


@pytest.mark.slow
def test_a_dry_run_trains_nothing(text, tmp_path, capsys):
    run = tmp_path / "run"
    assert train("--data", text, "--run-dir", run, "--dry-run", *SMALL) == 0
    assert "Nothing was trained." in capsys.readouterr().out.splitlines()[-1]
    assert not (run / "model.keras").exists() and not (run / "state").exists()


@pytest.mark.slow
def test_subwords_are_trained(text, tmp_path):
    options = [
        "--tokenizer",
        "bpe",
        "--vocabulary-size",
        30,
        "--documents",
        "--batch-size",
        4,
        *SMALL,
    ]
    boats = [f"row {number} boats\ngently\n" for number in range(100)]
    text.write_text("\n".join(boats), encoding="utf-8")
    assert train("--data", text, "--run-dir", tmp_path / "run", *options) == 0
    report = json.loads((tmp_path / "run" / "results.json").read_text())
    assert 0 < report["bits_per_character"] < 4


@pytest.mark.slow
def test_the_default_learns_to_add(tmp_path):
    assert train("--run-dir", tmp_path) == 0
    assert json.loads((tmp_path / "results.json").read_text())["exact_sums"] > 0.9


@pytest.mark.parametrize(
    "content, options, message",
    [
        ("xyz\n", (), "longer than --window 32. Received: 2 tokens in "),
        ("xyz\n" * 20, ("--valid", "one"), "at least two tokens, because the first one"),
        ("", (), "Expected text. Received: "),
        ("X:1\nabc\n", ("--documents",), "at least two documents, because one is held out"),
        ("xyz\n" * 20, ("--prompt", "a"), "Expected characters of the training text in --prompt"),
        ("xyz\n" * 20, ("--prompt", ""), "Expected characters of the training text in --prompt"),
        ("xyz\n" * 20, ("--heads", "3"), "Received: --embedding-dim 16, --heads 3."),
        (
            "xyz\n" * 20,
            ("--valid", "nothing"),
            "Received: --valid nothing, which does not exist. Check the path.",
        ),
        (b"\xe9\n", (), "Expected text in UTF-8. Received: "),
    ],
    ids=range(9),
)
@pytest.mark.parametrize("overwrite", [(), ("--overwrite",)])
def test_an_earlier_run_is_kept_if_the_text_is_refused(
    content, options, message, overwrite, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    (run / "data").mkdir(parents=True)
    names = ["model.keras", "source.spm", "settings.toml", "data/valid.txt"]
    for name in names:
        (run / name).write_text("")
    (tmp_path / "one").write_text("x")
    (tmp_path / "text").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert train("--run-dir", run, "--data", "text", *SMALL, *options, *overwrite) == 1
    error = [line for line in capsys.readouterr().err.splitlines() if "Warning" not in line]
    assert len(error) == 1 and message in error[0]
    files = [path for path in run.rglob("*") if path.is_file()]
    assert sorted(str(path.relative_to(run)) for path in files) == sorted(names)
    assert all(path.read_text() == "" for path in files)


@pytest.mark.parametrize("options", [("--valid", __file__), ("--documents",)])
def test_settings_of_a_text_need_a_text(options, capsys):
    assert train(*options) == 1
    message = f"Expected --data with {options[0]}. Received: no --data. Pass a text file, or remove"
    assert message in capsys.readouterr().err


def test_the_run_directory_is_not_an_input(tmp_path, capsys):
    assert train("--data", "text", "--valid", tmp_path, "--run-dir", tmp_path) == 1
    assert "Expected --run-dir outside of --valid" in capsys.readouterr().err


def test_unknown_characters_and_repeated_documents_are_noticed(tmp_path):
    (tmp_path / "text").write_text("ab\n\ncd\n\nef\n" * 20)
    (tmp_path / "valid").write_text("ab\n\nxab\n")
    settings = LanguageModelSettings(
        data=tmp_path / "text", valid=tmp_path / "valid", documents=True, window=8
    )
    warnings = []
    prepared = language_model.prepare(settings, warnings.append)
    assert "1 of 2 documents for validation are also in the training text" in warnings[0]
    assert "1 of 9 tokens for validation are unknown" in warnings[1] and len(warnings) == 2
    assert prepared.characters == 2 + 1 + 3 + 1
    assert (prepared.labels != 0).sum() == 7


@pytest.mark.parametrize("tokens", [200, 20_000, 1_000_000, 100_000_000])
def test_every_setting_is_chosen_and_the_warm_up_is_short(tokens):
    settings = LanguageModelSettings(data="x", tokenizer="bpe")
    choices = language_model.text_defaults(settings, 4 * tokens)
    steps = max(1, tokens // (16 * 128))
    choices |= language_model.training_defaults(settings, tokens, steps)
    open_settings = {name for name, value in vars(settings).items() if value is None}
    assert open_settings - {"valid"} == choices.keys()
    assert choices["warmup_steps"][0] <= max(1, choices["epochs"][0] * steps / 10)
    assert 1 <= choices["epochs"][0] <= 50 and 500 <= choices["vocabulary_size"][0] <= 8000


def test_an_interruption_says_where(text, tmp_path, monkeypatch, capsys):
    def interrupt(*_, callbacks, **__):
        callbacks[-1].on_train_begin()
        callbacks[-1].on_epoch_begin(1)
        callbacks[-1].on_train_batch_end(7, {})
        raise KeyboardInterrupt

    monkeypatch.setattr(run_training, "fit", interrupt)
    assert train("--data", text, "--run-dir", tmp_path / "run", *SMALL) == 130
    assert "Stopped in epoch 2, step 8. Run the same command" in capsys.readouterr().err
