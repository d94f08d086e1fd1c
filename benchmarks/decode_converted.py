"""Speed of an exported checkpoint, compared with other engines, on a CPU or a GPU.

    python benchmarks/decode_converted.py model-float32.onnx model-int8.onnx \
        --transformers FOLDER --ctranslate2 ct2-float32 ct2-int8 --name opus_mt
    python benchmarks/decode_converted.py model-float32.onnx model-float16.onnx \
        --transformers FOLDER --name opus_mt-h100 --device cuda

The files are exports of one model in several precisions. FOLDER is the checkpoint from which the
model was converted; `transformers` must be installed. The directories of `--ctranslate2` were
written by `keras-attn export ctranslate2` without tokenizers, one for each precision. The files
of `--beam-search` contain the operator `BeamSearch` of ONNX Runtime; `convert_model` of the package
teradata-opus-translate writes such files from FOLDER. The names of files and directories end with
the precision, such as `-int8`. Each file is compared with the peers of the same precision. A GPU
needs `keras-attn-runtime[gpu]`.

The sources have random lengths and ids. The settings of the model must force the length of all
hypotheses, for example with `min_length`, so that all files and peers compute the same number of
steps. The files and peers take turns, and each measurement runs in a separate process. A
measurement translates a batch once for the warm-up, and then `--repeats` times. On a GPU, ONNX
Runtime computes float32 without TensorFloat-32 (`use_tf32=0`), as PyTorch does by default.

Writes `benchmarks/results/decode_converted-NAME.json`. For each file and batch size, it contains:

- the generated tokens of the best hypotheses per second;
- the fraction of the sources with the same best hypothesis as the first file on the CPU;
- the fraction of the sources with the same best hypothesis as the peer;
- for a GPU, the number of nodes that copy tensors between the CPU and the GPU.
"""

import statistics
import tempfile
import time
from argparse import Namespace
from collections import Counter
from pathlib import Path

import numpy as np
from arguments import argument_parser, settings_of
from own_process import main_or_measurement, measure_in_turn
from results_file import versions, write_results

PROVIDERS = {"cpu": "cpu", "cuda": [("cuda", {"use_tf32": "0"})]}


def main():
    parser = argument_parser(__doc__, threads=1, seed=1)
    parser.add_argument("files", nargs="+", help="exported ONNX files, the float32 file first")
    parser.add_argument("--name", required=True, help="name of the results file")
    parser.add_argument("--transformers", default="", help="folder of the checkpoint")
    parser.add_argument(
        "--ctranslate2", nargs="*", default=[], help="directories of CTranslate2 models"
    )
    parser.add_argument("--beam-search", nargs="*", default=[], help="files with BeamSearch")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--source-length", type=int, default=24, help="ids of the longest source")
    parser.add_argument("--length", type=int, default=24, help="tokens of each hypothesis")
    parser.add_argument("--beam-width", type=int, default=4, help="beam width of CTranslate2")
    parser.add_argument("--repeats", type=int, default=5, help="timed batches of a measurement")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    once = Namespace(**{**vars(args), "rounds": 1, "repeats": 1, "device": "cpu"})
    (cpu,) = measure_in_turn(__file__, args.files[:1], once)[args.files[0]]
    precisions = ["float32", "float16"] if args.device == "cuda" else ["float32"]
    peers = {f"transformers, {each}": each for each in precisions if args.transformers}
    peers |= {f"CTranslate2, {precision_of(path)}": path for path in args.ctranslate2}
    peers |= {f"BeamSearch, {precision_of(path)}": path for path in args.beam_search}
    found = measure_in_turn(__file__, [*args.files, *peers.values()], args)
    rows = [
        row
        for path in args.files
        for size in args.batch_sizes
        for row in rows_of(path, str(size), found, cpu, peers)
    ]
    engine = "onnxruntime-gpu" if args.device == "cuda" else "onnxruntime"
    facts = {"device": device_name()} if args.device == "cuda" else {}
    write_results(
        args.out / f"decode_converted-{args.name}.json",
        rows,
        versions(
            engine,
            *(["torch", "transformers"] if args.transformers else []),
            *(["ctranslate2"] if args.ctranslate2 else []),
        ),
        args.seed,
        settings=settings_of(args),
        **facts,
    )


def rows_of(path, size, found, cpu, peers):
    """Yields the rows of a file and a batch size: one for each peer."""
    ours = found[path]
    ids = ours[0]["ids"][size]
    scores = np.array(ours[0]["scores"][size])
    row = {
        "model": f"{Path(path).stem}, batch {size}",
        "unit": "tokens/s",
        "ours": speed(ours, size),
        "same_best_as_cpu": agreement(ids, cpu["ids"][size]),
        "largest_score_difference": float(np.abs(scores - cpu["scores"][size]).max()),
        "load_seconds": round(statistics.median(each["load_seconds"] for each in ours), 1),
        **ours[0]["copies"],
    }
    chosen = [each for each in peers.items() if each[0].endswith(precision_of(path))]
    if not chosen:
        yield row
    for peer, side in chosen:
        theirs = speed(found[side], size)
        yield {
            **row,
            "peer": peer,
            "theirs": theirs,
            "ratio": round(row["ours"] / theirs, 3),
            "same_best_as_peer": agreement(ids, found[side][0]["ids"][size]),
        }


def precision_of(path):
    """Returns the last part of a name, such as "int8" of "model-int8.onnx"."""
    return Path(path).stem.rpartition("-")[2]


def speed(measurements, size):
    return round(statistics.median(each["tokens_per_second"][size] for each in measurements), 1)


def agreement(ours, theirs):
    return round(float(np.mean([a == b for a, b in zip(ours, theirs, strict=True)])), 4)


