"""Compares one architecture with transformers: one row of `architecture_table.py`.

python tests/convert/architecture_row.py             # prints the names of the architectures
python tests/convert/architecture_row.py NAME COUNT  # prints a row
"""

import copy
import functools
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from keras_attn import with_search
from keras_attn.convert import from_transformers
from keras_attn.convert._search_settings import STOPS
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
SAMPLING = {"do_sample": True, "num_beams": 1, "top_k": 7, "top_p": 0.95, "temperature": 2.5}
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


class Original:
    """A model of transformers, its padded sources, and its ids. The prompts of language models are
    padded on the right, and on the left for `generate`."""

    def __init__(self, model, count):
        self.model = model
        self.is_language_model = not model.config.is_encoder_decoder
        if not self.is_language_model:
            self.sources = sources_for(model, count)
            return
        random, config = np.random.default_rng(0), model.config
        ids = random.integers(3, config.vocab_size, (count, 6)).astype("int32")
        self.lengths = random.integers(1, 7, (count, 1))
        self.sources = np.where(np.arange(6) < self.lengths, ids, config.pad_token_id)
        self.sources = self.sources.astype("int32")

    def logits(self, targets):
        if not self.is_language_model:
            return their_logits(self.model, self.sources, targets)
        with torch.no_grad():  # the mask is causal, so padding on the right has no influence
            return self.model(torch.tensor(self.sources).long()).logits.numpy()

    def inputs(self):
        """Returns ids and mask for `generate`."""
        ids = self.sources
        if self.is_language_model:
            ids = np.stack([np.roll(row, 6 - n) for row, n in zip(ids, self.lengths, strict=True)])
            mask = np.arange(6) >= 6 - self.lengths
        else:
            mask = ids != self.model.config.pad_token_id
        return {"input_ids": torch.tensor(ids).long(), "attention_mask": torch.tensor(mask).long()}

    def ids(self, **generation):
        if not self.is_language_model:
            return their_ids(self.model, self.sources, **generation)
        with torch.no_grad():
            ids = self.model.generate(**self.inputs(), **generation)
        return [without_padding(row, self.model) for row in ids[:, 6:].tolist()]

    def first_probabilities(self):
        """The distribution from which `generate` draws the first token of each source."""
        options = {**SAMPLING, "output_scores": True, "return_dict_in_generate": True}
        with torch.no_grad():
            found = self.model.generate(**self.inputs(), **options, max_new_tokens=2)
        return torch.softmax(found.scores[0], -1).numpy()


def equal(found, expected):
    return f"{np.mean([a == b for a, b in zip(found, expected, strict=True)]):.1%}"


def logit_differences(original, converted):
    """Largest differences of a logit: of the converted model from the original; and of both from
    the original in float64, which shows the rounding of float32."""
    size = output_matrix(original.model).shape[0]
    shape = (len(original.sources), 6)
    targets = np.random.default_rng(1).integers(3, size - 1, shape)
    expected = original.logits(targets)
    in_float64 = copy.copy(original)
    if original.model.config.model_type != "fsmt":  # its mask is float32
        in_float64.model = copy.deepcopy(original.model).double()
    exact = in_float64.logits(targets)
    if original.is_language_model:
        rows = np.arange(6) < original.lengths
        found = np.array(converted.decoder(original.sources))
    else:
        rows = ...
        found = np.array(converted.decoder(targets, **converted.encoder(original.sources)))
    return differences(found[rows], expected[rows], exact[rows])


def differences(found, expected, exact):
    pairs = ((found, expected), (found, exact), (expected, exact))
    largest = [np.abs(one - other).max() for one, other in pairs]
    scale = np.abs(expected).max()
    rounding = f"{largest[1]:.0e}, {largest[2]:.0e}" if exact.dtype == np.float64 else ""
    return [f"{largest[0]:.0e} of {scale:.0f}", rounding]


def sampling_difference(original, folder):
    """Largest difference of the frequency of a first token, in 4,000 draws for each of 3 sources,
    from its probability in transformers, in standard deviations."""
    expected = original.first_probabilities()[:3]
    unused = {"early_stopping": None, "length_penalty": None}
    original.model.generation_config.update(**SAMPLING, **unused, max_new_tokens=2)
    original.model.save_pretrained(folder)
    model = with_search(from_transformers(folder).model, num_hypotheses=4)
    # Each source 1,000 times: the caches of a search grow with the square of num_hypotheses.
    draws, copies = 4000, np.repeat(original.sources[:3], 1000, axis=0)
    ids = np.array(model(copies)["token_ids"])[:, :, 0].reshape(3, draws)
    found = np.stack([np.bincount(row, minlength=expected.shape[1]) / draws for row in ids])
    deviation = np.sqrt(np.maximum(expected * (1 - expected), 1e-9) / draws)
    assert not found[expected < 1e-7].any(), "a token that transformers never draws"
    largest = (np.abs(found - expected) / deviation)[expected >= 1e-7].max()
    return f"{largest:.1f} sd, {(expected >= 1e-7).sum()} tokens"


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
            cells += logit_differences(original, converted.model)
        cells.append(equal(our_ids(converted.model, original.sources, model), original.ids()))
    start = time.perf_counter()
    path = folder / "model.onnx"
    export_onnx(converted.model, path)
    seconds = time.perf_counter() - start
    found = ids_of_file(converted.model, path, original.sources)
    found = [without_padding(row, model) for row in found]
    exact = equal(found, original.ids())
    size = f"{path.stat().st_size / 2**20:.2f}"
    return [*cells, sampling_difference(original, folder), exact, size, f"{seconds:.0f}"]


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
    exact = test_encoders.their_outputs(copy.deepcopy(model).double(), inputs)["logits"]
    found = test_encoders.our_outputs(converted.model, inputs)["logits"]
    scale = max(1, np.abs(expected).max())
    start = time.perf_counter()
    path = folder / "model.onnx"
    sample = inputs if len(inputs) > 1 else inputs["token_ids"]
    export_functional_onnx(converted.model, path, sample, tolerance=1e-4 * scale)
    seconds = time.perf_counter() - start
    (exported,) = session(path).run(None, inputs)
    rows = mask if expected.ndim == 3 else ...
    same = exported[rows].argmax(-1) == expected[rows].argmax(-1)
    cells = differences(found[rows], expected[rows], exact[rows])
    cells += [*[""] * 5, f"{same.mean():.1%}"]
    size = f"{path.stat().st_size / 2**20:.2f}"
    return [*cells, size, f"{seconds:.0f}"]


def main():
    rows = {name: functools.partial(row_of_generator, name) for name in MODELS}
    for model_type, head in ENCODERS:
        rows[f"{model_type} {head}"] = functools.partial(row_of_encoder, model_type, head)
    if len(sys.argv) == 1:
        print("\n".join(rows))
        return
    name, count = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        cells = rows[name](count, Path(folder))
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"| {' | '.join([name, *cells, f'{gigabytes:.1f}'])} |")


if __name__ == "__main__":
    main()
