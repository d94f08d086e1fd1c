"""Converted models with other weights, written back and loaded with transformers."""

import logging

import numpy as np
import torch
import transformers

from keras_attn.convert import from_transformers
from keras_attn.export import export_transformers
from tests.convert import test_encoders
from tests.convert.against_transformers import (
    output_matrix,
    randomize,
    save,
    sources_for,
    their_ids,
    their_logits,
    without_padding,
)
from tests.convert.architecture_row import MODELS
from tests.convert.test_fairseq_models import make as fairseq_model
from tests.convert.test_marian import marian
from tests.convert.test_t5_models import t5

UNTIED = {"tie_word_embeddings": False}
GENERATORS = {
    **MODELS,
    "marian, untied": lambda: marian(**UNTIED),
    "marian, separate and untied": lambda: marian(
        **UNTIED, share_encoder_decoder_embeddings=False, decoder_vocab_size=67
    ),
    "bart, untied": lambda: fairseq_model("bart", **UNTIED),
    "fsmt, tied": lambda: fairseq_model("fsmt", tie_word_embeddings=True, tgt_vocab_size=60),
    "t5, unscaled": lambda: t5(num_layers=2, scale_decoder_outputs=False),
}
"""Functions that return models of transformers with a search."""

ENCODERS = {
    f"{model_type} {head}": lambda model_type=model_type, head=head: test_encoders.make(
        model_type, head
    )
    for model_type in test_encoders.SMALL
    for head in test_encoders.HEADS
} | {"roberta, untied": lambda: test_encoders.make("roberta", "ForMaskedLM", **UNTIED)}
"""Functions that return encoders of transformers."""


def convert_generator(name, folder, **generation):
    """Saves and converts a model whose outputs have several lengths. Returns the conversion."""
    model = GENERATORS[name]()
    pad = model.config.pad_token_id
    settings = {"max_new_tokens": 10, "max_length": None, "bad_words_ids": [[pad]]}
    settings |= {"num_beams": 4, "early_stopping": True, **generation}
    model.generation_config.update(**settings)
    for seed in range(60):
        ids = ids_of_generate(randomize(model, seed), sources_of(model, 24))
        if len({len(row) for row in ids}) >= 3:
            break
    save(model, folder)
    return from_transformers(folder)


def sources_of(model, count):
    """Padded sources, or prompts of equal length, because transformers pads those on the left."""
    if model.config.is_encoder_decoder:
        return sources_for(model, count)
    size = model.config.vocab_size
    return np.random.default_rng(0).integers(3, size, (count, 6)).astype("int32")


def change_weights(model, scale=0.02, seed=1):
    """Adds noise to all variables of a model that are not 0 as a whole."""
    random = np.random.default_rng(seed)
    for variable in {id(each): each for each in model.weights}.values():
        value = np.array(variable)
        if np.any(value) and variable.dtype == "float32":
            noise = random.normal(size=value.shape).astype("float32")
            variable.assign(value + scale * noise * np.abs(value).mean())


def load(folder, model_class):
    """Loads a folder with transformers, and checks that nothing is missing or reported."""
    records = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = records.append
    logger = logging.getLogger("transformers")
    logger.addHandler(handler)
    try:
        model, found = model_class.from_pretrained(
            folder, output_loading_info=True, attn_implementation="eager"
        )
    finally:
        logger.removeHandler(handler)
    assert {name: value for name, value in found.items() if value} == {}
    assert [record.getMessage() for record in records] == []
    assert model.dtype == torch.float32
    return model.eval()


def our_ids(model, sources):
    """The first hypotheses up to the end token."""
    end, pad = model.search.end_token_id, model.search.pad_token_id
    rows = np.array(model(sources)["token_ids"])[:, 0].tolist()
    rows = [row[: row.index(end) + 1] if end in row else row for row in rows]
    return [[token for token in row if token != pad or pad == end] for row in rows]


def ids_of_generate(model, sources):
    if model.config.is_encoder_decoder:
        return their_ids(model, sources)
    prompts = torch.tensor(sources).long()
    with torch.no_grad():
        ids = model.generate(prompts, attention_mask=torch.ones_like(prompts))
    return [without_padding(row, model) for row in ids[:, prompts.shape[1] :].tolist()]


def compare_generator(converted, loaded, count):
    """Returns the largest difference of a logit, the largest logit, and the rate of equal ids."""
    sources, model = sources_of(loaded, count), converted.model
    if model.encoder is None:
        found = np.array(model.decoder(sources))
        with torch.no_grad():
            expected = loaded(torch.tensor(sources).long()).logits.numpy()
    else:
        size = output_matrix(loaded).shape[0]
        targets = np.random.default_rng(1).integers(3, size - 1, (count, 6))
        found = np.array(model.decoder(targets, **model.encoder(sources)))
        expected = their_logits(loaded, sources, targets)
    ids = our_ids(model, sources)
    theirs = ids_of_generate(loaded, sources)
    equal = np.mean([a == b for a, b in zip(ids, theirs, strict=True)])
    return np.abs(found - expected).max(), np.abs(expected).max(), equal


def export(converted, folder, **options):
    return export_transformers(
        converted.model,
        folder,
        converted.source_tokenizer,
        converted.target_tokenizer,
        original=converted.original,
        **options,
    )


def check_equal_weights(found, expected):
    """Checks that a second conversion has the variables of the first."""
    pairs = zip(found.weights, expected.weights, strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(np.array(one), np.array(other), rtol=1e-6, atol=1e-6)


def model_class_of(report):
    return getattr(transformers, report.class_name)
