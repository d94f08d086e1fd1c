"""Quality and speed of a translation with required phrases.

    python benchmarks/constraints.py RUN --name tatoeba-en-fr

Exports RUN (see `keras-attn train translation`) with and without the input `constraint_ids`, for
each beam width. Translates the first sentences of RUN/data/test.source with one to three words of
each reference as required phrases, and without phrases. Each measurement runs in a separate
process, without Keras and TensorFlow, and the sides take turns. The time is the CPU time divided by
the number of generated tokens.

Writes `benchmarks/results/constraints-NAME.json`.
"""

import random
import re
import statistics
import tempfile
import time
from pathlib import Path

from arguments import argument_parser, settings_of
from own_process import main_or_measurement, measure_in_turn
from results_file import versions, write_results

SIDES = ("plain file", "no phrases", "phrases")
WORD = re.compile(r"[\w'’-]{3,}")


def main():
    parser = argument_parser(__doc__, threads=1, seed=1)
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--name", required=True, help="name of the results file")
    parser.add_argument("--widths", type=int, nargs="+", default=[4, 8], help="beam widths")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for width in args.widths:
            export(args.run_dir, folder, width)
            what = {"folder": folder, "width": width, "run": str(args.run_dir.resolve())}
            found = measure_in_turn(__file__, SIDES, args, **what)
            rows += [row_of(found, side, args.name, width) for side in SIDES[1:]]
            print(*rows[-2:], sep="\n")
    write_results(
        args.out / f"constraints-{args.name}.json",
        rows,
        versions("keras", "tensorflow", "onnxruntime", "sacrebleu"),
        args.seed,
        settings=settings_of(args),
    )


def row_of(found, side, name, width):
    ours, theirs = ([row["microseconds"] for row in found[each]] for each in (side, SIDES[0]))
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    quality = {key: value for key, value in found[side][0].items() if key != "microseconds"}
    return {
        "model": f"{name} with {side}, beam width {width}",
        "ours": round(statistics.median(ours), 1),
        "theirs": round(statistics.median(theirs), 1),
        "peer": "a file without the input constraint_ids",
        "unit": "CPU microseconds a token",
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(min(ratios), 3), round(max(ratios), 3)],
        **quality,
        **{f"{key}_of_peer": found[SIDES[0]][0][key] for key in quality if key != "phrases"},
    }


def export(run_dir, folder, width):
    from keras_attn import with_search
    from keras_attn.export import export_onnx
    from keras_attn.training import RunDirectory

    run = RunDirectory(run_dir)
    model = with_search(run.load_model(), beam_width=width)
    for accept in (False, True):
        export_onnx(
            model,
            Path(folder, f"{width}-{accept}.onnx"),
            run.source_tokenizer,
            run.target_tokenizer,
            accept_constraints=accept,
        )


def phrases_of(references, translator, seed):
    """Returns one to three words of each reference that the target vocabulary contains."""
    generator = random.Random(seed)
    found = []
    for reference in references:
        words = [word for word in WORD.findall(reference) if is_known(word, translator)]
        found.append(generator.sample(words, min(len(words), generator.randint(1, 3))))
    return found


def is_known(word, translator):
    tokenizer = translator._model.target_tokenizer
    return tokenizer.unknown_token_id not in tokenizer.encode(word)


def contains(text, phrase):
    return re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text) is not None


def measure(args, side, folder, width, run):
    import sacrebleu
    from keras_attn_runtime import Translator

    data = Path(run, "data")
    sources, references = (
        Path(data, f"test.{kind}").read_text(encoding="utf-8").split("\n")[: args.sentences]
        for kind in ("source", "target")
    )
    file = Path(folder, f"{width}-{side != SIDES[0]}.onnx")
    translator = Translator(file, num_threads=args.threads)
    phrases = phrases_of(references, translator, args.seed)
    constraints = {"constraints": phrases} if side == SIDES[2] else {}
    translator.translate(sources[:32], batch_size=args.batch_size)
    start = time.process_time()
    results = translator.translate(sources, batch_size=args.batch_size, **constraints)
    seconds = time.process_time() - start
    texts = [result.text for result in results]
    tokens = sum(len(result.token_ids) + bool(result.ended) for result in results)
    contained = [
        contains(text, phrase) for text, own in zip(texts, phrases, strict=True) for phrase in own
    ]
    return {
        "microseconds": 1e6 * seconds / tokens,
        "bleu_of_texts": round(sacrebleu.corpus_bleu(texts, [references]).score, 2),
        "phrases": len(contained),
        "contained": sum(contained),
        "ended": sum(bool(result.ended) for result in results),
    }


if __name__ == "__main__":
    main_or_measurement(main, measure)
