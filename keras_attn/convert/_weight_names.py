"""Weight names with prefixes that `save_pretrained` does not write."""

import dataclasses
from collections.abc import Iterable

import numpy as np

from keras_attn.convert._conversion_error import ConversionError
from keras_attn.convert._weight_copy import WeightSource


@dataclasses.dataclass(frozen=True)
class BaseModel:
    """The part of a transformers model without head, such as `model` in `OPTForCausalLM`.

    Args:
        prefix: String, prefix of its weights in a model with a head, such as `"model."`. Empty
            without prefix, as in T5.
        tables: Embedding names without the prefix. Each checkpoint contains the first or a later
            one.
        heads: Prefixes of all weights that do not belong to it.
    """

    prefix: str
    tables: tuple[str, ...]
    heads: tuple[str, ...]


_FAIRSEQ = BaseModel(
    "model.",
    ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"),
    ("lm_head.", "final_logits_bias"),
)
_T5 = BaseModel("", ("shared.weight", "encoder.embed_tokens.weight"), ("lm_head.",))
_LLAMA = BaseModel("model.", ("embed_tokens.weight",), ("lm_head.",))
_BERT = ("embeddings.word_embeddings.weight",)
_ROBERTA = BaseModel("roberta.", _BERT, ("lm_head.", "classifier."))

BASE_MODELS = {
    **dict.fromkeys(("marian", "bart", "mbart", "m2m_100", "pegasus", "fsmt"), _FAIRSEQ),
    **dict.fromkeys(("t5", "mt5"), _T5),
    "gpt2": BaseModel("transformer.", ("wte.weight",), ("lm_head.",)),
    "opt": BaseModel("model.", ("decoder.embed_tokens.weight",), ("lm_head.",)),
    **dict.fromkeys(("llama", "mistral", "qwen2", "gemma"), _LLAMA),
    "bert": BaseModel("bert.", _BERT, ("cls.", "classifier.")),
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert"), _ROBERTA),
    "distilbert": BaseModel("distilbert.", _BERT, ("vocab_", "pre_classifier.", "classifier.")),
}
"""Dict from `model_type` to the base model."""


class RenamedWeights:
    """Checkpoint weights under the names that `save_pretrained` writes for a model with head.

    Published files contain names for a model without a head, such as `decoder.embed_tokens.weight`
    in OPT instead of `model.decoder.embed_tokens.weight`. Training programs add prefixes, such as
    `module.` or `_orig_mod.`. The embedding determines the prefix, so the result is unambiguous: if
    its name is P + `decoder.embed_tokens.weight`, base model weights begin with P. Head weights
    begin with the part of P before the base model's prefix, or with P if there are none.

    Args:
        files: `WeightSource`, such as `WeightFiles`.
        base: `BaseModel`.

    Attributes:
        shapes: Dict from the names that `save_pretrained` writes to shapes.

    Raises:
        ConversionError: If the file contains an unmerged adapter or the embeddings of several
            models, or two weights would get the same name.
    """

    def __init__(self, files: WeightSource, base: BaseModel) -> None:
        self._files = files
        adapters = [name for name in files.shapes if ".lora_" in name]
        if adapters:
            raise ConversionError(
                f"Expected the weights of a whole model. Received: {adapters[0]}, a part of a LoRA "
                "adapter. Merge it with merge_and_unload() of PEFT, and save the result with "
                "save_pretrained."
            )
        self._stored: dict[str, str] = {}
        prefix = _stored_prefix(files.shapes, base)
        head_prefix = _head_prefix(files.shapes, prefix or "", base)
        for stored in files.shapes:
            name = stored
            if prefix is not None:
                name = _usual_name(stored, prefix, head_prefix, base)
            if name in self._stored:
                raise ConversionError(
                    f"Expected one weight with the name {name}. Received: {self._stored[name]} and "
                    f"{stored}. Save the model with save_pretrained."
                )
            self._stored[name] = stored
        self.shapes = {name: files.shapes[stored] for name, stored in self._stored.items()}

    def read(self, name: str) -> np.ndarray:
        """Returns a weight as float32."""
        return self._files.read(self._stored[name])


def _stored_prefix(names: Iterable[str], base: BaseModel) -> str | None:
    """Returns the prefix of base model weights in a file, or `None` without an embedding."""
    names = list(names)
    for table in base.tables:
        matches = [name for name in names if f".{name}".endswith(f".{table}")]
        if len(matches) > 1:
            raise ConversionError(
                f"Expected the weights of one model. Received: the embeddings {matches}. Save the "
                "model that you want to convert with save_pretrained."
            )
        if matches:
            return matches[0].removesuffix(table)
    return None


def _head_prefix(names: Iterable[str], prefix: str, base: BaseModel) -> str:
    """Returns the prefix of weights outside of the base model."""
    candidates = (prefix.removesuffix(base.prefix), prefix)
    for candidate in candidates:
        heads = tuple(candidate + head for head in base.heads)
        if any(name.startswith(heads) for name in names):
            return candidate
    return candidates[0]


def _usual_name(stored: str, prefix: str, head_prefix: str, base: BaseModel) -> str:
    """Returns the name that `save_pretrained` writes for a weight."""
    tail = stored.removeprefix(head_prefix)
    if stored.startswith(head_prefix) and tail.startswith(base.heads):
        return tail
    if stored.startswith(prefix):
        return base.prefix + stored.removeprefix(prefix)
    return stored
