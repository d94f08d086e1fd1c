import hashlib

from keras_attn_runtime.errors import ModelFileError

KEY = "keras_attn.file_checksum"
# The entry as protobuf writes it at the end of the file: field 14 of the model, `metadata_props`,
# of 92 bytes, with the key of 24 bytes in its field 1 and the value of 64 bytes in its field 2.
ENTRY = b"\x72\x5c\x0a\x18" + KEY.encode() + b"\x12\x40"
CHECKSUM_LENGTH = 64


def verify_file_checksum(path):
    """Refuses a file that changed since the export, before anything else reads it.

    With one bit of a weight flipped, a model still loads and translates, only worse.

    Args:
        path: string or path of the ONNX file. `keras_attn.file_checksum`, where it is the last of
            the file's `metadata_props` and the end of the file, is the SHA-256, in hexadecimal, of
            all bytes before this entry.

    Raises:
        OSError: if the file cannot be read.
        ModelFileError: if the checksum does not match.
    """
    with open(path, "rb") as file:
        rest = file.seek(0, 2) - len(ENTRY) - CHECKSUM_LENGTH
        if rest < 0:
            return
        file.seek(rest)
        if file.read(len(ENTRY)) != ENTRY:
            return
        expected = file.read()
        file.seek(0)
        checksum = hashlib.sha256()
        while rest > 0:
            content = file.read(min(rest, 2**20))
            checksum.update(content)
            rest -= len(content)
    received = checksum.hexdigest()
    if received.encode() != expected:
        raise ModelFileError(
            f"Expected a file with the checksum {expected.decode(errors='replace')!r}. Received: "
            f"{received!r}. The file is damaged, or was changed after the export; export or copy "
            f"it again. If it was changed on purpose, remove {KEY!r} from its metadata."
        )
