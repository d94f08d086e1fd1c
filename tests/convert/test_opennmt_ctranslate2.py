"""Greedy and beam search of converted Transformers of OpenNMT-tf against CTranslate2."""

import itertools

import numpy as np
import pytest

pytest.importorskip("ctranslate2")
pytest.importorskip("tensorflow")

from keras_attn import BeamDecoder, GreedyDecoder  # noqa: E402
from keras_attn.convert import from_opennmt_tf  # noqa: E402
from tests.convert.opennmt_checkpoints import (  # noqa: E402
    arguments_text,
    opennmt_variables,
    random_source_ids,
    write_opennmt,
)
from tests.convert.opennmt_ctranslate2 import ctranslate2_ids, write_ctranslate2  # noqa: E402
from tests.convert.test_opennmt_models import CASES  # noqa: E402

NUM_SOURCES, MAX_LENGTH = 200, 12
ENDS = [(0.0, 1.0), (1.0, 1.0), (2.0, 1.0), (1.0, 2.0), (2.0, 4.0), (0.0, 8.0)]
SUPPORTED = [name for name in CASES if name != "learned positions"]
"""CTranslate2's sinusoids are computed, so that they are independent of ours."""


def without_end(rows):
    return [row[: row.index(2)] if 2 in row else row for row in rows]


def find_lengths(path, options):
    """Variables, of several random ones, whose greedy outputs have the most different lengths."""
    sources, found = random_source_ids(NUM_SOURCES), []
    for seed, (end_bias, end_scale) in itertools.product(range(4), ENDS):
        ends = {"seed": seed, "end_bias": end_bias, "end_scale": end_scale}
        variables = opennmt_variables(**{**options, **ends})
        folder = write_ctranslate2(path / f"model-{len(found)}", variables, **options)
        ids = ctranslate2_ids(folder, sources, 1, MAX_LENGTH)
        found.append((len({len(row) for row in ids}), len(found), variables))
    return max(found, key=lambda each: each[:2])[2]


@pytest.mark.slow
@pytest.mark.parametrize("name", SUPPORTED)
def test_opennmt_ids_equal_ctranslate2(tmp_path, name):
    options = CASES[name]
    variables = find_lengths(tmp_path, options)
    theirs = write_ctranslate2(tmp_path / "ctranslate2", variables, **options)
    folder = write_opennmt(tmp_path / "run", variables, arguments_text(**options))
    model = from_opennmt_tf(folder).model
    sources = random_source_ids(NUM_SOURCES)
    limits = {"max_length": MAX_LENGTH, "relative_max_length": None}
    assert type(model.search) is BeamDecoder and model.search.beam_width == 4
    beam = {**model.search.get_config(), **limits}
    own = {key: beam[key] for key in ("beam_width", "stop", "length_penalty_form")}
    shared = {"suppressed_token_ids": beam["suppressed_token_ids"], **limits}
    searches = (
        (1, GreedyDecoder(model.decoder, **shared)),
        (4, BeamDecoder(model.decoder, **own, **shared)),
    )
    lengths = set()
    for width, search in searches:
        ids = np.array(search(**model.encoder(sources))["token_ids"])[:, 0]
        counts = np.array(search(**model.encoder(sources))["lengths"])[:, 0]
        found = [row[:count].tolist() for row, count in zip(ids, counts, strict=True)]
        expected = ctranslate2_ids(theirs, sources, width, MAX_LENGTH)
        assert without_end(found) == expected
        lengths |= {len(row) for row in expected}
    assert len(lengths) > 2
