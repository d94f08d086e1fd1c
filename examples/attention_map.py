"""Draws what a translator looked at: the source across, the translation down.

    python examples/attention_map.py RUN --text "en: Monday the 3rd of May 2021" --out map.png

RUN is a run directory of `train_translation.py`.
"""

import argparse
from pathlib import Path

import keras
import numpy as np

import keras_attn  # noqa: F401 - registers the layers
from keras_attn.text import SentencePieceTokenizer
from keras_attn.visualize import plot_alignments


def main():
    parser = argparse.ArgumentParser(description="Draw the attention of a translation.")
    parser.add_argument("run_dir", type=Path, help="run directory of train_translation.py")
    parser.add_argument("--text", required=True, help="sentence to translate")
    parser.add_argument("--out", type=Path, default=Path("attention.png"), help="picture to write")
    args = parser.parse_args()

    translator = keras.models.load_model(args.run_dir / "translator.keras")
    source = SentencePieceTokenizer.load(args.run_dir / "source.spm")
    target = SentencePieceTokenizer.load(args.run_dir / "target.spm")

    source_ids = source.encode([args.text])[0] + [source.end_token_id]
    results = translator(np.array([source_ids], "int32"))
    if "alignments" not in results:
        raise SystemExit(f"The model in {args.run_dir} was trained without attention.")
    # The best hypothesis: its tokens, and the end token if it came.
    token_ids = np.array(results["token_ids"][0, 0])
    token_ids = [int(token) for token in token_ids if token != target.pad_token_id]
    alignments = np.array(results["alignments"][0, 0, : len(token_ids)])  # (T, S)

    translation = target.decode([token_ids])[0]
    axes = plot_alignments(
        alignments, source.pieces(source_ids), target.pieces(token_ids), title=translation
    )
    axes.figure.savefig(args.out, dpi=150, bbox_inches="tight")
    print(f"{args.text}  ->  {translation}\n{args.out}")


if __name__ == "__main__":
    main()
