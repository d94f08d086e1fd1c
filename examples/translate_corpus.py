"""Translates a corpus with several workers, on one or more machines, with Ray Data.

    pip install 'ray[data]' './export[cpu]'
    python examples/translate_corpus.py translator.onnx OUT corpus.txt more.txt
    cat OUT/part-*.txt > translated.txt

A worker translates a partition of 1,000 lines, and writes `OUT/part-NNNNN.txt` when it is complete.
The output contains each line once and in order. If a worker is killed, Ray starts it again and
repeats its partition. If the whole program is stopped, start it again: it continues with the
missing partitions. It refuses a folder with results of a different model or corpus.

On a cluster (`ray start` on each machine), set the environment variable RAY_ADDRESS=auto. The
model, the corpus and OUT must be in a folder that all machines share under the same path.
"""

import argparse
import hashlib
import itertools
import json
import os
import uuid
from pathlib import Path

WORKERS, PARTITION_LINES = 2, 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path, help="exported ONNX file")
    parser.add_argument("out", type=Path, help="folder of the translated partitions")
    parser.add_argument("corpus", type=Path, nargs="+", help="UTF-8 text files, one text per line")
    args = parser.parse_args()
    from keras_attn_runtime import Translator

    translator = Translator(args.model.resolve(), num_threads=1, truncate=True)
    translator([])  # raises an error if the file has no tokenizer
    partitions = find_partitions(args.corpus)
    prepare_folder(args.model, args.out, partitions)
    missing = [each for each in partitions if not (args.out / each["file"]).exists()]
    print(f"{len(partitions) - len(missing)} of {len(partitions)} partitions are finished")
    lines = truncated = 0
    for done, row in enumerate(translate(translator, missing, args.out), start=1):
        lines += row["lines"]
        truncated += row["truncated"]
        print(f"{done} of {len(missing)}: {row['file']}, worker {row['worker']}", flush=True)
    for path in args.out.glob("*.partial"):  # of workers that were killed
        path.unlink()
    print(f"Translated {lines} lines, {truncated} of them truncated")
    print(f"Wrote {args.out}. Next: cat {args.out}/part-*.txt > translated.txt")


def find_partitions(paths):
    """Divides files into partitions of whole lines, as dicts that describe them."""
    partitions = []
    for path in map(Path.resolve, paths):
        start = 0
        with open(path, "rb") as file:
            while lines := list(itertools.islice(file, PARTITION_LINES)):
                text = b"".join(lines)
                try:
                    text.decode()
                except UnicodeDecodeError as error:
                    place = f"byte {start + error.start} of {path}"
                    raise SystemExit(f"Expected UTF-8. Received: {error}. See {place}.") from None
                name = f"part-{len(partitions):05d}.txt"
                partition = {"file": name, "path": str(path), "start": start, "lines": len(lines)}
                partitions.append({**partition, "sha256": hashlib.sha256(text).hexdigest()})
                start += len(text)
    if not partitions:
        raise SystemExit(f"Expected lines to translate. Received: none in {paths}.")
    return partitions


def prepare_folder(model, out, partitions):
    """Creates the folder, with checksums of the model and the texts, or compares these."""
    out.mkdir(parents=True, exist_ok=True)
    files = [model] if model.is_file() else sorted(model.iterdir())
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    job = json.dumps({"model": digests, "partitions": partitions}, indent=1).encode()
    path = out / "job.json"
    known = path.read_bytes() if path.exists() else None
    if known != job and (known is not None or any(out.glob("part-*.txt"))):
        text = "Expected a new folder, or one with results of the same model and corpus. Received: "
        raise SystemExit(f"{text}{out}. Choose a different folder.")
    write_complete(path, [job])


def write_complete(path, lines):
    """Writes a temporary file, and renames it when it is complete."""
    partial = path.with_name(f"{uuid.uuid4().hex}.partial")
    with open(partial, "wb") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def translate(translator, partitions, out):
    """Yields a row for each partition, in the order of completion."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no statistics to Ray's servers
    import ray
    import ray.data

    if not partitions:
        return
    if "RAY_ADDRESS" in os.environ:
        ray.init()
    else:  # start Ray on this machine, with little memory for objects
        settings = {"include_dashboard": False, "log_to_driver": False}
        ray.init(num_cpus=WORKERS, object_store_memory=100 * 2**20, **settings)
    ray.data.DataContext.get_current().enable_progress_bars = False
    # One block for each partition, because Ray repeats a whole block after a failure.
    dataset = ray.data.from_items(partitions, override_num_blocks=len(partitions)).map(
        PartitionTranslator,
        fn_constructor_args=(translator, str(out.resolve())),
        compute=ray.data.ActorPoolStrategy(size=WORKERS),
        num_cpus=1,
    )
    yield from dataset.iter_rows()
    ray.shutdown()


class PartitionTranslator:
    """Translates partitions and writes their files. Each worker creates one instance."""

    def __init__(self, translator, out):
        # Ray pickled the translator. The pickle contains the path of the model, which is opened.
        self.translator, self.out = translator, out

    def __call__(self, partition):
        # With a seed, a search that samples returns the same texts if the partition is repeated.
        options = {"seed": partition["start"] % 2**31} if self.translator.is_stochastic else {}
        found = self.translator.translate(read_partition(partition), **options)
        lines = [" ".join(each.text.splitlines()).encode() + b"\n" for each in found]
        write_complete(Path(self.out, partition["file"]), lines)
        truncated = sum(each.truncated for each in found)
        return {**partition, "truncated": truncated, "worker": os.getpid()}


def read_partition(partition):
    with open(partition["path"], "rb") as file:
        file.seek(partition["start"])
        lines = [line.decode() for line in itertools.islice(file, partition["lines"])]
    if partition["start"] == 0:
        lines[0] = lines[0].removeprefix("\ufeff")  # byte order mark
    return [line.removesuffix("\n").removesuffix("\r") for line in lines]


if __name__ == "__main__":
    main()
