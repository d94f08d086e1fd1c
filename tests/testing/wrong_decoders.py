"""Decoders that violate the contract, each in one way."""

import numpy as np
from keras import ops

from tests.testing.small_decoder import SmallDecoder


class SeesLaterTokens(SmallDecoder):
    def call(self, token_ids, encoder_outputs, encoder_mask=None, encoder_state=None):
        logits = super().call(token_ids, encoder_outputs, encoder_mask)
        return logits + ops.mean(logits, axis=1, keepdims=True)


class AttendsToPadding(SmallDecoder):
    def weights_of_source(self, encoder_mask):
        return super().weights_of_source(ops.ones_like(encoder_mask))


class CountsPadding(SmallDecoder):
    def weights_of_source(self, encoder_mask):
        return ops.cast(encoder_mask, "float32") / encoder_mask.shape[1]


class UsesPlaceInBatch(SmallDecoder):
    def prepare_memory(self, *args, **kwargs):
        memory = super().prepare_memory(*args, **kwargs)
        places = ops.arange(ops.shape(memory["context"])[0], dtype="float32")
        return {**memory, "context": memory["context"] + places[:, None]}


class UsesOtherSentences(SmallDecoder):
    def prepare_memory(self, *args, **kwargs):
        memory = super().prepare_memory(*args, **kwargs)
        mean = ops.mean(memory["context"], axis=0, keepdims=True)
        return {**memory, "context": memory["context"] - mean}


class ReturnsHalfPrecision(SmallDecoder):
    def call(self, token_ids, encoder_outputs, encoder_mask=None, encoder_state=None):
        return ops.cast(super().call(token_ids, encoder_outputs, encoder_mask), "float16")


class StepsInHalfPrecision(SmallDecoder):
    def step(self, *args):
        logits, state = super().step(*args)
        return ops.cast(logits, "float16"), state


class PutsSourceBeforeBatch(SmallDecoder):
    def prepare_memory(self, *args, **kwargs):
        memory = super().prepare_memory(*args, **kwargs)
        return {**memory, "other": ops.transpose(memory["weights"])}


class ForgetsFaster(SmallDecoder):
    def step(self, token_ids, state, memory):
        return super().step(token_ids, {**state, "hidden": 0.5 * state["hidden"]}, memory)


class KeepsStateOnItself(SmallDecoder):
    def initial_state(self, *args, **kwargs):
        state = super().initial_state(*args, **kwargs)
        object.__setattr__(self, "kept", state["hidden"])
        return state

    def step(self, token_ids, state, memory):
        logits, new_state = super().step(token_ids, {**state, "hidden": self.kept}, memory)
        object.__setattr__(self, "kept", new_state["hidden"])
        return logits, new_state


class ReturnsOtherState(SmallDecoder):
    def step(self, token_ids, state, memory):
        logits, new_state = super().step(token_ids, state, memory)
        return logits, {**new_state, "position": ops.zeros_like(token_ids)}


class ReturnsStateInHalfPrecision(SmallDecoder):
    def step(self, token_ids, state, memory):
        state = {**state, "hidden": ops.cast(state["hidden"], "float32")}
        logits, new_state = super().step(token_ids, state, memory)
        return logits, {**new_state, "hidden": ops.cast(new_state["hidden"], "float16")}


class ReturnsThreeResults(SmallDecoder):
    def step(self, token_ids, state, memory):
        return (*super().step(token_ids, state, memory), memory["weights"])


class SelectsEverything(SmallDecoder):
    def select(self, memory, rows):
        return memory


class SelectsInAnotherOrder(SmallDecoder):
    def select(self, memory, rows):
        return super().select(memory, np.sort(rows))


class IgnoresBeamWidth(SmallDecoder):
    def initial_state(self, memory, beam_width=1, alignments=False, max_length=None):
        return super().initial_state(memory, 1, alignments, max_length)


class MixesBeamsAndSentences(SmallDecoder):
    def step(self, token_ids, state, memory):
        beams = len(token_ids) // len(memory["context"])
        context = ops.tile(memory["context"], (beams, 1))  # (K*B, 4), but beams come first
        hidden = 0.5 * state["hidden"] + self.embedding(token_ids)
        return self.head(ops.tanh(hidden + context)), {**state, "hidden": hidden}


class SharesStateOfBeams(SmallDecoder):
    """Has the state of all beams where a search does not reorder it."""

    def initial_state(self, memory, *args, **kwargs):
        state = super().initial_state(memory, *args, **kwargs)
        batch = ops.shape(memory["context"])[0]
        hidden = ops.reshape(state.pop("hidden"), (batch, -1, 4))
        return {**state, "shared": {"hidden": hidden}}

    def step(self, token_ids, state, memory):
        own = {name: value for name, value in state.items() if name != "shared"}
        hidden = state["shared"]["hidden"]
        own["hidden"] = ops.reshape(hidden, (-1, 4))
        logits, new_state = super().step(token_ids, own, memory)
        new_hidden = ops.reshape(new_state.pop("hidden"), ops.shape(hidden))
        return logits, {**new_state, "shared": {"hidden": new_hidden}}


class SharesRowsOfBeams(SmallDecoder):
    def initial_state(self, *args, **kwargs):
        state = super().initial_state(*args, **kwargs)
        return {**state, "shared": {"more": ops.zeros_like(state["hidden"])}}

    def step(self, token_ids, state, memory):
        own = {name: value for name, value in state.items() if name != "shared"}
        logits, new_state = super().step(token_ids, own, memory)
        return logits, {**new_state, "shared": state["shared"]}


class AlignsWithPadding(SmallDecoder):
    def step(self, token_ids, state, memory):
        logits, new_state = super().step(token_ids, state, memory)
        if "alignments" in new_state:
            ones = ops.ones_like(new_state["alignments"])
            new_state["alignments"] = ones / ones.shape[1]
        return logits, new_state


class AlignsTwice(SmallDecoder):
    def step(self, token_ids, state, memory):
        logits, new_state = super().step(token_ids, state, memory)
        if "alignments" in new_state:
            new_state["alignments"] = 2 * new_state["alignments"]
        return logits, new_state


class ReadsValues(SmallDecoder):
    def step(self, token_ids, state, memory):
        if np.array(token_ids).max() > 4:
            raise ValueError("unknown token")
        return super().step(token_ids, state, memory)


class LoopsOverKnownLength(SmallDecoder):
    def call(self, token_ids, encoder_outputs, encoder_mask=None, encoder_state=None):
        memory = self.prepare_memory(encoder_outputs, encoder_mask)
        state, logits = self.initial_state(memory), []
        for position in range(token_ids.shape[1]):
            step_logits, state = self.step(token_ids[:, position], state, memory)
            logits.append(step_logits)
        return ops.stack(logits, axis=1)


class BeginsWithAnotherToken(SmallDecoder):
    def first_token_ids(self, memory, start_token_id):
        return super().first_token_ids(memory, start_token_id) + 2


class AllowsFewTokens(SmallDecoder):
    def max_tokens(self, memory):
        return 2


class CannotContinue(SmallDecoder):
    def step(self, token_ids, state, memory):
        logits, new_state = super().step(token_ids, state, memory)
        return logits - 1e9 * ops.cast(ops.arange(5) == 3, "float32"), new_state
