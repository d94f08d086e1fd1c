"""Draws the attention weights of a translation: source tokens as columns, translation as rows.

    python examples/attention_map.py RUN --text "en: Monday the 3rd of May 2021" --out map.png
    python examples/attention_map.py RUN --text "en: May 3, 2021" "de: 3. Mai 2021" --html map.html

RUN is a run directory of a translator. With `--heads`, the picture shows every layer and
head of a Transformer, either of the cross-attention (`memory`), or of the self-attention in the
encoder or decoder. For an ensemble, the picture shows the first model. With `--html`, the result is
an interactive page for several sentences, layers and heads.
"""

import argparse
from pathlib import Path

import numpy as np

import keras_attn
from keras_attn.files import atomic_replace, separate_paths_problem
from keras_attn.training import RunDirectory
from keras_attn.visualize import plot_alignments, plot_attention_grid, write_alignment_html

HEADS = {
    "memory": ("decoder", "cross_attention_layer"),
    "encoder": ("encoder", "self_attention"),
    "decoder": ("decoder", "self_attention"),
}


def main():
    parser = argparse.ArgumentParser(description="Draw the attention of a translation.")
    parser.add_argument("run_dir", type=Path, help="run directory of a translator")
    parser.add_argument("--text", required=True, nargs="+", help="sentence, or several with --html")
    parser.add_argument("--out", type=Path, default=Path("attention.png"), help="picture to write")
    parser.add_argument("--html", type=Path, help="page to write instead of the picture")
    parser.add_argument("--heads", choices=HEADS, help="draw all layers and heads of a Transformer")
    args = parser.parse_args()
    if args.html is None and len(args.text) > 1:
        parser.error("a picture shows one sentence: pass one --text, or pass --html")
    if problem := separate_paths_problem(
        {"--out": args.out, "--html": args.html}, {"RUN": args.run_dir}
    ):
        parser.error(problem)

    run = RunDirectory(args.run_dir)
    translator, source, target = run.load_model(), run.source_tokenizer, run.target_tokenizer
    examples = []
    for text in args.text:
        source_ids = source.encode([text])[0] + [source.end_token_id]
        results = translator(np.array([source_ids], "int32"))
        if "alignments" not in results:
            raise SystemExit(f"The model in {args.run_dir} was trained without attention.")
        # The tokens of the best hypothesis, including the end token, if any.
        token_ids = np.array(results["token_ids"][0, 0])
        token_ids = [int(token) for token in token_ids if token != target.pad_token_id]
        translation = target.decode([token_ids])[0]
        print(f"{text}  ->  {translation}")
        source_pieces, target_pieces = source.pieces(source_ids), target.pieces(token_ids)
        read_pieces = target.pieces([target.start_token_id, *token_ids[:-1]])
        if args.heads is None:
            alignments = np.array(results["alignments"][0, 0, : len(token_ids)])  # (T, S)
        else:
            alignments = all_heads(translator, args.heads, source_ids, token_ids)
        examples.append(
            {
                "source_tokens": read_pieces if args.heads == "decoder" else source_pieces,
                "target_tokens": source_pieces if args.heads == "encoder" else target_pieces,
                "alignments": alignments,
            }
        )

    if args.html is not None:
        write_alignment_html(args.html, examples)
        print(args.html)
        return
    tokens = examples[0]["source_tokens"], examples[0]["target_tokens"]
    if args.heads is None:
        figure = plot_alignments(alignments, *tokens, title=translation).figure
    else:
        figure = plot_attention_grid(alignments, *tokens, title=translation)
    with atomic_replace(args.out) as partial:
        figure.savefig(partial, dpi=150, bbox_inches="tight")
    print(args.out)


def all_heads(translator, side, source_ids, token_ids):
    """Returns the weights `(heads, rows, columns)` of each block for source and translation."""
    encoder, decoder = translator.encoder, translator.decoder
    read = np.array([[translator.search.start_token_id, *token_ids[:-1]]], "int32")
    with keras_attn.record_attention_scores() as scores:
        decoder(read, **encoder(np.array([source_ids], "int32")))
    of_side, of_layer = HEADS[side]
    chosen = {
        path.split("/")[-2]: weights[0]  # (H, T, S)
        for path, weights in scores.items()
        if of_side in path.split("/") and path.endswith(of_layer)
    }
    if not chosen:
        raise SystemExit(f"The model has no {of_layer}; --heads is for Transformers.")
    return chosen


if __name__ == "__main__":
    main()
