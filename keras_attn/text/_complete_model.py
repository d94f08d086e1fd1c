"""Detection of truncated SentencePiece models."""


def is_complete_model(model: bytes) -> bool:
    """Returns whether a SentencePiece model is complete, including the normalizer at its end.

    A model is a protocol buffer with the fields 1 (pieces), 2 (trainer) and 3 (normalizer). A model
    truncated after a piece is also a valid protocol buffer, and SentencePiece would load it as a
    smaller vocabulary.

    Args:
        model: Bytes, a SentencePiece model.
    """
    position, fields = 0, set()
    try:
        while position < len(model):
            tag, position = _read_varint(model, position)
            length, position = _read_varint(model, position)
            fields.add(tag >> 3)
            position += length
    except IndexError:
        return False
    return position == len(model) and {1, 2, 3} <= fields


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
