"""Random models of transformers, saved with `save_pretrained`, and comparisons with conversions."""

import dataclasses

import numpy as np
import torch
import transformers

from keras_attn.convert import from_transformers
from keras_attn.convert._generation_settings import GENERATION
from tests.convert.small_checkpoints import random_sources

ATTEMPTS = 60
"""Number of random models among which one is found whose outputs differ in length."""


def randomize(model, seed=0):
    """Gives all weights random values, those of the output bias in favor of the end token."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            is_fsmt = model.config.model_type == "fsmt"
            if not weight.requires_grad or (is_fsmt and "embed_positions" in name):
                continue  # sinusoids
            is_scale = "norm" in name and name.endswith("weight") and weight.ndim == 1
            scale = 0.5 if weight.ndim > 1 else 0.1
            weight.copy_(torch.randn_like(weight) * scale + (1.0 if is_scale else 0.0))
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_(0, 0.5)
            model.final_logits_bias[0, model.config.eos_token_id] += seed % 7
        else:  # an end token that is sometimes likely
            output_matrix(model)[model.config.eos_token_id] *= 1 + seed % 4
    return model.eval()


def output_matrix(model):
    """Weights of the output layer. FSMT returns its embedding instead."""
    if model.config.model_type == "fsmt":
        return model.model.decoder.output_projection.weight
    return model.get_output_embeddings().weight


def save(model, folder, **generation):
    """Saves a model with settings of its `generation_config`. Returns the model."""
    if generation:  # encoders have no generation_config
        model.generation_config.update(**generation)
    model.save_pretrained(folder)
    return model


def sources_for(model, count=24, **options):
    config = model.config
    size = getattr(config, "src_vocab_size", config.vocab_size)
    defaults = {"size": size, "end": config.eos_token_id, "pad": config.pad_token_id}
    return random_sources(count, **{**defaults, **options})


def padding_mask(sources, pad):
    """Marks all ids except the padding at the end of a row."""
    is_token = sources != pad  # (B, S)
    return np.logical_or.accumulate(is_token[:, ::-1], axis=1)[:, ::-1].copy()


def their_logits(model, sources, targets):
    mask = padding_mask(sources, model.config.pad_token_id)
    inputs = {"input_ids": sources, "attention_mask": mask, "decoder_input_ids": targets}
    with torch.no_grad():
        tensors = {name: torch.tensor(value).long() for name, value in inputs.items()}
        # With a cache, FSMT has no causal mask.
        return model(**tensors, use_cache=False).logits.numpy()


def their_ids(model, sources, **generation):
    """Lists of the ids that `generate` returns, without start and padding."""
    mask = torch.tensor(padding_mask(sources, model.config.pad_token_id)).long()
    with torch.no_grad():
        ids = model.generate(
            input_ids=torch.tensor(sources).long(), attention_mask=mask, **generation
        )
    return [without_padding(row, model) for row in ids[:, 1:].tolist()]


def without_padding(row, model):
    end, pad = model.generation_config.eos_token_id, model.generation_config.pad_token_id
    if end in row:
        return row[: row.index(end) + 1]
    return [token for token in row if token != pad]


def our_ids(model, sources, theirs):
    """Lists of ids of as many hypotheses as transformers returns."""
    ids = np.array(model(sources)["token_ids"])
    count = theirs.generation_config.num_return_sequences or 1
    rows = ids[:, :count].reshape(-1, ids.shape[-1]).tolist()
    return [without_padding(row, theirs) for row in rows]


def check_logits(model, folder, tolerance=1e-4):
    """Checks that teacher forcing gives the logits of transformers. Returns the conversion."""
    save(randomize(model), folder)
    converted = from_transformers(folder)
    compare_logits(model, converted, tolerance)
    return converted


def compare_logits(model, converted, tolerance=1e-4):
    sources = sources_for(model, 5)
    size = output_matrix(model).shape[0]
    targets = np.random.default_rng(1).integers(3, size - 1, (5, 6))
    expected = their_logits(model, sources, targets)
    found = np.array(converted.model.decoder(targets, **converted.model.encoder(sources)))
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, atol=tolerance * max(1, scale))
    assert np.ptp(expected, axis=1).max() > 0.1, "the logits of the positions must differ"


def check_search(model, folder, lengths=3, **generation):
    """Checks that the search finds the ids of `generate`. Returns the conversion.

    Args:
        model: Model of transformers. It gets random weights with which the outputs of random
            sources have at least `lengths` different lengths, and 8 of them differ.
        folder: `Path` of the checkpoint to write.
        lengths: Int.
        **generation: Settings of its `generation_config`.
    """
    sources = sources_for(model)
    model.generation_config.update(**generation)
    for seed in range(ATTEMPTS):
        expected = their_ids(randomize(model, seed), sources)
        outputs = {tuple(row) for row in expected}
        if len({len(row) for row in outputs}) >= lengths and len(outputs) >= 8:
            break
    else:
        raise AssertionError("Expected outputs of different lengths from one of the models.")
    save(model, folder)
    converted = from_transformers(folder)
    assert our_ids(converted.model, sources, model) == expected
    return converted


def check_key_lists(config_class, architecture):
    """Checks that the tables have every key of transformers, with its defaults."""
    known = {**GENERATION, **architecture.settings}
    assert set(config_class().to_dict()) - set(known) == set()
    assert set(transformers.GenerationConfig().to_dict()) - set(GENERATION) == set()
    fields = {field.name: field.default for field in dataclasses.fields(config_class)}
    generation = transformers.GenerationConfig._get_default_generation_params()
    del generation["max_length"]  # this default counts new tokens
    for theirs, table in ((fields, architecture.settings), (generation, GENERATION)):
        ours = {name: each.default for name, each in table.items() if each.treatment == "mapped"}
        common = ours.keys() & theirs.keys() - {"model_type", "architectures"}
        assert {name: ours[name] for name in common} == {name: theirs[name] for name in common}


def mapped_names(table):
    """Names of the settings that the converter reads."""
    return {name for name, each in table.items() if each.treatment == "mapped"}
