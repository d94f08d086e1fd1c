"""BLEU of a translator that is fused with a language model, for several weights.

    python benchmarks/fusion.py RUN LANGUAGE_MODEL --name tatoeba-en-fr

RUN is a run directory of `keras-attn train translation`. LANGUAGE_MODEL is a run directory, or a
`.keras` file with a `GenerationModel`. It must be trained with the target tokenizer of RUN, on
sentences between a start and an end token (see docs/language-models.md). Translates the first
sentences of RUN/data/test.source with Keras and the search settings of RUN, for each weight of the
language model; weight 0 is the translator alone.

Writes `benchmarks/results/fusion-NAME.json`.
"""

import itertools
import json
from pathlib import Path

import sacrebleu
from arguments import argument_parser, settings_of
from results_file import versions, write_results

WEIGHTS = [0.0, 0.05, 0.1, 0.2, 0.3]


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("language_model", type=Path, help="run directory or .keras file")
    parser.add_argument("--name", required=True, help="name of the results file")
    parser.add_argument("--weights", type=float, nargs="+", default=WEIGHTS)
    parser.add_argument("--sentences", type=int, default=300)
    parser.add_argument("--split", default="test", help="RUN/data/SPLIT.source is translated")
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()
    from keras_attn.training import RunDirectory

    run = RunDirectory(args.run_dir)
    translator, language_model = run.load_model("generation"), load_decoder(args, run)
    sources, references = (first_lines(args, kind) for kind in ("source", "target"))
    training = json.loads((args.run_dir / "history.json").read_text()).get("arguments", {})
    rows = []
    for weight in args.weights:
        model = fuse(translator, language_model, weight)
        tokenizers = run.source_tokenizer, run.target_tokenizer
        texts = model.generate(sources, *tokenizers, batch_size=args.batch_size)
        row = {
            "model": f"{args.name}, weight {weight:g}",
            "split": args.split,
            "weight": weight,
            "bleu": round(sacrebleu.corpus_bleu(texts, [references]).score, 2),
            "sentences": len(texts),
        }
        print(json.dumps(row))
        rows.append(row)
    write_results(
        args.out / f"fusion-{args.name}.json",
        rows,
        versions("keras", "tensorflow", "sacrebleu"),
        training.get("seed"),
        settings=settings_of(args),
        training=training,
    )


def load_decoder(args, run):
    """Returns the decoder of the language model."""
    import keras

    from keras_attn.training import RunDirectory

    if args.language_model.is_file():
        return keras.saving.load_model(args.language_model, compile=False).decoder
    other = RunDirectory(args.language_model)
    tokenizer = run.target_tokenizer or run.source_tokenizer
    if other.source_tokenizer.model != tokenizer.model:
        raise SystemExit(
            f"Expected a language model with the target tokenizer of {args.run_dir}. Received: "
            f"{args.language_model}, whose tokenizer differs. Train it with that tokenizer."
        )
    return other.load_model("generation").decoder


def fuse(translator, language_model, weight):
    """Returns the translator with its search settings and a language model."""
    import keras_attn

    search = translator.search
    decoder = keras_attn.FusedDecoder(search.decoder, language_model, weight)
    fused = type(search)(**{**search.get_config(), "decoder": decoder})
    return keras_attn.GenerationModel(translator.encoder, fused, inputs=translator.source)


def first_lines(args, kind):
    """Returns the first sentences of the data of the run."""
    from keras_attn.files import read_lines

    lines = read_lines(args.run_dir / "data" / f"{args.split}.{kind}")
    return list(itertools.islice(lines, args.sentences))


if __name__ == "__main__":
    main()
