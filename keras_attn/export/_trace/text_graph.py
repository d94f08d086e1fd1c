from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from keras_attn._masks import END_OF_ROW
from keras_attn._models.vocabulary_side import Side, source_side
from keras_attn.export._passes.graph import copy_of, defined_names, nested_graphs, rename_values
from keras_attn.export._trace.search_function import SearchFunction
from keras_attn.export._trace.source_characters import MAX_PREFIX_CHARACTERS
from keras_attn.text._sentencepiece_tokenizer import SentencePieceTokenizer

if TYPE_CHECKING:
    import onnx

DOMAIN = "ai.onnx.contrib"
"""Domain of the operators of onnxruntime-extensions."""

# B texts, S source positions, T target positions, N hypotheses. The tokenizer returns a vector with
# the tokens of all texts, and the positions at which each text begins and ends in this vector.
ENCODE = """
encode (string[batch] text) => (int32[batch, source_length] source_ids, bool[batch, 1] has_tokens)
<
    int64[1] samples = {0}, float[1] alpha = {0}, bool[1] no = {0},
    int64[1] from_first = {0}, int64[1] from_second = {1}, int64[1] last = {-1},
    int64[1] far = {9223372036854775807}, int64[1, 1] nothing = {0},
    int64 zero = {0}, int64 one = {1}
>
{
    num_characters = ai.onnx.contrib.StringLength (text)        # (B,)
    all_numbers = Concat <axis = 0> (from_first, num_characters)
    most_characters = ReduceMax <keepdims = 0> (all_numbers)
    is_any_long = Greater (most_characters, max_characters)
    kept_text = If (is_any_long) <
        then_branch = cut () => (string[batch] cut_text)
        {
            cut_text = ai.onnx.contrib.StringRegexReplace <global_replace = 0>
                (text, long_text, its_beginning)
        },
        else_branch = keep () => (string[batch] same_text) { same_text = Identity (text) }
    >
    tokens, splits, offsets = ai.onnx.contrib.SentencepieceTokenizer
        (kept_text, samples, alpha, no, no, no, no)
    first_positions = Slice (splits, from_first, last)
    end_positions = Slice (splits, from_second, far)
    begin = Unsqueeze (first_positions, last)                   # (B, 1)
    end = Unsqueeze (end_positions, last)
    num_tokens = Sub (end, begin)
    count = Min (num_tokens, most_tokens)
    is_not_empty = Greater (count, zero)
    is_start_enough = Cast <to = 9> (accepts_empty_texts)
    has_tokens = Or (is_not_empty, is_start_enough)             # something to translate
    counts = Concat <axis = 0> (nothing, count)
    longest = ReduceMax <keepdims = 0> (counts)
    width = Add (longest, one)                                  # with the end token
    columns = Range (zero, width, one)                          # (S,)
    is_token = Less (columns, count)                            # (B, S)
    is_end = Equal (columns, count)
    position = Add (begin, columns)
    behind = Size (tokens)
    chosen = Where (is_token, position, behind)
    tokens_and_padding = Concat <axis = 0> (tokens, pad_token_id)
    ids = Gather (tokens_and_padding, chosen)
    ended = Where (is_end, end_token_id, ids)
    sentences = Shape (text)
    rows = Concat <axis = 0> (sentences, from_second)
    start = Expand (start_token_ids, rows)                      # (B, 0 or 1)
    source_ids = Concat <axis = 1> (start, ended)
}
"""

KNOWN_TOKENS = """
    is_known = Less (found_tokens, vocabulary_size)
    tokens = Where (is_known, found_tokens, unknown_token_id)
"""
"""Additional nodes of `encode` for a tokenizer with more pieces than the vocabulary: they replace
the ids of these pieces by the unknown token."""

SPREAD = """
spread (string[batch] text, int32[prefixes, prefix_length] read_prefix)
    => (int32[batch, prefix_length] prefix_ids)
<int64[1] one = {1}>
{
    sentences = Shape (text)
    rows = Concat <axis = 0> (sentences, one)
    prefix_ids = Expand (read_prefix, rows)                     # (B, P)
}
"""

