"""Batches are read back: each image still has its own captions."""

import keras
import numpy as np
import pytest

from keras_attn.files import write_lines
from keras_attn.text import SentencePieceTokenizer
from keras_attn.training import CaptionBatches, caption_texts

pytest.importorskip("sentencepiece")
IMAGES = np.arange(6 * 4 * 4 * 3, dtype="int32").reshape(6, 4, 4, 3).astype("uint8")
CAPTIONS = {
    "en": ["one", "two", "", "a four", "five", "six"],
    "de": ["eins", "zwei", "drei", "eine vier", "", "sechs"],
}
IMAGE_OF_TEXT = {
    f"{language}: {text}": row
    for language, texts in CAPTIONS.items()
    for row, text in enumerate(texts)
    if text
}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("captions") / "captions.txt"
    write_lines(path, caption_texts(CAPTIONS))
    return SentencePieceTokenizer.train(path, 40, "bpe")


def test_an_epoch_contains_each_caption_with_its_image_once(tokenizer):
    batches = CaptionBatches(IMAGES, CAPTIONS, tokenizer, batch_size=5, seed=0)
    assert len(batches) == batches.steps_per_epoch == 2
    found, orders = {}, []
    for step in range(4):
        inputs, labels = batches.batch(step)
        assert inputs["image"].dtype == np.float32 and labels.shape == (5, batches.max_length)
        for image, target_ids, row in zip(*inputs.values(), labels, strict=True):
            count = int((row != tokenizer.pad_token_id).sum())
            assert row[count - 1] == tokenizer.end_token_id
            assert target_ids[0] == tokenizer.start_token_id
            np.testing.assert_array_equal(target_ids[1:count], row[: count - 1])
            assert (target_ids[count:] == tokenizer.pad_token_id).all()
            (text,) = tokenizer.decode([row[: count - 1].tolist()])
            np.testing.assert_array_equal(image, IMAGES[IMAGE_OF_TEXT[text]])
            found[text] = found.get(text, 0) + 1
            orders.append(text)
    assert found == dict.fromkeys(IMAGE_OF_TEXT, 2)
    assert orders[:10] != orders[10:]


def test_batches_depend_on_the_seed_and_the_step(tokenizer):
    batches = CaptionBatches(IMAGES, CAPTIONS, tokenizer, batch_size=5, seed=1)
    inputs, labels = next(batches.stream(3))
    again = CaptionBatches(IMAGES, CAPTIONS, tokenizer, batch_size=5, seed=1).batch(3)
    np.testing.assert_array_equal(labels, again[1])
    np.testing.assert_array_equal(inputs["image"], again[0]["image"])
    other = CaptionBatches(IMAGES, CAPTIONS, tokenizer, batch_size=5, seed=2).batch(3)
    assert (other[1] != labels).any()
    if keras.backend.backend() == "tensorflow":
        ((read, read_labels),) = batches.dataset(3).take(1)
        np.testing.assert_array_equal(read_labels, labels)
        np.testing.assert_array_equal(read["image"], inputs["image"])


def test_wrong_arguments_are_refused(tokenizer):
    with pytest.raises(ValueError, match="Received: 10 captions, batch_size=11. Use a smaller"):
        CaptionBatches(IMAGES, CAPTIONS, tokenizer, batch_size=11)
    with pytest.raises(ValueError, match="each of 5 images. Received: 6 captions of the language"):
        CaptionBatches(IMAGES[:5], CAPTIONS, tokenizer, batch_size=2)
    with pytest.raises(ValueError, match="seed"):
        CaptionBatches(IMAGES, CAPTIONS, tokenizer, batch_size=2, seed=-1)
