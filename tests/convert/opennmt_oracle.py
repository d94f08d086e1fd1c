"""A Transformer of OpenNMT-tf 2 in NumPy, from its variables by name."""

import numpy as np

from tests.convert.opennmt_checkpoints import NUM_HEADS, OUTPUT, SOURCE, TARGET
from tests.oracles import sigmoid, softmax
from tests.position_oracles import sinusoidal_halves
from tests.transformer_oracles import gelu_tanh, relu

ACTIVATIONS = {
    "tf.nn.relu": relu,
    "opennmt.layers.gelu": gelu_tanh,
    "tf.nn.swish": lambda x: x * sigmoid(x),
}


class OpenNMTOracle:
    """The equations of OpenNMT-tf 2 in float64.

    Args:
        variables: dict from names to arrays.
        ffn_activation: a key of `ACTIVATIONS`.
        num_positions: number of learned positions; by default, positions are sinusoids.
    """

    def __init__(self, variables, ffn_activation="tf.nn.relu", num_positions=None, **_):
        self.variables = {name: value.astype("float64") for name, value in variables.items()}
        self.activation = ACTIVATIONS[ffn_activation]
        self.num_positions = num_positions
        self.is_pre_norm = "model/encoder/layer_norm/gamma" in variables

    def logits(self, source, target):
        """Logits (T, V) of one source without padding, and a target that begins with `<s>`."""
        memory = self._stack("encoder", self._embed("encoder", SOURCE, source))
        table = TARGET if TARGET in self.variables else SOURCE
        outputs = self._stack("decoder", self._embed("decoder", table, target), memory)
        tied = self.variables[table].T  # (D, V)
        kernel = self.variables.get(f"{OUTPUT}/kernel", tied)
        return outputs @ kernel + self.variables.get(f"{OUTPUT}/bias", 0.0)

    def greedy(self, source, max_length):
        """The ids that a greedy search finds, with the end token."""
        found = []
        while len(found) < max_length and 2 not in found:
            found.append(int(np.argmax(self.logits(source, [1, *found])[-1])))
        return found

    def _embed(self, side, table, ids):
        vectors = self.variables[table][np.asarray(ids)]  # (T, D)
        features = vectors.shape[1]
        positions = np.arange(len(vectors)) + 1
        if self.num_positions:
            rows = self.variables[f"model/{side}/position_encoder/position_embedding"]
            encoding = rows[np.minimum(positions, self.num_positions)]
        else:
            encoding = np.array([sinusoidal_halves(each, features) for each in positions])
        return vectors * np.sqrt(features) + encoding

    def _stack(self, side, x, memory=None):
        index = 0
        while f"model/{side}/layers/{index}/ffn/layer/inner/kernel" in self.variables:
            name = f"model/{side}/layers/{index}"
            mask = np.tril(np.ones((len(x), len(x)))) if side == "decoder" else 1
            x = self._residual(
                x, f"{name}/self_attention", lambda y, n, m=mask: self._attend(y, y, n, m)
            )
            if memory is not None:
                x = self._residual(
                    x, f"{name}/attention/0", lambda y, n: self._attend(y, memory, n)
                )
            x = self._residual(x, f"{name}/ffn", self._feed_forward)
            index += 1
        return self._norm(x, f"model/{side}/layer_norm") if self.is_pre_norm else x

    def _residual(self, x, name, layer):
        if self.is_pre_norm:
            return x + layer(self._norm(x, f"{name}/input_layer_norm"), f"{name}/layer")
        return self._norm(x + layer(x, f"{name}/layer"), f"{name}/output_layer_norm")

    def _norm(self, x, name):
        variance = x.var(axis=-1, keepdims=True)
        normalized = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(variance + 1e-3)
        return normalized * self.variables[f"{name}/gamma"] + self.variables[f"{name}/beta"]

    def _dense(self, x, name):
        return x @ self.variables[f"{name}/kernel"] + self.variables.get(f"{name}/bias", 0.0)

    def _feed_forward(self, x, name):
        return self._dense(self.activation(self._dense(x, f"{name}/inner")), f"{name}/outer")

    def _attend(self, x, memory, name, mask=1):
        queries = np.split(self._dense(x, f"{name}/linear_queries"), NUM_HEADS, axis=1)
        keys = np.split(self._dense(memory, f"{name}/linear_keys"), NUM_HEADS, axis=1)
        values = np.split(self._dense(memory, f"{name}/linear_values"), NUM_HEADS, axis=1)
        heads = []
        for query, key, value in zip(queries, keys, values, strict=True):
            scores = query @ key.T / np.sqrt(query.shape[1])  # (T, S)
            heads.append(softmax(np.where(mask, scores, -1e30)) @ value)
        return self._dense(np.concatenate(heads, axis=1), f"{name}/linear_output")
