"""A translation as a line of JSON."""

import json
import math

import numpy as np
import pytest
from keras_attn_runtime import GenerationResult, Hypothesis, TopToken
from keras_attn_runtime._commands.json_line import json_line


def translation(**changes):
    values = {
        "text": "one\ntwo\u2028\0ä",
        "token_ids": [5],
        "pieces": ["▁one"],
        "score": -0.5,
        "log_prob": -1.0,
        "ended": True,
        "alignments": np.array([[1 / 3, np.float32(1e-9)]], np.float32),
        "token_log_probs": None,
    }
    return GenerationResult.from_hypotheses(
        [Hypothesis(**values | changes)], ["▁one", "</s>"], False
    )


def test_any_text_is_one_line_and_comes_back():
    line = json_line(translation())
    assert "\n" not in line and "ä" in line
    assert json.loads(line)["text"] == "one\ntwo\u2028\0ä"


def test_alignments_are_short():
    line = json_line(translation(), hypotheses=True, alignments=True)
    assert line.count('"alignments": [[0.333333, 0.0]]') == 2


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_json_cannot_write_is_null(value):
    alignments = np.array([[value, 0.5]], np.float32)
    line = json_line(translation(score=value, alignments=alignments), alignments=True)
    result = json.loads(line)
    assert (result["score"], result["alignments"]) == (None, [[None, 0.5]])


def test_log_probabilities_of_tokens_are_there_where_the_file_has_them():
    assert "token_log_probs" not in json.loads(json_line(translation()))
    line = json_line(translation(token_log_probs=[-0.5, -math.inf]), hypotheses=True)
    result = json.loads(line)
    assert result["token_log_probs"] == [-0.5, None]
    assert result["hypotheses"][0]["token_log_probs"] == [-0.5, None]


def test_most_probable_tokens_are_objects():
    assert "top_tokens" not in json.loads(json_line(translation()))
    top_tokens = [[TopToken(5, "▁one", -0.5), TopToken(7, None, -math.inf)], []]
    result = json.loads(json_line(translation(top_tokens=top_tokens), hypotheses=True))
    first = {"token_id": 5, "piece": "▁one", "log_prob": -0.5}
    second = {"token_id": 7, "piece": None, "log_prob": None}
    assert result["top_tokens"] == result["hypotheses"][0]["top_tokens"] == [[first, second], []]
