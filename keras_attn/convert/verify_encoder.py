import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from keras_attn._layer.get_vocabulary_size import get_vocabulary_size


def encoder_outputs(
    torch: Any,
    transformers: Any,
    folder: str | PathLike[str],
    model: Any,
    num_sources: int,
    length: int,
    seed: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Runs a converted encoder and the original on random padded sources.

    Args:
        torch, transformers: The modules.
        folder: Path of the checkpoint.
        model: The converted functional model.
        num_sources: Int, number of sources.
        length: Int, number of ids of the longest source.
        seed: Int, seed of the sources.

    Returns:
        Tuple of the outputs of the converted model, the outputs of the original, and a boolean
        array that marks the sources for which both models have the same most probable classes. The
        outputs are logits, or vectors of an encoder without a head, at unmasked positions.
    """
    config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    name = (config.get("architectures") or ["AutoModel"])[0]
    name = name.replace("ForPreTraining", "ForMaskedLM")
    original = getattr(transformers, name).from_pretrained(
        folder, local_files_only=True, dtype=torch.float32
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
    found = model(inputs if len(inputs) > 1 else ids)
    found = np.array(found["encoder_outputs"] if isinstance(found, dict) else found)
    same = found.argmax(-1) == expected.argmax(-1)
    if found.ndim == 2:
        return found, expected, same
    return found[mask], expected[mask], (same | ~mask).all(axis=1)
