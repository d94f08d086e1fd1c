import numpy as np
import pytest

from keras_attn import BeamDecoder, GreedyDecoder, SamplingDecoder
from tests.backend import requires_tensorflow
from tests.contracts import assert_close, assert_identical, numpy
from tests.search.table_decoder import TableDecoder, log_probs_of, node_after, random_tables

LOGITS = np.array([9.0, 9.0, 0.3, 1.5, -0.7, 1.1, 0.2, -2.0], "float32")  # 0 and 1 are suppressed
SAMPLES = 20000
# The 0.999 quantiles of the chi-square distribution with 1 to 5 degrees of freedom.
CRITICAL = [10.828, 13.816, 16.266, 18.467, 20.515]


def first_tokens(logits=LOGITS, sentences=2, **arguments):
    """How often each token is drawn first, `(sentences, V)`."""
    tables = np.tile(logits, (sentences, 1, 1))
    search = SamplingDecoder(
        TableDecoder(), num_hypotheses=SAMPLES, max_length=1, **{"seed": 3, **arguments}
    )
    token_ids = numpy(search(tables))["token_ids"][:, :, 0]  # (B, N)
    return np.stack([np.bincount(row, minlength=len(logits)) for row in token_ids])


def probabilities(logits=LOGITS, temperature=1.0, kept=(2, 3, 4, 5, 6, 7)):
    scaled = np.exp(logits / temperature)
    probs = np.where(np.isin(np.arange(len(logits)), kept), scaled, 0)
    return probs / probs.sum()


def assert_drawn_from(counts, expected):
    possible = expected > 0
    assert not counts[:, ~possible].any()
    for row in counts:
        wanted = SAMPLES * expected[possible]
        distance = ((row[possible] - wanted) ** 2 / wanted).sum()
        assert distance < CRITICAL[possible.sum() - 2], (row, wanted)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_are_those_of_the_softmax(temperature):
    assert_drawn_from(first_tokens(temperature=temperature), probabilities(temperature=temperature))


@pytest.mark.parametrize(("top_k", "kept"), [(2, (3, 5)), (4, (2, 3, 5, 6)), (99, range(2, 8))])
def test_top_k_keeps_the_most_probable(top_k, kept):
    assert_drawn_from(first_tokens(top_k=top_k), probabilities(kept=kept))


def test_top_p_keeps_the_token_that_crosses_it():
    """Of these six tokens, the sums of the probabilities, best first, are known."""
    logits = np.log(np.array([1e-9, 1e-9, 0.4, 0.3, 0.15, 0.1, 0.03, 0.02], "float32"))
    for top_p, kept in ((0.39, [2]), (0.41, [2, 3]), (0.69, [2, 3]), (0.71, [2, 3, 4])):
        counts = first_tokens(logits, top_p=top_p)
        if len(kept) > 1:
            assert_drawn_from(counts, probabilities(logits, kept=kept))
        assert np.flatnonzero(counts[0]).tolist() == kept


def test_top_p_chooses_among_what_top_k_keeps():
    logits = np.log(np.array([1e-9, 1e-9, 0.4, 0.3, 0.15, 0.1, 0.03, 0.02], "float32"))
    # Of the best two, 0.4 / 0.7 is more than 0.55 alone; of all, it is not.
    assert np.flatnonzero(first_tokens(logits, top_k=2, top_p=0.55)[0]).tolist() == [2]
    assert np.flatnonzero(first_tokens(logits, top_p=0.55)[0]).tolist() == [2, 3]


def test_min_p_keeps_what_is_not_far_below_the_best():
    probs = np.array([1e-9, 1e-9, 0.4, 0.3, 0.15, 0.1, 0.03, 0.02], "float32")
    for min_p, kept in ((0.76, [2]), (0.74, [2, 3]), (0.3, [2, 3, 4]), (0.2, [2, 3, 4, 5])):
        counts = first_tokens(np.log(probs), min_p=min_p)
        if len(kept) > 1:
            assert_drawn_from(counts, probabilities(np.log(probs), kept=kept))
        assert np.flatnonzero(counts[0]).tolist() == kept
    # The temperature comes before, and all limits hold.
    counts = first_tokens(np.log(probs), min_p=0.3, temperature=3.0)
    assert np.flatnonzero(counts[0]).tolist() == [2, 3, 4, 5, 6, 7]
    counts = first_tokens(np.log(probs), min_p=0.3, top_p=0.65)
    assert np.flatnonzero(counts[0]).tolist() == [2, 3]
    counts = first_tokens(np.log(probs), min_p=0.74, top_k=5, top_p=0.9)
    assert np.flatnonzero(counts[0]).tolist() == [2, 3]


