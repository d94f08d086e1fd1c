"""Draws the attention weights of translations: source tokens as columns, translation as rows.

    python examples/attention_map.py RUN SENTENCES --out attention.png
    python examples/attention_map.py RUN SENTENCES --out attention.html

RUN is a run directory of a translator, and SENTENCES is a text file with one sentence in each line.
A picture shows the first sentence. A page shows all sentences, and all layers and heads of the
cross-attention of a Transformer. For an ensemble, both show the first model.
"""

import argparse
from pathlib import Path

import numpy as np

import keras_attn
from keras_attn.files import atomic_replace, read_lines, separate_paths_problem
from keras_attn.training import RunDirectory
from keras_attn.visualize import plot_alignments, write_alignment_html


def main():
    parser = argparse.ArgumentParser(description="Draw the attention of translations.")
    parser.add_argument("run", metavar="RUN", type=Path, help="run directory of a translator")
    parser.add_argument("sentences", metavar="SENTENCES", type=Path, help="text file")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("attention.png"),
        help="picture (.png) of the first sentence, or page (.html) of all. Default: %(default)s",
    )
    args = parser.parse_args()
    inputs = {"RUN": args.run, "SENTENCES": args.sentences}
    if problem := separate_paths_problem({"--out": args.out}, inputs):
        parser.error(problem)
    if args.out.suffix not in (".png", ".html"):
        parser.error(f"expected --out FILE.png or FILE.html, received {args.out}")

    try:
        texts = [line for line in read_lines(args.sentences) if line.strip()]
        run = RunDirectory(args.run)
        translator = run.load_model("generation")
    except (OSError, ValueError) as error:
        raise SystemExit(str(error)) from error
    if not texts:
        raise SystemExit(f"Expected sentences. Received: only blank lines in {args.sentences}.")
    is_page = args.out.suffix == ".html"
    examples = []
    for text in texts if is_page else texts[:1]:
        example = translate(translator, text, run.source_tokenizer, run.target_tokenizer, is_page)
        if example is None:
            raise SystemExit(f"The model in {args.run} was trained without attention.")
        examples.append(example)

    if is_page:
        write_alignment_html(args.out, examples)
    else:
        (example,) = examples
        figure = plot_alignments(
            example["alignments"], example["source_tokens"], example["target_tokens"]
        ).figure
        with atomic_replace(args.out) as partial:
            figure.savefig(partial, dpi=150, bbox_inches="tight")
    print(f"Wrote {args.out}")
    if len(texts) > len(examples):
        print(f"It shows the first of {len(texts)} sentences. A page shows all: --out FILE.html")


def translate(translator, text, source, target, with_heads):
    """Returns tokens and attention weights of the best hypothesis; `None` without attention."""
    source_ids = source.encode([text])[0] + [source.end_token_id]
    results = translator(np.array([source_ids], "int32"))
    if "alignments" not in results:
        return None
    # The tokens of the best hypothesis, including the end token, if any.
    token_ids = np.array(results["token_ids"][0, 0])
    token_ids = [int(token) for token in token_ids if token != target.pad_token_id]
    print(f"{text}  ->  {target.decode([token_ids])[0]}")
    alignments = np.array(results["alignments"][0, 0, : len(token_ids)])  # (T, S)
    if with_heads and isinstance(translator.decoder, keras_attn.TransformerDecoder):
        alignments = cross_attention(translator, source_ids, token_ids)
    return {
        "source_tokens": source.pieces(source_ids),
        "target_tokens": target.pieces(token_ids),
        "alignments": alignments,
    }


def cross_attention(translator, source_ids, token_ids):
    """Returns a dict from the blocks to the weights `(heads, T, S)` of their cross-attention."""
    read = np.array([[translator.search.start_token_id, *token_ids[:-1]]], "int32")
    with keras_attn.record_attention_scores() as scores:
        translator.decoder(read, **translator.encoder(np.array([source_ids], "int32")))
    return {
        path.split("/")[-2]: weights[0]
        for path, weights in scores.items()
        if path.endswith("cross_attention_layer")
    }


if __name__ == "__main__":
    main()
