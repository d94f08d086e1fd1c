from collections.abc import Mapping
from typing import Any, Unpack

import keras
from keras import ops

from keras_attn._backend.gather import gather_beams
from keras_attn._backend.integers import sum_int32
from keras_attn._backend.top_k import top_k
from keras_attn._decoders.log_probs import IMPOSSIBLE
from keras_attn._decoders.step_decoder import StepDecoder
from keras_attn._decoding_state import growing_buffer
from keras_attn._layer.argument_checks import check_integers
from keras_attn._layer.fill_docstring import fill_docstring
from keras_attn._random.draw_index import draw_index
from keras_attn._random.uniform_numbers import uniform_numbers
from keras_attn._search.independent_search import IndependentSearch
from keras_attn._search.rows_or_one import check_rows_or_one
from keras_attn._search.search import Search, is_set
from keras_attn._types import Tensor, TensorDict
from keras_attn_checks.number_types import is_number
from keras_attn_checks.options import list_options
from keras_attn_checks.search_options import SamplingArguments, SamplingOptions

STEPS = 2**16
"""Number of tokens with independent random numbers. All of these numbers are kept in memory. Later
tokens reuse them from the beginning."""


@keras.saving.register_keras_serializable(package="keras_attn")
@fill_docstring(Search)
class SamplingDecoder(IndependentSearch, SamplingOptions):
    """Samples each token at random from the predicted distribution.

        p(v) = exp(logits[v] / temperature) / sum over kept tokens w of exp(logits[w] / temperature)

    `top_k` ([Fan et al., 2018](https://arxiv.org/abs/1805.04833)) keeps the `top_k` most probable
    tokens. `top_p`, nucleus sampling ([Holtzman et al., 2020](https://arxiv.org/abs/1904.09751)),
    keeps the smallest set of most probable tokens whose total probability is at least `top_p`.
    Tokens that are as probable as the last token of this set are kept as well. `min_p` ([Nguyen et
    al., 2024](https://arxiv.org/abs/2407.01082)) keeps the tokens whose probability is at least
    `min_p` times the highest probability. If several of these arguments are set, a token is kept if
    it fulfills all conditions. If `top_k` and `top_p` are both set, `top_p` applies to the
    probabilities of the `top_k` tokens, normalized to a sum of 1.

    The result of a batch entry depends on its seed, but not on the other batch entries. Keras and
    exported files sample the same tokens, except for rare cases in which float32 rounding errors
    change the selected token. Only the first 65,536 tokens of a hypothesis have independent random
    numbers. Later tokens reuse the same numbers from the beginning.

    Args:
        decoder: `StepDecoder`.
        {{options}}
        {{arguments}}

    Call arguments:
        {{call_arguments}}

    Returns:
        {{returns}}

        The results contain `num_hypotheses` hypotheses per batch entry, which are not sorted. The
        `log_probs` are computed at temperature 1 over the whole vocabulary. The `scores` equal
        the `log_probs`, so the length penalty has no effect.

    Raises:
        ValueError: If an argument is out of range, or `seeds` has the wrong shape.

    Example:

    >>> import numpy as np
    >>> from keras_attn import SamplingDecoder, rnn_seq2seq
    >>> encoder, decoder = rnn_seq2seq(20, 30, units=4, embedding_dim=4)
    >>> search = SamplingDecoder(decoder, num_hypotheses=2, top_k=10, max_length=3)
    >>> results = search(**encoder(np.array([[5, 6, 7, 2]])), seeds=np.array([1]))
    >>> tuple(results["lengths"].shape)
    (1, 2)
    """

    is_stochastic = True

    @list_options(SamplingOptions)
    def __init__(self, decoder: StepDecoder, **options: Unpack[SamplingArguments]) -> None:
        super().__init__(decoder, **options)
        self.seed_generator = keras.random.SeedGenerator(self.seed)

    @property
    def num_open_hypotheses(self) -> int:
        return self.num_hypotheses

    def prepare(
        self, *args: Any, seeds: Tensor | None = None, **kwargs: Any
    ) -> tuple[TensorDict, TensorDict, Tensor]:
        carry, memory, max_lengths = super().prepare(*args, **kwargs)
        if seeds is None:
            seeds = keras.random.randint(
                ops.shape(max_lengths), 0, 2**31 - 1, dtype="int32", seed=self.seed_generator
            )
        if growing_buffer.supports_growth():
            steps = ops.minimum(ops.max(max_lengths, initial=0), STEPS)
        else:
            steps = min(max(1, self.max_length), STEPS)
        seeds = _for_each(seeds, max_lengths)  # (B,)
        # Draw the random numbers before the loop, because ONNX Runtime has no GPU kernels for
        # bitwise operators.
        count = ops.shape(carry["last"])[1]
        carry["uniforms"] = uniform_numbers(seeds, steps, count, 2)  # (B, T, N, 2)
        return carry, memory, max_lengths

    def choose(
        self, allowed: Tensor, carry: TensorDict, settings: Mapping[str, Any]
    ) -> tuple[Tensor, Tensor]:
        column = ops.mod(carry["step"], ops.shape(carry["uniforms"])[1])
        uniforms = ops.take(carry["uniforms"], column, axis=1)  # (B, N, 2)
        return self._draw(allowed, ops.reshape(uniforms, (-1, 2)), settings)

    def scores(
        self, log_probs: Tensor, num_tokens: Tensor, num_end_tokens: Tensor, length_penalty: Tensor
    ) -> Tensor:
        return log_probs

    def _draw(self, allowed, uniforms, settings):
        """Filters the tokens by top-k, top-p and min-p, and samples one of the remaining tokens.

        Args:
            allowed: Float32 tensor of shape `(rows, V)`, logits.
            uniforms: Float32 tensor of shape `(rows, 2)` with numbers in [0, 1).
            settings: Dict returned by `call_settings`.

        Returns:
            Tuple of tokens, int32, and their logits, both of shape `(rows, 1)`.
        """
        tokens = None
        if self.top_k is not None:
            allowed, tokens = top_k(allowed, min(self.top_k, allowed.shape[-1]))
            if is_set(settings["top_k"], self.top_k):
                most = ops.where(settings["top_k"] > 0, settings["top_k"], self.top_k)
                is_kept = ops.arange(allowed.shape[-1], dtype="int32") < most
                allowed = ops.where(is_kept, allowed, 2 * IMPOSSIBLE)
        elif settings["top_k"] is not None:
            allowed = _keep_best(allowed, settings["top_k"])
        relative = allowed - ops.max(allowed, axis=-1, keepdims=True)
        # Impossible tokens remain impossible at any temperature.
        is_possible = relative > IMPOSSIBLE / 2
        probs = ops.where(is_possible, ops.exp(relative / settings["temperature"]), 0.0)
        probs = probs / ops.sum(probs, axis=-1, keepdims=True)
        if is_set(settings["top_p"], 1):
            probs = self._nucleus(probs, settings["top_p"])
        if is_set(settings["min_p"], 0):
            least = settings["min_p"] * ops.max(probs, axis=-1, keepdims=True)
            probs = ops.where(probs >= least, probs, 0.0)
        chosen = draw_index(probs, uniforms)
        log_probs = gather_beams(allowed, chosen)
        tokens = chosen if tokens is None else gather_beams(ops.cast(tokens, "int32"), chosen)
        return tokens, log_probs

    def _nucleus(self, probs, top_p):
        """Returns the probabilities `(rows, V)` with 0 outside of the nucleus."""
        most = probs.shape[-1]
        if growing_buffer.supports_growth():
            # Tokens below this bound have a total probability of less than 1 - top_p, so they are
            # outside of the nucleus and need no sorting.
            may_be_inside = probs >= (1 - top_p) / most
            most = ops.max(sum_int32(may_be_inside, axis=-1), initial=1)
            if not is_number(top_p):  # speed: nothing needs sorting if all tokens are kept
                most = ops.where(top_p < 1, most, 1)
        best, _ = top_k(probs, most)
        # Keep tokens until the total probability reaches top_p.
        is_kept = ops.cumsum(best, axis=-1) - best < top_p
        least = ops.min(ops.where(is_kept, best, 1.0), axis=-1, keepdims=True)
        if not is_number(top_p):  # rounding errors must not remove tokens if all are kept
            least = ops.where(top_p < 1, least, 0.0)
        return ops.where(probs >= least, probs, 0.0)


