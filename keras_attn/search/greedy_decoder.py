import keras
from keras import ops

from keras_attn import history
from keras_attn.search import prefix
from keras_attn.search.length_penalty import divisor
from keras_attn.search.search import Search


@keras.saving.register_keras_serializable(package="keras_attn")
class GreedyDecoder(Search):
    """Takes the most probable token at each step; ties go to the lower id.

    Args:
        decoder: a `Decoder`.
        **kwargs: arguments of `Search`. The length penalty only changes the reported score.

    Call arguments, returns: see `Search`; `hypotheses` is 1.
    """

    def start(self, memory, limits, encoder_mask):
        batch, source = ops.shape(encoder_mask)[0], ops.shape(encoder_mask)[1]

        def new_history(rest=(), dtype="int32"):
            return history.new_history((batch, 1), rest, dtype, self.max_length)

        carry = {
            "step": ops.zeros((), dtype="int32"),
            "done": limits == 0,
            "state": self.decoder.initial_state(
                memory, 1, self.return_alignments, max(1, self.max_length)
            ),
            "last": self.decoder.first_token_ids(memory, self.start_token_id),
            "hypotheses": {
                "token_ids": new_history(),
                "num_tokens": ops.zeros((batch, 1), dtype="int32"),
                "scores": ops.zeros((batch, 1), dtype="float32"),
                "log_probs": ops.zeros((batch, 1), dtype="float32"),
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
        is_open = ops.logical_not(carry["done"])[:, None]  # (B, 1)
        step_logits, state = self.decoder.step(carry["last"], carry["state"], memory)
        allowed = self.next_log_probs(step_logits, hypotheses["token_ids"], step)
        allowed = allowed + self.penalties(step_logits.shape[-1], step)
        values, tokens = ops.top_k(allowed, 1)  # (B, 1)
        tokens = ops.cast(tokens, "int32")
        tokens, values = prefix.follow(self.forced_tokens(carry, step_logits), tokens, values)
        last = ops.where(is_open, tokens, self.pad_token_id)
        is_end = last == self.end_token_id
        num_tokens = hypotheses["num_tokens"] + ops.cast(is_open, "int32")
        values = ops.where(is_open, values, 0.0)
        log_probs = hypotheses["log_probs"] + values
        scores = log_probs / divisor(num_tokens, is_end, length_penalty, self.length_penalty_form)
        new_hypotheses = {
            "token_ids": history.append(hypotheses["token_ids"], last, step),
            "num_tokens": num_tokens,
            "scores": ops.where(is_open, scores, hypotheses["scores"]),
            "log_probs": log_probs,
        }
        if self.return_alignments:
            weights = state["alignments"][:, None]  # (B, 1, S)
            weights = weights * ops.cast(is_open, weights.dtype)[:, :, None]
            new_hypotheses["alignments"] = history.append(hypotheses["alignments"], weights, step)
        if self.return_token_log_probs:
            so_far = hypotheses["token_log_probs"]
            new_hypotheses["token_log_probs"] = history.append(so_far, values, step)
        return {
            **carry,
            "step": step + 1,
            "done": carry["done"] | is_end[:, 0] | (step + 1 >= limits),
            "state": state,
            "last": last[:, 0],
            "hypotheses": new_hypotheses,
        }