DECODE = """
decode (int32[batch, n, time] token_ids, int32[batch, n] lengths, float[batch, n] found_scores,
        float[batch, n] found_log_probs, bool[batch, 1] has_tokens)
    => (string[batch, n] translations, float[batch, n] scores, float[batch, n] log_probs)
<
    bool yes = {1}, bool[1] no = {0}, int32[1] from_first = {0},
    int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}, int64[1] flat = {-1}
>
{
    all_hypotheses = Size (lengths)                             # B * N
    rows = Reshape (all_hypotheses, one)
    shape = Shape (token_ids)
    time = Slice (shape, two, three)
    rows_and_time = Concat <axis = 0> (rows, time)
    row_ids = Reshape <allowzero = 1> (token_ids, rows_and_time)     # (B*N, T)
    is_known = Less (row_ids, vocabulary_size)
    known = Where (is_known, row_ids, unknown_token_id)
    ids = Cast <to = 7> (known)
    factor = Cast <to = 6> (has_tokens)                         # (B, 1)
    kept_lengths = Mul (lengths, factor)
    row_lengths = Reshape (kept_lengths, flat)                  # (B*N,)
    texts = Loop (all_hypotheses, yes) <body = decode_row (int64 row, bool go_on)
        => (bool still, string[1] decoded)
    {
        still = Identity (go_on)
        ids_of_row = Gather (ids, row)                          # (T,)
        length = Gather (row_lengths, row)
        vector = Reshape (length, one)
        kept = Slice (ids_of_row, from_first, vector)
        decoded = ai.onnx.contrib.SentencepieceDecoder (kept, no)
    }>
    sentences_and_n = Shape (lengths)
    translations = Reshape <allowzero = 1> (texts, sentences_and_n)  # (B, N)
    weight = Cast <to = 1> (has_tokens)
    scores = Mul (found_scores, weight)
    log_probs = Mul (found_log_probs, weight)
}
"""


MAX_CHARACTERS = 32_768
"""Upper limit of `max_characters`. For larger numbers, `StringRegexReplace` cannot compile the
regular expression that truncates a text."""


def add_text(
    model: "onnx.ModelProto",
    source_tokenizer: SentencePieceTokenizer,
    target_tokenizer: SentencePieceTokenizer,
    function: SearchFunction,
    max_characters: int,
) -> None:
    """Adds tokenizers to a model of token ids, as operators of onnxruntime-extensions.

        text -> source ids, padding -> model -> ids of each hypothesis -> text

    The tokens of a text beyond the learned positions of the model are dropped. A text without
    tokens has empty translations, with the score and log probability 0. Only a language model that
    puts a start token before prompts continues an empty text.

    Args:
        model: `onnx.ModelProto` with the inputs and outputs of `export_onnx`; changed in place. Its
            inputs become `text`, string `(batch,)`, and the optional inputs `max_length`,
            `length_penalty`, `seeds`, and `target_prefix`, string `(batch,)` or `(1,)`, instead of
            `prefix_ids`. Its outputs become `translations`, string `(batch, hypotheses)`, `scores`
            and `log_probs`.
        source_tokenizer: `SentencePieceTokenizer`.
        target_tokenizer: `SentencePieceTokenizer`.
        function: `SearchFunction` from which the model was converted.
        max_characters: Int in [1, 32768], maximum number of characters of a source text. Longer
            texts are truncated.
    """
    from onnx import helper

    graph, target = model.graph, function.target
    source = function.source
    if source is None:
        source = source_side(function.encoder, function.search, source_tokenizer)
    sizes = {output.name: output.type for output in graph.output}["scores"]
    rename_values(graph, {"scores": "found_scores", "log_probs": "found_log_probs"})
    encode = _parse_encode(
        source_tokenizer,
        max_characters,
        source.max_length,
        pad_token_id=[source.pad_token_id],
        start_token_ids=[source.start],
        end_token_id=_end_token_id(source),
        accepts_empty_texts=function.accepts_empty_texts,
    )
    decode = _parse(
        DECODE,
        target_tokenizer,
        vocabulary_size=target_tokenizer.vocabulary_size,
        unknown_token_id=target_tokenizer.unknown_token_id,
    )
    before = [encode]
    if function.accept_target_prefix:
        read = _parse_encode(
            target_tokenizer,
            MAX_PREFIX_CHARACTERS,
            None,
            name="prefix",
            pad_token_id=[target.pad_token_id],
            start_token_ids=[[]],
            end_token_id=target.pad_token_id,
            accepts_empty_texts=False,
        )
        names = {"text": "target_prefix", "source_ids": "read_prefix", "has_tokens": "has_prefix"}
        rename_values(read, names)
        before += [read, _parse(SPREAD)]
    defaults = {"target_prefix": [b""], **function.defaults}
    declared = [value for part in (*before[:2], graph) for value in part.input]
    text, *options = [copy_of(value) for value in declared if value.name in ("text", *defaults)]
    for part in (graph, *before):
        rename_values(part, {value.name: f"{value.name}/value" for value in options})
    nodes = [node for value in options for node in _choice(value, defaults[value.name])]
    nodes += [*(node for part in before for node in part.node), *graph.node, *decode.node]
    del graph.node[:], graph.input[:], graph.output[:]
    graph.node.extend(nodes)
    graph.input.extend([text, *map(_optional, options)])
    graph.output.extend(decode.output)
    for output in graph.output:
        output.type.tensor_type.shape.CopyFrom(sizes.tensor_type.shape)
    for part in (*before, decode):
        graph.initializer.extend(part.initializer)
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))


