"""SentencePiece inside a TensorFlow graph. Importing this module imports TensorFlow."""

import hashlib

try:
    import tensorflow as tf
    import tensorflow_text
except ImportError as error:
    raise ImportError(
        "Expected tensorflow and tensorflow-text for a tokenizer in the graph: "
        "`pip install '.[tensorflow]'` in a checkout."
    ) from error


class TensorFlowTokenizer(tf.Module):
    """SentencePiece tokenizer in a TensorFlow graph.

    Assign the tokenizer to an attribute of the `tf.Module` that you save, so that the SavedModel
    contains the vocabulary. A process that loads the SavedModel must import `tensorflow_text`,
    which registers the operations.

    Args:
        model: Bytes, a SentencePiece model.
        unknown_token_id: Int, id that replaces ids outside the vocabulary in `decode`.
        pad_token_id: Int, padding id.
        start_token_id: Int, id that `encode` inserts before the pieces. Defaults to `None`: no id.
        end_token_id: Int, id that `encode` appends to the pieces. Defaults to `None`: no id.
        vocabulary_size: Int, number of ids; `encode` replaces higher ids by `unknown_token_id`.
            Defaults to `None`: the number of pieces in the model.
        special_pieces: Tuple of the padding, start and end id, if at least one is not a control
            piece. Defaults to `None`: all are control pieces.
        name: String, module name. Defaults to `None`.

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
        vocabulary_size: int | None = None,
        special_pieces: tuple[int, int, int] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        self._unknown_token_id = unknown_token_id
        self._start_token_id = start_token_id
        self._end_token_id = end_token_id
        self._pad_token_id = pad_token_id
        self._vocabulary_size = vocabulary_size
        self._special_pieces = special_pieces
        # Loaded tokenizers with the same name share one resource, so derive the name from the
        # model.
        self._tokenizer = tensorflow_text.SentencepieceTokenizer(
            model=model,
            out_type=tf.int32,
            name=f"sentencepiece_{hashlib.sha256(model).hexdigest()}",
        )

    def encode(
        self, texts: tf.Tensor, max_length: int | None = None, end_of_row: int | None = None
    ) -> tf.Tensor:
        """Encodes strings.

        Args:
            texts: String tensor with shape `(batch,)`.
            max_length: Int, maximum number of pieces in a string, without start and end id. Further
                pieces are dropped. Defaults to `None`: no limit.
            end_of_row: Int, id appended to a row whose last id is the padding id. Defaults to
                `None`: no id.

        Returns:
            Int32 tensor with shape `(batch, source_length)`, padded on the right.

        Raises:
            ValueError: If the rank of `texts` is not 1.
        """
        texts = _vector(texts)
        ids = self._tokenizer.tokenize(texts)  # ragged, (B, S)
        if self._vocabulary_size is not None:
            flat = ids.flat_values
            flat = tf.where(flat < self._vocabulary_size, flat, self._unknown_token_id)
            ids = ids.with_flat_values(flat)
        parts = [ids if max_length is None else ids[:, :max_length]]
        if self._start_token_id is not None:
            parts.insert(0, tf.fill((tf.shape(texts)[0], 1), self._start_token_id))
        if self._end_token_id is not None:
            parts.append(tf.fill((tf.shape(texts)[0], 1), self._end_token_id))
        ids = tf.concat(parts, axis=1)  # ragged, (B, S)
        if end_of_row is not None:
            last = ids[:, -1:]  # ragged, (B, 0 or 1)
            ends = last.with_flat_values(tf.fill(tf.shape(last.flat_values), end_of_row))
            ends = tf.ragged.boolean_mask(ends, last == self._pad_token_id)
            ids = tf.concat([ids, ends], axis=1)
        return ids.to_tensor(self._pad_token_id)  # (B, S)

    def num_tokens(self, texts: tf.Tensor) -> tf.Tensor:
        """Returns the number of pieces in each string `(batch,)`, int64 `(batch,)`."""
        return self._tokenizer.tokenize(_vector(texts)).row_lengths()

    def decode(self, ids: tf.Tensor, lengths: tf.Tensor | None = None) -> tf.Tensor:
        """Decodes ids.

        Control ids, such as start, end and padding, are removed. Without `lengths`, special ids
        that are ordinary pieces are removed as in `SentencePieceTokenizer.decode`. Ids outside the
        vocabulary are treated as unknown, because a model may use more ids than the tokenizer.

        Args:
            ids: Int32 tensor with shape `(..., length)`.
            lengths: Int32 tensor with shape `(...)`, number of ids to decode in each row. Defaults
                to `None`: all ids.

        Returns:
            String tensor with shape `(...)`.

        Raises:
            ValueError: If `ids` is a scalar.
        """
        ids = tf.convert_to_tensor(ids, tf.int32)
        if ids.shape.rank == 0:
            raise ValueError("Expected ids of shape (..., length). Received: shape=().")
        shape = tf.shape(ids)
        # Do not use -1, because it cannot be inferred for empty tensors.
        rows = tf.reshape(ids, (tf.reduce_prod(shape[:-1]), shape[-1]))  # (product of ..., T)
        is_inside = (rows >= 0) & (rows < self._tokenizer.vocab_size())
        pieces = tf.where(is_inside, rows, self._unknown_token_id)
        if lengths is not None:
            pieces = tf.RaggedTensor.from_tensor(pieces, lengths=tf.reshape(lengths, (-1,)))
        elif self._special_pieces is not None:
            pieces = tf.ragged.boolean_mask(pieces, _is_text(rows, *self._special_pieces))
        texts = self._tokenizer.detokenize(pieces)
        return tf.reshape(texts, shape[:-1])  # (...)


def _is_text(rows, pad, start, end):
    """Returns which ids are text, boolean `(B, T)`: all ids unless a row ends with the end id.

    Args:
        rows: Int32 tensor `(B, T)`.
        pad: Int, id of padding, which may follow the end id.
        start: Int, start id.
        end: Int, end id.
    """
    position = tf.range(tf.shape(rows)[1])  # (T,)
    counts = tf.reduce_max(tf.where(rows != pad, position + 1, 0), axis=1, keepdims=True)  # (B, 1)
    length = counts if end == pad else counts - 1
    is_whole = tf.reduce_any((position == length) & (rows == end), axis=1, keepdims=True)  # (B, 1)
    is_start = (position == 0) & (rows == start)  # (B, T)
    return ~is_whole | ((position < length) & ~is_start)


def _vector(texts):
    texts = tf.convert_to_tensor(texts, tf.string)
    if texts.shape.rank != 1:
        raise ValueError(f"Expected texts of shape (batch,). Received: shape={texts.shape}.")
    return texts
