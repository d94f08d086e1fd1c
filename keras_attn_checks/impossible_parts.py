from collections.abc import Sequence


def impossible_parts(
    tokens: Sequence[int], token_ids: Sequence[int], sequences: Sequence[Sequence[int]]
) -> list[int | Sequence[int]]:
    """Returns the tokens and sequences in a phrase that a search never generates.

    Args:
        tokens: List of ids, the phrase.
        token_ids: List of ids, impossible tokens.
        sequences: List of id sequences that are impossible.
    """
    return [
        *sorted({*tokens} & {*token_ids}),
        *(each for each in sequences if _contains(tokens, each)),
    ]


def _contains(tokens, sequence):
    starts = range(len(tokens) - len(sequence) + 1)
    return any(list(tokens[start : start + len(sequence)]) == list(sequence) for start in starts)
