"""The share of tunes in ABC notation that music21 can parse, and whose bars are complete.

    python examples/train_language_model.py --data FILE.abc --documents --run-dir RUN --samples 200
    python benchmarks/parse_tunes.py RUN        # in an environment with music21

counts what the model wrote, RUN/samples.txt, and as a yardstick the real tunes that it has not
seen, RUN/held_out.txt, and writes RUN/tunes.json. music21 ends a tune where it ends: at a blank
line. A bar is complete if its notes last as long as the meter says. Where a part of a tune begins
or ends, at the ends and at repeats and double bars, it may be shorter, as upbeats are there.
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
    """All bars as booleans, whether they are complete; `None` if music21 cannot read the tune."""
    # In the older notation of these files `!` ends a line of the score.
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
