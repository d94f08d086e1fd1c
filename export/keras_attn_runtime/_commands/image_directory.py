from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from keras_attn_runtime._array_types import Array
from keras_attn_runtime._errors import InputError, ModelFileError
from keras_attn_runtime._file_format import Input
from keras_attn_runtime._inputs.image_files import list_images, load_image
from keras_attn_runtime._translate.text_model import TextModel

MOST_NAMES = 20
"""Maximum number of names shown in a message."""


class ImageDirectory:
    """Image files in a directory, sorted by name.

    Args:
        path: string, directory path.
    """

    is_interactive = False

    def __init__(self, path: str) -> None:
        self._directory = path
        self._paths: list[Path] = []
        self._report: Callable[[str], None] = print

    def open(self, report: Callable[[str], None]) -> None:
        """Lists the image files.

        Args:
            report: function `(text)` that prints which directory entries, and which parts of
                images, are ignored.

        Raises:
            ValueError: if there is no image, an image is a link to a missing file or not a file, or
                a file name contains a line break.
            OSError: if the directory cannot be read.
        """
        self._report = report
        self._paths, ignored = list_images(self._directory)
        for path in self._paths:
            if not path.name.isprintable():
                raise ValueError(
                    "Expected file names of printable characters, because they are written to the "
                    f"output. Received: {ascii(path.name)}. Rename the file."
                )
        if ignored:
            names = ", ".join(ascii(path.name) for path in ignored[:MOST_NAMES])
            rest = ", ..." if len(ignored) > MOST_NAMES else ""
            report(
                f"warning: ignored {len(ignored)} directories, hidden files and files without the "
                f"suffix of an image: {names}{rest}"
            )

    def read(self, model: TextModel[Any]) -> Iterator[dict[str, Array]]:
        """Yields a dict with each file's image; raises `InputError` for an invalid file."""
        inputs = model.inputs
        if len(inputs) != 1 or next(iter(inputs.values())).kind != "image":
            kinds = {name: entry.kind for name, entry in inputs.items()}
            raise ModelFileError(
                "Expected a model file with one input, an image, because of --images. Received: "
                f"inputs={kinds}. Give arrays to `generate` in Python."
            )
        ((name, expected),) = inputs.items()
        return self._rows(name, expected)

    def name(self, index: int) -> str:
        """Returns a file's name for messages, also for the index after the last file."""
        return self._paths[index].name if index < len(self._paths) else f"image {index + 1}"

    def _rows(self, name: str, expected: Input) -> Iterator[dict[str, Array]]:
        for index, path in enumerate(self._paths):
            try:
                image, ignored = load_image(path, expected)
                for part in ignored:
                    self._report(f"warning: {path.name}: {part}")
                yield {name: image}
            except ModelFileError:
                raise
            except ValueError as error:
                raise InputError(index, str(error)) from error
