"""Images with captions in several languages: scenes, files of a directory, and training batches."""

from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import scene_captions
import scenes
from keras_attn_runtime import read_image
from keras_attn_runtime._file_format import Input
from keras_attn_runtime._file_format.inputs import ImageFormat


class CaptionData(NamedTuple):
    """Images and their captions."""

    images: np.ndarray  # uint8 (images, height, width, 3)
    captions: dict[str, list[str]]  # by language

    def texts(self, number):
        """Returns the captions of an image with language prefixes, such as `"en: a red star"`."""
        return [f"{language}: {texts[number]}" for language, texts in self.captions.items()]


def describe_scenes(several):
    """Draws and describes scenes.

    Args:
        several: list of `scenes.Scene`s.

    Returns:
        `CaptionData`.
    """
    languages = scene_captions.LANGUAGES
    captions = {
        language: [scene_captions.caption(scene, language) for scene in several]
        for language in languages
    }
    return CaptionData(np.stack([scenes.draw(scene) for scene in several]), captions)


def read_directory(directory, side=scenes.SIDE):
    """Reads images and captions from files.

    Args:
        directory: path of a directory with image files in `images/` and a file `captions.LANGUAGE`
            for each language, with one caption per line, in the order of the image names.
        side: int, width and height to which the images are resized.

    Returns:
        `CaptionData`.

    Raises:
        ValueError: If the directory has no images or no captions, their numbers differ, or an image
            is damaged or has more than 8 bits per channel.
    """
    directory = Path(directory)
    # As in the runtime, hidden files such as .DS_Store are not images.
    paths = sorted(path for path in (directory / "images").glob("*") if path.name[0] != ".")
    captions = {
        path.suffix[1:]: path.read_text(encoding="utf-8").splitlines()
        for path in sorted(directory.glob("captions.*"))
    }
    counts = {language: len(texts) for language, texts in captions.items()}
    if not paths or not captions or any(count != len(paths) for count in counts.values()):
        raise ValueError(
            "Expected images in 'images/', and one line for each image in 'captions.LANGUAGE'. "
            f"Received: {len(paths)} images, lines {counts} in {str(directory)!r}."
        )
    return CaptionData(np.stack([_read_pixels(path, side) for path in paths]), captions)


def _read_pixels(path, side):
    """Returns the pixels of an image as the runtime reads them: uint8 (side, side, 3)."""
    image_format = ImageFormat("rgb", (1.0,) * 3, (0.0,) * 3, resize="bilinear")
    try:
        return read_image(path, Input("image", "uint8", ("batch", side, side, 3), image_format))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


class CaptionBatches(keras.utils.PyDataset):
    """Training batches. Each epoch contains each image once with each of its captions.

    Args:
        data: `CaptionData`.
        tokenizer: `SentencePieceTokenizer`.
        batch_size, seed: ints.

    Raises:
        ValueError: If there are fewer captions than `batch_size`.
    """

    def __init__(self, data, tokenizer, batch_size, seed):
        super().__init__()
        self.images = data.images
        self.num_languages = len(data.captions)
        rows = [
            ids
            for number in range(len(data.images))
            for ids in tokenizer.encode(data.texts(number))
        ]
        # All batches have the same length, so that TensorFlow traces one graph.
        self.labels = np.full((len(rows), max(map(len, rows)) + 1), tokenizer.pad_token_id, "int32")
        for label, ids in zip(self.labels, rows, strict=True):
            label[: len(ids) + 1] = [*ids, tokenizer.end_token_id]
        start = np.full((len(rows), 1), tokenizer.start_token_id, "int32")
        target_ids = np.concatenate([start, self.labels[:, :-1]], axis=1)
        is_end = target_ids == tokenizer.end_token_id
        self.target_ids = np.where(is_end, tokenizer.pad_token_id, target_ids)
        if len(rows) < batch_size:
            raise ValueError(
                "Expected at least one batch of captions. Received: "
                f"{len(rows)} captions, batch_size={batch_size}. Use a smaller batch size."
            )
        self.batch_size = batch_size
        self.generator = np.random.default_rng(seed)
        self.on_epoch_end()

    def __len__(self):
        return len(self.order) // self.batch_size

    def on_epoch_end(self):
        self.order = self.generator.permutation(len(self.labels))

    def __getitem__(self, index):
        """Returns images and captions that begin with the start token, and the labels."""
        rows = self.order[index * self.batch_size : (index + 1) * self.batch_size]
        images = self.images[rows // self.num_languages].astype("float32")
        return {"image": images, "target_ids": self.target_ids[rows]}, self.labels[rows]
