"""Creates a corpus of long sentences: joins 2 to 4 lines of parallel files into one line.

    python benchmarks/join_captions.py DATA OUT --source en --target de

Each line is used once. The choice of lines to join is random and equal on both sides. Long
sentences show the benefit of attention (Bahdanau et al., 2015, figure 2).
"""

import argparse
import random
from pathlib import Path

from keras_attn.files import atomic_replace, read_lines

SPLITS = {"train": "train", "val": "val", "test_2016_flickr": "test"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for split, name in SPLITS.items():
        sides = [read_split(args.data, split, suffix) for suffix in (args.source, args.target)]
        pairs = list(zip(*sides, strict=True))
        rng = random.Random(f"{split} {args.seed}")
        rng.shuffle(pairs)
        joined = []
        while pairs:
            count = rng.randint(2, 4)
            group, pairs = pairs[:count], pairs[count:]
            joined.append([" ".join(side) for side in zip(*group, strict=True)])
        for suffix, lines in zip(
            (args.source, args.target), zip(*joined, strict=True), strict=True
        ):
            with atomic_replace(args.out / f"{name}.{suffix}") as partial:
                partial.write_text("".join(f"{line}\n" for line in lines))
        print(f"{name}: {len(joined)} lines")


def read_split(data, split, suffix):
    paths = [data / f"{split}.{suffix}", data / f"{split}.{suffix}.gz"]
    path = next(path for path in paths if path.exists())
    return [line.strip() for line in read_lines(path)]


if __name__ == "__main__":
    main()
