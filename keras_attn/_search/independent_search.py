from collections.abc import Mapping
from typing import Any

from keras import ops

from keras_attn._decoders.log_probs import IMPOSSIBLE
from keras_attn._decoding_state import growing_buffer
from keras_attn._search import prefix
from keras_attn._search.end_tokens import Ends
from keras_attn._search.histories import requested_histories
from keras_attn._search.length_penalty import divisor
from keras_attn._search.search import Search
from keras_attn._types import Tensor, TensorDict
from keras_attn_checks.number_types import is_integer


class IndependentSearch(Search):
    """Base class for searches whose hypotheses are independent of each other.

    A subclass overrides the property `num_open_hypotheses` and the method `choose`, which selects
    the next tokens.
    """

    def width(self, carry: TensorDict, settings: Mapping[str, Any]) -> int | Tensor:
        return carry.get("width", settings["num_hypotheses"])

    def choose(
        self, allowed: Tensor, carry: TensorDict, settings: Mapping[str, Any]
    ) -> tuple[Tensor, Tensor]:
        """Selects the next token for each hypothesis.

        Args:
            allowed: Float32 tensor of shape `(batch * hypotheses, V)`, log probabilities.
            carry: The search's carry.
            settings: Dict returned by `call_settings`.

        Returns:
            Tuple of tokens, int32, and their log probabilities, both of shape `(batch * hypotheses,
            1)`.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `choose`.")

    def scores(
        self, log_probs: Tensor, num_tokens: Tensor, num_end_tokens: Tensor, length_penalty: Tensor
    ) -> Tensor:
        """Returns the scores `(batch, hypotheses)`. See `length_penalty.divisor`."""
        form = self.length_penalty_form
        return log_probs / divisor(num_tokens, num_end_tokens, length_penalty, form)

    def start(
        self,
        memory: TensorDict,
        max_lengths: Tensor,
        encoder_mask: Tensor,
        settings: Mapping[str, Any],
    ) -> TensorDict:
        batch, source = ops.shape(encoder_mask)[0], ops.shape(encoder_mask)[1]
        count = settings["num_hypotheses"]
        rows = (batch, count)
        first_tokens = self.decoder.first_token_ids(memory, self.start_token_id)
        carry = {
            "step": ops.zeros((), dtype="int32"),
            "done": max_lengths == 0,
            "ended": ops.zeros(rows, dtype="bool") | (max_lengths == 0)[:, None],
            "state": self.decoder.initial_state(
                memory, count, self.return_alignments, max(1, self.max_length)
            ),
            "last": ops.broadcast_to(first_tokens[:, None], rows),
            "hypotheses": {
                "token_ids": growing_buffer.new_buffer(rows, (), "int32", self.max_length),
                "num_tokens": ops.zeros(rows, dtype="int32"),
                "scores": ops.zeros(rows, dtype="float32"),
                "log_probs": ops.zeros(rows, dtype="float32"),
            },
        }
        if not is_integer(count):
            carry["width"] = count
        carry["hypotheses"] |= requested_histories(self, carry["state"], rows, source)
        if self.stop_sequences:
            carry["hypotheses"]["num_end_tokens"] = ops.zeros(rows, dtype="int32")
        return carry

    def advance(
        self,
        carry: TensorDict,
        memory: TensorDict,
        max_lengths: Tensor,
        settings: Mapping[str, Any],
    ) -> TensorDict:
        step, hypotheses = carry["step"], carry["hypotheses"]
        is_open = ops.logical_not(carry["ended"])  # (B, N)
        rows = (ops.shape(max_lengths)[0], self.width(carry, settings))
        last = ops.reshape(carry["last"], (-1,))  # (B*N,)
        step_logits, state = self.decoder.step(last, carry["state"], memory)  # (B*N, V)
        token_ids = hypotheses["token_ids"]
        allowed, rule_states = self.token_log_probs(carry, step_logits, token_ids, settings)
        allowed = self.forbid_repetition(allowed, token_ids, step, settings)
        stops = self.find_stops(carry, token_ids)
        allowed = self.forbid_early_stops(allowed, stops, step, settings)
        allowed = allowed + self.penalties(step_logits.shape[-1], step, settings)
        chosen = (ops.reshape(each, rows) for each in self.choose(allowed, carry, settings))
        forced = self.forced_tokens(carry, step_logits, settings)
        tokens, values = prefix.follow(forced, *chosen)
        at_limit = (step + 1 >= max_lengths)[:, None]  # (B, 1)
        if self.force_end_token:
            tokens = ops.where(at_limit, self.end_token_id, tokens)
            values = ops.where(at_limit, 0.0, values)
        # If every next token is impossible, the hypothesis ends unchanged.
        goes_on = is_open & (values > IMPOSSIBLE / 2)
        last = ops.where(goes_on, tokens, self.pad_token_id)
        values = ops.where(goes_on, values, 0.0)
        is_end, num_end_tokens = Ends(self.end_token_ids, stops).find(last)
        is_end = goes_on & is_end
        num_end_tokens = is_end if stops is None else ops.where(is_end, num_end_tokens, 0)
        ended = ops.logical_not(goes_on) | is_end | at_limit
        num_tokens = hypotheses["num_tokens"] + ops.cast(goes_on, "int32")
        log_probs = hypotheses["log_probs"] + values
        scores = self.scores(log_probs, num_tokens, num_end_tokens, settings["length_penalty"])
        of_step = {"token_ids": last}  # (B, N)
        if self.return_alignments:
            of_step["alignments"] = ops.reshape(state["alignments"], (*rows, -1))  # (B, N, S)
        if self.return_token_log_probs:
            of_step["token_log_probs"] = values
        if self.return_top_tokens:
            of_step |= self.top_tokens(allowed, step_logits, forced, rows)
        new_hypotheses = {
            "num_tokens": num_tokens,
            "scores": ops.where(goes_on, scores, hypotheses["scores"]),
            "log_probs": log_probs,
            **{
                name: growing_buffer.append(hypotheses[name], entry, step)
                for name, entry in of_step.items()
            },
        }
        if stops is not None:
            before = hypotheses["num_end_tokens"]
            new_hypotheses["num_end_tokens"] = ops.where(goes_on, num_end_tokens, before)
        return {
            **carry,
            **rule_states,
            "step": step + 1,
            "done": ops.all(ended, axis=1),
            "ended": ended,
            "state": state,
            "last": last,
            "hypotheses": new_hypotheses,
        }
