"""Lines of bytes to text."""

from keras_attn_runtime.errors import SentenceError


def read_lines(stream, errors="strict"):
    """Yields the lines of a binary stream as strings, without their ends.

    Only "\\n" ends a line, and one "\\r" before it belongs to it. All other separators, such as
    U+2028 or a "\\r" inside, are text: the number of lines is that of `wc -l` (plus one if the last
    is not ended). A byte order mark before the first line is dropped.

    Args:
        stream: binary stream.
        errors: "strict", or "replace" to read each invalid byte sequence as U+FFFD.

    Raises:
        SentenceError: if a line is not UTF-8 and errors is "strict".
    """
    for index, line in enumerate(stream):
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        try:
            text = line.decode("utf-8", errors)
        except UnicodeDecodeError as error:
            raise SentenceError(
                index,
                f"expected UTF-8. Received: byte 0x{line[error.start]:02x} at byte {error.start} "
                "of the line. Convert the file, or replace what is invalid.",
            ) from error
        yield text if index else text.removeprefix("\ufeff")
