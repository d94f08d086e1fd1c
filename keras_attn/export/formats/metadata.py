import base64
import hashlib
import importlib.metadata
import json

FORMAT = "1"
"""Version of the keys below; a runtime refuses a file with another one."""


def describe(function, source_tokenizer=None, target_tokenizer=None):
    """The entries that make an exported file complete: its settings and its vocabularies.

    Args:
        function: `SearchFunction`.
        source_tokenizer, target_tokenizer: optional tokenizers with the attributes `model` (bytes
            of a SentencePiece model) and `vocabulary_size`.

    Returns:
        Dictionary of strings: `keras_attn.format`, `keras_attn.settings` (JSON) and, base64,
        `keras_attn.source_tokenizer` and `keras_attn.target_tokenizer`; the last is left out if
        both are the same. `keras_attn.checksum` is the SHA-256 of the others as sorted JSON.
    """
    search, limit = function.search, function.max_source_length
    settings = {
        "start_token_id": search.start_token_id,
        "end_token_id": search.end_token_id,
        "pad_token_id": search.pad_token_id,
        "beam_width": function.beam_width,
        "num_hypotheses": function.num_hypotheses,
        "max_length": search.max_length,
        "length_penalty": search.length_penalty,
        "source_vocabulary_size": function.source_vocabulary_size,
        "target_vocabulary_size": function.target_vocabulary_size,
        "source_start": function.source_start,
        "source_end": function.source_end,
        **({} if limit is None else {"max_source_length": limit}),
        "versions": _versions(),
    }
    entries = {"keras_attn.format": FORMAT, "keras_attn.settings": json.dumps(settings)}
    if source_tokenizer is not None:
        entries["keras_attn.source_tokenizer"] = base64.b64encode(source_tokenizer.model).decode()
        if target_tokenizer is not None and target_tokenizer.model != source_tokenizer.model:
            entries["keras_attn.target_tokenizer"] = base64.b64encode(
                target_tokenizer.model
            ).decode()
    # SentencePiece ends the process over a damaged vocabulary: the runtime checks before it loads.
    content = json.dumps(entries, sort_keys=True).encode()
    entries["keras_attn.checksum"] = hashlib.sha256(content).hexdigest()
    return entries


def _versions():
    versions = {}
    for distribution in ("keras-attn", "keras", "tensorflow", "tf2onnx", "onnx"):
        try:
            versions[distribution] = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            # A source tree, or a build under another name such as tensorflow-cpu.
            continue
    return versions
