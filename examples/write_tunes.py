"""Writes new tunes as ABC and MIDI files, and keeps only tunes whose bars are all complete.

    pip install music21 './export[cpu]'
    keras-attn train language-model --data CORPUS.abc --documents --run-dir RUN --window 512 \
        --dropout 0.2 --batch-size 4 --learning-rate 3e-3 --epochs 24
    keras-attn export onnx RUN RUN/writer.onnx --search-class SamplingDecoder \
        --search temperature=0.7
    python examples/write_tunes.py RUN/writer.onnx TUNES --corpus CORPUS.abc

A tune is kept if it has an end, music21 can parse it, all of its bars are complete, and at least
`--least-novelty` of its melody is new. For each tune, the model samples up to `--draws` times until
the result is kept. At the end, the folder contains

    tune-001.abc ...    the tunes that were kept
    tune-001.mid ...    the same tunes as MIDI files
    tunes.json          draws for each tune kept, shares of all draws, novelty of each tune
"""

import argparse
import json
from pathlib import Path

from abc_tunes import Novelty, bars_of, split_tunes, write_midi
from keras_attn_runtime import Translator
from keras_attn_runtime._files.atomic_files import atomic_files


def main():
    args = parse_arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    novelty = Novelty(split_tunes(args.corpus.read_text(encoding="utf-8")))
    translator = Translator(args.model)

    def draw(count, seed):
        """Returns tunes. A tune that was cut at the length limit is `None`."""
        drawn = translator.translate([args.prompt] * count, seed=seed)
        return [args.prompt + each.text if each.ended else None for each in drawn]

    kept, draws = keep_tunes(draw, args, novelty)
    for number, tune in enumerate(kept, start=1):
        path = args.out / f"tune-{number:03d}.abc"
        with atomic_files(path) as (file,):
            file.write(f"{tune}\n".encode())
        write_midi(tune, path.with_suffix(".mid"))
    report = report_of(kept, draws, novelty)
    with atomic_files(args.out / "tunes.json") as (file,):
        file.write(json.dumps(report, indent=2).encode())
    print(json.dumps({name: value for name, value in report.items() if name != "tunes"}))
    if len(kept) < args.tunes:
        raise SystemExit(
            f"Expected {args.tunes} tunes in at most {args.draws} draws each. Received: "
            f"{len(kept)}. Increase --draws, or train the model for longer."
        )


def keep_tunes(draw, args, novelty):
    """Samples tunes until each is accepted or was drawn `args.draws` times.

    Args:
        draw: function of a count and a seed that returns a list of tunes. A tune without an end is
            `None`.
        args: Namespace with `tunes`, `draws`, `seed` and `least_novelty`.
        novelty: function that takes a tune and returns the share of its melody that is new.

    Returns:
        Tuple of the list of kept tunes, and a list with a dict for each draw.
    """
    kept, draws = [], []
    for attempt in range(args.draws):
        missing = args.tunes - len(kept)
        if not missing:
            break
        for tune in draw(missing, args.seed * args.draws + attempt):
            bars = None if tune is None else bars_of(tune)
            complete = bars is not None and all(bars)
            draws.append({"ended": tune is not None, "parsed": bars is not None})
            draws[-1]["complete"] = complete
            if complete and tune not in kept and novelty(tune) >= args.least_novelty:
                kept.append(tune)
    return kept, draws


def report_of(kept, draws, novelty):
    """Returns the numbers of tunes and draws, shares of all draws, and the novelty of the tunes."""
    found = [novelty(tune) for tune in kept]
    return {
        "kept": len(kept),
        "draws": len(draws),
        "draws_for_each_tune": len(draws) / max(1, len(kept)),
        **{
            f"share_{name}": sum(each[name] for each in draws) / len(draws)
            for name in ("ended", "parsed", "complete")
        },
        "mean_novelty": sum(found) / max(1, len(found)),
        "least_novelty": min(found, default=0.0),
        "tunes": [{"novelty": each} for each in found],
    }


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("model", type=Path, help="exported language model with a sampling search")
    parser.add_argument("out", type=Path, help="folder of the tunes")
    parser.add_argument("--corpus", type=Path, required=True, help="training tunes")
    parser.add_argument("--tunes", type=int, default=20, help="number of tunes to keep")
    parser.add_argument(
        "--draws", type=int, default=3, help="maximum number of samples for each tune"
    )
    parser.add_argument(
        "--least-novelty", type=float, default=0.0, help="minimum novelty of a tune, in [0, 1]"
    )
    parser.add_argument("--prompt", default="", help="beginning of the tunes")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    for name in ("tunes", "draws"):
        if getattr(args, name) < 1:
            parser.error(f"Expected --{name} of at least 1. Received: {getattr(args, name)}")
    return args


if __name__ == "__main__":
    main()
