"""Converted Marian models compute the same as those of transformers."""

import pytest

from keras_attn.convert._config_settings import FORCES_START
from keras_attn.convert._fairseq_models import MARIAN
from keras_attn.convert._generation_settings import GENERATION

transformers = pytest.importorskip("transformers")
pytest.importorskip("torch")

from tests.convert.against_transformers import (  # noqa: E402
    check_key_lists,
    check_logits,
    check_search,
    mapped_names,
)
from tests.convert.small_checkpoints import MARIAN_CONFIG, PAD, VOCABULARY_SIZE  # noqa: E402

BAD_WORDS = [[PAD]]


def marian(**changed):
    config = {**MARIAN_CONFIG, "d_model": 16, "encoder_ffn_dim": 24, "decoder_ffn_dim": 20}
    del config["model_type"], config["max_length"]
    config["forced_eos_token_id"] = changed.get("eos_token_id", 0)
    return transformers.MarianMTModel(transformers.MarianConfig(**{**config, **changed}))


@pytest.mark.parametrize("tie_word_embeddings", [True, False])
@pytest.mark.parametrize("is_shared", [True, False])
def test_logits_equal_those_of_transformers(tmp_path, is_shared, tie_word_embeddings):
    target_size = VOCABULARY_SIZE if is_shared else VOCABULARY_SIZE + 7
    model = marian(
        share_encoder_decoder_embeddings=is_shared,
        tie_word_embeddings=tie_word_embeddings,
        decoder_vocab_size=target_size,
    )
    converted = check_logits(model, tmp_path)
    assert converted.model.decoder.embedding.input_dim == target_size
    shares = converted.model.decoder.embedding is converted.model.encoder.embedding
    assert shares == (is_shared and tie_word_embeddings)


@pytest.mark.parametrize(
    "generation",
    [
        {"num_beams": 1},
        {"num_beams": 4, "early_stopping": True},
        {"num_beams": 4, "early_stopping": False},
        {"num_beams": 4, "early_stopping": "never"},
        {"num_beams": 3, "num_return_sequences": 3, "length_penalty": 0.5, "max_new_tokens": 7},
        {"num_beams": 2, "forced_eos_token_id": None, "min_length": 5},
        {"num_beams": 4, "renormalize_logits": True, "bad_words_ids": [*BAD_WORDS, [5], [7]]},
        {"num_beams": 4, "no_repeat_ngram_size": 2},
    ],
    ids=lambda settings: " ".join(f"{name}={value}" for name, value in settings.items()),
)
def test_searches_find_the_ids_of_generate(tmp_path, generation):
    defaults = {"max_length": 14, "bad_words_ids": BAD_WORDS}
    check_search(marian(), tmp_path, **{**defaults, **generation})


@pytest.mark.parametrize("beams", [1, 4])
def test_words_of_several_tokens_are_suppressed(tmp_path, beams):
    ids = range(1, VOCABULARY_SIZE - 1)
    pairs = [[one, other] for one in ids for other in ids if (one + other) % 3 == 0]
    longer = [[one, other, one + 1] for one, other in pairs[1::9]]
    words = [*BAD_WORDS, *pairs[::2], *longer, [5, 5, 5, 0]]
    found = check_search(marian(), tmp_path, max_length=14, num_beams=beams, bad_words_ids=words)
    assert found.model.search.suppressed_sequences == words[1:]


CHANGED = {
    "vocab_size": 66,
    "decoder_vocab_size": 77,  # of separate embeddings alone
    "share_encoder_decoder_embeddings": False,
    "tie_word_embeddings": False,
    "d_model": 12,
    "encoder_layers": 2,
    "encoder_ffn_dim": 9,
    "encoder_attention_heads": 4,
    "decoder_layers": 2,
    "decoder_ffn_dim": 9,
    "decoder_attention_heads": 4,
    "activation_function": "gelu",
    "scale_embedding": False,
    "max_position_embeddings": 11,
    "pad_token_id": 3,
    "eos_token_id": 4,
    "dropout": 0.3,
    "attention_dropout": 0.3,
    "activation_dropout": 0.3,
}
CHANGED_SEARCH = {
    "max_length": 4,
    "max_new_tokens": 4,
    "min_length": 6,
    "min_new_tokens": 6,
    "num_beams": 3,
    "early_stopping": True,
    "length_penalty": 2.0,
    "num_return_sequences": 2,
    "no_repeat_ngram_size": 2,
    "repetition_penalty": 1.6,
    "renormalize_logits": True,
    "forced_eos_token_id": 0,
    "forced_bos_token_id": 6,
    "decoder_start_token_id": 5,
    "bad_words_ids": [[PAD], [7], [8], [9]],
    "suppress_tokens": [PAD, 7, 8, 9],
}
SAMPLING = {"do_sample", "temperature", "top_k", "top_p"}
OTHER_TESTS = {FORCES_START, "model_type", "architectures", "bos_token_id"}


def test_every_mapped_setting_is_changed():
    for table, changed in ((MARIAN.settings, CHANGED), (GENERATION, CHANGED_SEARCH)):
        mapped = mapped_names(table)
        assert mapped - SAMPLING - OTHER_TESTS - {*CHANGED, *CHANGED_SEARCH} == set()
        assert set(changed) <= mapped


def test_the_key_lists_are_complete():
    check_key_lists(transformers.MarianConfig, MARIAN)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_model_setting_gives_equal_logits(tmp_path, name):
    check_logits(marian(**{name: CHANGED[name]}), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGED_SEARCH)
def test_a_changed_search_setting_gives_equal_ids(tmp_path, name):
    beams = 1 if name == "repetition_penalty" else 4
    base = {"max_length": 14, "num_beams": beams, "bad_words_ids": BAD_WORDS}
    check_search(marian(), tmp_path, lengths=1, **{**base, name: CHANGED_SEARCH[name]})
