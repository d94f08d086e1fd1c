"""Exports a language model of KerasHub with a beam search: keras_hub_decoder.py OUT.onnx [PRESET]

This example is for models that `keras_attn.convert` does not convert. The cache of KerasHub has one
index for all rows of a batch, so prompts of different lengths are refused.
"""

import sys
from unittest import mock

import keras
import numpy as np
from keras import ops
from keras_hub import models as hub

from keras_attn import BeamDecoder, GenerationModel, StepDecoder

SMALL = {"vocabulary_size": 60, "num_layers": 2, "hidden_dim": 16, "intermediate_dim": 32}
SMALL |= dict(num_query_heads=4, num_key_value_heads=2, head_dim=8, sliding_window_size=None)


def replace_end(cache, start, updates):  # (B, columns, heads, size)
    """Replaces `slice_update`, which overwrites the last columns of a cache, by a concatenation."""
    return ops.concatenate([cache[:, : -ops.shape(updates)[1]], updates], axis=1)


@keras.saving.register_keras_serializable(package="examples")
class HubDecoder(StepDecoder):
    """A `CausalLM` as a decoder. Its caches have the shape (B, layers, 2, columns, heads, size)."""

    reads_prompts = True  # token_ids begin with the last token of the prompt

    def __init__(self, model, **kwargs):
        super().__init__(**kwargs)
        self.model, self.vocabulary_size = model, model.backbone.vocabulary_size

    def call(self, token_ids, encoder_outputs, encoder_mask=None, encoder_state=None):
        ids = ops.concatenate([encoder_outputs[:, :-1], token_ids], axis=1)
        logits = self.model({"token_ids": ids, "padding_mask": ops.ones_like(ids)})
        return ops.cast(logits[:, -ops.shape(token_ids)[1] :], "float32")

    def prepare_memory(self, encoder_outputs, encoder_mask=None, encoder_state=None):
        known = True if encoder_mask is None else encoder_mask
        # For padding, use an id out of range, which raises an error on CPUs.
        ids = ops.where(known, encoder_outputs, self.vocabulary_size)
        with mock.patch.object(ops, "slice_update", replace_end):
            _, cache = self.model._build_cache(ids)
        # The first step reads the last token, so the cache does not contain it.
        return {"cache": cache[:, :, :, :-1], "last": ids[:, -1]}

    def first_token_ids(self, memory, start_token_id):
        return memory["last"]

    def initial_state(self, memory, beam_width=1, alignments=False, max_length=None):
        cache = ops.repeat(memory["cache"], beam_width, axis=0)
        (columns,) = ops.nonzero(ops.ones((ops.shape(cache)[3],)))  # loops need a dynamic size
        return {"cache": ops.take(cache, columns, axis=3)}

    def step(self, token_ids, state, memory):
        cache, index = state["cache"], ops.shape(state["cache"])[3]
        cache = ops.pad(cache, [(0, 0)] * 3 + [(0, 1)] + [(0, 0)] * 2)
        with mock.patch.object(ops, "slice_update", replace_end):
            logits, _, cache = self.model.call_with_cache(token_ids[:, None], cache, index)
        return ops.cast(logits[:, 0], "float32"), {"cache": cache}

    def get_config(self):
        return {**super().get_config(), "model": keras.saving.serialize_keras_object(self.model)}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "model": keras.saving.deserialize_keras_object(config["model"])})


if __name__ == "__main__":
    out, *preset = sys.argv[1:] or ["language_model.onnx"]
    small = hub.Qwen3CausalLM(hub.Qwen3Backbone(**SMALL))
    model = hub.CausalLM.from_preset(preset[0], preprocessor=None) if preset else small
    search = BeamDecoder(HubDecoder(model), beam_width=4, max_length=20, relative_max_length=None)
    prompts = np.random.default_rng(0).integers(3, search.decoder.vocabulary_size, (200, 8))
    from keras_attn.export import export_onnx

    print(export_onnx(GenerationModel(None, search), out, parity_sentences=prompts.tolist()))
