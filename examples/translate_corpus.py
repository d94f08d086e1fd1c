"""Translates a corpus with several workers, on one or more machines, with Ray Data.

    pip install 'ray[data]' './export[cpu]'
    python examples/translate_corpus.py translator.onnx OUT corpus.txt more.txt --workers 2
    cat OUT/part-*.txt > translated.txt

The files are divided into partitions of lines. A worker translates a partition, writes a temporary
file, and renames the complete file to `OUT/part-NNNNN.txt`. The output therefore contains each line
once and in order. If a worker is killed, Ray starts it again and repeats its current partition. If
the whole program is stopped, start it again with the same arguments: it continues with the missing
partitions. OUT/job.json contains the checksums of the model and of each partition, so translations
of a different text are not taken for finished ones.

On a cluster (`ray start` on each machine), pass `--address auto`. The model, the corpus and OUT
must be in a folder that all machines share under the same path.

This example uses Ray Data instead of Spark, because pip installs Ray Data completely (Spark needs
Java), and because an actor of Ray Data opens the model only once. On Spark, pass the `Translator`
to `rdd.mapPartitions`:

    lines.mapPartitions(lambda part: (each.text for each in translator.translate_iterable(part)))

To test a run in which one of two workers is killed, translate 200,000 dates with the model of
`make demo`:

    for i in $(seq 100); do cat build/demo/run/data/test.source; done > DATES
    python examples/translate_corpus.py build/demo/translator.onnx TWO DATES --kill-one
    python examples/translate_corpus.py build/demo/translator.onnx ONE DATES --workers 1
    cmp <(cat ONE/part-*) <(cat TWO/part-*) && cat TWO/part-* | wc -l
"""

import argparse
import contextlib
import hashlib
import json
import os
import signal
import time
import uuid
from pathlib import Path

from keras_attn_runtime import Translator
from keras_attn_runtime._files.atomic_files import atomic_files


