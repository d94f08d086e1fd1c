"""What the export to CTranslate2 does without CTranslate2. `tests/convert` runs it."""

import sys

import pytest

import keras_attn
from keras_attn.export import export_ctranslate2
from keras_attn.export._formats.ctranslate2_search import translate_arguments
from keras_attn.export._formats.ctranslate2_vocabulary import special_tokens, vocabulary


@pytest.fixture
def model():
    encoder, decoder = keras_attn.transformer_seq2seq(
        20, 30, num_layers=1, num_heads=2, embedding_dim=8, intermediate_dim=16, seed=0
    )
    return keras_attn.GenerationModel(encoder, keras_attn.BeamDecoder(decoder, max_length=5))


def test_a_missing_package_is_named(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ImportError, match=r"Expected the package.*'\.\[ctranslate2\]'"):
        export_ctranslate2(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_sampling_becomes_arguments(model):
    changed = {"temperature": 0.5, "top_k": 4, "num_hypotheses": 3}
    changed |= {"suppressed_sequences": [[1, 0, 1]], "return_top_tokens": 2}
    sampling = keras_attn.with_search(model, keras_attn.SamplingDecoder, **changed)
    arguments, left_out = translate_arguments(sampling.search, ["<pad>", "<s>"])
    assert arguments["sampling_temperature"] == 0.5
    assert (arguments["sampling_topk"], arguments["num_hypotheses"]) == (4, 3)
    assert arguments["suppress_sequences"] == [["<pad>"], ["<s>"], ["<s>", "<pad>", "<s>"]]
    assert left_out == ["relative_max_length=(2, 10)"]


def test_each_setting_of_sampling_is_translated_or_named(model):
    names = ("min_p", "repetition_penalty", "force_end_token", "top_p", "no_repeat_ngram_size")
    values = (0.1, 1.5, True, 0.9, 2)
    changed = dict(zip(names, values, strict=True))
    sampling = keras_attn.with_search(model, keras_attn.SamplingDecoder, **changed)
    arguments, left_out = translate_arguments(sampling.search, ["<pad>", "<s>"])
    text = " ".join([*arguments, *left_out]).replace("sampling_topp", "top_p")
    assert [name for name in names if name not in text] == []
    assert "min_p=0.1" in left_out


def test_tokens_without_a_tokenizer_are_ids():
    ids = {"</s>": 0, "<pad>": 4, "<s>": 4}
    special = special_tokens(None, ids)
    assert special == {"</s>": "</s>", "<pad>": "<pad>", "<s>": "<pad>"}
    names = {ids[name]: token for name, token in special.items()}
    assert vocabulary(None, 5, names) == ["</s>", "1", "2", "3", "<pad>"]
