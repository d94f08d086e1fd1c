"""Settings of published tokenizers are in the tables, and have the effect of transformers."""

import pytest

pytest.importorskip("transformers")
pytest.importorskip("tokenizers")

import transformers  # noqa: E402

from keras_attn.convert._checkpoint import Checkpoint  # noqa: E402
from keras_attn.convert._conversion_error import ConversionError  # noqa: E402
from keras_attn.convert._tokenizer_settings import tokenizer_settings  # noqa: E402
from tests.convert.published_tokenizers import PUBLISHED_TOKENIZERS  # noqa: E402
from tests.convert.small_checkpoints import train_pieces  # noqa: E402
from tests.convert.test_tokenizer_settings import (  # noqa: E402
    LINES,
    SHARED,
    TEXTS,
    metaspace_bpe,
    read,
    write,
)
from tests.text.json_tokenizers import byte_level, word_piece  # noqa: E402

VOCABULARIES = {"bytes": byte_level, "words": word_piece, "metaspace": metaspace_bpe}


def folder_of(path, name):
    published = PUBLISHED_TOKENIZERS[name]
    files = {"tokenizer_config.json": published.config}
    if published.special:
        files["special_tokens_map.json"] = published.special
    if published.kind in VOCABULARIES:
        files["tokenizer.json"] = VOCABULARIES[published.kind]()
    return write(path / "folder", published.model_type, files)


@pytest.mark.parametrize("name", PUBLISHED_TOKENIZERS)
def test_published_settings_of_tokenizers_are_known(tmp_path, name):
    uses_json = PUBLISHED_TOKENIZERS[name].kind in VOCABULARIES
    parts = tokenizer_settings(Checkpoint(folder_of(tmp_path, name)), uses_json)
    treatments = {report.treatment for part in parts for report in part.check()}
    assert treatments <= {"mapped", "irrelevant", "harmless"}


@pytest.mark.parametrize(
    "name", [name for name, each in PUBLISHED_TOKENIZERS.items() if each.kind in VOCABULARIES]
)
def test_published_settings_of_tokenizers_have_the_effect_of_transformers(tmp_path, name):
    folder = folder_of(tmp_path, name)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    found = read(folder, parse_special_tokens=True)
    start, end = ([] if id_ is None else [id_] for id_ in found.around)
    texts = [*TEXTS, *theirs.all_special_tokens, f"the{theirs.all_special_tokens[0]} cat"]
    expected = [theirs(text)["input_ids"] for text in texts]
    assert [[*start, *row, *end] for row in found.source.encode(texts)] == expected
    rows = [[id_ for id_ in row if id_ not in (1, 2)] for row in expected]
    assert found.source.decode(rows) == theirs.batch_decode(rows, skip_special_tokens=True)


def test_tokenizer_json_with_other_pieces_than_the_sentencepiece_model_is_refused(tmp_path):
    """Transformers reads `tokenizer.json`, also if a user pruned only that file."""
    model = train_pieces(LINES, 60, **SHARED)
    files = {"spiece.model": model, "tokenizer_config.json": {"tokenizer_class": "T5Tokenizer"}}
    folder = write(tmp_path / "folder", "t5", files)
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    files["tokenizer.json"] = (folder / "tokenizer.json").read_bytes()
    assert read(write(folder, "t5", files), "t5", (0, 1)).source.encode(["the cat"])
    files["spiece.model"] = train_pieces(LINES[:2], 60, **SHARED)
    with pytest.raises(ConversionError, match=r"Expected the pieces of spiece.model in tokenizer"):
        read(write(folder, "t5", files), "t5", (0, 1))
