from collections.abc import Mapping
from typing import Any, Unpack

import keras
from keras import ops

from keras_attn._backend.top_k import top_k
from keras_attn._decoders.log_probs import IMPOSSIBLE
from keras_attn._decoders.step_decoder import StepDecoder
from keras_attn._layer.fill_docstring import fill_docstring
from keras_attn._search.independent_search import IndependentSearch
from keras_attn._search.prefix import prefix_lengths
from keras_attn._search.search import Search
from keras_attn._types import Tensor, TensorDict
from keras_attn_checks.number_types import is_integer
from keras_attn_checks.options import list_options
from keras_attn_checks.search_options import AlternativesArguments, AlternativesOptions


@keras.saving.register_keras_serializable(package="keras_attn")
@fill_docstring(Search)
class AlternativesDecoder(IndependentSearch, AlternativesOptions):
    """Returns the most probable next tokens after a prefix, each with its greedy continuation.

        y_p = the j-th most probable token of p(v | prefix, source), for hypothesis j
        y_t = argmax_v p(v | y_1, ..., y_{t-1}, source), for t > p

    The prefix consists of `forced_prefix_ids` and the `prefix_ids` of the call; its length p - 1
    may differ between batch entries. Without a prefix, the hypotheses have different first tokens.
    If several tokens are equally probable, the lowest id comes first. `return_alternatives` in
    CTranslate2 is similar, but sorts the hypotheses by score and avoids the end token.

    Args:
        decoder: `StepDecoder`.
        {{options}}
        {{arguments}}

    Call arguments:
        {{call_arguments}}

    Returns:
        {{returns}}

        The hypotheses are sorted by the probability of the token after the prefix. `scores` and
        `log_probs` are those of the whole hypotheses, so they need not be sorted. With
        `return_token_log_probs=True`, `token_log_probs` at the index p - 1 is the log probability
        of this token.

        If fewer than `num_hypotheses` tokens are possible, or the prefix leaves no room for a token
        because it ends the hypothesis or has the maximum length, hypotheses are missing. The
        first hypothesis is never missing.

    Raises:
        ValueError: If an argument is out of range.

    Example:

    >>> import numpy as np
    >>> from keras_attn import AlternativesDecoder, rnn_seq2seq
    >>> encoder, decoder = rnn_seq2seq(20, 30, units=4, embedding_dim=4)
    >>> search = AlternativesDecoder(decoder, num_hypotheses=3, max_length=4)
    >>> results = search(**encoder(np.array([[5, 6, 7, 2]])), prefix_ids=np.array([[8, 9]]))
    >>> tuple(results["token_ids"].shape)
    (1, 3, 4)
    """

    @list_options(AlternativesOptions)
    def __init__(self, decoder: StepDecoder, **options: Unpack[AlternativesArguments]) -> None:
        super().__init__(decoder, **options)

    @property
    def num_open_hypotheses(self) -> int:
        return self.num_hypotheses

    def prepare(self, *args: Any, **kwargs: Any) -> tuple[TensorDict, TensorDict, Tensor]:
        carry, memory, max_lengths = super().prepare(*args, **kwargs)
        nothing = ops.zeros_like(max_lengths)  # (B,)
        carry["prefix_lengths"] = prefix_lengths(carry["prefix"]) if "prefix" in carry else nothing
        return carry, memory, max_lengths

    def start(
        self,
        memory: TensorDict,
        max_lengths: Tensor,
        encoder_mask: Tensor,
        settings: Mapping[str, Any],
    ) -> TensorDict:
        carry = super().start(memory, max_lengths, encoder_mask, settings)
        ranks = ops.arange(self.width(carry, settings), dtype="int32")  # (N,)
        # Only the first hypothesis exists before the alternatives are selected.
        numbers = ops.zeros_like(carry["last"]) + ranks  # (B, N)
        carry["hypotheses"]["is_missing"] = ops.not_equal(numbers, 0)
        return carry

    def choose(
        self, allowed: Tensor, carry: TensorDict, settings: Mapping[str, Any]
    ) -> tuple[Tensor, Tensor]:
        count, size = self.width(carry, settings), allowed.shape[-1]
        batch = ops.shape(carry["last"])[0]
        values, tokens = top_k(allowed, 1)  # (B*N, 1)
        # After a prefix, all hypotheses have the same log probabilities, up to rounding errors.
        first = ops.reshape(allowed, (batch, count, size))[:, 0]  # (B, V)
        ranked_values, ranked_tokens = _ranked(first, count)  # (B, N)
        is_next = (carry["step"] == carry["prefix_lengths"])[:, None]  # (B, 1)
        values = ops.where(is_next, ranked_values, ops.reshape(values, (batch, count)))
        tokens = ops.cast(ops.reshape(tokens, (batch, count)), "int32")
        tokens = ops.where(is_next, ranked_tokens, tokens)
        return ops.reshape(tokens, (-1, 1)), ops.reshape(values, (-1, 1))

    def advance(
        self,
        carry: TensorDict,
        memory: TensorDict,
        max_lengths: Tensor,
        settings: Mapping[str, Any],
    ) -> TensorDict:
        before = carry["hypotheses"]
        is_next = carry["step"] == carry["prefix_lengths"]  # (B,)
        if self.force_end_token:  # the end token is the only token at the maximum length
            is_next = is_next & (carry["step"] + 1 < max_lengths)
        carry = super().advance(carry, memory, max_lengths, settings)
        hypotheses = carry["hypotheses"]
        is_found = is_next[:, None] & (hypotheses["num_tokens"] > before["num_tokens"])  # (B, N)
        is_missing = before["is_missing"] & ops.logical_not(is_found)
        return {**carry, "hypotheses": {**hypotheses, "is_missing": is_missing}}

    def finish(
        self, hypotheses: TensorDict, num_hypotheses: int | Tensor | None = None
    ) -> TensorDict:
        hypotheses = dict(hypotheses)
        is_missing = hypotheses.pop("is_missing")
        hypotheses["num_tokens"] = ops.where(is_missing, 0, hypotheses["num_tokens"])
        for name in ("scores", "log_probs"):
            hypotheses[name] = ops.where(is_missing, IMPOSSIBLE, hypotheses[name])
        return super().finish(hypotheses, num_hypotheses)


def _ranked(log_probs: Tensor, count: int | Tensor) -> tuple[Tensor, Tensor]:
    """Returns the `count` largest log probabilities in each row, and their tokens.

    Args:
        log_probs: Float32 tensor of shape `(batch, V)`.
        count: Int or scalar int32 tensor. It may exceed V: the further tokens are impossible.

    Returns:
        Tuple of float32 and int32 tensors of shape `(batch, count)`.
    """
    if not is_integer(count) or count > log_probs.shape[-1]:
        more = ops.zeros((ops.shape(log_probs)[0], count), dtype="float32") + 2 * IMPOSSIBLE
        log_probs = ops.concatenate([log_probs, more], axis=1)
    values, tokens = top_k(log_probs, count)
    return values, ops.cast(tokens, "int32")
