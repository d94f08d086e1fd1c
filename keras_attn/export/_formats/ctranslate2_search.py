"""Arguments of CTranslate2's `translate_batch` for a search of this library."""

from collections.abc import Mapping, Sequence
from typing import Any

from keras_attn._search.beam_decoder import BeamDecoder
from keras_attn._search.greedy_decoder import GreedyDecoder
from keras_attn._search.sampling_decoder import SamplingDecoder
from keras_attn._search.search import Search
from keras_attn.export._export_error import ExportError


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
            f"{type(search).__name__}, which CTranslate2 does not have. Replace the search with "
            "keras_attn.with_search."
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
    if search.suppressed_token_ids:
        sequences = [[tokens[id_]] for id_ in search.suppressed_token_ids]
        arguments["suppress_sequences"] = sequences
    neutral: dict[str, object] = {
        "forced_prefix_ids": [],
        "force_end_token": False,
        "score_prefix": True,
        "relative_max_length": None,
        "num_groups": 1,
        "coverage_penalty": 0.0,
    }
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
    for name, value in neutral.items():
        if config.get(name, value) != value:
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
