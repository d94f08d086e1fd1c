"""Arguments of CTranslate2's `translate_batch` for a search of this library."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from keras_attn._search.beam_decoder import BeamDecoder
from keras_attn._search.greedy_decoder import GreedyDecoder
from keras_attn._search.sampling_decoder import SamplingDecoder
from keras_attn._search.search import Search
from keras_attn.export._export_error import ExportError

KNOWN = {
    *("max_length", "min_length", "suppressed_token_ids", "suppressed_sequences"),
    *("no_repeat_ngram_size", "repetition_penalty"),
    *("beam_width", "num_hypotheses", "patience", "stop", "length_penalty", "length_penalty_form"),
    *("temperature", "top_k", "top_p"),
    *("start_token_id", "end_token_id", "pad_token_id"),  # are in the model
    *("return_alignments", "return_token_log_probs", "return_top_tokens"),  # only more results
    "seed",  # does not change the search
    "diversity_strength",  # needs num_groups
}
"""Settings that `translate_arguments` translates, or that need no argument."""
NEUTRAL = {
    "relative_max_length": None,
    "forced_prefix_ids": [],
    "other_end_token_ids": [],
    "stop_sequences": [],
    "rules": [],
}
"""Values without effect, if they are not the default of the setting."""


def translate_arguments(search: Search, tokens: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Returns the arguments of `translate_batch`, and the search settings without an argument.

    Args:
        search: `BeamDecoder`, `GreedyDecoder` or `SamplingDecoder`.
        tokens: List of the target tokens. The token at index i has the id i.

    Raises:
        ExportError: If the search is of another class.
    """
    if type(search) not in (BeamDecoder, GreedyDecoder, SamplingDecoder):
        raise ExportError(
            "Expected a BeamDecoder, a GreedyDecoder or a SamplingDecoder. Received: "
            f"{type(search).__name__}. Replace the search with keras_attn.with_search."
        )
    config, left_out = search.get_config(), []
    arguments: dict[str, Any] = {
        "max_decoding_length": config["max_length"],
        # By default, CTranslate2 returns no empty hypotheses. The value 0 allows them.
        "min_decoding_length": config["min_length"],
    }
    for name in ("no_repeat_ngram_size", "repetition_penalty"):
        if config[name] not in (0, 1.0):
            arguments[name] = config[name]
    sequences = [[each] for each in search.suppressed_token_ids] + search.suppressed_sequences
    if sequences:
        arguments["suppress_sequences"] = [[tokens[id_] for id_ in each] for each in sequences]
    if isinstance(search, BeamDecoder):
        arguments |= _beams(config)
        if search.stop != "collected":
            left_out.append(f"stop={search.stop!r} (only 'collected')")
        if search.length_penalty_form != "average_with_end" and search.length_penalty:
            left_out.append(
                f"length_penalty_form={search.length_penalty_form!r} (only 'average_with_end')"
            )
    elif isinstance(search, SamplingDecoder):
        arguments |= {
            "beam_size": 1,
            "num_hypotheses": config["num_hypotheses"],
            "sampling_temperature": config["temperature"],
            "sampling_topk": config["top_k"] or 0,
            "sampling_topp": config["top_p"] or 1.0,
        }
    else:
        arguments["beam_size"] = 1
    for field in dataclasses.fields(search):
        name = field.name
        if name not in KNOWN and config[name] != NEUTRAL.get(name, field.default):
            left_out.append(f"{name}={config[name]!r}")
    return arguments, left_out


def _beams(config: Mapping[str, Any]) -> dict[str, Any]:
    arguments = {
        "beam_size": config["beam_width"],
        "length_penalty": config["length_penalty"],
        "num_hypotheses": config["num_hypotheses"],
    }
    if config["patience"] != 1.0:
        arguments["patience"] = config["patience"]
    return arguments
