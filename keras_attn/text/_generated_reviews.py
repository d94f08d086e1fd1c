import hashlib
import random

from keras_attn.text._generated_dates import SPLITS, Split

_SUBJECTS = "the film,its plot,this story,the music,the acting,the camera work".split(",")
_OPINIONS = {
    "bad": "bad dull poor weak flat stale clumsy dreary boring silly tired lame".split(),
    "good": "good fun fresh great warm witty sharp lively funny clever bold smart".split(),
}


def generate_reviews(
    count: int, seed: int = 0, split: Split = "train"
) -> tuple[list[str], list[str]]:
    """Generates short film reviews and their labels, `"bad"` and `"good"`.

    The reviews need no download, and a small model learns to classify them in a minute. Each one
    contains two opinions that agree, such as `"the plot is not dull, and the music is witty"`. As
    "not" inverts the meaning of the next word, single words are not enough. The splits have no
    reviews in common.

    Args:
        count: Int >= 0, number of reviews, sampled with replacement.
        seed: Int. The same seed results in the same reviews. With a larger `count`, the list starts
            with the same reviews. Defaults to `0`.
        split: String, `"train"` (80 % of the reviews), `"valid"` or `"test"` (10 % each). Defaults
            to `"train"`.

    Returns:
        Two lists of `count` strings: the reviews and the labels.

    Raises:
        ValueError: If `count` is negative, or `split` is unknown.

    Example:

    >>> from keras_attn.text import generate_reviews
    >>> texts, labels = generate_reviews(2)
    >>> texts[0], labels
    ('the film is lame, and the acting is poor', ['bad', 'bad'])
    """
    if count < 0:
        raise ValueError(f"Expected count to be at least 0. Received: count={count}.")
    if split not in SPLITS:
        raise ValueError(f"Expected split to be one of {SPLITS}. Received: split={split!r}.")
    rng = random.Random(f"{split} {seed}")
    texts: list[str] = []
    labels: list[str] = []
    while len(texts) < count:
        label = rng.choice(list(_OPINIONS))
        parts = [f"{name} is {_opinion(label, rng)}" for name in rng.sample(_SUBJECTS, 2)]
        text = ", and ".join(parts)
        if _split_of(text) == split:
            texts.append(text)
            labels.append(label)
    return texts, labels


def _opinion(label, rng):
    if rng.random() < 0.75:
        return rng.choice(_OPINIONS[label])
    (opposite,) = _OPINIONS.keys() - {label}
    return f"not {rng.choice(_OPINIONS[opposite])}"


def _split_of(text: str) -> Split:
    """Returns the split of a review. It depends on the review only."""
    part = hashlib.sha256(text.encode()).digest()[0] % 10
    return "valid" if part == 8 else "test" if part == 9 else "train"
