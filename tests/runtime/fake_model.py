"""Creates a tiny ONNX file with the interface of an exported translator, without Keras.

Its best hypothesis is a copy of the source, truncated to `max_length` tokens; its second hypothesis
is empty. Each token has the log probability -1, so the log probability of a hypothesis is -length,
and its score is -length / max(length, 1)^length_penalty. Alignments are the identity. With a prefix
input, the model copies prefix and source. The first token of a sampling model after the prefix is
8 + seed % 50. The most probable tokens are the token itself, with the log probability -1, and the
unknown token 3 with -2; both are 0 at other positions.
"""

import base64
import hashlib
import io
import json

import onnx
import sentencepiece
from onnx import TensorProto, helper

SENTENCES = [
    "a small red house stands by the river",
    "two dogs run over the green field",
    "the old man reads a book in the garden",
    "children play with a ball near the tree",
    "a woman in a blue coat waits for the bus",
    "some text",
]


def train_tokenizer(vocabulary_size=60, sentences=SENTENCES):
    """Returns the bytes of a SentencePiece model trained on a few sentences."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences * 4),
        model_writer=model,
        vocab_size=vocabulary_size,
        hard_vocab_limit=False,
        pad_id=0,
        bos_id=1,
        eos_id=2,
        unk_id=3,
        minloglevel=2,
    )
    return model.getvalue()


def metadata(tokenizer, further_inputs=(), **settings):
    """Returns the metadata of an exported file, without checksum.

    Args:
        tokenizer: bytes of a SentencePiece model.
        further_inputs: names of additional inputs of the search.
        **settings: settings that differ from the defaults, such as `versions={}`. Nested keys have
            two underscores, such as `search__max_length=5`.
    """
    side = {"vocabulary_size": 64, "pad_token_id": 0, "add_end": True, "tokenizer": "sentencepiece"}
    defaults = {
        "kind": "generation",
        "inputs": {
            "source_ids": {"kind": "ids", "dtype": "int32", "shape": ["batch", "source_length"]}
        },
        "source": {**side, "end_token_id": 2},
        "target": {**side, "start_token_id": 1, "end_token_id": 2},
        "search": {
            "inputs": ["max_length", "length_penalty", *further_inputs],
            "beam_width": 4,
            "num_hypotheses": 2,
            "max_length": 100,
            "length_penalty": 1.0,
        },
        "versions": {"keras_attn": "0.1.0"},
    }
    # Replace a whole part after its entries.
    for path, value in sorted(settings.items(), key=lambda item: "__" not in item[0]):
        part, _, name = path.rpartition("__")
        (defaults[part] if part else defaults)[name] = value
    return {
        "keras_attn.format": "2",
        "keras_attn.settings": json.dumps(defaults),
        "keras_attn.source_tokenizer": base64.b64encode(tokenizer).decode(),
    }


def with_checksum(properties):
    """Returns the metadata with the checksum that the exporter adds."""
    text = json.dumps(properties, sort_keys=True)
    return properties | {"keras_attn.checksum": hashlib.sha256(text.encode()).hexdigest()}


def with_file_checksum(content):
    """Returns the bytes of an ONNX file with the final checksum that the exporter adds."""
    entry = onnx.StringStringEntryProto(
        key="keras_attn.file_checksum", value=hashlib.sha256(content).hexdigest()
    )
    # Concatenated protobuf messages are merged, so this appends the entry.
    return content + onnx.ModelProto(metadata_props=[entry]).SerializeToString()


def build_model(
    metadata,
    alignments=True,
    prefix=False,
    token_log_probs=False,
    is_stochastic=False,
    top_tokens=False,
):
    """Returns the ONNX model described above, with these `metadata_props`."""
    node, integers = helper.make_node, TensorProto.INT32
    before = [*(["prefix_ids"] if prefix else []), *(["drawn"] if is_stochastic else [])]
    constants = [
        helper.make_tensor("one_length", TensorProto.INT64, [1], [1]),
        helper.make_tensor("from_first", integers, [1], [0]),
        helper.make_tensor("time_axis", integers, [1], [1]),
        helper.make_tensor("hypothesis_axis", TensorProto.INT64, [1], [1]),
        helper.make_tensor("sum_axis", TensorProto.INT64, [1], [2]),
        helper.make_tensor("end_id", integers, [], [2]),
        helper.make_tensor("zero", integers, [], [0]),
        helper.make_tensor("first_position", TensorProto.INT64, [1], [0]),
        helper.make_tensor("last_axis", TensorProto.INT64, [1], [2]),
        helper.make_tensor("one", TensorProto.FLOAT, [], [1.0]),
    ]
    nodes = [
        # token_ids: the copy, and a second hypothesis with an end token and padding.
        node("Reshape", ["max_length", "one_length"], ["limit"]),
        node("Concat", [*before, "source_ids"], ["said"], axis=1),
        node("Slice", ["said", "from_first", "limit", "time_axis"], ["cut"]),  # (B, T)
        node("Unsqueeze", ["cut", "hypothesis_axis"], ["copy"]),  # (B, 1, T)
        node("Mul", ["copy", "zero"], ["padding"]),
        node("Slice", ["padding", "first_position", "one_length", "last_axis"], ["first"]),
        node("Add", ["first", "end_id"], ["end"]),  # (B, 1, 1)
        node("Slice", ["padding", "one_length", "far", "last_axis"], ["rest"]),
        node("Concat", ["end", "rest"], ["empty"], axis=2),  # (B, 1, T)
        node("Concat", ["copy", "empty"], ["token_ids"], axis=1),  # (B, 2, T)
        # lengths: number of ids greater than the end id.
        node("Greater", ["token_ids", "end_id"], ["is_token"]),
        node("Cast", ["is_token"], ["token_count"], to=integers),
        node("ReduceSum", ["token_count", "sum_axis"], ["lengths"], keepdims=0),  # (B, 2)
        # scores
        node("Cast", ["lengths"], ["costs"], to=TensorProto.FLOAT),
        node("Neg", ["costs"], ["log_probs"]),
        node("Max", ["costs", "one"], ["denominator"]),
        node("Pow", ["denominator", "length_penalty"], ["penalty"]),
        node("Div", ["log_probs", "penalty"], ["scores"]),
    ]
    constants.append(helper.make_tensor("far", TensorProto.INT64, [1], [2**31 - 1]))
    hypotheses = ["batch", 2]
    outputs = [
        helper.make_tensor_value_info("token_ids", integers, [*hypotheses, "target_length"]),
        helper.make_tensor_value_info("lengths", integers, hypotheses),
        helper.make_tensor_value_info("scores", TensorProto.FLOAT, hypotheses),
        helper.make_tensor_value_info("log_probs", TensorProto.FLOAT, hypotheses),
    ]
    if alignments:
        shape = [*hypotheses, "target_length", "source_length"]
        constants.append(helper.make_tensor("row_axes", TensorProto.INT64, [2], [0, 1]))
        constants.append(helper.make_tensor("from_second", TensorProto.INT64, [1], [1]))
        nodes += [
            node("Shape", ["token_ids"], ["rows"]),
            node("Shape", ["source_ids"], ["source_shape"], start=1),
            node("Shape", ["token_ids"], ["target_shape"], start=2),
            node("Concat", ["target_shape", "source_shape"], ["square"], axis=0),
            node("ConstantOfShape", ["square"], ["nothing"]),
            node("EyeLike", ["nothing"], ["identity"], dtype=TensorProto.FLOAT),  # (T, S)
            node("Concat", ["rows", "source_shape"], ["alignments_shape"], axis=0),
            node("Expand", ["identity", "alignments_shape"], ["alignments"]),  # (B, 2, T, S)
        ]
        outputs.append(helper.make_tensor_value_info("alignments", TensorProto.FLOAT, shape))
    if token_log_probs:
        shape = [*hypotheses, "target_length"]
        nodes += [
            node("Cast", ["is_token"], ["token_costs"], to=TensorProto.FLOAT),
            node("Neg", ["token_costs"], ["token_log_probs"]),  # (B, 2, T)
        ]
        outputs.append(helper.make_tensor_value_info("token_log_probs", TensorProto.FLOAT, shape))
    if top_tokens:
        shape = [*hypotheses, "target_length", 2]
        constants.append(helper.make_tensor("rank_axis", TensorProto.INT64, [1], [3]))
        constants.append(helper.make_tensor("unknown_id", integers, [], [3]))
        nodes += [
            node("Mul", ["token_ids", "token_count"], ["own"]),
            node("Mul", ["token_count", "unknown_id"], ["unknown"]),
            node("Cast", ["token_count"], ["own_costs"], to=TensorProto.FLOAT),
            node("Neg", ["own_costs"], ["own_value"]),
            node("Add", ["own_value", "own_value"], ["unknown_value"]),
        ]
        for name, parts in (
            ("top_token_ids", ["own", "unknown"]),
            ("top_token_log_probs", ["own_value", "unknown_value"]),
        ):
            ranks = [f"{part}_rank" for part in parts]
            nodes += [
                node("Unsqueeze", [part, "rank_axis"], [rank])
                for part, rank in zip(parts, ranks, strict=True)
            ]
            nodes.append(node("Concat", ranks, [name], axis=3))  # (B, 2, T, 2)
            kind = integers if name == "top_token_ids" else TensorProto.FLOAT
            outputs.append(helper.make_tensor_value_info(name, kind, shape))
    if is_stochastic:
        constants.append(helper.make_tensor("fifty", integers, [], [50]))
        constants.append(helper.make_tensor("eight", integers, [], [8]))
        nodes[:0] = [
            node("Mod", ["seeds", "fifty"], ["remainder"]),
            node("Add", ["remainder", "eight"], ["number"]),
            node("Unsqueeze", ["number", "hypothesis_axis"], ["drawn"]),  # (B, 1)
        ]
    seeds_info = helper.make_tensor_value_info("seeds", integers, ["batch"])
    prefix_info = helper.make_tensor_value_info("prefix_ids", integers, ["batch", "prefix_length"])
    graph = helper.make_graph(
        nodes,
        "copy",
        [
            helper.make_tensor_value_info("source_ids", integers, ["batch", "source_length"]),
            helper.make_tensor_value_info("max_length", integers, []),
            helper.make_tensor_value_info("length_penalty", TensorProto.FLOAT, []),
            *([prefix_info] if prefix else []),
            *([seeds_info] if is_stochastic else []),
        ],
        outputs,
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    helper.set_model_props(model, metadata)
    onnx.checker.check_model(model)
    return model


IMAGE = {"kind": "image", "dtype": "float32", "shape": ["batch", "height", 2]}


def write_image_model(path, tokenizer_model, image=IMAGE, **settings):
    """A file whose best hypothesis has the pixels of the image as its ids, row by row.

    Args:
        path: path of the file.
        tokenizer_model: bytes of a SentencePiece model.
        image: dict, the entry of the image in the settings.
        **settings: see `metadata`.
    """
    settings = {"inputs": {"image": image}, "source": None, **settings}
    model = build_model(metadata(tokenizer_model, ["prefix_ids"], **settings), prefix=True)
    graph = model.graph
    del graph.input[0]
    graph.initializer.append(helper.make_tensor("flat", TensorProto.INT64, [2], [0, -1]))
    graph.input.append(
        helper.make_tensor_value_info("image", TensorProto.FLOAT, list(image["shape"]))
    )
    nodes = [
        helper.make_node("Reshape", ["image", "flat"], ["pixels"]),
        helper.make_node("Cast", ["pixels"], ["source_ids"], to=TensorProto.INT32),
    ]
    nodes += list(graph.node)
    del graph.node[:]
    graph.node.extend(nodes)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path
