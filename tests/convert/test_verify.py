"""Comparison with the original by the command and by `verify`."""

import dataclasses

import pytest

from keras_attn.convert import ConversionError, from_transformers, verify
from keras_attn_commands.main import main

pytest.importorskip("transformers")
pytest.importorskip("torch")

from tests.convert.against_transformers import randomize, save  # noqa: E402
from tests.convert.test_language_models import make  # noqa: E402
from tests.convert.test_marian import marian  # noqa: E402


def test_the_command_compares_with_the_original(tmp_path, capsys):
    folder = tmp_path / "marian"
    model = randomize(marian())
    settings = {"num_beams": 2, "max_length": 8, "bad_words_ids": [[59]]}
    save(model, folder, renormalize_logits=True, **settings)
    assert main(["convert", str(folder), str(tmp_path / "RUN"), "--verify"]) == 0
    printed = capsys.readouterr().out
    assert "compared with transformers on 16 random sources" in printed
    assert "the same ids for 100.0%" in printed


def test_language_models_are_compared(tmp_path):
    save(randomize(make("gpt2")), tmp_path, max_new_tokens=5)
    result = verify(tmp_path, from_transformers(tmp_path).model)
    assert result.equal == 1 and result.largest_difference < 1e-4 * result.largest_logit
    assert set(dataclasses.asdict(result)) >= {"num_sources", "equal"}


def test_a_different_model_is_refused(tmp_path):
    save(randomize(marian()), tmp_path, max_new_tokens=5)
    model = from_transformers(tmp_path).model
    kernel = model.decoder.stack.blocks[0].cross_attention_layer.value_kernel
    kernel.assign(kernel + 0.5)
    with pytest.raises(ConversionError, match="same outputs as the original"):
        verify(tmp_path, model)
