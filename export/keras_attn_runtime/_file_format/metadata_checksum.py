import hashlib
import json
from collections.abc import Mapping

from keras_attn_runtime._errors import ModelFileError
from keras_attn_runtime._file_format import file_checksum

KEY = "keras_attn.checksum"
MODEL_KEY = "keras_attn.model_checksum"  # of the model in a LiteRT file
CARD = "keras_attn.card"  # not covered by the checksum: users may edit the card after the export


def verify_checksum(metadata: Mapping[str, str]) -> None:
    """Raises an error if the metadata changed since the export.

    SentencePiece does not validate its model: with a few flipped bits, encoding a sentence can
    crash the process. So the checksum is verified before SentencePiece reads the model.

    Args:
        metadata: dict of strings, such as an ONNX file's `metadata_props`. The optional entry
            `keras_attn.checksum` is the hexadecimal SHA-256 of `json.dumps(entries,
            sort_keys=True)`, with all `keras_attn.` entries except the card and the checksums.

    Raises:
        ModelFileError: if the checksum does not match.
    """
    if KEY not in metadata:
        return
    not_covered = (KEY, CARD, MODEL_KEY, file_checksum.KEY, file_checksum.WEIGHTS_KEY)
    entries = {
        key: value
        for key, value in metadata.items()
        if key.startswith("keras_attn.") and key not in not_covered
    }
    checksum = hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()
    if metadata[KEY] != checksum:
        raise ModelFileError(
            f"Expected metadata with the checksum {metadata[KEY]!r}. Received: {checksum!r}. "
            "The file is damaged; export or copy it again."
        )
