import dataclasses
import importlib
import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from keras_attn._layer.get_vocabulary_size import get_vocabulary_size
from keras_attn._models.generation_model import GenerationModel
from keras_attn.convert._conversion_error import ConversionError
from keras_attn_checks.installed import require_originals

TOLERANCE = 1e-3
"""Maximum difference between logits, relative to the largest logit if this is above 1."""

LEAST_EQUAL = 0.95
"""Minimum fraction of equal outputs. Rounding can change the order of almost equal hypotheses."""

MAX_LENGTH = 32
"""Maximum number of tokens in a compared hypothesis. Random sources often lead to hypotheses
without end, and published translators' settings allow 512 tokens."""

_IMPOSSIBLE = -5e3
"""Logits below this number belong to tokens of probability 0, and are not compared."""


@dataclasses.dataclass(frozen=True)
class Verification:
    """Comparison between a converted model and the original.

    Args:
        num_sources: Int, number of random sources.
        largest_difference: Float, largest absolute difference between the logits of converted model
            and original.
        largest_logit: Float, largest absolute logit.
        equal: Float, fraction of sources for which both searches find the same ids. For an encoder,
            fraction of sources for which both models have the same largest outputs.
    """

    num_sources: int
    largest_difference: float
    largest_logit: float
    equal: float

    def __str__(self) -> str:
        return (
            f"compared with transformers on {self.num_sources} random sources: largest difference "
            f"of a logit {self.largest_difference:.1e} of {self.largest_logit:.1f}, the same ids "
            f"for {self.equal:.1%}"
        )


def verify(
    path: str | PathLike[str],
    model: Any,
    num_sources: int = 16,
    length: int = 12,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
) -> Verification:
    """Compares a converted model with the original, which transformers runs with PyTorch.

    Logits for random targets and search results, up to 32 tokens, are compared.

    Args:
        path: Checkpoint path.
        model: The converted `GenerationModel`, or functional encoder model.
        num_sources: Int, number of random sources. Defaults to `16`.
        length: Int, maximum source length. Defaults to `12`.
        seed: Int, seed for the sources. Defaults to `0`.
        settings: Dict, the `settings` passed to the conversion: search settings that replace the
            checkpoint's. Defaults to `None`: none.

    Returns:
        `Verification`.

    Raises:
        ConversionError: If the logits differ by more than a relative tolerance of 0.001, or fewer
            than 95 % of outputs are equal.
        ImportError: If PyTorch or transformers is not installed.

    Example:

    ```python
    converted = from_transformers("opus-mt-en-de")
    print(verify("opus-mt-en-de", converted.model))
    ```
    """
    torch, transformers = _libraries()
    if not isinstance(model, GenerationModel):
        arguments = (torch, transformers, path, model, num_sources, length, seed)
        logits, expected, same = _encoder_outputs(*arguments)
        difference = float(np.abs(logits - expected).max())
        scale = float(np.abs(expected).max())
        return _checked(Verification(num_sources, difference, scale, float(np.mean(same))))
    is_language_model = model.encoder is None
    auto = "AutoModelForCausalLM" if is_language_model else "AutoModelForSeq2SeqLM"
    original = getattr(transformers, auto).from_pretrained(
        path, local_files_only=True, dtype=torch.float32
    )
    original.eval()
    original.generation_config.update(**(settings or {}))
    random = np.random.default_rng(seed)
    sources = _sources(model, random, num_sources, length)
    target_size = get_vocabulary_size(model.decoder)
    targets = random.integers(_first(model.search), target_size, (num_sources, 6)).astype("int32")
    with torch.no_grad():
        if is_language_model:
            logits = np.array(model.decoder(sources))
            expected = original(_tensor(torch, sources)).logits.numpy()
            inputs = {"input_ids": _tensor(torch, sources)}
        else:
            encoder: Any = model.encoder
            logits = np.array(model.decoder(targets, **encoder(sources)))
            mask = sources != encoder.pad_token_id
            inputs = {"input_ids": _tensor(torch, sources), "attention_mask": _tensor(torch, mask)}
            decoder_inputs = {"decoder_input_ids": _tensor(torch, targets), "use_cache": False}
            expected = original(**inputs, **decoder_inputs).logits.numpy()
        limit = _limit(model.search)
        ids = original.generate(
            **inputs, num_return_sequences=1, **({"max_new_tokens": limit} if limit else {})
        ).numpy()
    ids = ids[:, sources.shape[1] if is_language_model else 1 :]
    is_possible = logits > _IMPOSSIBLE
    difference = float(np.abs(logits - expected)[is_possible].max())
    scale = float(np.abs(expected[is_possible]).max())
    results = model.search(**model.source_encoder(sources), max_length=limit)
    converted_ids = np.array(results["token_ids"])[:, 0]
    pairs = zip(converted_ids, ids, strict=True)
    equal = [_trim(a, model.search) == _trim(b, model.search) for a, b in pairs]
    result = Verification(num_sources, difference, scale, float(np.mean(equal)))
    if model.search.is_stochastic:
        result = dataclasses.replace(result, equal=1.0)  # random samples differ
    return _checked(result)