def _keep_best(allowed, count):
    """Makes all tokens impossible but the best ones, and those that are as probable.

    Args:
        allowed: Float32 tensor of shape `(rows, V)`.
        count: Scalar int32 tensor, number of tokens. 0 keeps all tokens.
    """
    size = allowed.shape[-1]
    is_limit = (count > 0) & (count < size)
    if growing_buffer.supports_growth():
        best, _ = top_k(allowed, ops.where(is_limit, count, 1))
        least = best[:, -1:]
    else:
        best, _ = top_k(allowed, size)
        least = ops.take(best, ops.clip(count, 1, size) - 1, axis=1)[:, None]
    return ops.where((allowed >= least) | ops.logical_not(is_limit), allowed, 2 * IMPOSSIBLE)


def _for_each(seeds, max_lengths):
    """Broadcasts int32 seeds `(batch,)` or `(1,)` to `(batch,)`."""
    seeds = ops.convert_to_tensor(seeds)
    check_integers("seeds", seeds)
    seeds = ops.cast(seeds, "int32")
    check_rows_or_one("seeds", (), seeds, max_lengths)
    # All tensors of the loop need a dynamic batch size.
    return ops.reshape(ops.zeros_like(max_lengths) + seeds, (ops.shape(max_lengths)[0],))
