"""Fraction of tunes in ABC notation that music21 can parse, and that have complete bars.

    python examples/train_language_model.py --data FILE.abc --documents --run-dir RUN --samples 200
    python benchmarks/parse_tunes.py RUN        # in an environment with music21

Reads the generated tunes, RUN/samples.txt, and real tunes that were not used for training,
RUN/held_out.txt, as a baseline. Writes RUN/tunes.json. A blank line ends a tune. A bar is complete
if the total duration of its notes equals the meter. Bars next to the start or end of the tune, to
repeats and to double bars may be shorter, because they can contain an upbeat.
"""

import argparse
import json
import re
from importlib import metadata
from pathlib import Path

from music21 import converter, stream

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("run_dir", type=Path)
args = parser.parse_args()


def bars_of(tune):
    """Returns whether each bar is complete, or `None` if music21 cannot parse the tune."""
    # These files use an older notation, in which `!` ends a line of the score.
    tune = re.sub("!$", "", tune, flags=re.MULTILINE)
    try:
        score = converter.parse(tune, format="abc")
        bars = list(score.recurse().getElementsByClass(stream.Measure))
        lengths = [bar.duration.quarterLength for bar in bars]
        full = [bar.barDuration.quarterLength for bar in bars]
        ends = [bar.rightBarline is not None and bar.rightBarline.type != "regular" for bar in bars]
        begins = [bar.leftBarline is not None and bar.leftBarline.type != "regular" for bar in bars]
    except Exception:  # music21 and its ABC reader raise errors of many classes
        return None
    if not bars or not score.recurse().notes:
        return None
    may_be_short = [
        index in (0, len(bars) - 1)
        or begins[index]
        or ends[index]
        or ends[index - 1]
        or begins[index + 1]
        for index in range(len(bars))
    ]
    return [
        length == whole or (short and length < whole)
        for length, whole, short in zip(lengths, full, may_be_short, strict=True)
    ]


def count(path):
    tunes = [tune for tune in path.read_text(encoding="utf-8").split("\n\n") if tune.strip()]
    parsed = [bars for bars in map(bars_of, tunes) if bars is not None]
    bars = [bar for tune in parsed for bar in tune]
    return {
        "tunes": len(tunes),
        "parsed": len(parsed) / len(tunes),
        "complete_bars": sum(bars) / max(1, len(bars)),
        "tunes_of_complete_bars": sum(map(all, parsed)) / len(tunes),
    }


report = {name: count(args.run_dir / f"{name}.txt") for name in ("samples", "held_out")}
report["music21"] = metadata.version("music21")
(args.run_dir / "tunes.json").write_text(json.dumps(report, indent=2))
print(json.dumps(report, indent=2))