def main():
    args = parse_arguments()
    translator = Translator(args.model.resolve(), num_threads=args.threads, truncate=True)
    translator([])  # raises an error if the file has no tokenizer
    partitions = find_partitions(args.corpus, args.partition_lines)
    prepare_folder(args, partitions)
    missing = [each for each in partitions if not part_path(args.out, each["part"]).exists()]
    started = time.perf_counter()
    lines = truncated = 0
    workers = set()
    for done, row in enumerate(translate(translator, missing, args), start=1):
        lines += row["lines"]
        truncated += row["truncated"]
        workers.add(row["worker"])
        print(f"{done} of {len(missing)}: part {row['part']}, worker {row['worker']}", flush=True)
        if args.kill_one and done == max(1, len(missing) // 4):
            print(f"killing worker {row['worker']}", flush=True)
            os.kill(row["worker"], signal.SIGKILL)
    lost = [each for each in partitions if not part_path(args.out, each["part"]).exists()]
    if lost or lines != sum(each["lines"] for each in missing):
        raise SystemExit(
            f"Expected all partitions. Received: {lines} lines, without {lost}. Start again."
        )
    unfinished = list(args.out.glob("*.partial"))  # files of workers that were killed
    for path in unfinished:
        path.unlink()
    seconds = time.perf_counter() - started
    report = {
        "lines": lines,
        "truncated": truncated,
        "earlier_lines": sum(each["lines"] for each in partitions) - lines,
        "partitions": len(partitions),
        "workers": len(workers),
        "unfinished_files_of_killed_workers": len(unfinished),
        "seconds": round(seconds, 2),
        "lines_per_second": round(lines / seconds, 1),
    }
    print(json.dumps(report))


def find_partitions(paths, most_lines):
    """Divides files into partitions of whole lines. Lines end with a line feed.

    Args:
        paths: list of paths of UTF-8 text files.
        most_lines: int, number of lines of a partition, except for the last one of a file.

    Returns:
        List of dicts with the number of the partition, `part`, the absolute `path`, the `start` in
        bytes, the number of `lines` and the SHA-256 of the text, `sha256`.
    """
    partitions = []
    for path in map(Path.resolve, paths):
        start = position = count = 0
        checksum = hashlib.sha256()
        with open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise SystemExit(
                        f"Expected text in UTF-8. Received: line {number} of {path}, {error}. "
                        "Convert the file."
                    ) from error
                checksum.update(line)
                position += len(line)
                count += 1
                if count == most_lines:
                    partitions.append(describe_partition(path, start, count, checksum))
                    start, count, checksum = position, 0, hashlib.sha256()
        if count:
            partitions.append(describe_partition(path, start, count, checksum))
    if not partitions:
        raise SystemExit(f"Expected lines to translate. Received: none in {paths}.")
    return [{"part": part, **each} for part, each in enumerate(partitions)]


def describe_partition(path, start, lines, checksum):
    return {"path": str(path), "start": start, "lines": lines, "sha256": checksum.hexdigest()}


def prepare_folder(args, partitions):
    """Creates the folder. Refuses a folder with results of a different model or corpus."""
    args.out.mkdir(parents=True, exist_ok=True)
    files = [args.model] if args.model.is_file() else sorted(args.model.iterdir())
    digest = hashlib.sha256(b"".join(file_digest(path) for path in files)).hexdigest()
    job = json.dumps({"model": digest, "partitions": partitions}, indent=1)
    path = args.out / "job.json"
    known = path.read_text(encoding="utf-8") if path.exists() else None
    if known != job and (known is not None or any(args.out.glob("part-*.txt"))):
        raise SystemExit(
            f"Expected a new folder, or one with results of the same model, corpus and "
            f"--partition-lines. Received: {args.out}. Choose a different folder."
        )
    with atomic_files(path) as (file,):
        file.write(job.encode())


def file_digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def part_path(folder, part):
    return Path(folder) / f"part-{part:05d}.txt"


def translate(translator, partitions, args):
    """Yields a row for each partition, in the order of completion."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no statistics to Ray's servers
    import ray
    import ray.data

    if not partitions:
        return
    if args.address is None:  # start Ray on this machine, with little memory for objects
        ray.init(
            num_cpus=args.workers * args.threads,
            object_store_memory=100 * 2**20,
            include_dashboard=False,
            log_to_driver=False,
        )
    else:
        ray.init(address=args.address)
    ray.data.DataContext.get_current().enable_progress_bars = False
    # One block for each partition, because Ray repeats a whole block after a failure.
    dataset = ray.data.from_items(partitions, override_num_blocks=len(partitions))
    dataset = dataset.map(
        PartitionTranslator,
        fn_constructor_args=(translator, str(args.out.resolve())),
        compute=ray.data.ActorPoolStrategy(size=args.workers),
        num_cpus=args.threads,
    )
    yield from dataset.iter_rows()
    ray.shutdown()


class PartitionTranslator:
    """Translates partitions and writes their files. Each worker creates one instance.

    Args:
        translator: `Translator`. Ray pickles this object. The pickle contains the path of the
            model, and each worker opens the model.
        out: string, the folder of the translated partitions.
    """

    def __init__(self, translator, out):
        self.translator, self.out = translator, out

    def __call__(self, partition):
        part, count = partition["part"], partition["lines"]
        # With this seed, a search that samples returns the same texts if the partition is repeated.
        options = {"seed": part} if self.translator.is_stochastic else {}
        temporary = Path(self.out) / f"{uuid.uuid4().hex}.partial"
        written = truncated = 0
        with open(partition["path"], "rb") as file, open(temporary, "wb") as output:
            file.seek(partition["start"])
            lines = (read_line(file) for _ in range(count))
            with contextlib.closing(self.translator.translate_iterable(lines, **options)) as found:
                for each in found:
                    output.write(" ".join(each.text.splitlines()).encode("utf-8") + b"\n")
                    written += 1
                    truncated += each.truncated
            output.flush()
            os.fsync(output.fileno())
        os.replace(temporary, part_path(self.out, part))
        return {"part": part, "lines": written, "truncated": truncated, "worker": os.getpid()}


def read_line(file):
    start = file.tell()
    text = file.readline().decode("utf-8").removesuffix("\n").removesuffix("\r")
    return text if start else text.removeprefix("\ufeff")  # byte order mark


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("model", type=Path, help="exported ONNX file")
    parser.add_argument("out", type=Path, help="folder of the translated partitions")
    parser.add_argument("corpus", type=Path, nargs="+", help="UTF-8 text files, one text per line")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="threads of each worker")
    parser.add_argument("--partition-lines", type=int, default=1000)
    parser.add_argument(
        "--address",
        help="address of a Ray cluster, such as auto; default: start Ray on this machine",
    )
    parser.add_argument("--kill-one", action="store_true", help="kill a worker, as a test")
    args = parser.parse_args()
    for name in ("workers", "threads", "partition_lines"):
        if getattr(args, name) < 1:
            option = name.replace("_", "-")
            parser.error(f"Expected --{option} of at least 1. Received: {getattr(args, name)}")
    if args.kill_one and args.address is not None:
        parser.error("--kill-one works on this machine only, without --address")
    return args


if __name__ == "__main__":
    main()
