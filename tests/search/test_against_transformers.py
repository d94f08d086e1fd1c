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
}
VALUES = {  # of an argument of `generate`, and its value: our arguments
    "early_stopping": lambda value: {
        "stop": {True: "collected", False: "heuristic", "never": "exact"}[value]
    },
    "forced_bos_token_id": lambda value: {"forced_prefix_ids": [value]},
    "forced_eos_token_id": lambda value: {"force_end_token": True, "end_token_id": value},
}


def our_arguments(arguments):
    found = {}
    for name, value in arguments.items():
        found |= VALUES[name](value) if name in VALUES else {NAMES.get(name, name): value}
    return found


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_search_equals_generate_of_transformers(setting):
    tables, arguments = SETTINGS[setting]
    arguments = our_arguments(arguments)
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
