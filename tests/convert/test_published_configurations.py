"""Settings of published checkpoints are accepted, and small models with them are exact."""

import pytest

pytest.importorskip("transformers")
pytest.importorskip("torch")

from tests.convert.published_configurations import refusal, row, small_settings  # noqa: E402
from tests.convert.published_settings import PUBLISHED  # noqa: E402

REFUSED = {
    "canopylabs/orpheus-3b, 4 bits": "quantized weights",
    "google/gemma-2-2b": "model_type='gemma2'",
    "bigscience/bloomz": "model_type='bloom'",
    "bigcode/starcoder": "model_type='gpt_bigcode'",
    "stabilityai/stablelm-zephyr-3b": "model_type='stablelm_epoch'",
    "google/pegasus-x-base": "model_type='pegasus_x'",
    "Qwen/Qwen3-0.6B": "model_type='qwen3'",
    "google/electra-small-discriminator": "model_type='electra'",
    "deepset/roberta-base-squad2": "RobertaForQuestionAnswering",
}
CHOICES = {
    "Qwen/Qwen2.5-0.5B-Instruct": ["repetition_penalty"],
    "fnlp/bart-base-chinese": ["no_repeat_ngram_size"],
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_settings_are_accepted_or_refused_with_the_reason(tmp_path, name):
    config, generation, settings = small_settings(PUBLISHED[name])
    reason = refusal(tmp_path, config, generation, settings)
    assert (reason is None) == (name not in REFUSED), reason
    assert REFUSED.get(name, "") in str(reason)
    assert list(settings) == CHOICES.get(name, [])
    without = refusal(tmp_path, config, generation, {}) if settings else ""
    assert all(f"Expected {each} in generation_config.json" in without for each in settings)


@pytest.mark.filterwarnings("ignore:Using the model-agnostic default")
@pytest.mark.slow
@pytest.mark.parametrize("name", [each for each in PUBLISHED if each not in REFUSED])
def test_small_models_with_published_settings_are_exact(name):
    cells, is_exact = row(name)
    assert is_exact, cells
