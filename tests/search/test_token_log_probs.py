import numpy as np
import pytest

from keras_attn import BeamDecoder, GreedyDecoder, SamplingDecoder
from tests.contracts import assert_close, numpy
from tests.search.table_decoder import TableDecoder, log_probs_of, random_tables
from tests.search.test_host_loop import run_on_the_host

TABLES = random_tables(3, batch=6, end_logit=1.0)
SEARCHES = {
    "greedy": GreedyDecoder,
    "beam": lambda *args, **kwargs: BeamDecoder(
        *args, beam_width=4, num_hypotheses=4, patience=2.0, **kwargs
    ),
    "sampling": lambda *args, **kwargs: SamplingDecoder(
        *args, num_hypotheses=3, temperature=1.5, seed=1, **kwargs
    ),
}
SETTINGS = {"max_length": 6, "relative_max_length": None, "return_token_log_probs": True}


@pytest.mark.parametrize("prefix_ids", [None, [[4, 5], [3, 0], [0, 0], [5, 2], [4, 4], [6, 6]]])
@pytest.mark.parametrize("name", SEARCHES)
def test_are_those_of_the_hypothesis(name, prefix_ids):
    search = SEARCHES[name](TableDecoder(), **SETTINGS)
    results = numpy(search(TABLES, prefix_ids=prefix_ids))
    seen = set()
    for row, table in enumerate(TABLES):
        log_probs_after = log_probs_of(table)
        for rank in range(results["token_ids"].shape[1]):
            found = {key: value[row, rank] for key, value in results.items()}
            if found["log_probs"] == np.float32(-1e9):
                continue
            has_end = found["token_ids"][found["lengths"] :][:1].tolist() == [2]
            length = found["lengths"] + has_end
            tokens = tuple(found["token_ids"][:length].tolist())
            expected = [log_probs_after(tokens[:t])[token] for t, token in enumerate(tokens)]
            assert_close(found["token_log_probs"][:length], np.array(expected))
            assert not found["token_log_probs"][length:].any()
            assert_close(found["token_log_probs"].sum(), found["log_probs"])
            seen.add((int(length), has_end))
    assert len(seen) > 2  # of several lengths
    assert name == "sampling" or (6, False) in seen  # and one that a limit has cut


@pytest.mark.parametrize("name", SEARCHES)
def test_the_loop_of_a_host_gives_the_same(name):
    settings = {**SETTINGS, "max_length": 8}
    results, *_ = run_on_the_host(SEARCHES[name](TableDecoder(), **settings), TABLES)
    expected = numpy(SEARCHES[name](TableDecoder(), **settings)(TABLES))
    assert_close(results, expected)


@pytest.mark.parametrize("name", SEARCHES)
def test_are_returned_on_request_alone(name):
    search = SEARCHES[name](TableDecoder(), **{**SETTINGS, "return_token_log_probs": False})
    assert "token_log_probs" not in search(TABLES)
    with pytest.raises(ValueError, match="Received: return_token_log_probs='no'"):
        SEARCHES[name](TableDecoder(), **{**SETTINGS, "return_token_log_probs": "no"})
