"""Classifies texts with a Keras model, and scores labels."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_attn.text import HuggingFaceTokenizer, LabelledBatches, SentencePieceTokenizer


class Classified(NamedTuple):
    """A classified text: class probabilities, pieces and their weights, and whether it was cut."""

    probabilities: np.ndarray
    pieces: list[str]
    weights: np.ndarray
    truncated: bool = False


def classify_texts(
    model: keras.Model,
    tokenizer: SentencePieceTokenizer | HuggingFaceTokenizer,
    texts: Sequence[str],
    max_length: int,
) -> list[Classified]:
    """Classifies texts with a `sequence_classifier(..., return_attention_scores=True)`.

    Args:
        model: The model.
        tokenizer: The model's tokenizer.
        texts: Strings.
        max_length: Positive int, tokens after which a text is cut.
    """
    encoded = tokenizer.encode(list(texts))
    rows = [ids[:max_length] for ids in encoded]
    found: dict[int, Classified] = {}
    # The labels of the batches are the positions of the texts.
    batches = LabelledBatches(
        rows,
        np.arange(len(rows)),
        batch_size=64,
        shuffle=False,
        length_multiple=8,
        pad_token_id=tokenizer.pad_token_id,
    )
    for ids, positions in map(batches.batch, range(len(batches))):
        outputs: Any = model.predict_on_batch(ids)
        probabilities = keras.ops.convert_to_numpy(keras.ops.softmax(outputs["logits"]))
        for position, *result in zip(
            positions.tolist(), probabilities, outputs["attention"], strict=True
        ):
            row, is_cut = rows[position], len(encoded[position]) > max_length
            weights = result[1][: len(row)]
            found[position] = Classified(result[0], tokenizer.pieces(row), weights, is_cut)
    return [found[position] for position in range(len(rows))]


def score_labels(predicted: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """Computes accuracy and F1.

        F1 = 2 TP / (2 TP + FP + FN),    macro F1: the mean over the labels

    Returns:
        Dict with `accuracy`, `most_frequent` (the accuracy if the most frequent label is always
        predicted), `macro_f1`, `f1` (a dict from each label to a number), and the `texts` count.
    """
    found, right = np.array(predicted), np.array(references)
    f1 = {}
    for label in sorted({*predicted, *references}):
        errors = int(((found == label) != (right == label)).sum())  # FP + FN
        hits = int(((found == label) & (right == label)).sum())  # TP
        f1[label] = 2 * hits / (2 * hits + errors)
    _, counts = np.unique(right, return_counts=True)
    return {
        "accuracy": float((found == right).mean()),
        "most_frequent": float(counts.max() / len(right)),
        "macro_f1": float(np.mean(list(f1.values()))),
        "f1": f1,
        "texts": len(right),
    }


def label_score_text(scores: dict[str, Any]) -> str:
    """Formats the scores from `score_labels`, with the labels that have the lowest F1."""
    f1 = sorted(scores["f1"].items(), key=lambda item: item[1])
    shown = ", ".join(f"{label} {value:.3f}" for label, value in f1[:10])
    return (
        f"accuracy {100 * scores['accuracy']:.2f} % of {scores['texts']:,} texts (the most "
        f"frequent label: {100 * scores['most_frequent']:.2f} %), macro F1 "
        f"{scores['macro_f1']:.3f} ({shown}{', ...' if len(f1) > 10 else ''})"
    )
