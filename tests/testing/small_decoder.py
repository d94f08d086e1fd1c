"""A minimal decoder that fulfills the contract, with a `call` of its own."""

import keras
from keras import ops

from keras_attn import StepDecoder

DECAY = 0.5


@keras.saving.register_keras_serializable(package="tests")
class SmallDecoder(StepDecoder):
    """logits_t = W tanh(h_t + mean of the source), with h_t = h_{t-1} / 2 + embedding of y_t."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.embedding = keras.layers.Embedding(5, 4)
        self.source = keras.layers.Dense(4)
        self.head = keras.layers.Dense(5)

    def weights_of_source(self, encoder_mask):
        mask = ops.cast(encoder_mask, "float32")  # (B, S)
        return mask / ops.maximum(ops.sum(mask, axis=1, keepdims=True), 1)

    def prepare_memory(self, encoder_outputs, encoder_mask=None, encoder_state=None):
        weights = self.weights_of_source(encoder_mask)  # (B, S)
        means = ops.sum(weights[:, :, None] * encoder_outputs, axis=1)  # (B, D)
        return {"context": self.source(means), "weights": weights}

    def initial_state(self, memory, beam_width=1, alignments=False, max_length=None):
        batch, source = ops.shape(memory["weights"])
        state = {"hidden": ops.zeros((batch * beam_width, 4))}
        if alignments:
            state["alignments"] = ops.zeros((batch * beam_width, source))
        return state

    def step(self, token_ids, state, memory):
        batch = ops.shape(memory["context"])[0]
        hidden = DECAY * state["hidden"] + self.embedding(token_ids)  # (B*K, 4)
        beams = ops.reshape(hidden, (batch, -1, 4)) + memory["context"][:, None]  # (B, K, 4)
        new_state = {"hidden": hidden}
        if "alignments" in state:
            weights = memory["weights"][:, None] + ops.zeros_like(beams[:, :, :1])  # (B, K, S)
            new_state["alignments"] = ops.reshape(weights, ops.shape(state["alignments"]))
        return self.head(ops.tanh(ops.reshape(beams, ops.shape(hidden)))), new_state

    def call(self, token_ids, encoder_outputs, encoder_mask=None, encoder_state=None):
        context = self.prepare_memory(encoder_outputs, encoder_mask)["context"]
        time = ops.arange(ops.shape(token_ids)[1])
        ages = ops.cast(time[:, None] - time, "float32")  # (T, T)
        kernel = ops.where(ages >= 0, DECAY ** ops.maximum(ages, 0.0), 0.0)
        hidden = ops.matmul(kernel, self.embedding(token_ids))  # (B, T, 4)
        return self.head(ops.tanh(hidden + context[:, None]))  # (B, T, V)
