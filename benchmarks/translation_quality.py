"""BLEU of a training run, in total and by source length, translated with the ONNX runtime.

    python benchmarks/translation_quality.py RUN --name multi30k-en-de-bahdanau

Exports RUN (see `keras-attn train translation`) with its beam width and with greedy search.
Translates RUN/data/test.source with each file in a separate process, without Keras and TensorFlow.
Writes benchmarks/results/translation_quality-NAME.json.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import sacrebleu
from arguments import argument_parser, settings_of
from results_file import versions, write_results

import keras_attn
from keras_attn.export import export_onnx
from keras_attn.files import atomic_replace, read_lines
from keras_attn.training import RunDirectory

# Ranges of source words. Multi30k captions have 4 to 33 words, joined captions up to about 100.
BOUNDS = (0, 10, 13, 17, 25, 40, 60, 1000)


def main():
    parser = argument_parser(__doc__, threads=2)
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--name", required=True, help="name of the results file")
    parser.add_argument(
        "--side-by-side",
        action="store_true",
        help="the members of an ensemble were trained in parallel: minutes of the longest one",
    )
    args = parser.parse_args()

    sources = list(read_lines(args.run_dir / "data" / "test.source"))
    references = list(read_lines(args.run_dir / "data" / "test.target"))
    history = json.loads((args.run_dir / "history.json").read_text())
    minutes = history["minutes"]
    if args.side_by_side:
        minutes = max(history["member_minutes"])
    rows = []
    for beam_width in (history["arguments"]["beam_width"], 1):
        path = args.run_dir / f"beam-{beam_width}.onnx"
        export(args.run_dir, beam_width, path)
        translations, seconds = translate(path, sources, args.threads)
        with atomic_replace(args.run_dir / f"beam-{beam_width}.translated") as partial:
            partial.write_text("\n".join(translations) + "\n")
        row = {
            "model": args.name,
            "beam_width": beam_width,
            "split": "test",
            "bleu": bleu(translations, references),
            "bleu_lowercased": bleu(translations, references, lowercase=True),
            "bleu_by_source_words": by_length(sources, translations, references),
            "minutes": round(minutes, 1),
            "cpu_minutes": round(history["cpu_minutes"], 1),
            "sentences_per_second": round(len(sources) / seconds, 1),
        }
        print(json.dumps(row, indent=2))
        rows.append(row)
    write_results(
        args.out / f"translation_quality-{args.name}.json",
        rows,
        versions("keras", "tensorflow", "onnxruntime", "sacrebleu", "sentencepiece"),
        history["arguments"]["seed"],
        settings=settings_of(args),
        training=history["arguments"],
    )


def export(run_dir, beam_width, path):
    """Exports the model of the run with a beam width."""
    run = RunDirectory(run_dir)
    translator = run.load_model()
    settings = {"beam_width": beam_width, "num_hypotheses": beam_width, "return_alignments": False}
    translator = keras_attn.with_search(translator, **settings)
    export_onnx(translator, path, run.source_tokenizer, run.target_tokenizer)


def translate(path, sources, threads):
    """Translates with the runtime's command. Returns lines, and seconds including start-up."""
    command = [sys.executable, "-m", "keras_attn_runtime", str(path), "--threads", str(threads)]
    text = "".join(f"{line}\n" for line in sources)
    started = time.perf_counter()
    process = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - started
    return process.stdout.removesuffix("\n").split("\n"), seconds


def bleu(translations, references, lowercase=False):
    """Returns the sacreBLEU score with 13a tokenization, from 0 to 100."""
    return round(sacrebleu.corpus_bleu(translations, [references], lowercase=lowercase).score, 2)


def by_length(sources, translations, references):
    """Returns BLEU for each range of source words with at least 30 sentences."""
    scores = {}
    for low, high in zip(BOUNDS, BOUNDS[1:], strict=False):
        rows = [i for i, line in enumerate(sources) if low <= len(line.split()) < high]
        if len(rows) >= 30:
            scores[f"{low}-{high - 1}"] = {
                "sentences": len(rows),
                "bleu": bleu([translations[i] for i in rows], [references[i] for i in rows]),
            }
    return scores


if __name__ == "__main__":
    main()
