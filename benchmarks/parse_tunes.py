"""Checks generated tunes in ABC notation: can music21 parse them, are bars complete, are tunes new?

    keras-attn train language-model --data FILE.abc --documents --run-dir RUN --samples 200
    python benchmarks/parse_tunes.py RUN FILE.abc       # in an environment with music21

The script reads the generated tunes from RUN/samples.txt, and writes the results to RUN/tunes.json.
As a baseline, it computes the same numbers for the real tunes in RUN/data/valid.txt, not used for
training. In all files, a blank line ends a tune. Novelty compares a tune with the training tunes:
the tunes in FILE.abc that are not in RUN/data/valid.txt. `examples/write_tunes.py` defines
complete bars and novelty.
"""

import argparse
import json
import sys
from importlib import metadata
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "examples"))

from write_tunes import bars_of, novelty, split_tunes, windows

from keras_attn.files import atomic_replace


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("data", type=Path, help="FILE.abc, training tunes and held-out tunes")
    args = parser.parse_args()
    names = ("samples.txt", "data/valid.txt")
    samples, held_out = (read_tunes(args.run_dir / name) for name in names)
    corpus = [tune for tune in read_tunes(args.data) if tune not in set(held_out)]
    known = {window for tune in corpus for window in windows(tune)}
    report = {"samples": count(samples, known), "held_out": count(held_out, known)}
    report["music21"] = metadata.version("music21")
    with atomic_replace(args.run_dir / "tunes.json") as partial:
        partial.write_text(json.dumps(report, indent=2))
    print(json.dumps(report, indent=2))


def read_tunes(path):
    return split_tunes(path.read_text(encoding="utf-8"))


def count(tunes, known):
    parsed = [bars for bars in map(bars_of, tunes) if bars is not None]
    bars = [bar for tune in parsed for bar in tune]
    found = [novelty(tune, known) for tune in tunes]
    return {
        "tunes": len(tunes),
        "parsed": len(parsed) / len(tunes),
        "complete_bars": sum(bars) / max(1, len(bars)),
        "tunes_of_complete_bars": sum(map(all, parsed)) / len(tunes),
        "novelty": sum(found) / len(tunes),
        "tunes_with_less_than_half_new": sum(each < 0.5 for each in found) / len(tunes),
    }


if __name__ == "__main__":
    main()
