from collections.abc import Iterator
from pathlib import Path

from keras_attn_runtime.array_types import Array
from keras_attn_runtime.errors import ModelFileError, SentenceError
from keras_attn_runtime.file_format import Input
from keras_attn_runtime.image_files import list_images, read_image
from keras_attn_runtime.translator import Translator


class ImageDirectory:
    """The image files of a directory, sorted by name.

    Args:
        path: string, path of the directory.
    """

    is_interactive = False

    def __init__(self, path: str) -> None:
        self._directory = path
        self._paths: list[Path] = []

    def open(self) -> list[str]:
        """Lists the image files, and returns warnings about files that are ignored.

        Raises:
            ValueError: if there is no image, or the name of a file contains a line break.
            OSError: if the directory cannot be read.
        """
        self._paths, others = list_images(self._directory)
        for path in self._paths:
            if not path.name.isprintable():
                raise ValueError(
                    "Expected file names of printable characters, because they are written to the "
                    f"output. Received: {ascii(path.name)}. Rename the file."
                )
        if not others:
            return []
        return [
            f"warning: ignored {len(others)} files without the suffix of an image, such as "
            f"{ascii(others[0].name)}"
        ]

    def read(self, translator: Translator) -> Iterator[dict[str, Array]]:
        """Yields a dict with the image of each file; raises `SentenceError` for an invalid file."""
        inputs = translator.settings.inputs
        if len(inputs) != 1 or next(iter(inputs.values())).kind != "image":
            kinds = {name: each.kind for name, each in inputs.items()}
            raise ModelFileError(
                "Expected a model file with one input, an image, because of --images. Received: "
                f"inputs={kinds}. Give arrays to `generate` in Python."
            )
        ((name, expected),) = inputs.items()
        return self._rows(name, expected)

    def name(self, index: int) -> str:
        """Returns the name of a file in messages, also for the index after the last file."""
        return self._paths[index].name if index < len(self._paths) else f"image {index + 1}"

    def _rows(self, name: str, expected: Input) -> Iterator[dict[str, Array]]:
        for index, path in enumerate(self._paths):
            try:
                yield {name: read_image(path, expected)}
            except ModelFileError:
                raise
            except ValueError as error:
                raise SentenceError(index, str(error)) from error
