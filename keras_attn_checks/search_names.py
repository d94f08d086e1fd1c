"""Names of the arguments of searches, in this library and in other libraries."""

from collections.abc import Collection, Iterable

from keras_attn_checks.options import option_names
from keras_attn_checks.search_options import OPTIONS

SEARCH_ARGUMENTS = {name: frozenset(option_names(options)) for name, options in OPTIONS.items()}
"""Dict from the name of each search class to the names of its arguments, without `decoder`."""

OTHER_NAMES = {
    "bad_words_ids": "suppressed_token_ids, or suppressed_sequences of several tokens",
    "beam_size": "beam_width",
    "begin_suppress_tokens": None,
    "bos_token_id": "start_token_id",
    "coverage_penalty_weight": "coverage_penalty",
    "decoder_start_token_id": "start_token_id",
    "diversity_penalty": "diversity_strength, with num_groups",
    "do_sample": "SamplingDecoder as search_class or --search-class",
    "early_stopping": "stop='collected' for True, 'heuristic' for False, 'exact' for \"never\"",
    "eos_token_id": "end_token_id, and other_end_token_ids of a list",
    "forced_bos_token_id": "forced_prefix_ids=[ID]",
    "forced_eos_token_id": "force_end_token=True",
    "length_penalty_weight": "length_penalty, with length_penalty_form='gnmt'",
    "logprobs": "return_token_log_probs, and return_top_tokens for the most probable tokens",
    "max_new_tokens": "max_length, and relative_max_length=None",
    "max_tokens": "max_length",
    "min_new_tokens": "min_length",
    "min_tokens": "min_length",
    "num_beam_groups": "num_groups",
    "num_beams": "beam_width",
    "num_return_sequences": "num_hypotheses",
    "output_attentions": "return_alignments",
    "output_logits": "return_top_tokens, the most probable tokens at each position",
    "output_scores": "return_token_log_probs, or return_top_tokens for the most probable tokens",
    "penalty_alpha": None,
    "renormalize_logits": None,
    "return_alternatives": "AlternativesDecoder as search_class, with num_hypotheses",
    "return_logits_vocab": "return_top_tokens, the most probable tokens at each position",
    "stop_strings": "stop_sequences of ids, or stop_texts in generate and the runtime",
    "stop_token_ids": "other_end_token_ids",
    "suppress_tokens": "suppressed_token_ids",
    "top_logprobs": "return_top_tokens",
    "top_n_tokens": "return_top_tokens",
    "typical_p": None,
}
"""Dict from argument names in transformers and other libraries to the argument of our searches.
`None` if our searches have no such argument. Names that are the same in all libraries, such as
`length_penalty`, are not listed."""


def unknown_arguments_problem(
    search_class: str | None, unknown: Iterable[str], known: Collection[str]
) -> str:
    """Returns the message of an error for unknown arguments of a search.

    Args:
        search_class: String, name of the class. `None` if the class is not known yet.
        unknown: Names of the unknown arguments.
        known: Names that the class accepts.
    """
    unknown = sorted(unknown)
    parts = [
        f"Expected arguments of {search_class or 'a search'}: {', '.join(sorted(known))}.",
        f"Received: {', '.join(unknown)}.",
        *(hint for name in unknown if (hint := other_name_hint(name))),
    ]
    others = {name for name in unknown if name not in OTHER_NAMES}
    for each, names in SEARCH_ARGUMENTS.items():
        if search_class not in (None, each) and others and others <= names:
            parts.append(f"To use these arguments, pass {each} as search_class or --search-class.")
            break
    return " ".join(parts)


def other_name_hint(name: str) -> str | None:
    """Returns a sentence with our name for an argument of another library, `None` if unknown."""
    if name not in OTHER_NAMES:
        return None
    own = OTHER_NAMES[name]
    if own is None:
        return f"No search has a setting such as {name}."
    return f"Instead of {name}, use {own}."
