"""Converted BART, mBART, M2M100, Pegasus and FSMT models compute the same as the originals."""

import pytest

from keras_attn.convert import ConversionError, from_transformers
from keras_attn.convert._architectures import ARCHITECTURES
from keras_attn.convert._config_settings import FORCES_START

transformers = pytest.importorskip("transformers")
pytest.importorskip("torch")

from tests.convert.against_transformers import (  # noqa: E402
    check_key_lists,
    check_logits,
    check_search,
    mapped_names,
    save,
)

SIZE = 60
SMALL = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 20,
    "max_position_embeddings": 32,
}
CHANGED = {
    "bart": {"vocab_size": SIZE},
    "mbart": {"vocab_size": SIZE, "scale_embedding": True, "decoder_start_token_id": 2},
    "m2m_100": {"vocab_size": SIZE},
    "pegasus": {"vocab_size": SIZE, "activation_function": "relu", "scale_embedding": True},
    "fsmt": {"src_vocab_size": SIZE, "tgt_vocab_size": SIZE + 5},
}
LANGUAGE = 50


def make(model_type, **changed):
    model_class = getattr(transformers, ARCHITECTURES[model_type].model_class)
    config = {**SMALL, **CHANGED[model_type], **changed}
    return model_class(model_class.config_class(**config))


@pytest.mark.parametrize("model_type", CHANGED)
def test_the_key_lists_are_complete(model_type):
    architecture = ARCHITECTURES[model_type]
    model_class = getattr(transformers, architecture.model_class)
    check_key_lists(model_class.config_class, architecture)


@pytest.mark.parametrize("model_type", CHANGED)
def test_logits_equal_those_of_transformers(tmp_path, model_type):
    check_logits(make(model_type), tmp_path)


@pytest.mark.parametrize("model_type", CHANGED)
def test_searches_find_the_ids_of_generate(tmp_path, model_type):
    model = make(model_type)
    languages = {"mbart": LANGUAGE, "m2m_100": LANGUAGE, "bart": 0}
    check_search(
        model,
        tmp_path,
        num_beams=4,
        # M2M100 and FSMT give no positions to padding, whose next positions would differ.
        bad_words_ids=[[model.config.pad_token_id]],
        max_length=14,
        early_stopping=model_type == "bart",
        no_repeat_ngram_size=3 if model_type == "bart" else 0,
        forced_bos_token_id=languages.get(model_type),
        forced_eos_token_id=None if model_type == "m2m_100" else model.config.eos_token_id,
    )


VARIED = {
    "d_model": 12,
    "encoder_layers": 2,
    "encoder_ffn_dim": 9,
    "encoder_attention_heads": 4,
    "decoder_layers": 1,
    "decoder_ffn_dim": 9,
    "decoder_attention_heads": 1,
    "activation_function": "silu",
    "scale_embedding": "other",
    "tie_word_embeddings": "other",
    "max_position_embeddings": 11,
    "pad_token_id": 3,
    "eos_token_id": 4,
    "dropout": 0.3,
    "attention_dropout": 0.3,
    "activation_dropout": 0.3,
}
SIZES = {"vocab_size", "src_vocab_size", "tgt_vocab_size"}
"""Settings that differ from their defaults in all tests."""


@pytest.mark.parametrize("model_type", CHANGED)
def test_every_mapped_setting_is_varied(model_type):
    mapped = mapped_names(ARCHITECTURES[model_type].settings)
    elsewhere = {"model_type", "architectures", "bos_token_id", FORCES_START}
    assert mapped - SIZES - elsewhere == set(VARIED)


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIED)
@pytest.mark.parametrize("model_type", CHANGED)
def test_a_varied_setting_gives_equal_logits(tmp_path, model_type, name):
    value = VARIED[name]
    if value == "other":
        value = not make(model_type).config.to_dict()[name]
    changed = {name: value, "tgt_vocab_size": SIZE} if model_type == "fsmt" else {name: value}
    if name == "eos_token_id":
        changed["forced_eos_token_id"] = value
    check_logits(make(model_type, **changed), tmp_path)


def test_the_sinusoids_of_the_first_m2m100_files_are_accepted(tmp_path):
    from safetensors.torch import load_file, save_file

    model = save(make("m2m_100"), tmp_path)
    path = tmp_path / "model.safetensors"
    sinusoids = model.model.encoder.embed_positions.weights.clone()
    name = "model.encoder.embed_positions.weights"
    save_file({**load_file(path), name: sinusoids}, path)
    assert from_transformers(tmp_path).count("ignored") == 0
    save_file({**load_file(path), name: sinusoids + 0.1}, path)
    with pytest.raises(ConversionError, match="embed_positions.weights, which has different"):
        from_transformers(tmp_path)
