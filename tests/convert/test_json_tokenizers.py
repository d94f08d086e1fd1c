"""Folders with a `tokenizer.json`: BART and language models."""

import json

import pytest

from keras_attn.convert import ConversionError, from_transformers

pytest.importorskip("transformers")
pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from tests.convert.against_transformers import randomize, save  # noqa: E402
from tests.convert.test_fairseq_models import make as fairseq_model  # noqa: E402
from tests.convert.test_language_models import make as language_model  # noqa: E402
from tests.text.json_tokenizers import LINES, byte_level  # noqa: E402


def test_bart_adds_its_start_and_end_tokens(tmp_path):
    folder = tmp_path / "bart"
    save(randomize(fairseq_model("bart", vocab_size=300)), folder)
    (folder / "tokenizer.json").write_bytes(byte_level())
    converted = from_transformers(folder)
    encoder, tokenizer = converted.model.encoder, converted.source_tokenizer
    assert (encoder.start_token_id, encoder.end_token_id) == (0, 2)
    assert tokenizer.decode(tokenizer.encode(LINES)) == LINES
    run = converted.save(tmp_path / "RUN")
    assert run.source_tokenizer.encode(LINES) == tokenizer.encode(LINES)
    converted.save(tmp_path / "RUN")  # replaces the earlier conversion


def with_start_token(model, token, id_):
    """Adds a post-processor to a `tokenizer.json`, which adds a token before each text."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_str(model.decode())
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{token} $A", special_tokens=[(token, id_)]
    )
    return tokenizer.to_str().encode()


def test_language_models_read_texts(tmp_path):
    save(randomize(language_model("llama", vocab_size=300)), tmp_path, max_new_tokens=3)
    (tmp_path / "tokenizer.json").write_bytes(with_start_token(byte_level(), "<s>", 0))
    converted = from_transformers(tmp_path)
    assert converted.model.source_start_token_id == 0  # not the bos_token_id of config.json
    ids = [[0, *row] for row in converted.source_tokenizer.encode(LINES)]
    expected = converted.source_tokenizer.decode(converted.model.generate(ids))
    assert converted.model.generate(LINES, converted.source_tokenizer) == expected


def test_a_tokenizer_that_is_too_large_is_refused(tmp_path):
    save(randomize(language_model("gpt2")), tmp_path)
    (tmp_path / "tokenizer.json").write_bytes(byte_level())
    with pytest.raises(ConversionError, match="at most 60 ids"):
        from_transformers(tmp_path)


def test_tokens_around_a_source_are_written_back(tmp_path):
    """A folder without start token, as of KoBART and SmolLM, is written and read again."""
    from keras_attn.export import export_transformers

    config = json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"})
    for kind, model in (("bart", fairseq_model("bart", vocab_size=300)), ("llama", None)):
        folder = tmp_path / kind
        save(randomize(model or language_model("llama", vocab_size=300)), folder)
        (folder / "tokenizer.json").write_bytes(byte_level())
        (folder / "tokenizer_config.json").write_text(config)
        converted = from_transformers(folder)
        model = converted.model
        assert model.source_start_token_id is None
        assert getattr(model.source_encoder, "start_token_id", None) is None
        assert getattr(model.source_encoder, "end_token_id", None) is None
        export_transformers(model, folder / "back", original=converted.original)
        assert (folder / "back" / "tokenizer.json").read_bytes() == byte_level()