def _optional(value: "onnx.ValueInfoProto") -> "onnx.ValueInfoProto":
    """Returns an optional input with the name and type of `value`.

    ONNX Runtime would log a warning for an input with a default value.
    """
    from onnx import helper

    kind = helper.make_optional_type_proto(value.type)
    return helper.make_value_info(value.name, kind)


def _choice(value: "onnx.ValueInfoProto", default: npt.ArrayLike) -> "list[onnx.NodeProto]":
    """Returns nodes that compute `{name}/value`: the optional input `name`, or its default."""
    from onnx import helper

    name, kind = value.name, value.type.tensor_type.elem_type
    default = np.array(default)
    tensor = helper.make_tensor(name, kind, default.shape, default.ravel().tolist())
    given = copy_of(value)
    given.name = f"{name}/given"
    missing = helper.make_tensor_value_info(f"{name}/default", kind, default.shape)
    get = helper.make_node("OptionalGetElement", [name], [given.name])
    constant = helper.make_node("Constant", [], [missing.name], value=tensor)
    return [
        helper.make_node("OptionalHasElement", [name], [f"{name}/is_given"]),
        helper.make_node(
            "If",
            [f"{name}/is_given"],
            [f"{name}/value"],
            then_branch=helper.make_graph([get], given.name, [], [given]),
            else_branch=helper.make_graph([constant], missing.name, [], [missing]),
        ),
    ]


def _end_token_id(source: Side) -> int:
    """Returns the id in the column after the last token of a source."""
    if source.add_end:
        return source.end[0]
    return END_OF_ROW if source.masks_only_trailing_padding else source.pad_token_id


def _parse_encode(
    tokenizer: SentencePieceTokenizer,
    max_characters: int,
    max_length: int | None,
    name: str | None = None,
    **other_inputs: npt.ArrayLike,
) -> "onnx.GraphProto":
    """Returns the graph `ENCODE`.

    It truncates long texts before tokenization, and the tokens to `max_length`, or `None`.
    """
    thousands, rest = divmod(max_characters, 1000)  # RE2 allows at most 1,000 repetitions
    beginning = ".{1000}" * thousands + f".{{{rest}}}"
    graph = ENCODE
    if tokenizer.has_extra_pieces:
        graph = graph.replace("    tokens, splits,", "    found_tokens, splits,").replace(
            "    first_positions =", KNOWN_TOKENS + "    first_positions ="
        )
        other_inputs["vocabulary_size"] = tokenizer.vocabulary_size
        other_inputs["unknown_token_id"] = tokenizer.unknown_token_id
    return _parse(
        graph,
        tokenizer,
        max_characters=np.array(max_characters),
        most_tokens=np.array(np.iinfo("int64").max if max_length is None else max_length),
        long_text=np.array([f"(?s)^({beginning}).+$"], object),
        its_beginning=np.array([r"\1"], object),
        name=name,
        **other_inputs,
    )


def _parse(
    text: str,
    tokenizer: SentencePieceTokenizer | None = None,
    name: str | None = None,
    **constants: npt.ArrayLike,
) -> "onnx.GraphProto":
    """Parses a graph, and adds the tokenizer and constants.

    The name of the graph becomes a prefix of all names except the inputs and outputs. Constants
    that are not arrays become int32 arrays.
    """
    from onnx import helper, numpy_helper, parser

    graph = parser.parse_graph(text)
    graph.name = name or graph.name
    for constant, value in constants.items():
        array = value if isinstance(value, np.ndarray) else np.array(value, "int32")
        graph.initializer.append(numpy_helper.from_array(array, constant))
    shared = {value.name for value in [*graph.input, *graph.output]}
    for inner in nested_graphs(graph):
        for node in inner.node:
            if tokenizer is not None and node.op_type.startswith("Sentencepiece"):
                node.attribute.append(helper.make_attribute("model", tokenizer.model))
        # The names must be unique in the whole model.
        rename_values(
            graph, {name: f"{graph.name}/{name}" for name in defined_names(inner) - shared}
        )
    return graph
