from typing import Any

import keras
import numpy as np

from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn._layer.get_vocabulary_size import get_vocabulary_size
from keras_attn.models.generation import (
    Generation,
    empty_hypothesis,
    hypotheses_of_row,
    pieces,
)
from keras_attn.models.model_inputs import reads_ids
from keras_attn.models.side import source_side


def generate(
    model: Any,
    inputs: Any,
    source_tokenizer: Any = None,
    target_tokenizer: Any = None,
    batch_size: int = 32,
    return_details: bool = False,
    verbose: Any = 0,
) -> Any:
    """Implements `GenerationModel.generate`.

    Args:
        model: `GenerationModel`.
        inputs, source_tokenizer, target_tokenizer, batch_size, return_details, verbose: See
            `GenerationModel.generate`.

    Returns:
        See `GenerationModel.generate`.
    """
    check_positive_integer("batch_size", batch_size)
    if reads_ids(model.source):
        sources, is_text = _read_sources(model, inputs, source_tokenizer)
        lengths = [len(ids) for ids, _ in sources]
        # Sources of similar lengths need little padding. Empty sources need no search.
        order = [row for row in np.argsort(lengths, kind="stable").tolist() if lengths[row]]

        def batch_of_ids(rows):
            return _pad([sources[row][0] for row in rows], model)

        batch: Any = batch_of_ids
    else:
        arrays, count = _read_arrays(model, inputs)
        sources, lengths, is_text = [([], False)] * count, [None] * count, False
        order = range(count)

        def batch_of_arrays(rows):
            return {name: values[rows] for name, values in arrays.items()}

        batch = batch_of_arrays

    if target_tokenizer is None and is_text:
        target_tokenizer = source_tokenizer
    _check_tokenizer("target_tokenizer", target_tokenizer, model.decoder)
    found = [None] * len(sources)
    progress = keras.utils.Progbar(len(sources), verbose=verbose, unit_name="source")
    for start in range(0, len(order), batch_size):
        rows = list(order[start : start + batch_size])
        results = model.predict_on_batch(batch(rows))
        for place, row in enumerate(rows):
            found[row] = hypotheses_of_row(
                results, place, lengths[row], model.search, target_tokenizer
            )
        if verbose:
            progress.update(start + len(rows))
    nothing = [empty_hypothesis(model.search, target_tokenizer is not None)]
    found = [nothing if hypotheses is None else hypotheses for hypotheses in found]
    if not return_details:
        name = "token_ids" if target_tokenizer is None else "text"
        return [getattr(hypotheses[0], name) for hypotheses in found]
    return [
        Generation(
            **vars(hypotheses[0]),
            hypotheses=tuple(hypotheses),
            source_pieces=pieces(source_tokenizer, ids) if is_text else None,
            truncated=truncated,
        )
        for hypotheses, (ids, truncated) in zip(found, sources, strict=True)
    ]


def _read_sources(model, inputs, tokenizer):
    """Converts texts or lists of ids to the input ids of the encoder.

    Returns:
        Tuple of a list and a bool. The list contains a pair for each source: its ids, and whether
        they were truncated. The bool is whether the inputs are texts.
    """
    if isinstance(inputs, str | bytes | dict) or not hasattr(inputs, "__iter__"):
        raise ValueError(
            "Expected inputs to be a list of texts, or of lists of ids. Received: inputs of type "
            f"{type(inputs).__name__}. Pass [text] for one text."
        )
    inputs = list(inputs)
    is_text = bool(inputs) and all(isinstance(each, str) for each in inputs)
    encoder = model.source_encoder
    _check_tokenizer("source_tokenizer", tokenizer, encoder)
    if not is_text:
        return [_checked_ids(each, model) for each in inputs], False
    if tokenizer is None:
        raise ValueError(
            "Expected a source_tokenizer for texts. Received: source_tokenizer=None. Pass the "
            "tokenizer of the training data, or ids."
        )
    side = source_side(encoder, model.search, tokenizer)
    sources = []
    for ids in tokenizer.encode(inputs):
        kept = list(ids[: side.max_length])
        # A language model can continue its start token. Other models have no input for an empty
        # text.
        is_empty = not kept and (side.add_end or not side.add_start)
        sources.append(([] if is_empty else side.with_special_ids(kept), len(kept) < len(ids)))
    return sources, True


def _checked_ids(ids, model):
    array = np.asarray(ids)
    if array.size == 0:
        return [], False
    size = get_vocabulary_size(model.source_encoder)
    is_known = size is None or array.max() < size
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.min() < 0 or not is_known:
        below = "" if size is None else f" below {size}"
        raise ValueError(
            f"Expected each source to be a list of ids of at least 0{below}, or a text. Received: "
            f"source={ids!r}. Pass ids of the source vocabulary."
        )
    ids = array.tolist()
    while ids and ids[-1] == _pad_token_id(model):
        ids.pop()
    return ids, False


def _check_tokenizer(name, tokenizer, layer):
    size = get_vocabulary_size(layer)
    if tokenizer is not None and size is not None and tokenizer.vocabulary_size > size:
        raise ValueError(
            f"Expected {name} to have at most {size} ids, the vocabulary of the model. Received: "
            f"{name} with vocabulary_size={tokenizer.vocabulary_size}. Pass the tokenizer of the "
            "training data."
        )


def _pad(sources, model):
    length = max(map(len, sources))
    if keras.backend.backend() == "jax":
        # Speed: JAX compiles the search for each shape, so use few lengths.
        length = -(-length // 8) * 8
    ids = np.full((len(sources), length), _pad_token_id(model), model.source.dtype)
    for row, source in zip(ids, sources, strict=True):
        row[: len(source)] = source
    return ids


def _pad_token_id(model):
    return getattr(model.source_encoder, "pad_token_id", model.search.pad_token_id)


def _read_arrays(model, inputs):
    """Returns a dict from input names to arrays, and the number of rows of the arrays."""
    names = [tensor.name for tensor in model.inputs]
    if not isinstance(inputs, dict) and len(names) == 1:
        inputs = {names[0]: inputs}
    if not isinstance(inputs, dict) or set(inputs) != set(names):
        received = list(inputs) if isinstance(inputs, dict) else type(inputs).__name__
        raise ValueError(
            f"Expected inputs to be a dict of arrays with the keys {names}. Received: "
            f"inputs={received}."
        )
    arrays = {name: np.asarray(values) for name, values in inputs.items()}
    counts = {name: len(values) for name, values in arrays.items()}
    if len(set(counts.values())) != 1:
        raise ValueError(
            "Expected input arrays with the same number of rows. Received: numbers of rows "
            f"{counts}. Pass one row per source."
        )
    return arrays, next(iter(counts.values()))
