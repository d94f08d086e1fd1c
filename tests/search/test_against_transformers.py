"""Searches return the hypotheses of Hugging Face's `generate`.

`make_transformers_answers.py` recorded these.
"""

import json

import numpy as np
import pytest

from keras_attn import BeamDecoder, GreedyDecoder
from tests.contracts import numpy
from tests.search.make_transformers_answers import ANSWERS, BATCH, MAX_LENGTH, SETTINGS
from tests.search.table_decoder import TableDecoder, random_tables

NAMES = {  # of an argument of `generate`: ours
    "num_beams": "beam_width",
    "num_return_sequences": "num_hypotheses",
    "min_new_tokens": "min_length",
    "suppress_tokens": "suppressed_token_ids",
    "early_stopping": "stop",
}
STOPS = {True: "collected", False: "heuristic", "never": "exact"}  # by `early_stopping`


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_search_equals_generate_of_transformers(setting):
    tables, arguments = SETTINGS[setting]
    arguments = {NAMES.get(name, name): value for name, value in arguments.items()}
    if "stop" in arguments:
        arguments["stop"] = STOPS[arguments["stop"]]
    search_class = BeamDecoder if "beam_width" in arguments else GreedyDecoder
    search = search_class(
        TableDecoder(),
        max_length=MAX_LENGTH,
        relative_max_length=None,
        length_penalty_form="average_with_end",
        **arguments,
    )
    found = numpy(search(random_tables(batch=BATCH, **tables)))
    expected = json.loads(ANSWERS.read_text())[setting]
    for sentence, hypotheses in enumerate(expected):
        for column, hypothesis in enumerate(hypotheses):
            tokens = found["token_ids"][sentence, column]
            length = len(hypothesis["token_ids"])
            assert tokens[:length].tolist() == hypothesis["token_ids"]
            assert not tokens[length:].any()
            if "score" in hypothesis:
                np.testing.assert_allclose(
                    found["scores"][sentence, column], hypothesis["score"], atol=1e-5
                )
