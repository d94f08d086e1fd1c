"""Writes tables of the results: all rows to `results/README.md`, a summary to `README.md`.

python benchmarks/report.py
"""

import json
import statistics
from pathlib import Path

from keras_attn.files import atomic_replace

HERE = Path(__file__).parent
RESULTS = HERE / "results"
START = "<!-- results: written by report.py, do not edit -->"
END = "<!-- end of results -->"
ALL = ("Results", "Model", "Ours", "Peer", "Theirs", "Ratio", "Machine", "Date")
IN_SHORT = ("Results", "Model", "Quality, or ratio (ours / peer)", "Peer", "Machine", "Date")


def main():
    readme = HERE / "README.md"
    before, rest = readme.read_text(encoding="utf-8").split(START)
    _, after = rest.split(END)
    files = [
        (path, json.loads(path.read_text(encoding="utf-8")))
        for path in sorted(RESULTS.glob("*.json"))
    ]
    all_rows = [cells(path, results, row) for path, results in files for row in results["rows"]]
    short_rows = [line for path, results in files for line in in_short(path, results)]
    lines = [before + START, "", *table(IN_SHORT, short_rows), "", END + after]
    with atomic_replace(readme) as partial:
        partial.write_text("\n".join(lines), encoding="utf-8")
    lines = [
        "# All results",
        "",
        "`report.py` generates this page. Do not edit it.",
        "",
        *table(ALL, all_rows),
    ]
    with atomic_replace(RESULTS / "README.md") as partial:
        partial.write_text("\n".join(lines) + "\n", encoding="utf-8")


def table(columns, rows):
    """Returns the lines of a Markdown table."""
    return [f"| {' | '.join(row)} |" for row in (columns, ["---"] * len(columns), *rows)]


def cells(path, results, row):
    """Returns the cells of a row: a comparison with a peer, BLEU, or other values."""
    peer = theirs = ratio = ""
    if "bleu" in row:
        model, ours = quality(row)
    elif "ours" not in row:
        facts = [(name, value) for name, value in row.items() if name != "model"]
        model = row["model"]
        ours = ", ".join(f"{name.replace('_', ' ')} {number(value)}" for name, value in facts)
    else:
        model, ours = row["model"], f"{number(row['ours'])} {row['unit']}"
        if "peer" in row:
            theirs = f"{number(row['theirs'])} {row['unit']}"
            peer, ratio = row["peer"], f"{row['ratio']:.2f}"
    link = f"[{path.stem}]({path.name})"
    return link, model, ours, peer, theirs, ratio, machine_of(results), results["date"]


def in_short(path, results):
    """Yields the cells of summary rows: BLEU, or the mean ratio of each model and peer."""
    link = f"[{path.stem}](results/{path.name})"
    end = (machine_of(results), results["date"])
    ratios = {}
    for row in results["rows"]:
        if "ratio" in row:
            # The last part of a name is the size, such as the batch size or the length.
            model = row["model"].rpartition(", ")[0] or row["model"]
            ratios.setdefault((f"{model}: {row['unit']}", row["peer"]), []).append(row["ratio"])
    if "bleu" in results["rows"][0]:
        yield (link, *quality(results["rows"][0]), "", *end)
    for (model, peer), values in ratios.items():
        mean = f"{statistics.geometric_mean(values):.2f}"
        if len(values) > 1:
            mean += f" ({min(values):.2f} to {max(values):.2f})"
        yield (link, model, mean, peer, *end)


def quality(row):
    """Returns the name of a model and its BLEU."""
    model = f"{row['model']}, {row['split']}"
    model += f", beam {row['beam_width']}" if "beam_width" in row else ""
    minutes = f" ({row['minutes']:.0f} min)" if "minutes" in row else ""
    return model, f"{row['bleu']:.2f} BLEU{minutes}"


def machine_of(results):
    """Returns the GPU, or the processor, its newest instruction set and the number of cores."""
    if "device" in results:
        return results["device"].partition(",")[0]
    machine = results["machine"]
    newest = machine.get("instructions", [])[-1:]
    return ", ".join([machine["cpu"], *newest, f"{machine['cores']} cores"])


def number(value):
    """Formats a number with four significant digits, or all digits before the decimal point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


if __name__ == "__main__":
    main()
