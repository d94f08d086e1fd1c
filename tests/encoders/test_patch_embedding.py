import keras
import numpy as np
import pytest

from keras_attn import LearnedPositions, PatchEmbedding, TransformerEncoder, TransformerEncoderBlock
from tests.contracts import assert_close, numpy, randomize

IMAGES = np.random.default_rng(0).normal(size=(2, 4, 6, 3)).astype("float32")


def patch_by_patch(layer, images):
    """Every patch cut out by hand, pixel rows one after the other."""
    kernel, bias, size = numpy(layer.kernel), numpy(layer.bias), layer.patch_size
    vectors = [
        images[:, top : top + size, left : left + size].reshape(len(images), -1) @ kernel + bias
        for top in range(0, images.shape[1], size)
        for left in range(0, images.shape[2], size)
    ]
    return np.stack(vectors, axis=1)


@pytest.mark.parametrize("class_token", [False, True])
def test_equals_patches_cut_by_hand(class_token):
    layer = PatchEmbedding(2, 5, class_token=class_token)
    layer(IMAGES)
    randomize(layer)
    vectors = numpy(layer(IMAGES))
    assert_close(vectors[:, class_token:], patch_by_patch(layer, IMAGES))
    if class_token:
        assert_close(vectors[:, 0], np.tile(numpy(layer.class_vector), (2, 1)))


def test_equals_a_convolution():
    """A convolution whose stride is its size, as others write it."""
    layer = PatchEmbedding(2, 5, class_token=False)
    layer(IMAGES)
    randomize(layer)
    convolution = keras.layers.Conv2D(5, 2, strides=2)
    convolution.build(IMAGES.shape)
    convolution.set_weights([numpy(layer.kernel).reshape(2, 2, 3, 5), numpy(layer.bias)])
    assert_close(numpy(layer(IMAGES)), numpy(convolution(IMAGES)).reshape(2, 6, 5))


def vision_transformer(patch_size=2):
    return TransformerEncoder(
        TransformerEncoderBlock(2, 8, use_bias=False),
        PatchEmbedding(patch_size, 4),
        num_layers=1,
        positions=LearnedPositions(7),
    )


def fixed_size(layer):
    inputs = keras.Input(IMAGES.shape[1:])
    return keras.Model(inputs, layer(inputs))


def test_a_transformer_encoder_reads_images(tmp_path):
    encoder = vision_transformer()
    encoded = numpy(encoder(IMAGES))
    assert encoded["encoder_outputs"].shape == (2, 7, 4) and encoded["encoder_mask"].all()
    model = fixed_size(encoder)
    model.save(tmp_path / "vit.keras")
    assert_close(numpy(keras.models.load_model(tmp_path / "vit.keras")(IMAGES)), encoded)
    # Zeros are no padding.
    assert numpy(encoder(np.zeros_like(IMAGES)))["encoder_mask"].all()


def test_positions_tell_the_patches_apart():
    """With the patches in another order, the class token sees something else."""
    encoder = vision_transformer()
    encoder(IMAGES)
    randomize(encoder)
    first = [numpy(encoder(x))["encoder_outputs"][:, 0] for x in (IMAGES, np.roll(IMAGES, 2, 1))]
    assert np.abs(first[0] - first[1]).max() > 1e-3


def test_config_round_trip():
    layer = PatchEmbedding(2, 5, class_token=False, kernel_initializer="he_normal")
    copy = PatchEmbedding.from_config(layer.get_config())
    assert copy.get_config() == layer.get_config()
    assert copy.compute_output_shape((None, 4, 6, 3)) == (None, 6, 5)


@pytest.mark.parametrize("shape", [(2, 4, 6), (2, 5, 6, 3), (2, 4, 7, 3), (2, None, 6, 3)], ids=str)
def test_refuses_images_that_cannot_be_cut(shape):
    with pytest.raises(ValueError, match="Received: .*images with shape"):
        PatchEmbedding(2, 5).build(shape)


@pytest.mark.parametrize("wrong", [(0, 5), (2, 0)], ids=str)
def test_refuses_sizes_below_one(wrong):
    with pytest.raises(ValueError, match="to be a positive integer"):
        PatchEmbedding(*wrong)


def test_vectors_need_no_embedding_and_ids_are_still_masked():
    block = TransformerEncoderBlock(2, 8)
    ids = np.array([[5, 6, 0]])
    encoder = TransformerEncoder(block, keras.layers.Embedding(9, 4), num_layers=1)
    assert numpy(encoder(ids)["encoder_mask"]).tolist() == [[True, True, False]]
    vectors = np.zeros((1, 3, 4), "float32")
    assert numpy(TransformerEncoder(block, num_layers=1)(vectors)["encoder_mask"]).all()
