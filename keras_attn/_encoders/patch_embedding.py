from typing import Any

import keras
from keras import ops

from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn._layer.layer import Layer
from keras_attn._serialization.plain_function import plain_function
from keras_attn._types import InitializerLike, StaticShape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class PatchEmbedding(Layer):
    """Divides an image into square patches and maps each patch to a vector.

        y[t] = W patch[t] + b

    Here patch[t] is a vector with the pixels of patch t; W and b are trainable. The patches are
    numbered row by row. The embedding was introduced by [Dosovitskiy et al.,
    2021](https://arxiv.org/abs/2010.11929), equation 1. A `TransformerEncoder` with this embedding
    is a vision Transformer (ViT). Images of 224 x 224 pixels need 14 * 14 + 1 = 197 positions:

        TransformerEncoder(block, PatchEmbedding(16, 768), positions=LearnedPositions(197))

    Args:
        patch_size: Positive int, patch height and width in pixels. It must divide the image height
            and width.
        embedding_dim: Positive int, size of patch vectors.
        class_token: Bool, whether to insert a trainable vector before the patch vectors. A
            classifier can read the encoder output at this position. Defaults to `True`.
        kernel_initializer: Initializer for W. Defaults to `"glorot_uniform"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        images: Float tensor of shape `(batch, height, width, channels)`.

    Returns:
        Tensor of shape `(batch, patches, embedding_dim)`, or `(batch, 1 + patches, embedding_dim)`
        with a class token.

    Raises:
        ValueError: If `patch_size` or `embedding_dim` is not a positive integer, or if the image
            height or width is unknown or not a multiple of `patch_size`.

    Example:

    >>> import numpy as np
    >>> from keras_attn import PatchEmbedding
    >>> tuple(PatchEmbedding(4, 16)(np.ones((2, 8, 12, 3), "float32")).shape)
    (2, 7, 16)
    """

    def __init__(
        self,
        patch_size: int,
        embedding_dim: int,
        *,
        class_token: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive_integer("patch_size", patch_size)
        check_positive_integer("embedding_dim", embedding_dim)
        self.patch_size = patch_size
        self.embedding_dim = embedding_dim
        self.class_token = class_token
        self.kernel_initializer = plain_function(keras.initializers.get(kernel_initializer))

    def build(self, images_shape: StaticShape) -> None:
        self._check(images_shape)
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.patch_size**2 * images_shape[3], self.embedding_dim),
            initializer=self.kernel_initializer,
        )
        self.bias = self.add_weight(name="bias", shape=(self.embedding_dim,), initializer="zeros")
        if self.class_token:
            self.class_vector = self.add_weight(
                name="class_vector", shape=(self.embedding_dim,), initializer="zeros"
            )

    def call(self, images: Tensor) -> Tensor:
        self._check(images.shape)
        _, height, width, channels = images.shape
        size, batch = self.patch_size, ops.shape(images)[0]
        rows, columns = height // size, width // size
        patches = ops.reshape(images, (batch, rows, size, columns, size * channels))
        patches = ops.transpose(patches, (0, 1, 3, 2, 4))  # (B, rows, columns, size, size * C)
        patches = ops.reshape(patches, (batch, rows * columns, size * size * channels))
        vectors = ops.matmul(patches, self.kernel) + self.bias  # (B, rows * columns, D)
        if not self.class_token:
            return vectors
        first = ops.zeros_like(vectors[:, :1]) + self.class_vector  # (B, 1, D)
        return ops.concatenate([first, vectors], axis=1)  # (B, 1 + rows * columns, D)

    def compute_output_shape(self, images_shape: StaticShape) -> tuple[int | None, ...]:
        self._check(images_shape)
        _, height, width, _ = images_shape
        patches = (height // self.patch_size) * (width // self.patch_size)
        return (images_shape[0], patches + bool(self.class_token), self.embedding_dim)

    def _check(self, images_shape):
        if len(images_shape) != 4 or None in images_shape[1:]:
            raise ValueError(
                "Expected images of shape (batch, height, width, channels) with a known height, "
                f"width and number of channels. Received: images with shape {tuple(images_shape)}."
            )
        if images_shape[1] % self.patch_size or images_shape[2] % self.patch_size:
            raise ValueError(
                "Expected patch_size to divide the height and width of the images. Received: "
                f"patch_size={self.patch_size}, images with shape {tuple(images_shape)}."
            )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "patch_size": self.patch_size,
            "embedding_dim": self.embedding_dim,
            "class_token": self.class_token,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
