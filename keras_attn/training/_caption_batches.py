from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from keras_attn._backend.data_adapters import EpochBatches
from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn_checks.options import NONNEGATIVE_INTEGER

if TYPE_CHECKING:
    import tensorflow as tf

    from keras_attn.text import Tokenizer

Batch = tuple[dict[str, np.ndarray], np.ndarray]


class CaptionBatches(EpochBatches):
    """Batches of images and captions, for a `TrainingModel` whose input is named `"image"`.

    Each caption begins with its language, such as `"en: a red star"`. At generation time, the
    prefix `"en:"` then selects the language. An epoch contains each caption once, in random order,
    except up to `batch_size - 1` captions at its end. The order depends only on `seed` and the
    epoch number, so `keras_attn.training.fit` can resume. Train with `fit(model, batches)` or
    `model.fit(batches)`.

    Args:
        images: uint8 array of shape `(images, height, width, channels)`, also one that is mapped
            from a file, such as that of `read_images`.
        captions: Dict from languages to lists with the caption of each image, such as
            `CaptionFiles.captions`. Empty captions are left out.
        tokenizer: Tokenizer of the captions. Train it on the texts of `caption_texts`.
        batch_size: Positive int, number of captions per batch.
        seed: Int >= 0. Defaults to `0`.

    Attributes:
        steps_per_epoch: Int, number of batches in an epoch.
        max_length: Int, number of tokens in the longest caption, with its end token.

    Raises:
        ValueError: If there are fewer captions than `batch_size`, a language has a different number
            of captions than there are images, or another argument is out of range.

    Example:

    ```python
    files = read_captions("DIR/train")
    images = read_images(files.paths, (48, 48))
    write_lines("captions.txt", caption_texts(files.captions))
    tokenizer = SentencePieceTokenizer.train("captions.txt", 300, "bpe")
    fit(trainer, CaptionBatches(images, files.captions, tokenizer, batch_size=64), epochs=5)
    ```
    """

    def __init__(
        self,
        images: np.ndarray,
        captions: Mapping[str, Sequence[str]],
        tokenizer: "Tokenizer",
        batch_size: int,
        seed: int = 0,
    ) -> None:
        check_positive_integer("batch_size", batch_size)
        NONNEGATIVE_INTEGER.check("seed", seed)
        for language, texts in captions.items():
            if len(texts) != len(images):
                raise ValueError(
                    f"Expected a caption for each of {len(images)} images. Received: {len(texts)} "
                    f"captions of the language {language!r}."
                )
        self.images, self.batch_size, self.seed = images, int(batch_size), int(seed)
        rows = tokenizer.encode(caption_texts(captions))
        if len(rows) < batch_size:
            raise ValueError(
                "Expected at least one batch of captions. Received: "
                f"{len(rows)} captions, batch_size={batch_size}. Use a smaller batch size."
            )
        self._image_of_row = np.array(
            [row for texts in captions.values() for row, text in enumerate(texts) if text]
        )
        self._order = -1, np.array([])
        self.steps_per_epoch = len(rows) // self.batch_size
        self.max_length = max(map(len, rows)) + 1
        # All batches have the same length, so that TensorFlow traces one graph.
        shape = (len(rows), self.max_length)
        self._target_ids, self._labels = (
            np.full(shape, tokenizer.pad_token_id, "int32") for _ in range(2)
        )
        for row, ids in enumerate(rows):
            self._target_ids[row, : len(ids) + 1] = [tokenizer.start_token_id, *ids]
            self._labels[row, : len(ids) + 1] = [*ids, tokenizer.end_token_id]

    def __len__(self) -> int:
        return self.steps_per_epoch

    def batch(self, step: int) -> Batch:
        """Returns the batch for a training step.

        Args:
            step: Int >= 0, the step number since the beginning of the training.

        Returns:
            Tuple of a dict with `image`, float32 `(batch, height, width, channels)`, and
            `target_ids`, int32 `(batch, max_length)`, which begin with the start token; and the
            labels, int32 `(batch, max_length)`, which end with the end token.
        """
        NONNEGATIVE_INTEGER.check("step", step)
        epoch, index = divmod(step, self.steps_per_epoch)
        if self._order[0] != epoch:
            generator = np.random.default_rng((self.seed, epoch))
            self._order = epoch, generator.permutation(len(self._labels))
        rows = self._order[1][index * self.batch_size : (index + 1) * self.batch_size]
        images = self.images[self._image_of_row[rows]].astype("float32")
        return {"image": images, "target_ids": self._target_ids[rows]}, self._labels[rows]

    def stream(self, start_step: int = 0) -> Iterator[Batch]:
        """Iterates over the batches for all steps from `start_step`, without end."""
        NONNEGATIVE_INTEGER.check("start_step", start_step)
        return map(self.batch, count(start_step))

    def dataset(self, start_step: int = 0) -> "tf.data.Dataset":
        """Returns the batches from `start_step` as an infinite `tf.data.Dataset`."""
        import tensorflow as tf

        ids = tf.TensorSpec((self.batch_size, self.max_length), "int32")
        image = tf.TensorSpec((self.batch_size, *self.images.shape[1:]), "float32")
        dataset = tf.data.Dataset.from_generator(
            lambda: self.stream(start_step),
            output_signature=({"image": image, "target_ids": ids}, ids),
        )
        return dataset.prefetch(2)


def caption_texts(captions: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns all captions with their languages, such as `"en: a red star"`.

    Args:
        captions: Dict from languages to lists of captions. Empty captions are left out.

    Returns:
        List of strings, first all captions of the first language.

    Example:

    >>> from keras_attn.training import caption_texts
    >>> caption_texts({"en": ["a red star", ""], "de": ["ein roter Stern", "ein Kreis"]})
    ['en: a red star', 'de: ein roter Stern', 'de: ein Kreis']
    """
    return [f"{language}: {text}" for language, texts in captions.items() for text in texts if text]
