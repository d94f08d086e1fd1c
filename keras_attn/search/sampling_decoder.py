import keras
from keras import ops

from keras_attn import history
from keras_attn.arguments import check_positive_integer
from keras_attn.search import prefix
from keras_attn.search.logits import IMPOSSIBLE
from keras_attn.search.search import Search


@keras.saving.register_keras_serializable(package="keras_attn")
class SamplingDecoder(Search):
    """Draws each token at random, by its probability.

        p(v) proportional to exp(logits[v] / temperature), for the tokens v that are kept

    `top_k` ([Fan et al., 2018](https://arxiv.org/abs/1805.04833)) keeps the most probable tokens;
    `top_p`, nucleus sampling ([Holtzman et al., 2020](https://arxiv.org/abs/1904.09751)), the
    fewest tokens, most probable first, whose probabilities sum to `top_p`. With both, the second
    chooses among what the first has kept. It has random operators, and so no export to ONNX.

    Args:
        decoder: a `Decoder`.
        num_hypotheses: int, hypotheses drawn for each sentence, each on its own. Default 1.
        temperature: float > 0. Below 1 makes probable tokens still more probable. Default 1.
        top_k: int, most tokens to choose from. Default `None`: no limit.
        top_p: float in (0, 1]. Default 1: all tokens.
        seed: int. Default `None`: another one each time the layer is made.
        **kwargs: arguments of `Search`. A length penalty changes nothing.

    Call arguments, returns: see `Search`; `hypotheses` is `num_hypotheses`, in the order in which
        they were drawn. `scores` are the `log_probs`: the model's own, of the whole vocabulary at
        temperature 1.

    Raises:
        ValueError: for arguments out of range.
    """

    def __init__(
        self,
        decoder,
        num_hypotheses=1,
        temperature=1.0,
        top_k=None,
        top_p=1.0,
        seed=None,
        **kwargs,
    ):
        super().__init__(decoder, **kwargs)
        check_positive_integer("num_hypotheses", num_hypotheses)
        if temperature <= 0:
            raise ValueError(
                f"temperature must be positive. Received: temperature={temperature}. Use "
                "GreedyDecoder for the limit of 0."
            )
        if top_k is not None:
            check_positive_integer("top_k", top_k)
        if not 0 < top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1]. Received: top_p={top_p}.")
        self.num_hypotheses = num_hypotheses
        self.temperature = temperature
        self.top_k = top_k
        self.top_p = top_p
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    @property
    def width(self):
        return self.num_hypotheses

    def start(self, memory, limits, encoder_mask):
        batch, source = ops.shape(encoder_mask)[0], ops.shape(encoder_mask)[1]
        samples, zero = (batch, self.num_hypotheses), history.hidden_zero(encoder_mask)

        def new_history(rest=(), dtype="int32"):
            return history.new_history(samples, rest, dtype, self.max_length, zero)

        first_tokens = self.decoder.first_token_ids(memory, self.start_token_id)
        carry = {
            "step": ops.zeros((), dtype="int32"),
            "done": limits == 0,
            "ended": ops.zeros(samples, dtype="bool") | (limits == 0)[:, None],
            "state": self.decoder.initial_state(
                memory, self.num_hypotheses, self.return_alignments, max(1, self.max_length)
            ),
            "last": ops.broadcast_to(first_tokens[:, None], samples),
            "uniforms": self._uniforms(samples, limits),
            "hypotheses": {
                "token_ids": new_history(),
                "num_tokens": ops.zeros(samples, dtype="int32"),
                "log_probs": ops.zeros(samples, dtype="float32"),
            },
        }
        if self.return_alignments:
            dtype = self.alignments_dtype(carry["state"])
            carry["hypotheses"]["alignments"] = new_history((source,), dtype)
        if self.return_token_log_probs:
            carry["hypotheses"]["token_log_probs"] = new_history(dtype="float32")
        return carry

    def advance(self, carry, memory, limits, length_penalty):
        step, hypotheses = carry["step"], carry["hypotheses"]
        is_open = ops.logical_not(carry["ended"])  # (B, N)
        samples = ops.shape(is_open)
        step_logits, state = self.decoder.step(
            ops.reshape(carry["last"], (-1,)), carry["state"], memory
        )  # (B*N, V)
        allowed = self.next_log_probs(step_logits, hypotheses["token_ids"], step)
        allowed = allowed + self.penalties(step_logits.shape[-1], step)
        uniform = ops.reshape(ops.take(carry["uniforms"], step, axis=2), (-1, 1))  # (B*N, 1)
        tokens, log_probs = self._draw(allowed, uniform)  # (B*N, 1)
        tokens, log_probs = ops.reshape(tokens, samples), ops.reshape(log_probs, samples)
        forced = self.forced_tokens(carry, step_logits)
        tokens, log_probs = prefix.follow(forced, tokens, log_probs)
        log_probs = ops.where(is_open, log_probs, 0.0)
        last = ops.where(is_open, tokens, self.pad_token_id)
        is_end = last == self.end_token_id
        ended = carry["ended"] | is_end | (step + 1 >= limits)[:, None]
        new_hypotheses = {
            "token_ids": history.append(hypotheses["token_ids"], last, step),
            "num_tokens": hypotheses["num_tokens"] + ops.cast(is_open, "int32"),
            "log_probs": hypotheses["log_probs"] + log_probs,
        }
        if self.return_alignments:
            weights = ops.reshape(state["alignments"], (*samples, -1))  # (B, N, S)
            weights = weights * ops.cast(is_open, weights.dtype)[:, :, None]
            new_hypotheses["alignments"] = history.append(hypotheses["alignments"], weights, step)
        if self.return_token_log_probs:
            so_far = hypotheses["token_log_probs"]
            new_hypotheses["token_log_probs"] = history.append(so_far, log_probs, step)
        return {
            **carry,
            "step": step + 1,
            "done": ops.all(ended, axis=1),
            "ended": ended,
            "state": state,
            "last": last,
            "hypotheses": new_hypotheses,
        }

    def finish(self, hypotheses):
        return {**super().finish(hypotheses), "scores": hypotheses["log_probs"]}

    def _uniforms(self, samples, limits):
        """A random number for each token, float32 `(B, N, steps)`.

        All are drawn before the loop, inside of which a generator cannot count on every backend.
        """
        steps = ops.max(limits, initial=0) if history.grows() else max(1, self.max_length)
        return keras.random.uniform((*samples, steps), dtype="float32", seed=self.seed_generator)

    def _draw(self, allowed, uniform):
        """Inverse transform sampling among the tokens that are kept.

        Args:
            allowed: float32 logits `(rows, V)`.
            uniform: float32 `(rows, 1)`, in [0, 1).

        Returns:
            Tuple of tokens, int32, and their logits, both `(rows, 1)`.
        """
        size = allowed.shape[-1]
        width = size if self.top_k is None else min(self.top_k, size)
        values, tokens = ops.top_k(allowed, width)  # (rows, W), best first
        # What is impossible stays so at any temperature.
        possible = values > values[:, :1] + IMPOSSIBLE / 2
        probs = ops.exp((values - values[:, :1]) / self.temperature)  # (rows, W)
        probs = ops.where(possible, probs, 0.0)
        probs = probs / ops.sum(probs, axis=-1, keepdims=True)
        kept = probs > 0
        if self.top_p < 1:
            # The token with which the sum reaches top_p is the last one.
            kept = kept & (ops.cumsum(probs, axis=-1) - probs < self.top_p)
        sums = ops.cumsum(ops.where(kept, probs, 0.0), axis=-1)  # (rows, W)
        passed = ops.cast(sums <= uniform * sums[:, -1:], "int32")
        most = ops.sum(ops.cast(kept, "int32"), axis=-1, keepdims=True) - 1  # (rows, 1)
        chosen = ops.minimum(ops.sum(passed, axis=-1, keepdims=True), most)  # (rows, 1)
        tokens = ops.take_along_axis(ops.cast(tokens, "int32"), chosen, axis=-1)
        return tokens, ops.take_along_axis(values, chosen, axis=-1)

    def get_config(self):
        return {
            **super().get_config(),
            "num_hypotheses": self.num_hypotheses,
            "temperature": self.temperature,
            "top_k": self.top_k,
            "top_p": self.top_p,
            "seed": self.seed,
        }
