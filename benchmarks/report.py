"""Writes the table of all results into `benchmarks/README.md`.

python benchmarks/report.py
"""

import json
from pathlib import Path

HERE = Path(__file__).parent
START = "<!-- results: written by report.py, do not edit -->"
END = "<!-- end of results -->"
COLUMNS = ("Results", "Model", "Ours", "Peer", "Theirs", "Ratio", "Machine", "Date")


def main():
    readme = HERE / "README.md"
    text = readme.read_text(encoding="utf-8")
    before, rest = text.split(START)
    _, after = rest.split(END)
    lines = table(sorted((HERE / "results").glob("*.json")))
    readme.write_text("\n".join([before + START, "", *lines, "", END + after]), encoding="utf-8")


def table(paths):
    """Lines of a Markdown table of results files, one for each row in them."""
    lines = [line_of(COLUMNS), line_of(["---"] * len(COLUMNS))]
    for path in paths:
        results = json.loads(path.read_text(encoding="utf-8"))
        for row in results["rows"]:
            lines.append(line_of(cells(path, results, row)))
    return lines


def cells(path, results, row):
    """The cells of a row, which compares with a peer, tells a quality, or counts what agrees."""
    machine = results["machine"]
    model = row["model"]
    peer = theirs = ratio = ""
    if "bleu" in row:
        model += f", {row['split']}"
        model += f", beam {row['beam_width']}" if "beam_width" in row else ""
        ours = f"{row['bleu']:.2f} BLEU"
        if "minutes" in row:
            ours += f" ({row['minutes']:.0f} min)"
    elif "ours" not in row:
        facts = [(name, value) for name, value in row.items() if name != "model"]
        ours = ", ".join(f"{name.replace('_', ' ')} {number(value)}" for name, value in facts)
    else:
        ours = f"{number(row['ours'])} {row['unit']}"
        if "peer" in row:
            theirs = f"{number(row['theirs'])} {row['unit']}"
            peer, ratio = row["peer"], f"{row['ratio']:.2f}"
    return (
        f"[{path.stem}](results/{path.name})",
        model,
        ours,
        peer,
        theirs,
        ratio,
        f"{machine['cpu']}, {machine['cores']} cores",
        results["date"],
    )


def number(value):
    """Four digits, or all of those before the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def line_of(values):
    return f"| {' | '.join(values)} |"


if __name__ == "__main__":
    main()
