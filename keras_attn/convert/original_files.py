"""Files of a checkpoint folder of transformers, without its weights."""

from pathlib import Path

from keras_attn.convert.checkpoint import CONFIG, GENERATION_CONFIG
from keras_attn.convert.checkpoint_file import read_bytes

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
"""Names of the files that tokenizers of transformers read."""

ORIGINAL_FILES = (CONFIG, GENERATION_CONFIG, *TOKENIZER_FILES)


def read_original_files(folder: Path) -> dict[str, bytes]:
    """Reads the files of a checkpoint except its weights. Returns a dict from names to contents.

    Args:
        folder: `Path` of a checkpoint.
    """
    contents = {name: read_bytes(folder, name) for name in ORIGINAL_FILES}
    return {name: content for name, content in contents.items() if content is not None}
