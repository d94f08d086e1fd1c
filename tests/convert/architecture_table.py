"""Compares every architecture with transformers on padded sources, and prints a table.

    python tests/convert/architecture_table.py [NAME ...] [--sources 200]

The models are small and random. For each, the table has the largest difference of a logit, the
fraction of equal ids of greedy search and of beam search under each stop rule, the largest
difference of two probabilities of a sampled token, the fraction of equal ids from the ONNX file,
its size, and the seconds of the export. The last columns count the settings by their treatment.
It is not part of `make test-convert`, which compares one small model of each architecture.
"""

import argparse
import functools
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from keras_attn import GenerationModel, replace_search
from keras_attn.convert import from_transformers
from keras_attn.convert.architectures import ARCHITECTURES
from keras_attn.convert.search_settings import STOPS
from keras_attn.export import export_functional_onnx, export_onnx
from tests.convert import test_encoders, test_fairseq_models, test_language_models
from tests.convert.against_transformers import (
    our_ids,
    output_matrix,
    randomize,
    save,
    sources_for,
    their_ids,
    their_logits,
    without_padding,
)
from tests.convert.test_marian import marian
from tests.convert.test_t5_models import mt5, t5
from tests.export.small_translator import session

LENGTH = 10
FAIRSEQ = ("bart", "mbart", "m2m_100", "pegasus", "fsmt")
MODELS = {
    "marian": marian,
    "marian, separate": lambda: marian(
        share_encoder_decoder_embeddings=False, decoder_vocab_size=67
    ),
    **{name: lambda name=name: test_fairseq_models.make(name) for name in FAIRSEQ},
    "t5": lambda: t5(num_layers=2),
    "t5 1.1": lambda: t5(num_layers=2, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    "mt5": lambda: mt5(num_layers=2),
    **{
        name: lambda name=name: test_language_models.make(name)
        for name in ("gpt2", "opt", "llama", "mistral", "qwen2", "gemma")
    },
}
ENCODERS = [
    (model_type, head) for model_type in test_encoders.SMALL for head in test_encoders.HEADS[:3]
]
COLUMNS = (
    "architecture",
    "logits",
    "greedy",
    "beam 4, true",
    "beam 4, false",
    'beam 4, "never"',
    "sampling",
    "ONNX",
    "MiB",
    "seconds",
    "mapped",
    "irrelevant",
    "harmless",
    "refused",
    "ignored",
)


class Original:
    """A model of transformers, its sources, and its ids. Prompts of language models are equally
    long, because transformers pads prompts on the left."""

    def __init__(self, model, count):
        self.model = model
        self.is_language_model = not model.config.is_encoder_decoder
        if self.is_language_model:
            size = model.config.vocab_size
            ids = np.random.default_rng(0).integers(3, size, (count, 6)).astype("int32")
            self.sources = ids
        else:
            self.sources = sources_for(model, count)

    def logits(self, targets):
        if not self.is_language_model:
            return their_logits(self.model, self.sources, targets)
        with torch.no_grad():
            return self.model(torch.tensor(self.sources).long()).logits.numpy()

    def ids(self, **generation):
        if not self.is_language_model:
            return their_ids(self.model, self.sources, **generation)
        prompts = torch.tensor(self.sources).long()
        with torch.no_grad():
            ids = self.model.generate(
                prompts, attention_mask=torch.ones_like(prompts), **generation
            )
        rows = ids[:, prompts.shape[1] :].tolist()
        return [without_padding(row, self.model) for row in rows]

    def first_probabilities(self):
        """The distribution from which `generate` draws the first token of each source."""
        options = {"do_sample": True, "num_beams": 1, "top_k": 7, "top_p": 0.8, "temperature": 0.9}
        options |= {"output_scores": True, "return_dict_in_generate": True, "max_new_tokens": 2}
        ids = torch.tensor(self.sources).long()
        pad = self.model.config.pad_token_id
        mask = torch.ones_like(ids) if self.is_language_model else (ids != pad).long()
        with torch.no_grad():
            found = self.model.generate(input_ids=ids, attention_mask=mask, **options)
        return torch.softmax(found.scores[0], -1).numpy()


def equal(found, expected):
    return f"{np.mean([a == b for a, b in zip(found, expected, strict=True)]):.1%}"


def largest_logit_difference(original, converted):
    model = original.model
    size = output_matrix(model).shape[0]
    shape = (len(original.sources), 6)
    targets = np.random.default_rng(1).integers(3, size - 1, shape)
    expected = original.logits(targets)
    if original.is_language_model:
        found = np.array(converted.decoder(original.sources))
    else:
        found = np.array(converted.decoder(targets, **converted.encoder(original.sources)))
    return f"{np.abs(found - expected).max():.0e} of {np.abs(expected).max():.0f}"


def sampling_difference(original, folder):
    """Largest difference of the frequency of a first token, in 4,000 draws for each of 3 sources,
    from its probability in transformers, in standard deviations."""
    expected = original.first_probabilities()[:3]
    settings = {"do_sample": True, "num_beams": 1, "top_k": 7, "top_p": 0.8, "temperature": 0.9}
    original.model.generation_config.update(**settings, early_stopping=None, length_penalty=None)
    original.model.save_pretrained(folder)
    model = from_transformers(folder).model
    draws = 4000
    search = replace_search(model, num_hypotheses=draws).search
    model = GenerationModel(
        model.encoder, search, source_start_token_id=model.source_start_token_id
    )
    ids = np.array(model(original.sources[:3])["token_ids"])[:, :, 0]  # (3, draws)
    found = np.stack([np.bincount(row, minlength=expected.shape[1]) / draws for row in ids])
    deviation = np.sqrt(np.maximum(expected * (1 - expected), 1e-9) / draws)
    assert not found[expected < 1e-7].any(), "a token that transformers never draws"
    return f"{(np.abs(found - expected) / deviation)[expected >= 1e-7].max():.1f} sd"


def ids_of_file(converted, path, sources):
    search = converted.search
    file = session(path)
    limits = {
        "max_length": np.array(search.max_length, "int32"),
        "length_penalty": np.array(search.length_penalty, "float32"),
    }
    names = {each.name for each in file.get_inputs()}
    inputs = {"source_ids": sources, **limits}
    inputs = {name: value for name, value in inputs.items() if name in names}
    return file.run(["token_ids"], inputs)[0][:, 0].tolist()


def settings_of(converted, model_type):
    counts = [converted.count(each) for each in ("mapped", "irrelevant", "harmless")]
    table = ARCHITECTURES[model_type].settings if model_type in ARCHITECTURES else {}
    refused = sum(each.treatment == "refused" for each in table.values())
    return [*counts, refused or "", converted.count("ignored")]


def row_of_generator(name, count, folder):
    model = MODELS[name]()
    pad = model.config.pad_token_id
    common = {"max_new_tokens": LENGTH, "max_length": None, "bad_words_ids": [[pad]]}
    # A seed with which the outputs of the sources have several lengths.
    for seed in range(60):
        original = Original(randomize(model, seed), count)
        if len({len(row) for row in original.ids(**common, num_beams=1)[:40]}) >= 3:
            break
    cells = []
    for settings in ({"num_beams": 1}, *({"num_beams": 4, "early_stopping": x} for x in STOPS)):
        save(model, folder, **common, **settings)
        converted = from_transformers(folder)
        if not cells:
            cells.append(largest_logit_difference(original, converted.model))
        cells.append(equal(our_ids(converted.model, original.sources, model), original.ids()))
    start = time.perf_counter()
    path = folder / "model.onnx"
    export_onnx(converted.model, path)
    seconds = time.perf_counter() - start
    found = ids_of_file(converted.model, path, original.sources)
    found = [without_padding(row, model) for row in found]
    exact = equal(found, original.ids())
    size = f"{path.stat().st_size / 2**20:.2f}"
    treatments = settings_of(converted, model.config.model_type)
    return [
        *cells,
        sampling_difference(original, folder),
        exact,
        size,
        f"{seconds:.0f}",
    ], treatments


def row_of_encoder(model_type, head, count, folder):
    model = save(test_encoders.make(model_type, head), folder)
    converted = from_transformers(folder)
    config, random = model.config, np.random.default_rng(0)
    types = getattr(config, "type_vocab_size", 0)
    ids = random.integers(config.pad_token_id + 1, config.vocab_size, (count, 12)).astype("int32")
    mask = np.arange(12) < random.integers(1, 13, (count, 1))
    inputs = {"token_ids": np.where(mask, ids, config.pad_token_id).astype("int32")}
    if types > 1:
        inputs["token_type_ids"] = random.integers(0, types, ids.shape, "int32")
    expected = test_encoders.their_outputs(model, inputs)["logits"]
    found = test_encoders.our_outputs(converted.model, inputs)["logits"]
    start = time.perf_counter()
    path = folder / "model.onnx"
    sample = inputs if len(inputs) > 1 else inputs["token_ids"]
    export_functional_onnx(converted.model, path, sample, tolerance=1e-4)
    seconds = time.perf_counter() - start
    (exported,) = session(path).run(None, inputs)
    rows = mask if expected.ndim == 3 else ...
    same = exported[rows].argmax(-1) == expected[rows].argmax(-1)
    difference = np.abs(found[rows] - expected[rows]).max()
    cells = [f"{difference:.0e} of {np.abs(expected).max():.0f}", *[""] * 5, f"{same.mean():.1%}"]
    size = f"{path.stat().st_size / 2**20:.2f}"
    return [*cells, size, f"{seconds:.0f}"], settings_of(converted, model_type)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="architectures. Default: all")
    parser.add_argument("--sources", type=int, default=200)
    args = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    count = args.sources
    rows = {name: functools.partial(row_of_generator, name, count) for name in MODELS}
    for model_type, head in ENCODERS:
        row = functools.partial(row_of_encoder, model_type, head, count)
        rows[f"{model_type} {head}"] = row
    for name in args.names or rows:
        with tempfile.TemporaryDirectory() as folder:
            cells, treatments = rows[name](Path(folder))
        print(f"| {' | '.join(map(str, [name, *cells, *treatments]))} |", flush=True)


if __name__ == "__main__":
    main()
