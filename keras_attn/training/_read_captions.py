import dataclasses
import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn._files.lines import read_lines

SUFFIXES = (
    ".bmp .gif .jpg .jpeg .png .ppm .pgm .pnm .tif .tiff .webp".split()  # as keras-attn-runtime
)
_EIGHT_BITS = "1 L LA La P PA RGB RGBA RGBX RGBa CMYK HSV LAB YCbCr".split()
"""Pillow modes with at most 8 bits per channel."""


@dataclasses.dataclass
class CaptionFiles:
    """Image files and their captions, the result of `read_captions`.

    Args:
        paths: List of the `Path`s of the images.
        captions: Dict from languages to lists with the caption of each image; `""` if an image has
            no caption in a language.
        num_blank: Int, number of missing captions.
        ignored: List of `Path`s in the directory that are neither images nor captions.

    Example:

    >>> from pathlib import Path
    >>> from keras_attn.training import CaptionFiles
    >>> files = CaptionFiles([Path("a.png")], {"en": ["two dogs"]}, 0, [Path("captions.en~")])
    >>> files.captions["en"]
    ['two dogs']
    """

    paths: list[Path]
    captions: dict[str, list[str]]
    num_blank: int
    ignored: list[Path]


def read_captions(directory: str | PathLike[str]) -> CaptionFiles:
    r"""Lists the images in a directory, and reads their captions in one or more languages.

    The directory contains:

        images/*.png    image files of any size, also .jpg and other formats
        captions.en     a caption on each line, in the order of the sorted file names
        captions.de     further languages, if there are any

    A caption file is named `captions.LANGUAGE` or `captions.LANGUAGE.txt`, plain or `.gz`. It is
    UTF-8. Spaces around a caption and a byte order mark are removed. A blank line means that the
    image has no caption in this language. Hidden files are skipped. Other files and directories,
    such as the backup copy `captions.en~`, are listed in `ignored`.

    Args:
        directory: Path of the directory.

    Returns:
        `CaptionFiles`.

    Raises:
        FileNotFoundError: If the directory contains no images or no captions.
        ValueError: If a caption file has a different number of lines than there are images, or only
            blank lines, is not UTF-8, or names no language; or if a language has two files.

    Example:

    >>> import tempfile
    >>> from pathlib import Path
    >>> from keras_attn.training import read_captions
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "images").mkdir()
    >>> for name in ("0.png", "1.png"):
    ...     (folder / "images" / name).touch()
    >>> _ = (folder / "captions.en").write_text("a red star\na blue circle\n", encoding="utf-8")
    >>> files = read_captions(folder)
    >>> [path.name for path in files.paths], files.captions
    (['0.png', '1.png'], {'en': ['a red star', 'a blue circle']})
    """
    directory = Path(directory)
    entries = _visible(directory) if directory.is_dir() else []
    images = _visible(directory / "images") if (directory / "images").is_dir() else []
    paths = [path for path in images if path.suffix.lower() in SUFFIXES and path.is_file()]
    files = _caption_files(directory, entries)
    if not paths or not files:
        raise FileNotFoundError(
            f"Expected image files in {str(directory / 'images')!r}, and files captions.LANGUAGE, "
            f"such as captions.en. Received: {len(paths)} images, {len(files)} files of captions. "
            "Check the path."
        )
    captions = {}
    for language, file in files.items():
        captions[language] = [line.strip() for line in read_lines(file)]
        if len(captions[language]) != len(paths):
            raise ValueError(
                f"Expected a line for each of the {len(paths)} images in "
                f"{str(directory / 'images')!r}. Received: {len(captions[language])} lines in "
                f"{str(file)!r}. Remove the other images or lines, or add the missing ones; a "
                "blank line means that an image has no caption."
            )
        if not any(captions[language]):
            raise ValueError(
                f"Expected captions. Received: {str(file)!r}, with only blank lines. Check the "
                "file, or remove it."
            )
    known = {*paths, *files.values(), directory / "images"}
    ignored = [path for path in [*entries, *images] if path not in known]
    return CaptionFiles(paths, captions, sum(t.count("") for t in captions.values()), ignored)


def read_images(
    paths: Sequence[str | PathLike[str]],
    size: tuple[int, int],
    cache: str | PathLike[str] | None = None,
) -> np.ndarray:
    """Reads image files as RGB pixels, resized to the same size.

    The images are converted and resized like those of `keras.utils.load_img(path, target_size=size,
    interpolation="bilinear")`, and as `keras-attn-runtime` does for
    `ImageFormat(resize="bilinear")`. The aspect ratio is not preserved.

    Args:
        paths: List of the paths of image files.
        size: Tuple of ints, height and width in pixels.
        cache: Path of a `.npy` file to write. The result is then mapped from this file, so that the
            images need not fit into the memory. Defaults to `None`: an array in memory.

    Returns:
        uint8 array `(images, height, width, 3)`.

    Raises:
        ImportError: If Pillow is not installed.
        OSError: If a file cannot be opened.
        ValueError: If a file is not a complete image, or has more than 8 bits per channel. The
            message names the file.

    Example:

    ```python
    files = read_captions("flickr8k/train")
    images = read_images(files.paths, (224, 224), cache="train.npy")
    ```
    """
    shape = (len(paths), *size, 3)
    if cache is None:
        pixels = np.empty(shape, "uint8")
        for row, path in enumerate(paths):
            pixels[row] = _read_pixels(Path(path), size)
        return pixels
    with atomic_replace(cache) as partial:
        mapped = np.lib.format.open_memmap(partial, "w+", "uint8", shape)
        for row, path in enumerate(paths):
            mapped[row] = _read_pixels(Path(path), size)
        mapped.flush()
        del mapped
    return np.load(cache, mmap_mode="r")


def _visible(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if not path.name.startswith("."))


def _caption_files(directory: Path, entries: list[Path]) -> dict[str, Path]:
    """Returns the file of each language."""
    files: dict[str, Path] = {}
    for path in entries:
        name = path.name.removesuffix(".gz").removesuffix(".txt")
        if name == "captions" and path.is_file():
            raise ValueError(
                f"Expected the language of the captions in the file name. Received: {str(path)!r}. "
                "Rename the file, for example to captions.en."
            )
        match = re.fullmatch(r"captions\.([A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*)", name)
        if not match or not path.is_file():
            continue
        if match[1] in files:
            raise ValueError(
                f"Expected one file of captions for {match[1]!r} in {str(directory)!r}. Received: "
                f"{files[match[1]].name} and {path.name}. Remove one of them."
            )
        files[match[1]] = path
    return files


def _read_pixels(path: Path, size: tuple[int, int]) -> np.ndarray:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("Image files need Pillow. Install it: `pip install pillow`.") from error
    try:
        with Image.open(path) as image:
            if image.mode not in _EIGHT_BITS:
                raise ValueError(f"mode {image.mode!r}, with more than 8 bits per channel")
            height, width = size
            image = image.convert("RGB")
            if image.size != (width, height):
                image = image.resize((width, height), Image.Resampling.BILINEAR)
            return np.asarray(image)
    except FileNotFoundError:
        raise
    except Exception as error:  # the decoders raise errors of many classes
        raise ValueError(
            f"Expected a complete image with 8 bits per channel. Received: {str(path)!r} "
            f"({' '.join(str(error).split())}). Convert or remove it."
        ) from error
