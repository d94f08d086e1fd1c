"""Generated reviews: the label follows from the words, and the splits are disjoint."""

import re

import pytest

from keras_attn.text import generate_reviews

GOOD = set("good fun fresh great warm witty sharp lively funny clever bold smart".split())


def test_labels_follow_from_the_opinions():
    texts, labels = generate_reviews(500)
    for text, label in zip(texts, labels, strict=True):
        opinions = re.findall(r"\bis (not )?(\w+)", text)
        assert len(opinions) == 2
        assert {(word in GOOD) != bool(inverted) for inverted, word in opinions} == {
            label == "good"
        }
    assert 200 < labels.count("good") < 300


def test_splits_are_disjoint_and_a_longer_list_begins_equally():
    splits = {split: generate_reviews(1500, 3, split)[0] for split in ("train", "valid", "test")}
    assert not set(splits["train"]) & set(splits["test"])
    assert not set(splits["valid"]) & {*splits["train"], *splits["test"]}
    assert generate_reviews(10, 3, "valid")[0] == splits["valid"][:10]
    assert generate_reviews(10, 4, "valid")[0] != splits["valid"][:10]


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="count=-1"):
        generate_reviews(-1)
    with pytest.raises(ValueError, match="split='dev'"):
        generate_reviews(1, split="dev")
