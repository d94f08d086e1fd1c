import json
from dataclasses import dataclass, fields

from keras_attn_runtime.errors import ModelFileError
from keras_attn_runtime.options import LARGEST_INT32

FORMAT = "1"


@dataclass(frozen=True)
class Settings:
    """What the exported file says about its model, from the file's metadata.

    Attributes:
        start_token_id, end_token_id, pad_token_id: ints, the special ids.
        beam_width: int, hypotheses kept open by the search.
        num_hypotheses: int, hypotheses the file returns for a sentence.
        max_length: int, default limit of output tokens, the end token counted.
        length_penalty: float, default exponent of the length penalty.
        source_vocabulary_size, target_vocabulary_size: ints, ids the model knows.
        versions: dict, versions of the libraries that wrote the file.
        source_start, source_end: bools, whether the source of a text has the start and the end
            token around its pieces. Files without them: the end alone.
        max_source_length: int, most tokens of a source, besides these two, whose positions the
            model has learned. Files without it: no such limit.
    """

    start_token_id: int
    end_token_id: int
    pad_token_id: int
    beam_width: int
    num_hypotheses: int
    max_length: int
    length_penalty: float
    source_vocabulary_size: int
    target_vocabulary_size: int
    versions: dict
    source_start: bool = False
    source_end: bool = True
    max_source_length: int = LARGEST_INT32

    @classmethod
    def from_metadata(cls, metadata):
        """Reads `keras_attn.format` and `keras_attn.settings`.

        Args:
            metadata: dict of strings, the `metadata_props` of the ONNX file.

        Returns:
            `Settings`.

        Raises:
            ModelFileError: if they are missing, of another format, or malformed.
        """
        if "keras_attn.format" not in metadata:
            raise ModelFileError(
                "Expected an ONNX file exported by keras_attn. "
                f"Received: a file with the metadata keys {sorted(metadata)}. "
                "Export the model with `keras-attn export onnx`."
            )
        if metadata["keras_attn.format"] != FORMAT:
            raise ModelFileError(
                f"Expected a file of keras_attn format {FORMAT}. Received: "
                f"keras_attn.format={metadata['keras_attn.format']!r}. Install the "
                "keras-attn-runtime that belongs to the keras-attn it was exported with."
            )
        try:
            settings = json.loads(metadata["keras_attn.settings"])
            known = [field.name for field in fields(cls) if field.name in settings]
            settings = cls(**{name: settings[name] for name in known})
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ModelFileError(
                f"The settings in the file's metadata cannot be read ({error!r}). Export it again."
            ) from error
        settings._validate()
        return settings

    def _validate(self):
        for field in fields(self):
            value = getattr(self, field.name)
            accepted = (int, float) if field.type is float else field.type
            if not isinstance(value, accepted) or isinstance(value, bool) != (field.type is bool):
                self._refuse(field.name, f"of type {field.type.__name__}")
        for name in (
            "source_vocabulary_size",
            "target_vocabulary_size",
            "beam_width",
            "num_hypotheses",
            "max_source_length",
        ):
            if not 1 <= getattr(self, name) < 2**31:
                self._refuse(name, "in [1, 2**31)")
        for name in ("max_length", "length_penalty"):
            if not 0 <= getattr(self, name) < 2**31:  # false for nan too
                self._refuse(name, "in [0, 2**31)")
        for name in ("start_token_id", "end_token_id", "pad_token_id"):
            if not 0 <= getattr(self, name) < self.target_vocabulary_size:
                self._refuse(name, "in [0, target_vocabulary_size)")
        for name in ("end_token_id", "pad_token_id"):  # which the source has too
            if not 0 <= getattr(self, name) < self.source_vocabulary_size:
                self._refuse(name, "in [0, source_vocabulary_size)")

    def _refuse(self, name, expected):
        raise ModelFileError(
            f"Expected a value {expected} in the settings of the file. "
            f"Received: {name}={getattr(self, name)!r}. Export it again."
        )
