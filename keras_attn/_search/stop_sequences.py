"""Token sequences that end a hypothesis.

The search must generate the whole sequence: prefix tokens do not count. A hypothesis whose newest
tokens are a stop sequence is finished, like one with an end token. Its *end tokens* are the longest
stop sequence that it ends with.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_attn._backend.gather import gather_beams
from keras_attn._backend.integers import sum_int32
from keras_attn._masks import END_OF_ROW
from keras_attn._search.sequence_matches import forbid_last_tokens, match_beginnings
from keras_attn._types import Tensor, TensorLike


@dataclasses.dataclass(frozen=True)
class StopMatches:
    """The stop sequences that each hypothesis's next token can complete.

    Args:
        lengths: Int32 tensor of shape `(batch, hypotheses, N)`, each sequence's length if its
            last token can follow, otherwise 0.
        sequences: List of N id sequences that are not empty.
    """

    lengths: Tensor
    sequences: Sequence[Sequence[int]]

    @property
    def last_token_ids(self) -> list[int]:
        """N ids, the last token in each sequence."""
        return [sequence[-1] for sequence in self.sequences]

    @property
    def is_next(self) -> Tensor:
        """Boolean tensor `(batch * hypotheses, N)`, whether the last token can follow."""
        return ops.reshape(self.lengths, (-1, len(self.sequences))) > 0

    def num_end_tokens(self, tokens: Tensor, parents: Tensor | None = None) -> Tensor:
        """Returns how many tokens the longest sequence has that each token completes, or 0.

        Args:
            tokens: Int32 tensor of shape `(batch, C)`, the new tokens.
            parents: Int32 tensor of shape `(batch, C)`, which hypotheses they continue.
                Defaults to `None`: one token for each hypothesis.

        Returns:
            Int32 tensor of shape `(batch, C)`.
        """
        lengths = self.lengths if parents is None else gather_beams(self.lengths, parents)
        last = np.array(self.last_token_ids, "int32")  # (N,)
        is_last = ops.equal(tokens[:, :, None], last)  # (B, C, N)
        return ops.max(ops.where(is_last, lengths, 0), axis=-1)

    def forbid(self, log_probs: Tensor, is_forbidden: TensorLike) -> Tensor:
        """Makes tokens impossible that would complete a sequence.

        Args:
            log_probs: Float32 tensor of shape `(batch * hypotheses, V)`.
            is_forbidden: Boolean tensor `(N,)` or `(batch * hypotheses, 1)`.
        """
        return forbid_last_tokens(log_probs, self.is_next & is_forbidden, self.sequences)

    def forbid_early(
        self, log_probs: Tensor, step: int | Tensor, min_length: int | Tensor
    ) -> Tensor:
        """Makes tokens impossible that would complete a sequence after too few other tokens.

        Args:
            log_probs: Float32 tensor of shape `(batch * hypotheses, V)`.
            step: Scalar int32 tensor, how many previous tokens there are.
            min_length: Int or scalar int32 tensor, fewest tokens before the sequence.
        """
        lengths = np.array([*map(len, self.sequences)], "int32")
        return self.forbid(log_probs, step + 1 - lengths < min_length)


def find_stops(
    token_ids: Tensor,
    step: int | Tensor,
    sequences: Sequence[Sequence[int]],
    prefix: Tensor | None = None,
) -> StopMatches:
    """Finds the stop sequences that each hypothesis's next token can complete.

    Args:
        token_ids: Int32 tensor of shape `(batch, hypotheses, steps)`, the previous tokens.
        step: Scalar int32 tensor, how many previous tokens there are. Later columns are ignored.
        sequences: List of id sequences that are not empty.
        prefix: Result from `prefix.broadcast_prefix`. Defaults to `None`: no prefix.

    Returns:
        `StopMatches`.
    """
    lengths = np.array([*map(len, sequences)], "int32")  # (N,)
    batch, hypotheses, _ = ops.shape(token_ids)
    is_match = match_beginnings(token_ids, step, sequences, batch * hypotheses)
    is_match = ops.reshape(is_match, (batch, hypotheses, len(sequences)))
    if prefix is not None:
        num_given = sum_int32(ops.not_equal(prefix, END_OF_ROW), axis=1)[:, None, None]
        is_match = is_match & (num_given + lengths <= step + 1)
    return StopMatches(ops.where(is_match, lengths, 0), sequences)
