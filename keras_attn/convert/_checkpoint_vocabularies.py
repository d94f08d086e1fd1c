"""Vocabularies for checkpoints that derive their ids from a SentencePiece model.

Each function returns the ids that Hugging Face's tokenizers assign to the pieces. Pass the result
to `renumber_pieces`.
"""

from collections.abc import Sequence

from keras_attn.convert._renumber_pieces import parse_sentencepiece_model


def fairseq_vocabulary(model: bytes, language_codes: Sequence[str] = ()) -> dict[str, int]:
    """Returns the vocabulary for mBART, mBART-50, NLLB and XLM-RoBERTa.

        <s> 0, <pad> 1, </s> 2, <unk> 3, model pieces, language codes, <mask>

    In the SentencePiece model, ordinary pieces begin at id 3. In this vocabulary, they begin at id
    4, because fairseq uses one more special token.

    Args:
        model: Bytes, `sentencepiece.bpe.model`.
        language_codes: List of strings, such as `["ar_AR", "cs_CZ", ...]`, in checkpoint order.
            Defaults to `()`: XLM-RoBERTa uses no codes.

    Returns:
        Dict from pieces to ids.

    Example:

    ```python
    vocabulary = fairseq_vocabulary(model, codes)
    renumber_pieces(model, vocabulary, control_pieces=["<mask>", *codes])
    ```
    """
    names = ["<s>", "<pad>", "</s>", "<unk>", *_pieces(model)[3:], *language_codes, "<mask>"]
    return {name: id_ for id_, name in enumerate(names)}


def t5_vocabulary(model: bytes, num_sentinels: int = 100) -> dict[str, int]:
    """Returns the vocabulary for T5, mT5 and Flan-T5.

        model pieces, <extra_id_99>, ..., <extra_id_1>, <extra_id_0>

    The sentinels `<extra_id_...>` mark removed text spans ([Raffel et al.,
    2020](https://arxiv.org/abs/1910.10683), section 3.1.4). Sentinels that the SentencePiece model
    already contains are not added again.

    Args:
        model: Bytes, `spiece.model`.
        num_sentinels: Int, number of sentinels: `extra_ids` in the checkpoint configuration.
            Defaults to `100`.

    Returns:
        Dict from pieces to ids.

    Example:

    ```python
    vocabulary = t5_vocabulary(model)
    sentinels = [piece for piece in vocabulary if piece.startswith("<extra_id_")]
    renumber_pieces(model, vocabulary, user_defined_pieces=sentinels)
    ```
    """
    names = _pieces(model)
    sentinels = [f"<extra_id_{number}>" for number in reversed(range(num_sentinels))]
    names += [name for name in sentinels if name not in names]
    return {name: id_ for id_, name in enumerate(names)}


def pegasus_vocabulary(model: bytes, offset: int = 103) -> dict[str, int]:
    """Returns the vocabulary for Pegasus.

        <pad> 0, </s> 1, <mask_1> 2, <mask_2> 3, <unk_2> 4, ..., <unk_102> 104, model pieces

    Args:
        model: Bytes, `spiece.model`.
        offset: Int, number of mask and unknown ids inserted before the other pieces.
            Defaults to `103`.

    Returns:
        Dict from pieces to ids.

    Example:

    ```python
    vocabulary = pegasus_vocabulary(model)
    masks = [piece for piece in vocabulary if piece.startswith(("<mask_", "<unk_"))]
    renumber_pieces(model, vocabulary, control_pieces=masks)
    ```
    """
    added = ["<mask_1>", "<mask_2>", *(f"<unk_{number}>" for number in range(2, offset))]
    pieces = _pieces(model)
    names = [*pieces[:2], *added[:offset], *pieces[2:]]
    return {name: id_ for id_, name in enumerate(names)}


def _pieces(model):
    """Returns all pieces in a SentencePiece model."""
    return [piece.piece for piece in parse_sentencepiece_model(model).pieces]
