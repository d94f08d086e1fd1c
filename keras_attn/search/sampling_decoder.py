import math
from collections.abc import Iterable
from typing import Any

import keras
from keras import ops

from keras_attn._backend.gather import gather_beams
from keras_attn._backend.integers import sum_int32
from keras_attn._backend.top_k import top_k
from keras_attn._decoding_state import growing_buffer
from keras_attn._layer.argument_checks import (
    check_integers,
    check_number,
    check_positive_integer,
    check_seed,
)
from keras_attn._layer.fill_docstring import fill_docstring
from keras_attn._random.draw_index import draw_index
from keras_attn._random.uniform_numbers import uniform_numbers
from keras_attn._types import Tensor, TensorDict
from keras_attn.decoders.step_decoder import StepDecoder
from keras_attn.search.independent_search import IndependentSearch
from keras_attn.search.length_penalty import LengthPenaltyForm
from keras_attn.search.logits import IMPOSSIBLE
from keras_attn.search.rows_or_one import check_rows_or_one
from keras_attn.search.search import Search

STEPS = 2**16
"""Number of tokens with independent random numbers. All of these numbers are kept in memory. Later
tokens reuse them from the beginning."""


@keras.saving.register_keras_serializable(package="keras_attn")
@fill_docstring(Search)
class SamplingDecoder(IndependentSearch):
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
        num_hypotheses: Positive int, number of hypotheses that are sampled independently for each
            batch entry. The memory for the cache of a Transformer grows with the square of
            `num_hypotheses`. For thousands of samples, repeat the source in the batch instead.
            Defaults to `1`.
        temperature: Float >= 1e-30. Values below 1 increase the probabilities of the most probable
            tokens. Defaults to `1.0`.
        top_k: Positive int, maximum number of tokens to sample from. Defaults to `None`: no limit.
        top_p: Float in (0, 1], total probability of the tokens to sample from. Defaults to `1.0`:
            all tokens.
        min_p: Float in [0, 1], minimum probability relative to the most probable token. Defaults to
            `0.0`: all tokens.
        seed: Int. If a call has no `seeds`, a generator with this seed creates them. Each call
            continues with the next ones. A loaded or copied layer starts with the first ones again,
            because Keras does not save the state of random generators in a file. Defaults to
            `None`: a random seed.
        {{arguments}}

    Call arguments:
        {{call_arguments}}

    Returns:
        {{returns}}

        The results contain `num_hypotheses` hypotheses per batch entry, in the order of sampling.
        The `log_probs` are computed at temperature 1 over the whole vocabulary. The `scores` equal
        the `log_probs`, so the length penalty has no effect.

    Raises:
        ValueError: If an argument is out of range, or `seeds` has the wrong shape.

    Example:

    >>> import numpy as np
    >>> from keras_attn import rnn_seq2seq
    >>> encoder, decoder = rnn_seq2seq(20, 30, units=4, embedding_dim=4)
    >>> search = SamplingDecoder(decoder, num_hypotheses=2, top_k=10, max_length=3)
    >>> results = search(**encoder(np.array([[5, 6, 7, 2]])), seeds=np.array([1]))
    >>> tuple(results["lengths"].shape)
    (1, 2)
    """

    is_stochastic = True

    def __init__(
        self,
        decoder: StepDecoder,
        *,
        num_hypotheses: int = 1,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        min_p: float = 0.0,
        seed: int | None = None,
        max_length: int = 256,
        relative_max_length: tuple[float, float] | None = (2, 10),
        min_length: int = 0,
        length_penalty: float = 1.0,
        length_penalty_form: LengthPenaltyForm = "average",
        start_token_id: int = 1,
        end_token_id: int = 2,
        pad_token_id: int = 0,
        suppressed_token_ids: Iterable[int] | None = None,
        repetition_penalty: float = 1.0,
        no_repeat_ngram_size: int = 0,
        forced_prefix_ids: Iterable[int] | None = None,
        score_prefix: bool = True,
        force_end_token: bool = False,
        return_alignments: bool = False,
        return_token_log_probs: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            decoder,
            max_length=max_length,
            relative_max_length=relative_max_length,
            min_length=min_length,
            length_penalty=length_penalty,
            length_penalty_form=length_penalty_form,
            start_token_id=start_token_id,
            end_token_id=end_token_id,
            pad_token_id=pad_token_id,
            suppressed_token_ids=suppressed_token_ids,
            repetition_penalty=repetition_penalty,
            no_repeat_ngram_size=no_repeat_ngram_size,
            forced_prefix_ids=forced_prefix_ids,
            score_prefix=score_prefix,
            force_end_token=force_end_token,
            return_alignments=return_alignments,
            return_token_log_probs=return_token_log_probs,
            **kwargs,
        )
        check_positive_integer("num_hypotheses", num_hypotheses)
        check_seed(seed)
        check_number(  # values below 1e-38 are 0 in float32
            *("temperature", temperature, lambda value: 1e-30 <= value < math.inf),
            *("of at least 1e-30", "Use GreedyDecoder for a temperature of 0."),
        )
        if top_k is not None:
            check_positive_integer("top_k", top_k)
        check_number(
            *("top_p", top_p, lambda value: 0 < value <= 1),
            *("in (0, 1]", "Use 1 to keep all tokens."),
        )
        check_number(
            *("min_p", min_p, lambda value: 0 <= value <= 1),
            *("in [0, 1]", "Use 0 to keep all tokens."),
        )
        self.num_hypotheses = num_hypotheses
        self.temperature = temperature
        self.top_k = top_k
        self.top_p = top_p
        self.min_p = min_p
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

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
        carry["uniforms"] = uniform_numbers(seeds, steps, self.num_hypotheses, 2)  # (B, T, N, 2)
        return carry, memory, max_lengths

    def choose(self, allowed: Tensor, carry: TensorDict) -> tuple[Tensor, Tensor]:
        column = ops.mod(carry["step"], ops.shape(carry["uniforms"])[1])
        uniforms = ops.take(carry["uniforms"], column, axis=1)  # (B, N, 2)
        return self._draw(allowed, ops.reshape(uniforms, (-1, 2)))

    def scores(
        self, log_probs: Tensor, num_tokens: Tensor, is_end: Tensor, length_penalty: Tensor
    ) -> Tensor:
        return log_probs

    def _draw(self, allowed, uniforms):
        """Filters the tokens by top-k, top-p and min-p, and samples one of the remaining tokens.

        Args:
            allowed: Float32 tensor of shape `(rows, V)`, logits.
            uniforms: Float32 tensor of shape `(rows, 2)` with numbers in [0, 1).

        Returns:
            Tuple of tokens, int32, and their logits, both of shape `(rows, 1)`.
        """
        tokens = None
        if self.top_k is not None:
            allowed, tokens = top_k(allowed, min(self.top_k, allowed.shape[-1]))
        relative = allowed - ops.max(allowed, axis=-1, keepdims=True)
        # Impossible tokens remain impossible at any temperature.
        probs = ops.where(relative > IMPOSSIBLE / 2, ops.exp(relative / self.temperature), 0.0)
        probs = probs / ops.sum(probs, axis=-1, keepdims=True)
        if self.top_p < 1:
            probs = self._nucleus(probs)
        if self.min_p:
            least = self.min_p * ops.max(probs, axis=-1, keepdims=True)
            probs = ops.where(probs >= least, probs, 0.0)
        chosen = draw_index(probs, uniforms)
        log_probs = gather_beams(allowed, chosen)
        tokens = chosen if tokens is None else gather_beams(ops.cast(tokens, "int32"), chosen)
        return tokens, log_probs

    def _nucleus(self, probs):
        """Returns the probabilities `(rows, V)` with 0 outside of the nucleus."""
        most = probs.shape[-1]
        if growing_buffer.supports_growth():
            # Tokens below this bound have a total probability of less than 1 - top_p, so they are
            # outside of the nucleus and need no sorting.
            may_be_inside = probs >= (1 - self.top_p) / most
            most = ops.max(sum_int32(may_be_inside, axis=-1), initial=1)
        best, _ = top_k(probs, most)
        # Keep tokens until the total probability reaches top_p.
        is_kept = ops.cumsum(best, axis=-1) - best < self.top_p
        least = ops.min(ops.where(is_kept, best, 1.0), axis=-1, keepdims=True)
        return ops.where(probs >= least, probs, 0.0)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_hypotheses": self.num_hypotheses,
            "temperature": self.temperature,
            "top_k": self.top_k,
            "top_p": self.top_p,
            "min_p": self.min_p,
            "seed": self.seed,
        }


def _for_each(seeds, max_lengths):
    """Broadcasts int32 seeds `(batch,)` or `(1,)` to `(batch,)`."""
    seeds = ops.convert_to_tensor(seeds)
    check_integers("seeds", seeds)
    seeds = ops.cast(seeds, "int32")
    check_rows_or_one("seeds", (), seeds, max_lengths)
    # All tensors of the loop need a dynamic batch size.
    return ops.reshape(ops.zeros_like(max_lengths) + seeds, (ops.shape(max_lengths)[0],))
