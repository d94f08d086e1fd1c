import numpy as np
import pytest

from keras_attn.text import mask_tokens

VOCABULARY_SIZE, MASK = 50, 4
IDS = np.random.default_rng(0).integers(5, VOCABULARY_SIZE, (400, 60)).astype("int32")
IDS[:, 0], IDS[:, -2], IDS[:, -1] = 1, 2, 0


def test_shares_are_those_of_bert():
    masked, labels = mask_tokens(IDS, VOCABULARY_SIZE, MASK, seed=1)
    chosen = labels != 0
    assert masked.dtype == labels.dtype == "int32"
    assert chosen[:, 1:-2].mean() == pytest.approx(0.15, abs=0.01)
    assert (masked[chosen] == MASK).mean() == pytest.approx(0.8, abs=0.02)
    is_random = (masked != MASK) & (masked != IDS)
    assert is_random[chosen].mean() == pytest.approx(0.1, abs=0.02)
    assert (masked == IDS)[chosen].mean() == pytest.approx(0.1, abs=0.02)
    assert set(masked[is_random]) == set(range(5, VOCABULARY_SIZE)) | {3}


def test_labels_are_the_chosen_tokens_and_nothing_else_changes():
    masked, labels = mask_tokens(IDS, VOCABULARY_SIZE, MASK, seed=1)
    chosen = labels != 0
    np.testing.assert_array_equal(labels[chosen], IDS[chosen])
    np.testing.assert_array_equal(masked[~chosen], IDS[~chosen])


def test_special_tokens_are_never_chosen():
    _, labels = mask_tokens(IDS, VOCABULARY_SIZE, MASK, seed=1, rate=1.0)
    assert not labels[:, [0, -2, -1]].any() and labels[:, 1:-2].all()
    _, labels = mask_tokens(IDS, VOCABULARY_SIZE, MASK, 1, rate=1.0, special_token_ids=(0, 7))
    np.testing.assert_array_equal(labels, np.where(IDS == 7, 0, IDS))


def test_the_seed_decides():
    def hidden(seed):
        return mask_tokens(IDS, VOCABULARY_SIZE, MASK, seed)[0]

    np.testing.assert_array_equal(hidden((1, 2)), hidden((1, 2)))
    assert (hidden((1, 2)) != hidden((1, 3))).any() and (hidden(1) != hidden(2)).any()


@pytest.mark.parametrize(
    "wrong",
    [{"rate": 1.5}, {"mask_rate": -0.1}, {"mask_rate": 0.8, "random_rate": 0.3}],
    ids=str,
)
def test_refuses_shares_out_of_range(wrong):
    with pytest.raises(ValueError, match="to be in"):
        mask_tokens(IDS, VOCABULARY_SIZE, MASK, 0, **wrong)


def test_refuses_a_mask_outside_the_vocabulary():
    with pytest.raises(ValueError, match="mask_token_id=50"):
        mask_tokens(IDS, VOCABULARY_SIZE, VOCABULARY_SIZE, 0)


def test_padding_is_never_chosen_whatever_the_special_tokens():
    padded = np.where(IDS == 7, 9, IDS)
    masked, labels = mask_tokens(padded, VOCABULARY_SIZE, MASK, 1, rate=1.0, pad_token_id=9)
    assert (masked[padded == 9] == 9).all() and (labels[padded == 9] == 9).all()
    assert not (masked[padded != 9] == 9).any()


@pytest.mark.parametrize(
    "wrong",
    [{"rate": float("nan")}, {"mask_rate": float("nan")}, {"random_rate": float("nan")}],
    ids=str,
)
def test_refuses_rates_that_are_nan(wrong):
    with pytest.raises(ValueError, match="to be in"):
        mask_tokens(IDS, VOCABULARY_SIZE, MASK, 0, **wrong)


@pytest.mark.parametrize("ids", [[[5, 50]], [[-1, 5]], [[5.5]]])
def test_refuses_ids_outside_of_the_vocabulary(ids):
    with pytest.raises(ValueError, match="Expected token_ids .*Received: token_ids"):
        mask_tokens(np.array(ids), VOCABULARY_SIZE, MASK, 0)


def test_a_vocabulary_without_ordinary_tokens_has_no_random_tokens():
    ids = np.array([[1, 4, 2, 0]])
    with pytest.raises(ValueError, match="ordinary tokens.*vocabulary_size=5"):
        mask_tokens(ids, 5, 3, 0, special_token_ids=(0, 1, 2, 4))
    masked, _ = mask_tokens(ids, 5, 3, 0, special_token_ids=(0, 1, 2, 4), random_rate=0)
    np.testing.assert_array_equal(masked, ids)
