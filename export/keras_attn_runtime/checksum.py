import hashlib
import json
from collections.abc import Mapping

from keras_attn_runtime import file_checksum
from keras_attn_runtime.errors import ModelFileError

KEY = "keras_attn.checksum"
CARD = "keras_attn.card"  # for people; it may be edited after the export


def verify_checksum(metadata: Mapping[str, str]) -> None:
    """Refuses metadata that changed since the export.

    SentencePiece trusts its model file: with a few bits flipped, encoding a sentence can end the
    process. So the bytes are checked before they are given to it.

    Args:
        metadata: dict of strings, the `metadata_props` of the ONNX file. `keras_attn.checksum`,
            where the file has one, is the SHA-256, in hexadecimal, of
            `json.dumps(others, sort_keys=True)`, the dict of all other `keras_attn.` entries but
            the card and the checksums of files.

    Raises:
        ModelFileError: if the checksum does not match.
    """
    if KEY not in metadata:
        return
    not_covered = (KEY, CARD, file_checksum.KEY, file_checksum.WEIGHTS_KEY)
    others = {
        key: value
        for key, value in metadata.items()
        if key.startswith("keras_attn.") and key not in not_covered
    }
    checksum = hashlib.sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()
    if metadata[KEY] != checksum:
        raise ModelFileError(
            f"Expected metadata with the checksum {metadata[KEY]!r}. Received: {checksum!r}. "
            "The file is damaged; export or copy it again."
        )
