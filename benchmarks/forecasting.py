"""Compares the forecasts of keras-attn train forecast with AutoETS of statsforecast.

    keras-attn train forecast --run-dir RUN
    python benchmarks/forecasting.py RUN --name generated --command "keras-attn train ..."

The second command writes benchmarks/results/forecasting-NAME.json with the MASE of each target. It
needs an environment with statsforecast (2.1 was used), but does not import Keras. AutoETS fits one
model to each series and origin (start of a forecast), with all values before the origin. It does
not support seasons above 24. For longer seasons, it runs twice: without a season, and on the series
from which MSTL has removed the season.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from results_file import FOLDER, versions, write_results

LONGEST_SEASON = 24

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("run", type=Path, help="folder with test.npz")
parser.add_argument("--name", required=True, help="name of the results file")
parser.add_argument("--command", required=True, help="command that made the run")
parser.add_argument("--seed", type=int, default=1, help="seed of the run")
parser.add_argument("--max-series", type=int, help="number of series to compare. Default: all")


def filled(values):
    """Fills missing values by linear interpolation, because AutoETS does not support them."""
    known = ~np.isnan(values)
    return np.interp(np.arange(len(values)), np.flatnonzero(known), values[known])


def peers(season):
    """Returns a dict from the name of a peer to a function that creates its model."""
    try:
        from statsforecast.models import MSTL, AutoETS
    except ImportError as error:
        raise SystemExit("The peer needs statsforecast: pip install statsforecast") from error

    if season <= LONGEST_SEASON:
        return {"AutoETS": lambda: AutoETS(season_length=season)}
    return {
        "AutoETS": lambda: AutoETS(season_length=1),
        "MSTL and AutoETS": lambda: MSTL(season, trend_forecaster=AutoETS(model="ZZN")),
    }


def main():
    args = parser.parse_args()
    run = np.load(args.run / "test.npz")
    horizon, origins, season = (int(run[name]) for name in ("horizon", "origins", "season"))
    series, median = run["series"].astype("float64"), run["median"].astype("float64")
    number, length, targets = series.shape
    median = median.reshape(number, origins * horizon, targets)
    count = min(number, args.max_series or number)
    start = length - origins * horizon

    def mase(index, target, forecast):
        past = series[index, :start, target]
        scale = np.nanmean(np.abs(past[season:] - past[:-season]))
        return np.nanmean(np.abs(series[index, start:, target] - forecast)) / scale

    rows = []
    for target in range(targets):
        ours = np.mean([mase(index, target, median[index, :, target]) for index in range(count)])
        for name, make_model in peers(season).items():
            errors = []
            for index in range(count):
                forecast = []
                for origin in range(origins):
                    past = filled(series[index, : start + origin * horizon, target])
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        forecast.append(make_model().forecast(past, h=horizon)["mean"])
                errors.append(mase(index, target, np.concatenate(forecast)))
            theirs = float(np.mean(errors))
            model = f"AutoregressiveForecaster of {run['targets'][target]}"
            row = {"model": model, "ours": float(ours), "peer": name, "theirs": theirs}
            rows.append({**row, "unit": "MASE", "ratio": float(ours) / theirs})
            print(rows[-1])
    found = versions("numpy", "statsforecast")
    path = FOLDER / f"forecasting-{args.name}.json"
    write_results(path, rows, found, args.seed, command=args.command, series=count)


if __name__ == "__main__":
    main()
