"""Writes new tunes as ABC and MIDI files, and keeps only tunes whose bars are all complete.

    pip install music21 './export[cpu]'
    keras-attn train language-model --data CORPUS.abc --documents --run-dir RUN --window 512 \
        --dropout 0.2 --batch-size 4 --learning-rate 3e-3 --epochs 24
    keras-attn export onnx RUN RUN/writer.onnx --search-class SamplingDecoder \
        --search temperature=0.7
    python examples/write_tunes.py RUN/writer.onnx TUNES --corpus CORPUS.abc

For each tune, the model samples up to three times until the result has an end, music21 can parse
it, all of its bars are complete, and it is not in the corpus. The new folder TUNES then contains

    tune-001.abc ...    the tunes that were kept
    tune-001.mid ...    the same tunes as MIDI files
    tunes.json          numbers of tunes and draws, shares of all draws, mean novelty
"""

import argparse
import contextlib
import itertools
import json
import re
import tempfile
from pathlib import Path
from unittest import mock

TUNES, DRAWS = 20, 3
WINDOW = 8
"""Number of characters of a melody that are compared with the corpus, about one bar."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path, help="exported language model with a sampling search")
    parser.add_argument("out", type=Path, help="new folder of the tunes")
    parser.add_argument("--corpus", type=Path, required=True, help="training tunes")
    args = parser.parse_args()
    if args.out.exists():
        parser.error(f"Expected a new folder. Received: {args.out}, which exists. Choose another.")
    from keras_attn_runtime import Translator

    translator = Translator(args.model)
    corpus = split_tunes(args.corpus.read_text(encoding="utf-8"))

    def draw(count, seed):
        """Returns tunes. A tune that was cut at the length limit is `None`."""
        drawn = translator.translate([""] * count, seed=seed)
        return [each.text if each.ended else None for each in drawn]

    kept, report = keep_tunes(draw, {window for tune in corpus for window in windows(tune)})
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.out.parent) as temporary:
        folder = Path(temporary, "tunes")
        folder.mkdir()
        for number, tune in enumerate(kept, start=1):
            path = folder / f"tune-{number:03d}.abc"
            path.write_text(f"{tune}\n", encoding="utf-8")
            write_midi(tune, path.with_suffix(".mid"))
        (folder / "tunes.json").write_text(json.dumps(report, indent=2))
        folder.rename(args.out)
    print(f"Kept {len(kept)} tunes of {report['draws']} draws. Wrote {args.out}.")
    if len(kept) < TUNES:
        raise SystemExit(f"Expected {TUNES} tunes. Train the model for longer.")


def keep_tunes(draw, known):
    """Samples each tune up to `DRAWS` times. Returns the kept tunes, and a dict of numbers."""
    kept, draws = [], []
    for seed in range(DRAWS):
        for tune in draw(TUNES - len(kept), seed) if len(kept) < TUNES else ():
            bars = None if tune is None else bars_of(tune)
            complete = bars is not None and all(bars)
            draws.append({"ended": tune is not None, "parsed": bars is not None})
            draws[-1]["complete"] = complete
            if complete and tune not in kept and novelty(tune, known) > 0:
                kept.append(tune)
    shares = {f"share_{name}": sum(each[name] for each in draws) / len(draws) for name in draws[0]}
    mean = sum(novelty(tune, known) for tune in kept) / max(1, len(kept))
    return kept, {"kept": len(kept), "draws": len(draws), **shares, "mean_novelty": mean}


def split_tunes(text):
    """Splits a text into tunes at blank lines."""
    return [tune.strip("\n") for tune in re.split(r"\n\s*\n", text) if tune.strip()]


def windows(tune):
    """Returns the windows of a tune's notes, without header, bar lines, repeats and spaces."""
    lines = [line for line in tune.splitlines() if not re.match(r"[A-Za-z]:|%", line)]
    melody = re.sub(r"[\s|:!\[\]\\]", "", "".join(lines))
    return [melody[start : start + WINDOW] for start in range(max(1, len(melody) - WINDOW + 1))]


def novelty(tune, known):
    """Returns the share of windows that occur in no tune of a corpus, a float in [0, 1]."""
    return sum(window not in known for window in windows(tune)) / len(windows(tune))


def parse_tune(tune):
    """Returns the score of a tune. Raises exceptions of many classes."""
    from music21 import converter

    # Remove the `!` with which older ABC files end a line of the score.
    first, *parts = re.sub("!$", "", tune, flags=re.MULTILINE).split(":|")
    # Write the start of each repeat. music21 would repeat from the start of the tune without it.
    for index, part in enumerate(parts[:-1]):
        notes = part.lstrip("|: ")
        if "|:" not in notes and not re.match(r"\[?2", notes):
            parts[index] = f"|:{notes}"
    return converter.parse(":|".join([first, *parts]), format="abc")


def bars_of(tune):
    """Returns a bool for each bar, whether it is complete, or `None` if parsing fails.

    A bar is complete if the total duration of its notes equals the meter. Bars next to the start or
    end of the tune, to repeats and to double bars may be shorter, because of an upbeat.
    """
    from music21 import stream

    try:
        parse_tune(tune)
        # By default, music21 splits a bar that is too long into several complete bars.
        with mock.patch("music21.abcFormat.translate.reBar"):
            score = parse_tune(tune)
        bars = list(score.recurse().getElementsByClass(stream.Measure))
        lengths = [bar.duration.quarterLength for bar in bars]
        whole = [bar.barDuration.quarterLength for bar in bars]
    except Exception:
        return None
    if not bars or not score.recurse().notes or not re.search(r"^M: *[\dC]", tune, re.MULTILINE):
        return None
    lines = [(bar.rightBarline, after.leftBarline) for bar, after in itertools.pairwise(bars)]
    edges = [any(line and line.type != "regular" for line in pair) for pair in lines]
    sides = itertools.pairwise([True, *edges, True])
    rows = zip(lengths, whole, sides, strict=True)
    return [length == full or (length < full and any(side)) for length, full, side in rows]


def write_midi(tune, path):
    """Writes a tune as a MIDI file, with its repeats if they are consistent."""
    score = parse_tune(tune)
    with contextlib.suppress(Exception):  # for example, a repeat in the middle of a bar
        score = score.expandRepeats()
    score.write("midi", fp=path)


if __name__ == "__main__":
    main()