@pytest.mark.parametrize(
    "limit", [{"temperature": 1e-6}, {"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}], ids=str
)
def test_the_limit_is_greedy(limit):
    tables = random_tables(1, batch=8, end_logit=1.0)
    arguments = {"max_length": 7, "min_length": 2, "relative_max_length": None}
    greedy = numpy(GreedyDecoder(TableDecoder(), length_penalty=0.0, **arguments)(tables))
    found = numpy(SamplingDecoder(TableDecoder(), num_hypotheses=2, **arguments, **limit)(tables))
    for rank in (0, 1):
        same = {name: value[:, rank : rank + 1] for name, value in found.items()}
        assert_close(same, greedy)


def test_log_probs_are_those_of_the_model():
    """Not those of what temperature and truncation make of it; and they end with the end token."""
    tables = random_tables(4, batch=6, end_logit=1.0)
    search = SamplingDecoder(
        TableDecoder(), num_hypotheses=3, temperature=0.7, top_k=5, top_p=0.9, seed=5, max_length=6
    )
    results = numpy(search(tables))
    assert_identical(results["scores"], results["log_probs"])
    assert results["token_ids"].shape[:2] == (6, 3)
    ends = cuts = 0
    for b, table in enumerate(tables):
        for rank in range(3):
            tokens = tuple(int(token) for token in results["token_ids"][b, rank] if token)
            after = log_probs_of(table)
            total = sum(after(tokens[:t])[token] for t, token in enumerate(tokens))
            assert_close(results["log_probs"][b, rank], total, 1e-4)
            ended = tokens[-1] == 2
            ends, cuts = ends + ended, cuts + (not ended)
            assert 2 not in tokens[:-1] and (ended or len(tokens) == 6)
            assert results["lengths"][b, rank] == len(tokens) - ended
    assert ends and cuts


def test_whole_hypotheses_are_drawn_by_their_probability():
    tables = random_tables(2, batch=1, vocabulary_size=5, scale=1.0)
    search = SamplingDecoder(TableDecoder(), num_hypotheses=SAMPLES, seed=1, max_length=2)
    found = [tuple(row[row != 0]) for row in numpy(search(tables))["token_ids"][0]]
    suppressed = np.array([0.0, 0.0, 1.0, 1.0, 1.0])

    def following(prefix):
        probs = np.exp(log_probs_of(tables[0])(prefix)) * suppressed
        return probs / probs.sum()

    for tokens in [(2,), (3, 2), (3, 4), (4, 4)]:
        expected = np.prod([following(tokens[:t])[token] for t, token in enumerate(tokens)])
        error = np.sqrt(expected * (1 - expected) / SAMPLES)
        assert abs(found.count(tokens) / SAMPLES - expected) < 4 * error


def test_the_seed_decides_and_each_call_draws_anew():
    tables = random_tables(6, batch=4)

    def draws(seed):
        search = SamplingDecoder(TableDecoder(), num_hypotheses=4, seed=seed, max_length=8)
        return [numpy(search(tables))["token_ids"] for _ in range(2)]

    first, again, other = draws(1), draws(1), draws(2)
    assert_identical(first, again)
    for one, two in ((first[0], first[1]), (first[0], other[0])):
        columns = min(one.shape[2], two.shape[2])
        assert (one[:, :, :columns] != two[:, :, :columns]).any()


def test_seeds_decide_whatever_else_is_in_the_batch():
    tables = random_tables(6, batch=5, end_logit=1.0)
    search = SamplingDecoder(TableDecoder(), num_hypotheses=3, max_length=9, top_p=0.9)
    seeds = np.array([4, 0, -7, 2**31 - 1, 4], "int32")
    whole = numpy(search(tables, seeds=seeds))
    assert_identical(numpy(search(tables, seeds=seeds)), whole)
    for rows in ([0], [3, 1], [4, 2, 2]):
        part = numpy(search(tables[rows], seeds=seeds[rows]))
        longest = part["token_ids"].shape[2]
        assert_identical(part["token_ids"], whole["token_ids"][rows, :, :longest])
        assert_close(part["log_probs"], whole["log_probs"][rows], 1e-6)


def test_one_seed_may_be_that_of_all():
    tables = np.repeat(random_tables(6, batch=1, end_logit=-5.0), 3, axis=0)
    search = SamplingDecoder(TableDecoder(), num_hypotheses=4, max_length=9)
    first, *others = numpy(search(tables, seeds=[5]))["token_ids"]
    assert (first[0] != first[1]).any()  # hypotheses are drawn apart
    for other in others:
        assert_identical(other, first)


def test_a_prefix_changes_nothing_of_what_is_drawn_behind_it():
    """The random number of a token is that of its position."""
    tables = np.repeat(random_tables(6, batch=1, end_logit=-50.0), 2, axis=0)
    search = SamplingDecoder(TableDecoder(), num_hypotheses=2, max_length=9)
    free = numpy(search(tables, seeds=[5]))["token_ids"]
    led = numpy(search(tables, prefix_ids=free[:, 0, :3], seeds=[5]))["token_ids"]
    assert_identical(led[:, 0], free[:, 0])


def test_refuses_seeds_that_are_no_integers():
    search = SamplingDecoder(TableDecoder(), max_length=2)
    with pytest.raises(ValueError, match="seeds of an integer dtype. Received: seeds with dtype"):
        search(random_tables(0), seeds=np.array([3.7]))


@pytest.mark.parametrize("seeds", [[1, 2, 3], [[1]], 1], ids=str)
def test_refuses_seeds_of_another_shape(seeds):
    search = SamplingDecoder(TableDecoder())
    for batch in (1, 2):
        with pytest.raises(ValueError, match="Expected seeds of shape .* Received: seeds with"):
            search(random_tables(1, batch=batch), seeds=seeds)


def test_nan_in_one_sentence_is_nothing_to_the_others():
    tables = random_tables(6, batch=3)
    search = SamplingDecoder(TableDecoder(), num_hypotheses=2, max_length=5, top_p=0.9)
    expected = numpy(search(tables, seeds=[1, 2, 3]))["token_ids"]
    tables[1] = np.nan
    found = numpy(search(tables, seeds=[1, 2, 3]))["token_ids"]
    length = min(found.shape[2], expected.shape[2])
    assert_identical(found[[0, 2], :, :length], expected[[0, 2], :, :length])


@pytest.mark.parametrize("make", [GreedyDecoder, BeamDecoder])
def test_only_a_search_that_draws_has_seeds(make):
    with pytest.raises(ValueError, match=f"Received: seeds for {make.__name__}"):
        make(TableDecoder())(random_tables(1), seeds=[1])


def test_hypotheses_of_a_sentence_differ():
    search = SamplingDecoder(TableDecoder(), num_hypotheses=8, max_length=8)
    token_ids = numpy(search(random_tables(6, batch=2), seeds=[0, 1]))
    assert all(len({tuple(row) for row in rows}) > 3 for rows in token_ids["token_ids"])


def test_equal_sentences_of_a_batch_are_drawn_apart():
    tables = np.repeat(random_tables(6, batch=1), 2, axis=0)
    first, second = numpy(
        SamplingDecoder(TableDecoder(), num_hypotheses=8, seed=3, max_length=8)(tables)
    )["token_ids"]
    assert (first != second).any()


def test_alignments_are_those_of_the_hypothesis():
    tables = random_tables(2, batch=5, end_logit=2.0)
    search = SamplingDecoder(TableDecoder(), num_hypotheses=2, max_length=7, return_alignments=True)
    results = numpy(search(tables))
    for b, rank in np.ndindex(5, 2):
        tokens = results["token_ids"][b, rank]
        tokens = tuple(tokens[tokens != 0])
        nodes = [node_after(tokens[:t], tables.shape[1]) for t in range(len(tokens))]
        alignments = results["alignments"][b, rank]
        assert alignments[: len(tokens)].argmax(axis=1).tolist() == nodes
        assert alignments.sum() == len(tokens)


@requires_tensorflow("the table decoder cannot make beams of no rows elsewhere")
def test_no_sentences():
    results = numpy(
        SamplingDecoder(TableDecoder(), num_hypotheses=2, max_length=5)(random_tables(1)[:0])
    )
    assert results["lengths"].shape == (0, 2) and results["token_ids"].shape == (0, 2, 0)


def test_no_tokens():
    nothing = numpy(
        SamplingDecoder(TableDecoder(), num_hypotheses=2, max_length=0)(random_tables(1, batch=2))
    )
    assert nothing["lengths"].tolist() == [[0, 0], [0, 0]] and not nothing["log_probs"].any()


def test_length_limits_are_each_sentences_own():
    tables = random_tables(7, end_logit=-50.0)
    mask = np.arange(tables.shape[1]) < np.array([[1], [3], [4], [1], [2], [9]])
    search = SamplingDecoder(
        TableDecoder(), num_hypotheses=2, max_length=4, relative_max_length=(1, 0)
    )
    lengths = numpy(search(tables, mask))["lengths"]
    assert lengths.tolist() == [[n, n] for n in (1, 3, 4, 1, 2, 4)]


@pytest.mark.parametrize(
    "wrong",
    [
        *(
            {"temperature": float("nan")},
            {"temperature": 0.0},
            {"top_k": 0},
            {"top_p": 0.0},
            {"top_p": 1.1},
        ),
        *({"min_p": -0.1}, {"min_p": 1.1}, {"num_hypotheses": 0}),
        *({"temperature": "0.8"}, {"top_p": None}, {"min_p": "0"}),
    ],
    ids=str,
)
def test_refuses_arguments_out_of_range(wrong):
    with pytest.raises(ValueError, match=f"Received: {next(iter(wrong))}="):
        SamplingDecoder(TableDecoder(), **wrong)


def test_config_round_trip():
    settings = {"num_hypotheses": 2, "temperature": 0.5, "top_k": 4, "top_p": 0.9, "min_p": 0.01}
    settings["seed"] = 7
    search = SamplingDecoder(TableDecoder(), **settings, max_length=5)
    copy = SamplingDecoder.from_config(search.get_config())
    assert {name: getattr(copy, name) for name in settings} == settings
    tables = random_tables(6, batch=2)
    assert_identical(numpy(copy(tables)), numpy(search(tables)))


def test_what_is_impossible_stays_so_at_any_temperature():
    counts = first_tokens(temperature=1e30, min_length=1)
    assert_drawn_from(counts, probabilities(np.zeros(8, "float32"), kept=range(3, 8)))
