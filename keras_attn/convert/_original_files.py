"""Files in a transformers checkpoint folder, except weights."""

from pathlib import Path

from keras_attn.convert._checkpoint import CONFIG, GENERATION_CONFIG
from keras_attn.convert._checkpoint_file import read_bytes

TOKENIZER_FILES = (
    "added_tokens.json",
    "chat_template.jinja",
    "merges.txt",
    "sentencepiece.bpe.model",
    "source.spm",
    "special_tokens_map.json",
    "spiece.model",
    "target.spm",
    "target_vocab.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab-src.json",
    "vocab-tgt.json",
    "vocab.json",
    "vocab.txt",
)
"""Names of the files that transformers tokenizers read."""

ORIGINAL_FILES = (CONFIG, GENERATION_CONFIG, *TOKENIZER_FILES)


def read_original_files(folder: Path) -> dict[str, bytes]:
    """Reads the checkpoint files except weights. Returns a dict from names to contents.

    Args:
        folder: `Path`, the checkpoint.
    """
    contents = {name: read_bytes(folder, name) for name in ORIGINAL_FILES}
    return {name: content for name, content in contents.items() if content is not None}
