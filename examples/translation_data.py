"""Prepares the data of `train_translation.py` in the run directory."""

import hashlib
import json
import shutil

import dates

from keras_attn.files import atomic_replace, read_lines
from keras_attn.text import LengthBucketedBatches, ParallelCorpus, SentencePieceTokenizer

# Arguments that may change when a training resumes.
MAY_CHANGE = """
    run_dir data epochs average strategy bfloat16 beam_width length_penalty
""".split()


def check_run_dir(files, args):
    """Stores the arguments of a training. Exits if a training with different arguments has started.

    If the arguments differ from an earlier call and no training has started, the prepared
    tokenizers and corpora are removed.
    """
    run = {name: value for name, value in vars(args).items() if name not in MAY_CHANGE}
    run["bytes"] = {".".join(name): path.stat().st_size for name, path in files.items()}
    run["sha256"] = {".".join(name): sha256(path) for name, path in files.items()}
    path = args.run_dir / "options.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    changed = {name: value for name, value in before.items() if run.get(name) != value}
    for name in changed.keys() & {"bytes", "sha256"}:  # of the six files, only those that changed
        changed[name] = {
            file: value for file, value in before[name].items() if run[name].get(file) != value
        }
    trained = any((args.run_dir / name).exists() for name in ("state", "model.keras"))
    if trained and (changed or not before):
        what = f"with {changed}" if before else "without options.json"
        raise SystemExit(
            f"{args.run_dir} contains a training of a different text or model, {what}. "
            "Choose a different --run-dir."
        )
    if changed:
        for tokenizer in args.run_dir.glob("*.spm"):
            tokenizer.unlink()
        for corpus in args.run_dir.glob("corpus-*"):
            shutil.rmtree(corpus)
    if run != before:
        with atomic_replace(path) as partial:
            partial.write_text(json.dumps(run, indent=2))


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_dates(directory, seed):
    """Writes generated dates. Returns a dict with the six paths, by `(split, side)`."""
    dates.write_files(directory, train=30000, valid=1000, test=2000, seed=seed)
    return {
        (split, side): directory / f"{split}.{side}"
        for split in dates.SPLITS
        for side in ("source", "target")
    }


def find_files(args):
    """Returns a dict with the six paths of the parallel files, by `(split, side)`."""
    patterns = {"train": ["train"], "valid": ["val", "valid", "dev"], "test": ["test", "test*"]}
    files = {}
    for split, stems in patterns.items():
        sides = []
        for suffix in (args.source, args.target):
            found = [
                path
                for stem in stems
                for pattern in (f"{stem}.{suffix}", f"{stem}.{suffix}.gz")
                for path in sorted(args.data.glob(pattern))
            ]
            side = {}
            for path in found:  # if a name occurs twice, use the first file
                name = path.name.removesuffix(".gz").removesuffix(f".{suffix}")
                side.setdefault(name, path)
            sides.append(side)
        source, target = sides
        both = [name for name in source if name in target]
        if not both:
            raise SystemExit(
                f"No {stems[0]}.{args.source} and {stems[0]}.{args.target} (or .gz) in {args.data}."
            )
        files[split, "source"], files[split, "target"] = source[both[0]], target[both[0]]
    return files


def copy_test_set(files, run_dir):
    sides = {side: list(read_lines(files["test", side])) for side in ("source", "target")}
    if len(sides["source"]) != len(sides["target"]):
        counts = {str(files["test", side]): len(lines) for side, lines in sides.items()}
        raise SystemExit(f"Expected test files with equal numbers of lines. Received: {counts}.")
    for side, lines in sides.items():
        text = "".join(f"{line}\n" for line in lines)
        with atomic_replace(run_dir / f"test.{side}") as partial:
            partial.write_text(text, encoding="utf-8")


def train_tokenizers(files, args):
    """Trains and saves the tokenizers of source and target, or loads saved tokenizers."""
    paths = [args.run_dir / "source.spm", args.run_dir / "target.spm"]
    if not all(path.exists() for path in paths):
        texts = [files["train", "source"]], [files["train", "target"]]
        sides = texts if args.separate_vocabularies else [texts[0] + texts[1]]
        made = [
            SentencePieceTokenizer.train(each, args.vocabulary_size, args.tokenizer)
            for each in sides
        ]
        for path, tokenizer in zip(paths, (made[0], made[-1]), strict=True):
            tokenizer.save(path)
    return [SentencePieceTokenizer.load(path) for path in paths]


def encode(files, source_tokenizer, target_tokenizer, args):
    """Returns batches of ids for training and validation."""
    batches = []
    for split in ("train", "valid"):
        directory = args.run_dir / f"corpus-{split}"
        if directory.exists():
            corpus = ParallelCorpus.load(directory)
        else:
            corpus = ParallelCorpus.encode(
                files[split, "source"],
                files[split, "target"],
                source_tokenizer,
                target_tokenizer,
                args.max_length,
                args.max_length,
                directory,
            )
        print(
            f"{split}: {len(corpus)} pairs; left out: {corpus.dropped_empty} with an empty side, "
            f"{corpus.dropped_long} too long"
        )
        options = {"shuffle": split == "train"}
        if split == "train" and args.subword_sampling:
            options["tokenizers"] = source_tokenizer, target_tokenizer
            options["sampling_alpha"] = args.subword_sampling
        batches.append(
            LengthBucketedBatches(corpus, args.tokens_per_batch, seed=args.seed, **options)
        )
    return batches