def measure(args, side):
    """Returns load time, copying nodes, and speeds, best ids and scores by batch size."""
    begin = time.perf_counter()
    if side in args.beam_search:
        translate, vocabulary_size = open_beam_search(side, args)
        copies = {}
    elif side.endswith(".onnx"):
        translate, vocabulary_size = open_file(side, args)
        copies = copying_nodes(side) if args.device == "cuda" else {}
    elif side in args.ctranslate2:
        translate, vocabulary_size = open_ctranslate2(side, args)
        copies = {}
    else:
        translate, vocabulary_size = open_checkpoint(args.transformers, side, args)
        copies = {}
    load_seconds = time.perf_counter() - begin
    measured = {"load_seconds": load_seconds, "copies": copies}
    measured |= {"tokens_per_second": {}, "ids": {}, "scores": {}}
    for size in args.batch_sizes:
        sources = random_sources(size, vocabulary_size, args)
        ids, scores = translate(sources)
        begin = time.perf_counter()
        for _ in range(args.repeats):
            translate(sources)
        seconds = (time.perf_counter() - begin) / args.repeats
        measured["tokens_per_second"][size] = size * args.length / seconds
        measured["ids"][size], measured["scores"][size] = ids, scores
    return measured


def random_sources(size, vocabulary_size, args):
    generator = np.random.default_rng(args.seed)
    lengths = generator.integers(args.source_length // 2, args.source_length + 1, size)
    return [generator.integers(4, vocabulary_size - 1, length).tolist() for length in lengths]


def open_file(path, args):
    """Returns a function from sources to ids and scores, and the size of the vocabulary."""
    from keras_attn_runtime import Translator

    translator = Translator(path, PROVIDERS[args.device], num_threads=args.threads)
    options = {"seed": args.seed} if translator.is_stochastic else {}

    def translate(sources):
        translations = translator.translate_ids(
            sources, max_length=args.length, batch_size=len(sources), **options
        )
        return [each.token_ids for each in translations], [each.score for each in translations]

    return translate, translator.settings.source.vocabulary_size


def open_checkpoint(folder, precision, args):
    """Does the same as `open_file` for a checkpoint of transformers."""
    import torch
    from transformers import AutoModelForSeq2SeqLM

    torch.set_num_threads(args.threads)

    model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=getattr(torch, precision))
    model = model.to(args.device).eval()
    config = model.config

    def translate(sources):
        ids = torch.tensor(padded(sources, config), device=args.device)
        with torch.inference_mode():
            found = model.generate(
                input_ids=ids,
                attention_mask=ids != config.pad_token_id,
                max_length=args.length + 1,
                min_length=args.length + 1,
            )
        return hypotheses_of(found, config)

    return translate, config.vocab_size


def open_beam_search(path, args):
    """Does the same as `open_file` for an ONNX file with the operator `BeamSearch`."""
    import onnxruntime
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(args.transformers)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    settings = {
        "num_beams": np.array([args.beam_width], "int32"),
        "min_length": np.array([args.length + 1], "int32"),
        "max_length": np.array([args.length + 1], "int32"),
        "length_penalty": np.array([1.0], "float32"),
        "repetition_penalty": np.array([1.0], "float32"),
    }

    def translate(sources):
        ids = padded(sources, config).astype("int32")
        mask = (ids != config.pad_token_id).astype("int32")
        (found,) = session.run(None, {"input_ids": ids, "attention_mask": mask, **settings})
        return hypotheses_of(found[:, 0], config)

    return translate, config.vocab_size


def padded(sources, config):
    """Returns an array of the sources with end tokens and padding."""
    rows = np.full((len(sources), max(map(len, sources)) + 1), config.pad_token_id)
    for row, source in zip(rows, sources, strict=True):
        row[: len(source) + 1] = [*source, config.eos_token_id]
    return rows


def hypotheses_of(rows, config):
    """Returns lists of ids without start and end tokens, and scores of 0."""
    end, hypotheses = config.eos_token_id, [row[1:] for row in rows.tolist()]
    return [row[: (row + [end]).index(end)] for row in hypotheses], [0.0] * len(hypotheses)


def open_ctranslate2(folder, args):
    """Does the same as `open_file` for a model of CTranslate2, whose tokens are decimal ids."""
    import json

    import ctranslate2

    translator = ctranslate2.Translator(folder, device=args.device, intra_threads=args.threads)
    vocabulary = json.loads((Path(folder) / "shared_vocabulary.json").read_text())

    def translate(sources):
        results = translator.translate_batch(
            [[vocabulary[index] for index in source] for source in sources],
            beam_size=args.beam_width,
            min_decoding_length=args.length,
            max_decoding_length=args.length,
            return_scores=True,
        )
        ids = [
            [int(token) for token in each.hypotheses[0] if token.isdecimal()] for each in results
        ]
        return ids, [each.scores[0] for each in results]

    return translate, len(vocabulary)


def copying_nodes(path):
    """Counts the nodes of a CUDA session that copy tensors between the CPU and the GPU."""
    import onnx
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = f"{folder}/optimized.onnx"
        options.log_severity_level = 4
        onnxruntime.InferenceSession(path, options, providers=["CUDAExecutionProvider"])
        graph = onnx.load(options.optimized_model_filepath).graph
    counts = Counter()

    def count(graph, place):
        for node in graph.node:
            counts[place] += node.op_type in ("MemcpyFromHost", "MemcpyToHost")
            inside = "copies_in_loops" if node.op_type == "Loop" else place
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    count(attribute.g, inside)

    count(graph, "copies_outside_loops")
    return {name: counts[name] for name in ("copies_outside_loops", "copies_in_loops")}


def device_name():
    import subprocess

    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main_or_measurement(main, measure)
