"""Resident memory of the runtime with a LiteRT file over sentences of many lengths.

    python benchmarks/litert_memory.py FILE [--sentences 10000] [--longest 100]

This command translates sentences of random ids and random lengths one by one. It prints the
resident memory after 100, 1,000 and all sentences. Each new length makes LiteRT allocate its
tensors again.
"""

import argparse
import random
from pathlib import Path

from keras_attn_runtime import Translator


def resident_mib():
    """Returns the resident memory of this process in MiB, on Linux."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--sentences", type=int, default=10_000)
    parser.add_argument("--longest", type=int, default=100)
    arguments = parser.parse_args()
    translator = Translator(arguments.file, num_threads=1)
    side = translator.settings.source
    special = {side.pad_token_id, side.start_token_id, side.end_token_id}
    ids = [each for each in range(side.vocabulary_size) if each not in special]
    generator = random.Random(0)
    found = {0: resident_mib()}
    for number in range(1, arguments.sentences + 1):
        length = generator.randint(1, arguments.longest)
        translator.translate_ids([[generator.choice(ids) for _ in range(length)]])
        if number in (100, 1000, arguments.sentences):
            found[number] = resident_mib()
            print(f"after {number} sentences: {found[number]:.1f} MiB", flush=True)
    if 1000 in found:
        ratio = found[arguments.sentences] / found[1000]
        print(f"after loading: {found[0]:.1f} MiB; {arguments.sentences} against 1000: {ratio:.3f}")


if __name__ == "__main__":
    main()
