import keras
from keras import ops

from keras_attn._types import Tensor, TensorDict
from keras_attn.search.independent_search import IndependentSearch


@keras.saving.register_keras_serializable(package="keras_attn")
class GreedyDecoder(IndependentSearch):
    """Greedy search: selects the most probable token at each step.

        y_t = argmax_v p(v | y_1, ..., y_{t-1}, source)

    The lower id wins a tie.

    Args:
        decoder: `StepDecoder`.
        max_length: Positive int, maximum number of tokens of a hypothesis, including the end token.
            Decoders with learned positions may have a lower maximum. Defaults to `256`.
        relative_max_length: Tuple `(factor, margin)`: a hypothesis has at most `factor *
            source_length + margin` tokens, or none if this is negative. `None` for no such limit.
            Defaults to `(2, 10)`.
        min_length: Int >= 0, minimum number of tokens of a hypothesis, without the end token.
            Defaults to `0`.
        length_penalty: Float, exponent of the length in the score. It should not be far below 0,
            because scores below -1e9 are reserved for missing hypotheses. Defaults to `1.0`.
        length_penalty_form: String, `"average"`, `"average_with_end"`, `"gnmt"` or `"none"`, see
            `keras_attn.search.length_penalty`. Defaults to `"average"`.
        start_token_id: Int >= 0, id of the start token. Defaults to `1`.
        end_token_id: Int >= 0, id of the end token. Defaults to `2`.
        pad_token_id: Int >= 0, id of padding. Defaults to `0`.
        suppressed_token_ids: List of ids that are never generated. Defaults to `None`: padding and
            start, unless they are the end token.
        repetition_penalty: Positive float. Values above 1 make the previous tokens of a hypothesis
            less probable, including those of a prefix but not those of a prompt. It changes the
            logits, see `keras_attn.search.repetition`, and so the `log_probs`, except those of
            prefix tokens. Defaults to `1.0`, no penalty.
        no_repeat_ngram_size: Int >= 0, size of the n-grams that a hypothesis may contain only once.
            Defaults to `0`, no limit.
        return_alignments: Bool, whether to return the attention weights. Defaults to `False`.
        return_token_log_probs: Bool, whether to return the log probability of each token. Defaults
            to `False`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        encoder_outputs: Tensor of shape `(batch, source, features)`, or a dict of tensors for a
            decoder with `CombinedAttention`.
        encoder_mask: Boolean tensor of shape `(batch, source)`; `True` marks positions that may be
            attended to. A dict of masks if `encoder_outputs` is a dict. It is combined with the
            implicit mask. Defaults to `None`, no masked positions.
        encoder_state: Nested lists of tensors of shape `(batch, units)`, the final state of the
            encoder. Defaults to `None`.
        max_length: Int or scalar int32 tensor that replaces the constructor argument. If the state
            of the decoder cannot grow in a loop (on JAX, and see
            `StepDecoder.can_exceed_max_length`), the constructor argument is the upper limit.
            Defaults to `None`.
        length_penalty: Float or scalar float32 tensor that replaces the constructor argument.
            Defaults to `None`.
        query_features: Tensor of shape `(batch, features)`, for decoders whose queries contain
            features. Defaults to `None`.
        prefix_ids: Int tensor of shape `(batch, prefix)`, tokens with which every hypothesis
            begins, such as a language tag, padded on the right; shape `(1, prefix)` for one prefix
            for all. Prefix tokens count for limits, lengths and log probabilities. Defaults to
            `None`, no prefix.
        seeds: Int32 tensor of shape `(batch,)`, seeds of a search with random sampling; shape
            `(1,)` for one seed for all. Defaults to `None`.
        mask: Boolean tensor of shape `(batch, source)`, or a dict of masks, the implicit mask of
            `encoder_outputs`. Keras passes it if there is no other input.
        encoder_outputs_mask: Boolean tensor of shape `(batch, source)`, or a dict of masks, the
            implicit mask of `encoder_outputs`. Keras passes it.

    Returns:
        Dict of the hypotheses of each batch entry, the best one first:

        - `token_ids`: int32 `(batch, hypotheses, time)`, with the end token, if any, and padding.
        - `lengths`: int32 `(batch, hypotheses)`, numbers of tokens without the end token.
        - `scores`: float32 `(batch, hypotheses)`, natural-log probability divided by the length
          penalty, plus the coverage penalty of a beam search.
        - `log_probs`: float32 `(batch, hypotheses)`, natural-log probability of all tokens,
          including the end token.
        - `alignments`: float `(batch, hypotheses, time, source)`, if `return_alignments=True`.
        - `token_log_probs`: float32 `(batch, hypotheses, time)`, if `return_token_log_probs=True`:
          the natural-log probability of each token given the previous tokens, with the sum
          `log_probs`.

        If fewer hypotheses are found than requested, the missing ones have the score and log
        probability -1e9. A hypothesis for which every next token is impossible, a dead end, is
        returned without an end token and ranks below all ended hypotheses.

        There is one hypothesis per batch entry. The length penalty only affects the `scores`.

    Raises:
        ValueError: If an argument is out of range.

    Example:

    >>> import numpy as np
    >>> from keras_attn import rnn_seq2seq
    >>> encoder, decoder = rnn_seq2seq(20, 30, units=4, embedding_dim=4)
    >>> results = GreedyDecoder(decoder, max_length=3)(**encoder(np.array([[5, 6, 7, 2]])))
    >>> tuple(results["lengths"].shape)
    (1, 1)
    """

    def choose(self, allowed: Tensor, carry: TensorDict) -> tuple[Tensor, Tensor]:
        log_probs, tokens = ops.top_k(allowed, 1)
        return ops.cast(tokens, "int32"), log_probs
