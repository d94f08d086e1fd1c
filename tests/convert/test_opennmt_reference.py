"""Converted Transformers against OpenNMT-tf itself, in an environment of its own.

    KERAS_ATTN_OPENNMT_PYTHON=PYTHON pytest tests/convert/test_opennmt_reference.py

`opennmt_reference.py` says how to install OpenNMT-tf for this PYTHON.
"""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from keras_attn import GreedyDecoder, with_search  # noqa: E402
from keras_attn.convert import from_opennmt_tf  # noqa: E402
from tests.convert import opennmt_reference  # noqa: E402
from tests.convert.opennmt_reference import CASES, MAX_LENGTH, SHARED  # noqa: E402

PYTHON = os.environ.get("KERAS_ATTN_OPENNMT_PYTHON")


def best_ids(model, sources):
    results = model(sources)
    rows = zip(np.array(results["token_ids"]), np.array(results["lengths"]), strict=True)
    rows = [ids[0, : lengths[0]].tolist() for ids, lengths in rows]
    return [row[: row.index(2)] if 2 in row else row for row in rows]


def log_prob(model, source, ids):
    """The log probability of a hypothesis, with its end token if it is not at the limit."""
    ids = [*ids, 2] if len(ids) < MAX_LENGTH else ids
    inputs = np.array([[1, *ids[:-1]]], "int32")
    logits = np.array(model.decoder(inputs, **model.encoder(source[None])), "float64")[0]
    log_probs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    return log_probs[np.arange(len(ids)), ids].sum()


@pytest.mark.slow
@pytest.mark.skipif(PYTHON is None, reason="needs an environment with OpenNMT-tf")
@pytest.mark.parametrize("case", CASES)
def test_opennmt_logits_and_ids_equal_the_original(tmp_path, case):
    folder = tmp_path / "run"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [PYTHON, opennmt_reference.__file__, case, str(folder)]
    subprocess.run(command, check=True, env=environment, capture_output=True)
    results = np.load(folder / "results.npz")
    expected = json.loads(Path(folder / "results.json").read_text())
    target = "source" if case in SHARED else "target"
    vocabularies = {"source_vocabulary": folder / "source.vocab"}
    vocabularies["target_vocabulary"] = folder / f"{target}.vocab"
    model = from_opennmt_tf(folder, **vocabularies).model
    sources = results["sources"].astype("int32")
    found = np.array(model.decoder(results["targets"].astype("int32"), **model.encoder(sources)))
    difference = np.abs(found - results["logits"]).max()
    greedy = with_search(model, GreedyDecoder, max_length=MAX_LENGTH)
    beam = best_ids(with_search(model, max_length=MAX_LENGTH), sources)
    equal = [
        np.mean([a == b for a, b in zip(beam, expected[name], strict=True)])
        for name in ("beam", "beam as it is")
    ]
    lengths = len({len(row) for row in expected["greedy"]})
    print(
        f"{case}: logits {difference:.1e}, beam {equal[0]:.1%} and {equal[1]:.1%} as it is, "
        f"{lengths} lengths"
    )
    assert difference < 1e-5
    assert best_ids(greedy, sources) == expected["greedy"]
    for own, theirs, source in zip(beam, expected["beam"], sources, strict=True):
        if own != theirs:
            assert log_prob(model, source, own) > log_prob(model, source, theirs)
