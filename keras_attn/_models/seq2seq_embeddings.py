from typing import Any

import keras

from keras_attn._layer.argument_checks import check_positive_integer


def seq2seq_embeddings(
    source_vocabulary_size: int,
    target_vocabulary_size: int,
    embedding_dim: int,
    share: bool,
    dtype: str | keras.DTypePolicy | None = None,
) -> tuple[keras.layers.Layer, keras.layers.Layer]:
    """Returns the source and target embeddings. The target embedding is reversible.

    Args:
        source_vocabulary_size: Int, number of source ids.
        target_vocabulary_size: Int, number of target ids.
        embedding_dim: Int, vector size.
        share: Bool, whether source and target share one embedding.
        dtype: Dtype or policy. Defaults to `None`: the global policy.

    Returns:
        Tuple with two layers: the source embedding and the target embedding.

    Raises:
        ValueError: If a size is not a positive integer, or `share` is true and the vocabularies
            have different sizes.
    """
    sizes = {
        "source_vocabulary_size": source_vocabulary_size,
        "target_vocabulary_size": target_vocabulary_size,
        "embedding_dim": embedding_dim,
    }
    for name, size in sizes.items():
        check_positive_integer(name, size)
    if share and source_vocabulary_size != target_vocabulary_size:
        raise ValueError(
            "Expected vocabularies of the same size for shared embeddings. Received: "
            f"source_vocabulary_size={source_vocabulary_size}, "
            f"target_vocabulary_size={target_vocabulary_size}. Train one tokenizer on both sides, "
            "or set share_embeddings=False."
        )
    # The embedding is also the kernel of the output layer. With this standard deviation, the
    # initial logits have a standard deviation of about 1.
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
