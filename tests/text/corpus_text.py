"""Small artificial corpora for the tests of `keras_attn.text`."""

import random

ENGLISH = (
    "a the man woman dog cat red small runs sleeps jumps sees over under and with near".split()
)
GERMAN = "ein der Mann Frau Hund Katze roter kleine rennt schläft springt sieht über unter".split()


def sentences(words: list[str], count: int, longest: int = 12, seed: int = 0) -> list[str]:
    generator = random.Random(seed)
    return [
        " ".join(generator.choices(words, k=generator.randint(1, longest))) for _ in range(count)
    ]


class Words:
    """A tokenizer whose words are decimal ids, such as "17"."""

    vocabulary_size = 1000
    pad_token_id, start_token_id, end_token_id, unknown_token_id = 0, 1, 2, 3

    def encode(self, texts):
        return [[int(word) for word in text.split()] for text in texts]

    def decode(self, ids):
        return [" ".join(str(i) for i in row if i > 3) for row in ids]
