from typing import Any

import keras


def seq2seq_embeddings(
    source_vocabulary_size: int,
    target_vocabulary_size: int,
    embedding_dim: int,
    share: bool,
    dtype: Any = None,
) -> tuple[keras.layers.Layer, keras.layers.Layer]:
    """Embeddings of both sides; that of the target can be reversed, for logits tied to it.

    Args:
        source_vocabulary_size, target_vocabulary_size: ints.
        embedding_dim: int.
        share: bool, whether both sides have one embedding.
        dtype: dtype or policy. Default `None`, the global one.

    Returns:
        Tuple of two layers, which are one if shared.

    Raises:
        ValueError: for shared embeddings of two sizes.
    """
    if share and source_vocabulary_size != target_vocabulary_size:
        raise ValueError(
            "Shared embeddings need one vocabulary. Received: "
            f"source_vocabulary_size={source_vocabulary_size}, "
            f"target_vocabulary_size={target_vocabulary_size}."
        )
    # The embedding is also the output matrix: with this size of weights the first logits are of
    # size one.
    initializer: Any = keras.initializers.RandomNormal(stddev=embedding_dim**-0.5)
    target_embedding = keras.layers.ReversibleEmbedding(
        target_vocabulary_size,
        embedding_dim,
        embeddings_initializer=initializer,
        dtype=dtype,
        name="target_embedding",
    )
    if share:
        return target_embedding, target_embedding
    source_embedding = keras.layers.Embedding(
        source_vocabulary_size,
        embedding_dim,
        embeddings_initializer=initializer.clone(),
        dtype=dtype,
        name="source_embedding",
    )
    return source_embedding, target_embedding
