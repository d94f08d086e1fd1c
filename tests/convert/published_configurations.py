"""Converts small models with the settings of published checkpoints, and prints a table.

    python tests/convert/published_configurations.py [NAME ...]

`published_settings.py` has the settings. Only sizes are smaller here: the vocabulary, features,
layers, and the lengths of the search. Token ids beyond the small vocabulary are replaced by its
last ids. Each model has random weights, which transformers saves; then the JSON files get the
published keys, and transformers and this library read the folder. The table has the largest
difference of a logit, relative to the largest logit if that is above 1, and the fraction of equal
ids of the search. A search that samples is not compared.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers

from keras_attn.convert import ConversionError, from_transformers
from keras_attn.convert._architectures import ARCHITECTURES
from keras_attn.convert._encoder_models import ENCODERS
from keras_attn_checks.model_types import BASE_CLASSES, ENCODER_CLASSES, MODEL_CLASSES
from tests.convert import test_encoders
from tests.convert.against_transformers import output_matrix, randomize, sources_for, their_logits
from tests.convert.published_settings import PUBLISHED

VOCABULARY = 60
SMALL = {
    **dict.fromkeys(("d_model", "n_embd", "hidden_size", "dim", "word_embed_proj_dim"), 16),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "intermediate_size", "d_ff"), 20),
    **dict.fromkeys(("ffn_dim", "hidden_dim"), 20),
    **dict.fromkeys(("encoder_layers", "num_layers", "n_layer", "n_layers"), 2),
    **dict.fromkeys(("num_hidden_layers", "decoder_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads", "n_head"), 4),
    **dict.fromkeys(("num_attention_heads", "num_heads", "n_heads"), 4),
    **dict.fromkeys(("n_positions", "n_ctx"), 64),
    **dict.fromkeys(("head_dim", "d_kv"), 4),
    **dict.fromkeys(("vocab_size", "decoder_vocab_size"), VOCABULARY),
    **dict.fromkeys(("src_vocab_size", "tgt_vocab_size"), VOCABULARY),
}
"""Sizes of the small models. The number of key-value heads keeps its kind."""

LEARNED = ("bart", "mbart", "opt", *ENCODERS)
"""Model types with learned positions, which are weights."""

IDS = ("bos", "eos", "pad", "decoder_start", "forced_bos", "forced_eos", "cls", "sep")
MAX_LENGTH, MIN_LENGTH = 16, 5


def small_settings(published):
    """Returns `config.json`, `generation_config.json` and the choices of a small model."""
    config, generation = dict(published.config), published.generation
    ids = _small_ids([config, generation or {}])
    heads, key_heads = (config.get(name) for name in ("num_attention_heads", "num_key_value_heads"))
    config |= {name: value for name, value in SMALL.items() if config.get(name) is not None}
    if key_heads is not None:
        config["num_key_value_heads"] = {heads: 4, 1: 1}.get(key_heads, 2)
    if config["model_type"] in LEARNED:
        config["max_position_embeddings"] = 66 if "roberta" in config["model_type"] else 64
    parts = [config, generation, dict(published.settings)]
    return [None if part is None else _small_search(part, ids) for part in parts]


def _small_ids(parts):
    """Returns a dict from ids beyond the small vocabulary to its last ids."""
    found = set()
    for part in parts:
        for name in IDS:
            value = part.get(f"{name}_token_id")
            found |= set(value if isinstance(value, list) else [value])
        found |= {word[0] for word in part.get("bad_words_ids") or []}
    large = sorted(id_ for id_ in found if id_ is not None and id_ >= 10)
    return {id_: VOCABULARY - len(large) + index for index, id_ in enumerate(large)}


def _small_search(part, ids):
    part = dict(part)
    for name in IDS:
        key = f"{name}_token_id"
        if isinstance(part.get(key), list):
            part[key] = [ids.get(id_, id_) for id_ in part[key]]
        elif part.get(key) is not None:
            part[key] = ids.get(part[key], part[key])
    if part.get("bad_words_ids"):
        part["bad_words_ids"] = [[ids.get(word[0], word[0])] for word in part["bad_words_ids"]]
    for name, limit in (("max_length", MAX_LENGTH), ("min_length", MIN_LENGTH)):
        if part.get(name) is not None:
            part[name] = min(part[name], limit)
    return part


def write_json(folder, config, generation):
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").unlink(missing_ok=True)
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation))


def refusal(folder, config, generation, settings):
    """Returns the reason why settings are refused, or `None`. There are no weights yet."""
    write_json(folder, config, generation)
    try:
        from_transformers(folder, settings=settings)
    except ConversionError as error:
        return None if "Expected weights in" in str(error) else str(error)


def save_weights(folder, config, seed):
    """Saves random weights with transformers. A base class is saved without its output layer."""
    prefix = ENCODER_CLASSES.get(config["model_type"])
    name = (config["architectures"] or [f"{prefix}Model"])[0]
    is_base = BASE_CLASSES.get(config["model_type"]) == name
    model_class = getattr(transformers, MODEL_CLASSES[config["model_type"]] if is_base else name)
    keys = {key: value for key, value in config.items() if key not in ("model_type", "torchscript")}
    model = model_class(model_class.config_class(**json.loads(json.dumps(keys))))
    if config["model_type"] in ENCODERS:
        torch.manual_seed(seed)
        with torch.no_grad():
            for weight in model.parameters():
                weight.normal_(0, 0.3)
    else:
        randomize(model, seed)
    model.generation_config = transformers.GenerationConfig() if model.can_generate() else None
    (model.base_model if is_base else model).save_pretrained(folder)
    return model_class


def compare_encoder(model, converted):
    model.config.output_hidden_states = False
    pad = model.config.pad_token_id
    inputs = test_encoders.sources(pad, getattr(model.config, "type_vocab_size", 0))
    expected = test_encoders.their_outputs(model, inputs)
    name = next(iter(expected))  # the logits, or the outputs of an encoder without a head
    found = test_encoders.our_outputs(converted.model, inputs)[name]
    rows = inputs["token_ids"] != pad if found.ndim == 3 else ...
    return _difference(found[rows], expected[name][rows]), None


def compare_generator(model, converted, settings):
    own, random = converted.model, np.random.default_rng(0)
    model.generation_config.update(**settings)
    if own.encoder is None:
        sources = random.integers(10, VOCABULARY - 4, (12, 6)).astype("int32")
        with torch.no_grad():
            expected = model(torch.tensor(sources).long()).logits.numpy()
        found = np.array(own.decoder(sources))
    else:
        sources = sources_for(model, 12)
        size = output_matrix(model).shape[0]
        targets = random.integers(3, size - 1, (12, 6))
        expected = their_logits(model, sources, targets)
        found = np.array(own.decoder(targets, **own.encoder(sources)))
    difference = _difference(found, expected)
    if own.search.is_stochastic:
        return difference, None
    theirs = []
    for source in torch.tensor(sources).long():  # one at a time: pad_token_id can be -1
        mask = (
            torch.ones_like(source) if own.encoder is None else source != own.encoder.pad_token_id
        )
        with torch.no_grad():
            ids = model.generate(input_ids=source[None], attention_mask=mask.long()[None])[0]
        theirs.append(ids[len(source) if own.encoder is None else 1 :])
    pairs = zip(np.array(own(sources)["token_ids"])[:, 0], theirs, strict=True)
    return difference, np.mean([_trim(a, own) == _trim(b, own) for a, b in pairs])


def _trim(row, model):
    end, pad = model.search.end_token_id, model.search.pad_token_id
    row = row.tolist()
    if end in row:
        return row[: row.index(end) + 1]
    return [token for token in row if token not in (pad, 0, -1)]


def _difference(found, expected):
    usual = np.minimum(found, expected) > -5e3  # others are bad_words_ids
    return np.abs(found - expected)[usual].max() / max(1, np.abs(expected[usual]).max())


def row(name):
    """Returns the cells of a checkpoint, and whether the result is as it should be."""
    published = PUBLISHED[name]
    config, generation, settings = small_settings(published)
    cells = [name, config["model_type"], published.source]
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        reason = refusal(folder, config, generation, settings)
        if reason is not None:
            return [*cells, "", "", f"refused: {reason[:200]}"], True
        model_class = save_weights(folder, config, seed=3)
        write_json(folder, config, generation)
        model = model_class.from_pretrained(folder, attn_implementation="eager").eval()
        converted = from_transformers(folder, settings=settings)
        if config["model_type"] in ARCHITECTURES:
            difference, equal = compare_generator(model, converted, settings)
        else:
            difference, equal = compare_encoder(model, converted)
    is_exact = difference < 1e-4 and equal in (None, 1)
    choices = ", ".join(f"{key}={value}" for key, value in published.settings.items())
    result = ("exact" if is_exact else "DIFFERENT") + (f", with {choices}" if choices else "")
    ids = "" if equal is None else f"{equal:.0%}"
    return [*cells, f"{difference:.0e}", ids, result], is_exact


def main():
    failed = False
    print("| checkpoint | type | source | logits | ids | result |\n|---|---|---|---|---|---|")
    for name in sys.argv[1:] or PUBLISHED:
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                cells, is_right = row(name)
        except Exception as error:  # go on with the other rows
            cells, is_right = [name, "", "", "", "", f"FAILED: {error!r:.200}"], False
        failed |= not is_right
        print(f"| {' | '.join(cells)} |", flush=True)
    sys.exit(int(failed))


if __name__ == "__main__":
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    main()
