"""The most probable next tokens at each position of a hypothesis."""

from keras import ops

from keras_attn._backend.top_k import top_k
from keras_attn._decoders.log_probs import IMPOSSIBLE
from keras_attn._types import Tensor, TensorDict

TOP_TOKEN_IDS, TOP_TOKEN_LOG_PROBS = "top_token_ids", "top_token_log_probs"
"""Names of the results of `return_top_tokens`."""


def check_number(number: int, vocabulary_size: int) -> None:
    """Raises a `ValueError` if a vocabulary has fewer tokens than requested."""
    if number > vocabulary_size:
        raise ValueError(
            "Expected return_top_tokens of at most the size of the vocabulary, "
            f"{vocabulary_size}. Received: return_top_tokens={number}. Choose a smaller number."
        )


def find_top_tokens(
    log_probs: Tensor, number: int, rows: tuple[int | Tensor, int | Tensor]
) -> TensorDict:
    """Returns the most probable next tokens of each hypothesis, best first.

    Equally probable tokens are ordered by id.

    Args:
        log_probs: Float32 tensor of shape `(batch * hypotheses, V)`.
        number: Positive int, number of tokens.
        rows: Tuple `(batch, hypotheses)`.

    Returns:
        Dict of `top_token_ids` (int32) and `top_token_log_probs` (float32), both of shape `(batch,
        hypotheses, number)`. The log probability of an impossible token is `IMPOSSIBLE`.

    Raises:
        ValueError: If `number` exceeds V.
    """
    check_number(number, log_probs.shape[-1])
    values, ids = top_k(log_probs, number)  # (B*N, k)
    values = ops.maximum(values, IMPOSSIBLE)  # several rules can make a token impossible
    shape = (*rows, number)
    return {
        TOP_TOKEN_IDS: ops.reshape(ops.cast(ids, "int32"), shape),
        TOP_TOKEN_LOG_PROBS: ops.reshape(values, shape),
    }
