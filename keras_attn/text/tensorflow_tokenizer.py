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


class TensorFlowTokenizer(tf.Module):
    """The in-graph form of `SentencePieceTokenizer`: strings to padded ids, and ids to strings.

    Make it an attribute of the `tf.Module` that is saved: the model then travels inside the
    SavedModel. The process that loads the SavedModel must `import tensorflow_text`, which
    registers the operations.

    Args:
        model: bytes of a SentencePiece model.
        unknown_token_id: int, the id that stands for ids outside of the vocabulary in `decode`.
        pad_token_id: int, the id that `encode` pads with.
        start_token_id, end_token_id: ids that `encode` puts around the pieces. Default: none.
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

    def __init__(
        self,
        model: bytes,
        unknown_token_id: int,
        pad_token_id: int,
        start_token_id: int | None = None,
        end_token_id: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        self._unknown_token_id = unknown_token_id
        self._start_token_id = start_token_id
        self._end_token_id = end_token_id
        self._pad_token_id = pad_token_id
        # Loaded tokenizers of one name share one resource: two vocabularies need two names.
        self._tokenizer = tensorflow_text.SentencepieceTokenizer(
            model=model,
            out_type=tf.int32,
            name=f"sentencepiece_{hashlib.sha256(model).hexdigest()}",
        )

    def encode(self, texts: tf.Tensor) -> tf.Tensor:
        """Strings `(batch,)` to ids `(batch, source_length)` int32, padded on the right.

        Raises:
            ValueError: `texts` does not have rank 1.
        """
        texts = _vector(texts)
        parts = [self._tokenizer.tokenize(texts)]  # ragged, (B, S)
        if self._start_token_id is not None:
            parts.insert(0, tf.fill((tf.shape(texts)[0], 1), self._start_token_id))
        if self._end_token_id is not None:
            parts.append(tf.fill((tf.shape(texts)[0], 1), self._end_token_id))
        return tf.concat(parts, axis=1).to_tensor(self._pad_token_id)  # (B, S)

    def has_tokens(self, texts: tf.Tensor) -> tf.Tensor:
        """Whether there are pieces of each of the strings `(batch,)`, boolean `(batch,)`."""
        return self._tokenizer.tokenize(_vector(texts)).row_lengths() > 0

    def decode(self, ids: tf.Tensor, lengths: tf.Tensor | None = None) -> tf.Tensor:
        """Ids `(..., length)` int32 to strings `(...)`.

        The control ids of the SentencePiece model vanish, such as start, end and padding. A model
        may have more ids than the tokenizer: those are unknown, as ids below 0.

        Args:
            ids: int32 `(..., length)`.
            lengths: int32 `(...)`, how many ids of each row are text. Default: all.

        Raises:
            ValueError: `ids` is a scalar.
        """
        ids = tf.convert_to_tensor(ids, tf.int32)
        if ids.shape.rank == 0:
            raise ValueError("Expected ids of shape (..., length). Received: a scalar")
        shape = tf.shape(ids)
        # Not -1: it cannot be inferred where another dimension is 0.
        rows = tf.reshape(ids, (tf.reduce_prod(shape[:-1]), shape[-1]))  # (product of ..., T)
        is_known = (rows >= 0) & (rows < self._tokenizer.vocab_size())
        rows = tf.where(is_known, rows, self._unknown_token_id)
        if lengths is not None:
            rows = tf.RaggedTensor.from_tensor(rows, lengths=tf.reshape(lengths, (-1,)))
        texts = self._tokenizer.detokenize(rows)
        return tf.reshape(texts, shape[:-1])  # (...)


def _vector(texts):
    texts = tf.convert_to_tensor(texts, tf.string)
    if texts.shape.rank != 1:
        raise ValueError(f"Expected texts of shape (batch,). Received: shape={texts.shape}")
    return texts
