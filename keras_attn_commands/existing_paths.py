"""Checks that paths on the command line exist."""

from pathlib import Path


def require_file(option: str, path: Path | None) -> None:
    """Checks that a file exists.

    Args:
        option: String, the option that the user wrote, such as `"--parity-sentences"`.
        path: Path of the file. `None` if the user did not write the option.

    Raises:
        FileNotFoundError: If the path does not exist.
        IsADirectoryError: If the path is a directory.
    """
    if path is None or path.is_file():
        return
    if path.is_dir():
        raise IsADirectoryError(
            f"Expected the path of a file. Received: {option} {path}, a directory. Pass a file."
        )
    if not path.exists():
        raise FileNotFoundError(
            f"Expected the path of a file. Received: {option} {path}, which does not exist. Check "
            "the path."
        )


def require_folder(option: str, path: Path | None) -> None:
    """Checks that a folder exists.

    Args:
        option: String, the option that the user wrote, such as `"--original"`.
        path: Path of the folder. `None` if the user did not write the option.

    Raises:
        FileNotFoundError: If the path does not exist.
        NotADirectoryError: If the path is a file.
    """
    if path is None or path.is_dir():
        return
    if path.exists():
        raise NotADirectoryError(
            f"Expected the path of a folder. Received: {option} {path}, a file. Pass a folder."
        )
    raise FileNotFoundError(
        f"Expected the path of a folder. Received: {option} {path}, which does not exist. Check "
        "the path."
    )
