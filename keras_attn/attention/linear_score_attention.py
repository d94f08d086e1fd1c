import keras
from keras import ops

from keras_attn._types import Tensor
from keras_attn.attention.attention_mechanism import AttentionMechanism


@keras.saving.register_keras_serializable(package="keras_attn")
class LinearScoreAttention(AttentionMechanism):
    """A score from a fully connected layer: one number from query and key.

        e_ts = w_q . q_t + w_k . k_s + b

    The additive score of [Bahdanau et al., 2015](https://arxiv.org/abs/1409.0473) without its tanh
    and its vector v. The query adds the same to all scores of its row, which the softmax takes away
    again: the weights are the same for every query, a pooling of the memory that is learned. Use it
    for that, as a baseline, or where a subclass adds to the scores; w_q and b are there so that the
    scores are those of the layer it describes.

    Args:
        **kwargs: arguments of `AttentionMechanism`.

    Call arguments, returns, masking: see `AttentionMechanism`.

    Example:

    >>> import numpy as np
    >>> layer = LinearScoreAttention()
    >>> query, value = np.ones((2, 3, 5), "float32"), np.ones((2, 7, 4), "float32")
    >>> tuple(layer(query, value).shape)
    (2, 3, 4)
    """

    def build_weights(self, query_dim: int, key_dim: int) -> None:
        self.query_kernel = self.add_kernel("query_kernel", (query_dim, 1))
        self.key_kernel = self.add_kernel("key_kernel", (key_dim, 1))
        self.bias = self.add_weight(name="bias", shape=(1,), initializer="zeros")

    def project_keys(self, key: Tensor) -> Tensor:
        return ops.matmul(key, self.key_kernel)  # (B, S, 1)

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        query = ops.matmul(query, self.query_kernel) + self.bias  # (B, T, 1)
        # Not a transposition: tf2onnx's optimizers make a wrong reshape of one with an axis of
        # size 1 after a product.
        return query + keys[:, None, :, 0]  # (B, T, S)
