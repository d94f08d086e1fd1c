import numpy as np
import pytest
from keras_attn_runtime import Forecaster, ModelFileError, Translator
from keras_attn_runtime._commands.main import main as run_command
from keras_attn_runtime._file_info.describe_file import describe_file

from keras_attn.export import export_forecaster_litert
from keras_attn.forecasting import PathSampler, QuantileHead, StudentTHead, forecast_model
from keras_attn.training import RunDirectory, SeriesColumns
from keras_attn_commands.main import main
from tests.contracts import assert_close, numpy, randomize
from tests.export.formats.test_export_forecaster_onnx import NAMES
from tests.forecasting.small_forecaster import PAST, small_forecaster
from tests.slow_cases import all_slow_but

pytest.importorskip("ai_edge_litert", reason="needs keras-attn[litert]")

COLUMNS = SeriesColumns(["t", "u"], ["c"], ["c"], "day", series_column="shop")


def make_model(head, **arguments):
    forecaster = small_forecaster(head, **arguments)
    model = forecast_model(PathSampler(forecaster, num_paths=3, return_attention_scores=True))
    randomize(forecaster)
    return model


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Returns the run directory of a forecaster."""
    run = RunDirectory.create(tmp_path_factory.mktemp("run"), "series", series=COLUMNS)
    run.save_model(make_model(StudentTHead(2)))
    return run


@pytest.fixture(scope="module")
def path(run, tmp_path_factory):
    """Returns the path of the LiteRT file, which the command exported."""
    path = tmp_path_factory.mktemp("litert") / "forecaster.tflite"
    assert main(["export", "litert", str(run.path), str(path)]) == 0
    return path


def test_litert_file_samples_the_paths_of_keras(run, path):
    past = {name: value[:3] for name, value in PAST.items()}
    longer = np.concatenate([past["past_targets"], past["past_targets"] + 1], axis=1)
    longer[0, 5], longer[1] = np.nan, 4.0  # a missing value, and a constant series
    past["past_targets"] = longer
    past["past_covariates"] = np.tile(past["past_covariates"], (1, 2, 1))
    expected = run.load_model()({**past, "seeds": np.array([7, 8, 9], "int32")})
    found = Forecaster(path, num_threads=1)(past, seed=7)
    assert sorted(found) == ["attention_scores", "mean", "paths", "quantiles"]
    assert_close(found, numpy(expected), 1e-4)


@pytest.mark.parametrize("head", all_slow_but(StudentTHead, cases=[StudentTHead, QuantileHead]))
def test_litert_file_scales_covariates_and_targets(tmp_path, head):
    scalings = {
        "scaling": ([500.0, -3.0], [40.0, 0.01]),
        "past_covariate_scaling": ([1013.0], [8.0]),
        "future_covariate_scaling": ([89.0], [10.0]),
    }
    model = make_model(head(2), **scalings)
    assert export_forecaster_litert(model, tmp_path / "m.tflite", **NAMES).largest_difference < 1e-5
    shifts_and_scales = zip(PAST, scalings.values(), strict=True)
    usual = {
        name: (np.array(shift) + np.array(scale) * (PAST[name] - 3)).astype("float32")
        for name, (shift, scale) in shifts_and_scales
    }
    usual["past_targets"][0, 2, 1] = np.nan
    forecaster = Forecaster(tmp_path / "m.tflite", num_threads=1)
    # The values of PAST are up to 600 times the scale away from the shift.
    for inputs, tolerance in ((usual, 1e-5), (PAST, 1e-3)):
        expected = numpy(model({**inputs, "seeds": np.arange(4, dtype="int32")}))
        assert all(np.isfinite(value).all() for value in expected.values())
        found = forecaster(inputs)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=tolerance, atol=1e-4)


@pytest.mark.slow
def test_litert_file_of_a_larger_batch(tmp_path):
    model = make_model(QuantileHead(2))
    difference = export_forecaster_litert(
        model, tmp_path / "m.tflite", **NAMES, batch_size=2
    ).largest_difference
    assert difference < 1e-4
    expected = model({**PAST, "seeds": np.arange(4, dtype="int32")})
    assert_close(Forecaster(tmp_path / "m.tflite")(PAST), numpy(expected), 1e-4)


def test_litert_settings_are_those_of_the_run(path):
    settings = Forecaster(path).settings
    assert (settings.targets, settings.past_covariates) == (["t", "u"], ["c"])
    assert settings.future_covariates == ["c"] and settings.time_column == "day"
    assert settings.series_column == "shop"
    assert (settings.horizon, settings.min_window, settings.window) == (3, 4, None)
    found = describe_file(path)
    assert found["settings"]["kind"] == "series" and found["checksum"] == "matches the file"
    with pytest.raises(ModelFileError, match="Run it with a Forecaster"):
        Translator(path)


def test_forecast_command_runs_a_litert_file(path, tmp_path):
    rows = [f"{day},{day % 3},{day % 5},{day % 2}" for day in range(1, 9)]
    rows += [f"{day},,,{day % 2}" for day in range(9, 12)]
    (tmp_path / "in.csv").write_text("\n".join(["day,t,u,c", *rows]) + "\n")
    target = tmp_path / "out.csv"
    arguments = ["--input", str(tmp_path / "in.csv"), "--output", str(target), "--series-column="]
    assert run_command(["forecast", str(path), *arguments]) == 0
    lines = target.read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["day", "9", "10", "11"]
    assert lines[0].startswith("day,t_mean,t_q0.05")


@pytest.mark.slow
def test_export_command_writes_an_onnx_file_of_a_forecaster(run, path, tmp_path, capsys):
    assert main(["export", "onnx", str(run.path), str(tmp_path / "m.onnx")]) == 0
    assert "Compared with Keras: largest difference" in capsys.readouterr().out
    found, expected = (Forecaster(each)(PAST, seed=3) for each in (tmp_path / "m.onnx", path))
    assert_close(found, expected, 1e-4)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["saved-model"], "Expected one of the formats ['onnx', 'litert'] for a forecaster"),
        (["litert", "--precision", "int8"], "Received: --precision"),
        (["onnx", "--search", "beam_width=2"], "Received: --search"),
    ],
)
def test_export_command_refuses_what_forecasters_lack(run, tmp_path, capsys, arguments, message):
    form, *options = arguments
    assert main(["export", form, str(run.path), str(tmp_path / "m"), *options]) == 1
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_series_columns_of_wrong_types_are_refused():
    with pytest.raises(ValueError, match="targets to be a list of strings. Received: targets='t'"):
        SeriesColumns("t")
    for name in ("time_column", "series_column"):
        with pytest.raises(ValueError, match=f"{name} to be a string"):
            SeriesColumns(**{name: 5})
    with pytest.raises(ValueError, match="Expected calendar_columns .*'week_sin1'"):
        SeriesColumns(["t"], ["c"], ["c"], calendar_columns=["week_sin1"])
    assert SeriesColumns.from_entries({**COLUMNS.entries(), "other": 1}) == COLUMNS
