import keras
import numpy as np
import pytest

from keras_attn import BeamDecoder, GreedyDecoder, SamplingDecoder
from keras_attn._search.suppressed_sequences import suppress_sequences
from keras_attn.testing import _search_oracles as search_oracles
from tests.contracts import assert_close, assert_found, assert_identical, numpy, tensor
from tests.search.constrained_oracles import with_prefix, without_repetition
from tests.search.table_decoder import TableDecoder, node_after, random_tables
from tests.slow_cases import slow_on_jax

LIMIT = 8
TABLES = random_tables(7, batch=8, vocabulary_size=6, end_logit=-2.0)
# The last case also forbids the end token, 2, after 3 and after 5 4.
CASES = [
    [[3, 4]],
    [[4, 4, 4], [3, 5], [5, 3, 4, 5]],
    [[3, 3], [4, 4], [5, 5], [3, 2], [5, 4, 2]],
]


def found(search, *arguments, **settings):
    settings = {"max_length": LIMIT, "relative_max_length": None, **settings}
    return numpy(search(TableDecoder(), **settings)(TABLES, *arguments))


def log_probs_of(table, **rules):
    logits_after = lambda prefix: table[node_after(prefix, len(table))]  # noqa: E731
    return without_repetition(logits_after, **rules)


def count(results, sequence):
    """Returns how often a sequence occurs in hypotheses, end tokens included."""
    tokens = results["token_ids"]
    windows = np.lib.stride_tricks.sliding_window_view(tokens, len(sequence), axis=-1)
    return int((windows == sequence).all(-1).sum())


@pytest.mark.parametrize("sequences", CASES, ids=str)
def test_greedy_search_equals_a_loop_over_each_sentence(sequences):
    expected = [
        [
            search_oracles.hypothesis(
                *search_oracles.greedy_search(
                    log_probs_of(table, suppressed_sequences=sequences), LIMIT
                )
            )
        ]
        for table in TABLES
    ]
    assert_found(found(GreedyDecoder, suppressed_sequences=sequences), expected)


@slow_on_jax
@pytest.mark.parametrize("sequences", CASES, ids=str)
@pytest.mark.parametrize("more", [{}, {"no_repeat_ngram_size": 3}], ids=str)
def test_beam_search_equals_a_slow_search_of_each_sentence(sequences, more):
    beams, rules = {"beam_width": 3, "num_hypotheses": 2}, {"suppressed_sequences": sequences}
    expected = [
        search_oracles.beam_search(log_probs_of(table, **rules, **more), LIMIT, **beams)
        for table in TABLES
    ]
    without, results = found(BeamDecoder, **beams), found(BeamDecoder, **beams, **rules, **more)
    assert_found(results, expected)
    assert sum(count(without, each) for each in sequences) > 3
    assert not any(count(results, each) for each in sequences)


def test_samples_contain_no_suppressed_sequence():
    arguments = {"num_hypotheses": 50, "seed": 1}
    without = found(SamplingDecoder, **arguments)
    results = found(SamplingDecoder, **arguments, suppressed_sequences=CASES[1])
    for sequence in CASES[1]:
        assert count(without, sequence) and not count(results, sequence)


def test_tokens_of_a_prefix_count_and_may_complete_a_sequence():
    sequences, prefix = [[4, 3], [3, 5]], [4, 3]
    rules = {"suppressed_sequences": sequences}
    results = numpy(
        GreedyDecoder(TableDecoder(), max_length=LIMIT, relative_max_length=None, **rules)(
            TABLES, prefix_ids=np.array([prefix] * len(TABLES), "int32")
        )
    )
    assert (results["token_ids"][:, 0, :2] == prefix).all()
    assert (results["token_ids"][:, 0, 2] != 5).all()
    for table, row, length in zip(
        TABLES, results["token_ids"][:, 0], results["lengths"][:, 0], strict=True
    ):
        after = log_probs_of(table, suppressed_sequences=sequences[1:])
        expected, _ = search_oracles.greedy_search(with_prefix(after, prefix), LIMIT)[:2]
        assert row[: min(3, length)].tolist() == [*expected][: min(3, length)]


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_later_columns_do_not_count(steps):
    """A history with columns for all steps gives what one does that grows."""
    rng = np.random.default_rng(steps)
    log_probs = rng.normal(size=(6, 6)).astype("float32")
    history = rng.integers(3, 6, (2, 3, 5)).astype("int32")
    whole = suppress_sequences(tensor(log_probs), tensor(history), tensor(steps), CASES[1])
    grown = suppress_sequences(
        tensor(log_probs), tensor(history[:, :, :steps]), tensor(steps), CASES[1]
    )
    assert_close(numpy(whole), numpy(grown))


def test_only_the_last_token_of_a_sequence_is_changed():
    log_probs = np.array([[1.0, -1.0, 2.0, 0.5]], "float32")
    sequences = [[3, 1, 2], [1, 2], [1, 0], [2, 1], [3, 3, 1, 3]]
    changed = numpy(suppress_sequences(tensor(log_probs), tensor([[[3, 1]]]), 2, sequences))
    assert_identical(changed < -1e8, np.array([[True, False, True, False]]))
    assert_close(changed[:, [1, 3]], log_probs[:, [1, 3]])


@pytest.mark.parametrize("value", [[3, 4], [[3]], [[]], [[3, -1]], "ab", [["a", "b"]], 3], ids=str)
def test_other_values_are_errors(value):
    with pytest.raises(ValueError, match="suppressed_sequences.*Use suppressed_token_ids"):
        GreedyDecoder(TableDecoder(), suppressed_sequences=value)


def test_ids_above_the_vocabulary_are_errors():
    search = GreedyDecoder(TableDecoder(), suppressed_sequences=[[3, 6]])
    with pytest.raises(ValueError, match=r"suppressed_sequences=\[\[3, 6\]\]"):
        search(TABLES)


def test_a_search_without_sequences_has_the_default():
    search = GreedyDecoder(TableDecoder())
    assert search.suppressed_sequences == []
    copy = GreedyDecoder.from_config(search.get_config())
    assert copy.suppressed_sequences == []
    assert keras.saving.serialize_keras_object(search)["config"]["suppressed_sequences"] == []
