import json
import math
from typing import Any

from keras_attn_runtime._array_types import Floats
from keras_attn_runtime._classify.classification import Classification
from keras_attn_runtime._generation_result import GenerationResult, Hypothesis, TopToken


def json_line(
    translation: GenerationResult,
    hypotheses: bool = False,
    alignments: bool = False,
    file: str | None = None,
) -> str:
    """Returns one translation as a JSON object in one line, without the line end.

    Args:
        translation: `GenerationResult`.
        hypotheses: bool, whether the object contains the list `hypotheses`. Default: False.
        alignments: bool, whether the object and each item in `hypotheses` contain `alignments`,
            rounded to six decimals. Default: False.
        file: string, name of the file read, which becomes the object's first entry. Default: no
            such entry.

    Returns:
        String. The object contains `token_log_probs`, `top_tokens`, `constraints_met` and
        `stop_text` if the translation does. Numbers that JSON does not support (nan, inf) are null.
    """
    entries: dict[str, Any] = {} if file is None else {"file": file}
    entries |= _entries(translation, alignments) | {
        "source_pieces": translation.source_pieces,
        "truncated": translation.truncated,
    }
    if hypotheses:
        entries["hypotheses"] = [
            _entries(hypothesis, alignments) for hypothesis in translation.hypotheses
        ]
    return json.dumps(entries, ensure_ascii=False, allow_nan=False)


def classification_line(result: Classification, attention: bool = False) -> str:
    """Returns one classification as a JSON object in one line, without the line end.

    Args:
        result: `Classification`.
        attention: bool, whether the object contains `attention`, rounded to six decimals. Default:
            False.
    """
    entries: dict[str, Any] = {
        "label": result.label,
        "probability": _rounded(result.probability),
        "probabilities": {label: _rounded(each) for label, each in result.probabilities.items()},
        "pieces": result.pieces,
        "truncated": result.truncated,
    }
    if attention:
        entries["attention"] = [] if result.attention is None else _weights(result.attention)
    return json.dumps(entries, ensure_ascii=False, allow_nan=False)


def _entries(hypothesis: Hypothesis, alignments: bool) -> dict[str, Any]:
    entries: dict[str, Any] = {
        "text": hypothesis.text,
        "score": _number(hypothesis.score),
        "log_prob": _number(hypothesis.log_prob),
        "ended": hypothesis.ended,
        "token_ids": hypothesis.token_ids,
        "pieces": hypothesis.pieces,
    }
    if hypothesis.token_log_probs is not None:
        entries["token_log_probs"] = [_number(value) for value in hypothesis.token_log_probs]
    if hypothesis.top_tokens is not None:
        entries["top_tokens"] = [
            [_top_token(each) for each in position] for position in hypothesis.top_tokens
        ]
    if hypothesis.constraints_met is not None:
        entries["constraints_met"] = hypothesis.constraints_met
    if hypothesis.stop_text is not None:
        entries["stop_text"] = hypothesis.stop_text
    if alignments and hypothesis.alignments is not None:
        entries["alignments"] = _weights(hypothesis.alignments)
    return entries


def _top_token(token: TopToken) -> dict[str, Any]:
    return {
        "token_id": token.token_id,
        "piece": token.piece,
        "log_prob": _number(token.log_prob),
    }


def _rounded(value: float | None) -> float | None:
    """Returns a float32 number with its six significant digits."""
    return None if value is None else float(f"{value:.6g}")


def _weights(weights: Floats) -> list[Any]:
    if weights.ndim > 1:
        return [_weights(row) for row in weights]
    # Convert to float64: rounded float32 values would be written with many more digits.
    return [_number(weight) for weight in weights.astype(float).round(6).tolist()]


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
