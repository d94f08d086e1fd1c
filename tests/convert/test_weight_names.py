"""Names of weights with other prefixes."""

import numpy as np
import pytest

from keras_attn.convert import ConversionError
from keras_attn.convert._architectures import ARCHITECTURES
from keras_attn.convert._encoder_models import ENCODERS
from keras_attn.convert._weight_names import BASE_MODELS, RenamedWeights

NAMES = {
    "opt": ["model.decoder.embed_tokens.weight", "model.decoder.layers.0.fc1.bias"],
    "llama": ["model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight"],
    "gpt2": ["transformer.wte.weight", "transformer.h.0.ln_1.bias"],
    "bart": ["model.shared.weight", "model.encoder.layers.0.fc1.bias"],
    "t5": ["shared.weight", "decoder.block.0.layer.1.layer_norm.weight"],
    "bert": ["bert.embeddings.word_embeddings.weight", "bert.pooler.dense.bias"],
    "camembert": ["roberta.embeddings.word_embeddings.weight", "roberta.encoder.layer.0.x.bias"],
    "distilbert": ["distilbert.embeddings.word_embeddings.weight", "distilbert.transformer.x"],
}
HEADS = {
    "bart": "final_logits_bias",
    "bert": "cls.predictions.bias",
    "camembert": "lm_head.bias",
    "distilbert": "vocab_projector.bias",
}


class Weights:
    def __init__(self, names):
        self.shapes = {name: (number,) for number, name in enumerate(names)}

    def read(self, name):
        return np.full((1,), self.shapes[name])


def test_each_architecture_has_a_base_model():
    assert set(BASE_MODELS) == {*ARCHITECTURES, *ENCODERS}


@pytest.mark.parametrize("wrapper", ["", "module.", "_orig_mod.", "model.", "base_model.model."])
@pytest.mark.parametrize("has_base_prefix", [True, False])
@pytest.mark.parametrize("model_type", NAMES)
def test_prefixes_are_replaced(model_type, has_base_prefix, wrapper):
    base = BASE_MODELS[model_type]
    head = HEADS.get(model_type, "lm_head.weight")
    names = [*NAMES[model_type], head]
    stored = names if has_base_prefix else [name.removeprefix(base.prefix) for name in names]
    found = RenamedWeights(Weights([wrapper + name for name in stored]), base)
    assert list(found.shapes) == names
    assert found.read(names[1]) == found.shapes[names[1]] == (1,)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a.embed_tokens.weight", "b.embed_tokens.weight"], "weights of one model"),
        (["model.embed_tokens.weight", "model.lm_head.weight", "lm_head.weight"], None),
        (["model.embed_tokens.weight", "model.layers.0.q_proj.lora_A.weight"], "merge_and_unload"),
        (["m.embed_tokens.weight", "m.norm.weight", "model.norm.weight"], "norm.weight. Received"),
    ],
)
def test_ambiguous_names_are_refused(names, message):
    if message is None:
        assert list(RenamedWeights(Weights(names), BASE_MODELS["llama"]).shapes) == names
        return
    with pytest.raises(ConversionError, match=message):
        RenamedWeights(Weights(names), BASE_MODELS["llama"])
