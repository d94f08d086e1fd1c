"""Batches are read back: each image still has its own captions."""

import caption_data
import numpy as np
import pytest
import scene_captions
import scenes

from keras_attn.text import SentencePieceTokenizer

pytest.importorskip("sentencepiece")
SCENES = scenes.generate(12, seed=3)


@pytest.fixture(scope="module")
def data():
    return caption_data.describe_scenes(SCENES)


@pytest.fixture(scope="module")
def tokenizer(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("captions") / "captions.txt"
    path.write_text("\n".join(text for number in range(12) for text in data.texts(number)))
    return SentencePieceTokenizer.train(path, 60, "bpe")


def test_texts_begin_with_their_language(data):
    assert data.images.shape == (12, 48, 48, 3)
    assert data.texts(2) == [
        f"{language}: {scene_captions.caption(SCENES[2], language)}" for language in ("en", "de")
    ]


def test_directory_contains_the_same_images_and_captions(data, tmp_path):
    pytest.importorskip("PIL")
    scene_captions.write_files(tmp_path / "train", SCENES)
    found = caption_data.read_directory(tmp_path / "train")
    np.testing.assert_array_equal(found.images, data.images)
    assert found.captions == data.captions
    (tmp_path / "train/images/.DS_Store").write_bytes(b"")
    assert caption_data.read_directory(tmp_path / "train", side=24).images.shape[1:] == (24, 24, 3)
    path = tmp_path / "train/images/0003.png"
    content = path.read_bytes()
    path.write_bytes(content[:40])
    with pytest.raises(ValueError, match="0003.png: expected an image of the format"):
        caption_data.read_directory(tmp_path / "train")
    path.write_bytes(content)
    (tmp_path / "train/captions.fr").write_text("un cercle\n")
    with pytest.raises(ValueError, match="Received: 12 images, lines .*'fr': 1"):
        caption_data.read_directory(tmp_path / "train")
    with pytest.raises(ValueError, match="Received: 0 images"):
        caption_data.read_directory(tmp_path / "nothing")


def test_batch_size_larger_than_the_data_is_refused(data, tokenizer):
    with pytest.raises(ValueError, match="Received: 24 captions, batch_size=25. Use a smaller"):
        caption_data.CaptionBatches(data, tokenizer, batch_size=25, seed=0)


def test_epoch_contains_each_caption_with_its_image_once(data, tokenizer):
    batches = caption_data.CaptionBatches(data, tokenizer, batch_size=4, seed=0)
    expected = {text: number for number in range(12) for text in data.texts(number)}
    found, orders = {}, []
    for epoch in range(2):
        for index in range(len(batches)):
            inputs, labels = batches[index]
            assert inputs["image"].dtype == np.float32
            for image, target_ids, row in zip(*inputs.values(), labels, strict=True):
                count = int((row != tokenizer.pad_token_id).sum())
                assert row[count - 1] == tokenizer.end_token_id
                assert target_ids[0] == tokenizer.start_token_id
                np.testing.assert_array_equal(target_ids[1:count], row[: count - 1])
                assert (target_ids[count:] == tokenizer.pad_token_id).all()
                (text,) = tokenizer.decode([row[: count - 1].tolist()])
                number = expected[text]
                np.testing.assert_array_equal(image, data.images[number])
                found[text] = found.get(text, 0) + 1
                orders.append((epoch, number))
        batches.on_epoch_end()
    assert found == dict.fromkeys(expected, 2)
    first, second = ([each for each in orders if each[0] == epoch] for epoch in range(2))
    assert [number for _, number in first] != [number for _, number in second]