def _limit(search):
    """Returns the maximum length of compared hypotheses, or `None` for the search's own."""
    limit = max(MAX_LENGTH, 2 * search.min_length)
    return limit if limit < search.max_length else None


def _checked(result):
    """Returns a `Verification`, or raises an error if the model differs from the original."""
    tolerance = TOLERANCE * max(1.0, result.largest_logit)
    if result.largest_difference > tolerance or result.equal < LEAST_EQUAL:
        raise ConversionError(
            f"Expected a model with the same outputs as the original. Received: {result}. This is "
            "a defect of the converter; report it with config.json and generation_config.json."
        )
    return result


def _libraries():
    require_originals()
    return importlib.import_module("torch"), importlib.import_module("transformers")


def _tensor(torch, ids):
    return torch.tensor(ids).long()


def _first(search):
    """Returns the smallest id that is probably not a special token."""
    special = [search.pad_token_id, search.start_token_id, search.end_token_id]
    return 1 + max((id_ for id_ in special if id_ < 8), default=2)


def _sources(model, random, count, length):
    """Returns random ids: prompts of equal length, or padded sources with an end token."""
    search = model.search
    first = _first(search)
    if model.encoder is None:
        size = get_vocabulary_size(model.decoder)
        return random.integers(first, size, (count, length)).astype("int32")
    pad, end = model.encoder.pad_token_id, model.encoder.end_token_id
    ids = random.integers(first, get_vocabulary_size(model.encoder), (count, length))
    ids = np.where((ids == pad) | (ids == end), first, ids).astype("int32")
    for row, position in zip(ids, random.integers(1, length, count), strict=True):
        row[position], row[position + 1 :] = end, pad
    return ids


def _trim(row, search):
    """Returns the ids up to the end token, without padding."""
    row = row.tolist()
    if search.end_token_id in row:
        return row[: row.index(search.end_token_id) + 1]
    return [token for token in row if token != search.pad_token_id]


def _encoder_outputs(
    torch: Any,
    transformers: Any,
    path: str | PathLike[str],
    model: Any,
    num_sources: int,
    length: int,
    seed: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Runs a converted encoder and the original on random padded sources.

    Args:
        torch, transformers: The modules.
        path: Checkpoint path.
        model: The converted functional model.
        num_sources: Int, number of sources.
        length: Int, length of the longest source.
        seed: Int, seed for the sources.

    Returns:
        Tuple with the converted model's outputs, the original's outputs, and a boolean array that
        marks the sources with the same most probable classes in both. The outputs are logits, or
        vectors for an encoder without a head, at unmasked positions.
    """
    config = json.loads((Path(path) / "config.json").read_text(encoding="utf-8"))
    name = (config.get("architectures") or ["AutoModel"])[0]
    name = name.replace("ForPreTraining", "ForMaskedLM")
    original = getattr(transformers, name).from_pretrained(
        path, local_files_only=True, dtype=torch.float32
    )
    original.eval()
    encoder = model.get_layer("encoder")
    random = np.random.default_rng(seed)
    pad, low = encoder.pad_token_id, encoder.pad_token_id + 1
    ids = random.integers(low, get_vocabulary_size(encoder), (num_sources, length)).astype("int32")
    lengths = random.integers(1, length + 1, num_sources)
    mask = np.arange(length) < lengths[:, None]  # (B, S)
    ids = np.where(mask, ids, pad).astype("int32")
    inputs, theirs = {"token_ids": ids}, {"input_ids": ids, "attention_mask": mask}
    if len(model.inputs) > 1:
        types = (np.arange(length) >= lengths[:, None] // 2).astype("int32")
        inputs["token_type_ids"] = theirs["token_type_ids"] = types
    with torch.no_grad():
        tensors = {name: torch.tensor(value).long() for name, value in theirs.items()}
        expected = original(**tensors)
    expected = expected.logits if hasattr(expected, "logits") else expected.last_hidden_state
    expected = expected.numpy()
    outputs = model(inputs if len(inputs) > 1 else ids)
    outputs = np.array(outputs["encoder_outputs"] if isinstance(outputs, dict) else outputs)
    same = outputs.argmax(-1) == expected.argmax(-1)
    if outputs.ndim == 2:
        return outputs, expected, same
    return outputs[mask], expected[mask], (same | ~mask).all(axis=1)
