"""SentencePiece inside a TensorFlow graph. Importing this file imports TensorFlow."""

import hashlib

try:
    import tensorflow as tf
    import tensorflow_text
except ImportError as error:
    raise ImportError(
        "A tokenizer in the graph needs tensorflow and tensorflow-text: "
        "`pip install keras-attn[tensorflow]`."
    ) from error

from keras_attn.text.tokenizer import PAD_TOKEN_ID


class TensorFlowTokenizer(tf.Module):
    """The in-graph form of `SentencePieceTokenizer`: strings to padded ids, and ids to strings.

    Make it an attribute of the `tf.Module` that is saved: the model then travels inside the
    SavedModel. The process that loads the SavedModel must `import tensorflow_text`, which
    registers the operations.

    Args:
        model: bytes of a SentencePiece model.
        name: optional name of the module.

    Example:

    ```python
    class Upper(tf.Module):
        def __init__(self, tokenizer):
            super().__init__()
            self.tokenizer = tokenizer.to_tensorflow()

        @tf.function(input_signature=[tf.TensorSpec((None,), tf.string)])
        def __call__(self, texts):
            return self.tokenizer.decode(self.tokenizer.encode(texts))
    ```
    """

    def __init__(self, model: bytes, name: str | None = None):
        super().__init__(name=name)
        # Loaded tokenizers of one name share one resource: two vocabularies need two names.
        self._tokenizer = tensorflow_text.SentencepieceTokenizer(
            model=model,
            out_type=tf.int32,
            add_eos=True,
            name=f"sentencepiece_{hashlib.sha256(model).hexdigest()}",
        )

    def encode(self, texts: tf.Tensor) -> tf.Tensor:
        """Strings `(batch,)` to ids `(batch, source_length)` int32: pieces, the end id, then 0s.

        Raises:
            ValueError: `texts` does not have rank 1.
        """
        texts = tf.convert_to_tensor(texts, tf.string)
        if texts.shape.rank != 1:
            raise ValueError(f"Expected texts of shape (batch,). Received: shape={texts.shape}")
        return self._tokenizer.tokenize(texts).to_tensor(PAD_TOKEN_ID)  # (B, S)

    def decode(self, ids: tf.Tensor) -> tf.Tensor:
        """Ids `(..., length)` int32 to strings `(...)`; start, end and padding ids vanish.

        Raises:
            ValueError: `ids` is a scalar.
            tf.errors.OutOfRangeError: an id is not in the vocabulary, when the graph runs.
        """
        ids = tf.convert_to_tensor(ids, tf.int32)
        if ids.shape.rank == 0:
            raise ValueError("Expected ids of shape (..., length). Received: a scalar")
        shape = tf.shape(ids)
        # Not -1: it cannot be inferred where another dimension is 0.
        rows = tf.reshape(ids, (tf.reduce_prod(shape[:-1]), shape[-1]))  # (product of ..., T)
        texts = self._tokenizer.detokenize(rows)  # (product of ...,)
        return tf.reshape(texts, shape[:-1])  # (...)
