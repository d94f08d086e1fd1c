"""Random text segmentations without unknown ids."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

_SEED_LOCK = Lock()


def sample_segmentations(
    processor: Any, texts: Sequence[str], alpha: float, seed: int, vocabulary_size: int
) -> list[list[int]]:
    """Draws a segmentation of each text, see `SentencePieceTokenizer.sample`.

    SentencePiece draws from all pieces in its model, even from those that the vocabulary lacks. A
    unigram model can be restricted to vocabulary pieces, except single characters. A BPE model
    merges characters to pieces, so it needs the pieces that the vocabulary lacks. Where a drawn
    segmentation contains an unknown id and the best one contains none, the best one is used.

    Args:
        processor: `SentencePieceProcessor`. It is not changed.
        texts: List of strings.
        alpha: Float, see `SentencePieceTokenizer.sample`.
        seed: Int, see `SentencePieceTokenizer.sample`.
        vocabulary_size: Int, number of ids in the vocabulary. Larger ids are unknown.

    Returns:
        List of lists of ids. Ids outside the vocabulary are not replaced.
    """

    def is_unknown(id_):
        return id_ >= vocabulary_size or id_ == processor.unk_id()

    sampler = _restricted(processor, vocabulary_size)
    drawn = _draw(sampler, texts, alpha, seed, int)
    rows = [row for row, ids in enumerate(drawn) if any(map(is_unknown, ids))]
    if not rows:
        return drawn
    # The same seed gives the same segmentations. Pieces with unknown ids are known only as strings.
    pieces = _draw(sampler, texts, alpha, seed, str)
    rare_texts = [texts[row] for row in rows]
    best = processor.encode(rare_texts)
    best_pieces = processor.encode(rare_texts, out_type=str)
    for row, ids, strings in zip(rows, best, best_pieces, strict=True):
        drawn[row] = replace_unknown_parts(
            _with_lengths(processor, drawn[row], pieces[row]),
            _with_lengths(processor, ids, strings),
            is_unknown,
        )
    return drawn


def replace_unknown_parts(
    drawn: Sequence[tuple[int, int]],
    best: Sequence[tuple[int, int]],
    is_unknown: Callable[[int], bool],
) -> list[int]:
    """Returns `drawn` ids, with `best` ids where `drawn` contains avoidable unknown ids.

    The text is divided at all common boundaries.

    Args:
        drawn: List of pairs, each piece's id and length in a segmentation.
        best: List of pairs, another segmentation of the same text.
        is_unknown: Function `(id)` that returns whether an id is unknown.

    Returns:
        List of ids.
    """
    ids: list[int] = []
    part: list[int] = []
    best_part: list[int] = []
    end = best_end = 0
    rest = iter(best)
    for id_, length in drawn:
        part.append(id_)
        end += length
        while best_end < end:
            best_id, best_length = next(rest)
            best_part.append(best_id)
            best_end += best_length
        if best_end == end:
            is_worse = any(map(is_unknown, part)) and not any(map(is_unknown, best_part))
            ids += best_part if is_worse else part
            part, best_part = [], []
    return ids


def _restricted(processor, vocabulary_size):
    """Returns a processor that draws only vocabulary pieces, if possible."""
    import sentencepiece

    num_pieces = processor.get_piece_size()
    if vocabulary_size >= num_pieces:
        return processor
    restricted = sentencepiece.SentencePieceProcessor(
        model_proto=processor.serialized_model_proto()
    )
    kinds = (processor.is_unknown, processor.is_control, processor.is_unused, processor.is_byte)
    pieces = [
        processor.id_to_piece(id_)
        for id_ in range(vocabulary_size)
        if not any(is_kind(id_) for is_kind in kinds)
    ]
    try:
        restricted.set_vocabulary(pieces)
    except RuntimeError:  # a char or word model, which has no other segmentations
        return processor
    return restricted


def _with_lengths(processor, ids, pieces):
    """Returns pairs of ids and numbers of bytes. A byte piece such as `<0xC3>` is one byte."""
    return [
        (id_, 1 if processor.is_byte(id_) else len(piece.encode()))
        for id_, piece in zip(ids, pieces, strict=True)
    ]


def _draw(processor, texts, alpha, seed, out_type):
    def encode():
        import sentencepiece

        sentencepiece.set_random_generator_seed(seed)
        return processor.encode(
            texts,
            out_type=out_type,
            enable_sampling=True,
            alpha=alpha,
            nbest_size=-1,
            num_threads=1,
        )

    # SentencePiece's random generator is thread-local, and reads the seed only when a thread
    # creates it. Use a new thread, so that the seed has an effect.
    with _SEED_LOCK, ThreadPoolExecutor(1) as new_thread:
        return new_thread.submit(encode).result()
