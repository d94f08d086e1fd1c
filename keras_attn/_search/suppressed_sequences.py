"""Token sequences that a hypothesis must not contain."""

from collections.abc import Sequence

from keras import ops

from keras_attn._search.sequence_matches import forbid_last_tokens, match_beginnings
from keras_attn._types import Tensor


def suppress_sequences(
    log_probs: Tensor, token_ids: Tensor, step: int | Tensor, sequences: Sequence[Sequence[int]]
) -> Tensor:
    """Makes the last token of a sequence impossible after the tokens before it.

    As in CTranslate2 (`suppress_sequences`) and Hugging Face Transformers (`bad_words_ids`), the
    log probabilities of all other tokens do not change.

    Args:
        log_probs: Float32 tensor of shape `(batch * hypotheses, V)`.
        token_ids: Int32 tensor of shape `(batch, hypotheses, steps)`, the previous tokens.
        step: Scalar int32 tensor, number of previous tokens. Later columns are ignored.
        sequences: List of lists with at least two ids.

    Returns:
        Float32 tensor of shape `(batch * hypotheses, V)`.

    Raises:
        ValueError: If an id is not below V.
    """
    vocabulary_size = log_probs.shape[-1]
    if max(map(max, sequences)) >= vocabulary_size:
        raise ValueError(
            f"Expected token ids below the size of the vocabulary, {vocabulary_size}. Received: "
            f"suppressed_sequences={[*map(list, sequences)]}. Pass ids of the target vocabulary."
        )
    is_match = match_beginnings(token_ids, step, sequences, ops.shape(log_probs)[0])
    return forbid_last_tokens(log_probs, is_match, sequences)
