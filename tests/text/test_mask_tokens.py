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
