"""A decoder whose logits are looked up in a table, so that it is fast and predictable."""

import keras
import numpy as np
from keras import ops

from keras_attn import StepDecoder
from tests import oracles


@keras.saving.register_keras_serializable(package="tests")
class TableDecoder(StepDecoder):
    """Decoder that maps every prefix to one of N nodes; a node has the logits of the next token.

    The `encoder_outputs` `(batch, N, vocabulary)` are the tables. The node depends on the first 64
    tokens of the prefix and their order. The alignment is 1 at the node.
    """

    def __init__(self, forbids_tokens=False, **kwargs):
        super().__init__(**kwargs)
        self.forbids_tokens = forbids_tokens

    def build(self, *shapes):
        pass

    def prepare_memory(self, encoder_outputs, encoder_mask=None, encoder_state=None):
        return {"tables": encoder_outputs}

    def initial_state(self, memory, beam_width=1, alignments=False, max_length=None):
        rows = ops.shape(memory["tables"])[0] * beam_width
        state = {"node": ops.zeros((rows,), dtype="int32")}
        if alignments:
            state["alignments"] = ops.zeros((rows, ops.shape(memory["tables"])[1]), dtype="float32")
        return state

    def step(self, token_ids, state, memory):
        batch, nodes, vocabulary_size = ops.shape(memory["tables"])
        node = (state["node"] * 3 + token_ids) % nodes
        beams = ops.reshape(node, (batch, -1, 1))  # (B, K, 1)
        logits = ops.take_along_axis(memory["tables"], beams, axis=1)  # (B, K, V)
        new_state = {"node": node}
        if "alignments" in state:
            new_state["alignments"] = ops.one_hot(node, nodes, dtype="float32")
        return ops.reshape(logits, (-1, vocabulary_size)), new_state

    def get_config(self):
        return {**super().get_config(), "forbids_tokens": self.forbids_tokens}


def node_after(prefix, nodes, start=1):
    node = 0
    for token in (start, *prefix):
        node = (node * 3 + token) % nodes
    return node


def log_probs_of(table, start=1):
    """Returns the function `log_probs_after` of the oracles, for one table `(N, vocabulary)`."""
    log_probs = oracles.log_softmax(table)
    return lambda prefix: log_probs[node_after(prefix, len(table), start)]


def random_tables(seed, batch=6, nodes=19, vocabulary_size=7, end_logit=0.0, scale=2.0):
    """Returns random logits; a larger `end_logit` makes hypotheses shorter."""
    tables = np.random.default_rng(seed).normal(0, scale, (batch, nodes, vocabulary_size))
    tables[:, :, 2] += end_logit
    return tables.astype("float32")
