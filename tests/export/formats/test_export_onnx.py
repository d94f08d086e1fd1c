import base64
import json
import sys
from types import SimpleNamespace

import keras
import numpy as np
import onnx
import pytest
from keras_attn_runtime import Translator

from keras_attn import (
    AttentionRNNCell,
    BahdanauAttention,
    BeamDecoder,
    GenerationModel,
    GreedyDecoder,
    RNNDecoder,
    rnn_seq2seq,
    transformer_seq2seq,
)
from keras_attn.export import ExportError, export_onnx
from keras_attn.export._checks.parity_sentences import parity_prefixes, parity_sentences
from keras_attn.export._formats.file_metadata import describe
from keras_attn.export._passes.graph import defined_names, nested_graphs, subgraphs
from keras_attn.export._trace.search_function import SearchFunction
from tests.backend import precision
from tests.export.conversion_steps import record_conversions, replace_conversion
from tests.export.small_graphs import all_initializers, assert_no_weights_in_loops
from tests.export.small_translator import SOURCE, make_translator, session
from tests.slow_cases import all_slow_but

IDS = np.array([[5, 6, 7, 2], [9, 2, 0, 0]], "int32")


def inputs(source_ids=IDS, max_length=30, length_penalty=1.0):
    return {
        "source_ids": source_ids,
        "max_length": np.array(max_length, "int32"),
        "length_penalty": np.array(length_penalty, "float32"),
    }


def run(path, *arguments):
    opened = session(path)
    names = [output.name for output in opened.get_outputs()]
    return dict(zip(names, opened.run(None, inputs(*arguments)), strict=True))


def test_inputs_and_outputs_are_those_of_the_contract(exported):
    opened = session(exported[0])
    assert {each.name: (each.type, each.shape) for each in opened.get_inputs()} == {
        "source_ids": ("tensor(int32)", ["batch", "source_length"]),
        "max_length": ("tensor(int32)", []),
        "length_penalty": ("tensor(float)", []),
        "min_length": ("tensor(int32)", []),
        "beam_width": ("tensor(int32)", []),
        "num_hypotheses": ("tensor(int32)", []),
        "patience": ("tensor(float)", []),
    }
    assert {each.name: (each.type, each.shape) for each in opened.get_outputs()} == {
        "token_ids": ("tensor(int32)", ["batch", "hypotheses", "length"]),
        "lengths": ("tensor(int32)", ["batch", "hypotheses"]),
        "scores": ("tensor(float)", ["batch", "hypotheses"]),
        "log_probs": ("tensor(float)", ["batch", "hypotheses"]),
    }


def test_one_file_holds_settings_and_vocabularies(onnx_model, translator, tokenizers):
    entries = {entry.key: entry.value for entry in onnx_model.metadata_props}
    assert entries["keras_attn.format"] == "3"
    settings = json.loads(entries["keras_attn.settings"])
    assert settings.pop("versions")["keras"]
    search = settings.pop("search")
    side = {
        "pad_token_id": 0,
        "start_token_id": None,
        "end_token_id": 2,
        "add_start": False,
        "add_end": True,
        "max_length": None,
        "tokenizer": "sentencepiece",
        "language": None,
        "masks_only_trailing_padding": False,
        "is_prompt": False,
    }
    sizes = [tokenizer.vocabulary_size for tokenizer in tokenizers]
    assert settings == {
        "kind": "generation",
        "inputs": {
            "source_ids": {"kind": "ids", "dtype": "int32", "shape": ["batch", "source_length"]}
        },
        "source": {**side, "vocabulary_size": sizes[0], "masks_only_trailing_padding": True},
        "target": {**side, "vocabulary_size": sizes[1], "start_token_id": 1},
    }
    expected = translator.search.get_config()
    for name in ("decoder", "dtype", "name", "rules", "trainable"):
        del expected[name]
    assert search.pop("class") == "BeamDecoder"
    settings = ["min_length", "beam_width", "num_hypotheses", "patience"]
    assert search.pop("inputs") == ["max_length", "length_penalty", *settings]
    assert search == json.loads(json.dumps(expected))
    parity = json.loads(entries["keras_attn.card"])["parity"]
    assert parity["sentences"] >= 200 and parity["best_equal"] == 1.0
    for side, tokenizer in zip(("source", "target"), tokenizers, strict=True):
        assert base64.b64decode(entries[f"keras_attn.{side}_tokenizer"]) == tokenizer.model


def test_a_shared_vocabulary_is_stored_once(translator, tokenizers):
    function = SearchFunction(translator)
    for target in (None, tokenizers[0]):
        assert "keras_attn.target_tokenizer" not in describe(function, tokenizers[0], target)


def test_the_gate_compared_enough(exported):
    report = exported[1]
    assert report.sentences >= 200 and len(report.batch_sizes) >= 3
    assert 0 < report.cut < report.sentences
    assert report.best_equal == report.all_equal == 1.0
    assert report.largest_difference < 1e-5
    assert not report.cuda.missing and "CUDA" in str(report)


@pytest.mark.parametrize("shape", [(1, 2), (3, 9), (40, 4)])
def test_agrees_with_the_keras_model(exported, translator, shape):
    ids = np.random.default_rng(1).integers(3, 20, shape).astype("int32")
    ids[:, -1] = 2
    expected, actual = translator(ids), run(exported[0], ids)
    np.testing.assert_array_equal(actual["token_ids"], expected["token_ids"])
    np.testing.assert_array_equal(actual["lengths"], expected["lengths"])
    np.testing.assert_allclose(actual["scores"], expected["scores"], atol=1e-5)
    np.testing.assert_allclose(actual["log_probs"], expected["log_probs"], rtol=1e-5)


def test_length_penalty_and_max_length_are_inputs(exported):
    plain, without_penalty = run(exported[0]), run(exported[0], IDS, 30, 0.0)
    np.testing.assert_allclose(
        plain["scores"], plain["log_probs"] / np.maximum(plain["lengths"], 1), rtol=1e-5
    )
    np.testing.assert_allclose(without_penalty["scores"], without_penalty["log_probs"])
    assert run(exported[0], IDS, 3)["token_ids"].shape[2] == 3
    # Above the limit of the model, so the limit is 2 * source length + 10.
    assert run(exported[0], IDS, 1000)["lengths"].max() <= 2 * 4 + 10


def test_no_sentences_and_no_tokens(exported):
    nothing = run(exported[0], np.zeros((0, 3), "int32"))
    assert nothing["token_ids"].shape[:2] == (0, 2) and nothing["scores"].shape == (0, 2)
    no_tokens = run(exported[0], IDS, 0)
    assert no_tokens["token_ids"].shape == (2, 2, 0)
    np.testing.assert_array_equal(no_tokens["lengths"], 0)
    np.testing.assert_array_equal(no_tokens["scores"][:, 0], 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"source_ids": IDS.astype("int64")},
        {"source_ids": IDS[0]},
        {"max_length": np.array(3, "int64")},
        {"source_ids": np.full((1, 2), 45_000, "int32")},
    ],
)
def test_wrong_inputs_are_refused(exported, wrong):
    with pytest.raises(Exception, match=r"Unexpected input|Invalid rank|indices element|expected"):
        session(exported[0]).run(None, {**inputs(), **wrong})


def test_a_row_of_padding_does_not_disturb_the_others(exported):
    with_padding = run(exported[0], np.concatenate([IDS, np.zeros((1, 4), "int32")]))
    alone = run(exported[0])
    length = alone["token_ids"].shape[2]
    np.testing.assert_array_equal(with_padding["token_ids"][:2, :, :length], alone["token_ids"])
    assert np.isfinite(with_padding["scores"]).all()


def test_weights_do_not_go_through_a_loop(onnx_model):
    assert_no_weights_in_loops(onnx_model)


def test_the_file_has_no_repetitions_and_no_foreign_parts(onnx_model, translator):
    assert [(each.domain, each.version) for each in onnx_model.opset_import] == [("", 18)]
    graphs = list(nested_graphs(onnx_model.graph))
    operators = {node.op_type for graph in graphs for node in graph.node}
    assert "Loop" in operators and not operators & {"Einsum", "Constant"}
    contents = [
        (tensor.data_type, tuple(tensor.dims), tensor.raw_data)
        for tensor in all_initializers(onnx_model)
    ]
    assert len(contents) == len(set(contents))
    names = [name for graph in graphs for name in defined_names(graph)]
    assert len(names) == len(set(names))
    stored = {tensor.name for tensor in all_initializers(onnx_model)}
    assert {weight.path for weight in translator.weights} <= stored


def test_each_weight_of_a_loop_is_stored_where_onnx_runtime_prepacks_it(onnx_model):
    products = 0

    def look(graph, outside, further_outside):
        nonlocal products
        own = {tensor.name for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type in ("MatMul", "Gemm"):
                products += node.input[1] in own | outside
                assert node.input[1] not in further_outside
            for inner in subgraphs(node):
                look(inner, own, further_outside | outside)

    look(onnx_model.graph, set(), set())
    assert products > 5


def test_greedy_search_and_tied_embeddings_that_are_stored_once(tmp_path):
    encoder, decoder = rnn_seq2seq(30, 30, embedding_dim=8, units=8, share_embeddings=True)
    model = GenerationModel(encoder, GreedyDecoder(decoder, max_length=12))
    export_onnx(model, tmp_path / "model.onnx")
    tensors = all_initializers(onnx.load(tmp_path / "model.onnx"))
    assert sum(tuple(tensor.dims) in {(30, 8), (8, 30)} for tensor in tensors) == 1


@pytest.fixture(scope="module")
def detailed(tmp_path_factory):
    """Returns a model with Luong attention and GRUs, its report and the outputs of its file."""
    requested = {"return_token_log_probs": True, "return_top_tokens": 3}
    model = make_translator("luong", "gru", max_length=12, **requested)
    path = tmp_path_factory.mktemp("detailed") / "model.onnx"
    report = export_onnx(model, path, alignments=True)
    return model, report, run(path, IDS, 12)


def test_alignments_are_an_output_on_request(detailed):
    model, _, outputs = detailed
    assert not model.layers[-1].return_alignments
    length = outputs["token_ids"].shape[2]
    assert outputs["alignments"].shape == (2, 2, length, 4)
    first = outputs["alignments"][:, 0, 0]
    np.testing.assert_allclose(first.sum(axis=-1), 1, rtol=1e-5)
    np.testing.assert_array_equal(first[1, 2:], 0)


@pytest.mark.slow
def test_a_model_without_attention(tmp_path):
    export_onnx(make_translator(None, "lstm"), tmp_path / "model.onnx", alignments=False)
    assert "alignments" not in run(tmp_path / "model.onnx")


@pytest.fixture(scope="module")
def row_scales(tmp_path_factory):
    """Returns the paths and the reports of files with one scale for each row and for a tensor."""
    encoder, decoder = transformer_seq2seq(
        60, 60, num_layers=1, num_heads=2, embedding_dim=32, intermediate_dim=64, seed=1
    )
    search = BeamDecoder(decoder, beam_width=2, num_hypotheses=2, max_length=8)
    model, folder = GenerationModel(encoder, search), tmp_path_factory.mktemp("rows")
    paths = [folder / "int8.onnx", folder / "int8-rows.onnx"]
    with pytest.MonkeyPatch.context() as monkeypatch:
        conversions = record_conversions(monkeypatch, "export_onnx")
        first = export_onnx(model, paths[0], precision="int8")
        replace_conversion(monkeypatch, "export_onnx", *conversions)
        second = export_onnx(model, paths[1], precision="int8-rows")
    return {"int8": (paths[0], first), "int8-rows": (paths[1], second)}


def test_a_scale_for_each_row_gives_the_same_scores_in_every_batch(row_scales):
    def scores_alone_and_together(path):
        file = session(path)
        inputs = {"max_length": np.array(8, "int32"), "length_penalty": np.array(1, "float32")}
        sources = [[5, 6, 7, 2], [9, 30, 8, 2], [40, 41, 59, 2], [3, 3, 3, 2]]
        return [
            np.concatenate(
                [
                    file.run(["scores"], {"source_ids": np.array(batch, "int32"), **inputs})[0]
                    for batch in batches
                ]
            )
            for batches in ([[each] for each in sources], [sources])
        ]

    path, report = row_scales["int8-rows"]
    assert report.precision.precision == "int8-rows" and report.precision.mean_difference < 0.1
    alone, together = scores_alone_and_together(path)
    np.testing.assert_allclose(alone, together, rtol=1e-5)
    alone, together = scores_alone_and_together(row_scales["int8"][0])
    assert np.abs(alone - together).max() > 1e-4  # the activations of a batch share one scale


def test_weights_of_8_bits(translator, exported, conversions, tmp_path, monkeypatch):
    replace_conversion(monkeypatch, "export_onnx", *conversions)
    report = export_onnx(translator, tmp_path / "model.onnx", precision="int8")
    assert report.best_equal >= 0.95 and report.precision.precision == "int8"
    assert report.precision.sentences >= 200 and 0 < report.precision.mean_difference < 0.1
    assert "int8 against float32" in str(report)
    assert report.cuda.missing_in_loops["DynamicQuantizeLinear of float"] > 0
    quantized = onnx.load(tmp_path / "model.onnx")
    kinds = {tensor.data_type for tensor in all_initializers(quantized) if len(tensor.dims) == 2}
    assert onnx.TensorProto.INT8 in kinds
    constants = {tensor.name for tensor in all_initializers(quantized)}
    for graph in nested_graphs(quantized.graph):
        assert not [n for n in graph.node if n.op_type == "MatMul" and n.input[1] in constants]
    scores, float_scores = (run(path)["scores"] for path in (tmp_path / "model.onnx", exported[0]))
    assert 0 < np.abs(scores - float_scores).max() < 0.1


@pytest.mark.slow
def test_weights_of_4_bits(translator, exported, conversions, tmp_path, monkeypatch):
    replace_conversion(monkeypatch, "export_onnx", *conversions)
    report = export_onnx(translator, tmp_path / "model.onnx", precision="int4")
    assert report.best_equal >= 0.95 and report.precision.precision == "int4"
    assert report.precision.sentences >= 200 and 0 < report.precision.mean_difference < 0.3
    assert not report.cuda.missing
    quantized = onnx.load(tmp_path / "model.onnx")
    all_constants = {tensor.name for tensor in all_initializers(quantized)}
    for graph in nested_graphs(quantized.graph):
        products = [n for n in graph.node if n.op_type == "MatMul"]
        assert not [n for n in products if n.input[1] in all_constants]
        constants = {tensor.name for tensor in graph.initializer}
        made = [n for n in graph.node if n.op_type == "DequantizeLinear"]
        assert all(set(n.input) <= constants for n in made)
    kinds = [tensor.data_type for tensor in all_initializers(quantized) if len(tensor.dims) == 2]
    assert onnx.TensorProto.INT4 in kinds
    scores, float_scores = (run(path)["scores"] for path in (tmp_path / "model.onnx", exported[0]))
    assert 0 < np.abs(scores - float_scores).max() < 0.3


def test_half_precision(translator, exported, conversions, tmp_path, monkeypatch):
    replace_conversion(monkeypatch, "export_onnx", *conversions)
    report = export_onnx(translator, tmp_path / "model.onnx", precision="float16")
    assert report.precision.precision == "float16" and report.precision.sentences >= 200
    assert 0 < report.precision.mean_difference < 0.01 and report.precision.best_equal > 0.9
    assert not report.cuda.missing
    halved = onnx.load(tmp_path / "model.onnx")
    matrices = [
        onnx.numpy_helper.to_array(tensor)
        for tensor in all_initializers(halved)
        if min(tensor.dims, default=1) > 1 and len(tensor.dims) > 1
    ]
    full = [matrix for matrix in matrices if matrix.dtype != "float16"]
    assert len(matrices) > 5 and all(matrix.dtype == "float32" for matrix in full)
    # The mask that is added to scores is not a weight.
    assert all(set(matrix.flat) <= {0.0, np.float32(-1e9)} for matrix in full)
    ours, theirs = run(tmp_path / "model.onnx"), run(exported[0])
    assert {name: array.dtype for name, array in ours.items()} == {
        name: array.dtype for name, array in theirs.items()
    }
    assert 0 < np.abs(ours["scores"] - theirs["scores"]).max() < 0.01


def test_half_precision_of_a_repetition_penalty(tmp_path):
    """The penalty adds to logits with ScatterND, which ONNX Runtime lacks in float16."""
    model = make_translator(repetition_penalty=1.2)
    report = export_onnx(model, tmp_path / "model.onnx", precision="float16")
    assert report.precision.best_equal > 0.9


def test_a_model_that_does_not_bear_8_bits_is_refused(
    translator, onnx_model, tmp_path, monkeypatch
):
    replace_conversion(monkeypatch, "export_onnx", onnx_model)
    tolerances = sys.modules["keras_attn.export._checks.precision_report"].TOLERANCES
    monkeypatch.setitem(tolerances, "int8", 0.0)
    with pytest.raises(ExportError, match="int8 changes the outputs.*mean difference"):
        export_onnx(translator, tmp_path / "model.onnx", precision="int8")
    assert not list(tmp_path.iterdir())


def test_an_unknown_precision_is_refused(translator, tmp_path):
    with pytest.raises(ValueError, match="precision to be one of .* Received: precision='int3'"):
        export_onnx(translator, tmp_path / "model.onnx", precision="int3")


def test_an_export_that_disagrees_leaves_the_old_file(
    translator, onnx_model, tmp_path, monkeypatch
):
    module = sys.modules["keras_attn.export._formats.onnx_file"]
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08the old file")

    def open_wrong_session(name):
        right = open_session(name)
        return lambda **arrays: {**right(**arrays), "scores": right(**arrays)["scores"] + 0.01}

    open_session = module.open_session
    replace_conversion(monkeypatch, "export_onnx", onnx_model)
    monkeypatch.setattr(module, "open_session", open_wrong_session)
    with pytest.raises(ExportError, match=r"largest difference of a score 1\.0e-02"):
        export_onnx(translator, path)
    assert path.read_bytes() == b"\x08the old file"
    assert list(tmp_path.iterdir()) == [path]


def test_says_what_to_install(translator, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match="pip install onnxruntime` .* or `onnxruntime-gpu"):
        export_onnx(translator, tmp_path / "model.onnx")
    # The extra with all dependencies of this export, not only TensorFlow.
    for missing in ("tensorflow", "tf2onnx"):
        monkeypatch.setitem(sys.modules, missing, None)
        with pytest.raises(ImportError, match=f"`{missing}`.*'\\.\\[export\\]'.*and ONNX Runtime"):
            export_onnx(translator, tmp_path / "model.onnx")


def test_refuses_what_does_not_fit(translator, tmp_path):
    path = tmp_path / "model.onnx"
    ids = keras.Input((None,), dtype="int32")
    classifier = keras.Model(ids, keras.layers.Embedding(5, 4)(ids))
    with pytest.raises(ValueError, match="Expected a GenerationModel"):
        export_onnx(classifier, path)
    encoder, search = translator.encoder, translator.search
    negative = BeamDecoder(search.decoder, length_penalty=-1, name="negative")
    with pytest.raises(ValueError, match=r"length_penalty >= 0.* Received: length_penalty=-1\.0"):
        export_onnx(GenerationModel(encoder, negative), path)
    other = BeamDecoder(search.decoder, pad_token_id=3, name="other")
    assert SearchFunction(GenerationModel(encoder, other)).source.pad_token_id == 0
    encoder, decoder = rnn_seq2seq(45, 60, embedding_dim=4, units=4)
    encoder.end_token_id = 50
    beyond = GenerationModel(encoder, BeamDecoder(decoder))
    with pytest.raises(ValueError, match=r"below the size of its vocabulary, 45. .* ids \[0, 50\]"):
        export_onnx(beyond, path)
    target = SimpleNamespace(vocabulary_size=46, model=b"")
    with pytest.raises(ValueError, match="source_tokenizer in addition to the target_tokenizer"):
        export_onnx(translator, path, target_tokenizer=target)
    larger = SimpleNamespace(vocabulary_size=46, model=b"")
    with pytest.raises(ValueError, match="the tokenizer that the model was trained with"):
        export_onnx(translator, path, larger)
    with pytest.raises(ValueError, match="SentencePieceTokenizer.*'source.spm'"):
        export_onnx(translator, path, "source.spm")
    with pytest.raises(ValueError, match="source_tokenizer=None"):
        export_onnx(translator, path, parity_sentences=["a text"])
    for sentences in ([[]], [[5, 99_999, 2]], [[-1, 2]]):
        with pytest.raises(ValueError, match="lists of ids from 0"):
            export_onnx(translator, path, parity_sentences=sentences)
    assert not path.exists()


def test_an_encoder_without_room_for_a_piece_is_refused():
    encoder, decoder = transformer_seq2seq(
        9, 9, num_layers=1, embedding_dim=4, num_heads=1, positions="learned", max_length=1
    )
    with pytest.raises(ValueError, match="at least one piece .* max_source_length=1"):
        SearchFunction(GenerationModel(encoder, BeamDecoder(decoder)))


def test_texts_without_tokens_are_not_compared(translator):
    tokenizer = SimpleNamespace(encode=lambda texts: [[7] * len(text) for text in texts])
    sentences = parity_sentences(SearchFunction(translator).source, tokenizer, ["abc", "", "d"])
    assert sentences[:2] == [[7, 7, 7, 2], [7, 2]] and all(len(ids) > 1 for ids in sentences)


def test_a_single_string_of_sentences_is_refused(translator):
    with pytest.raises(
        ValueError, match="Expected a list of sentences. Received: parity_sentences='in.txt'"
    ):
        parity_sentences(SearchFunction(translator).source, None, "in.txt")


def test_texts_to_compare_are_cut_before_the_tokenizer(translator):
    tokenizer = SimpleNamespace(encode=lambda texts: [[len(text) % 7 + 3] for text in texts])
    source = SearchFunction(translator).source
    long, cut = "a" * 20_000, "a" * 16_384
    assert parity_sentences(source, tokenizer, [long]) == parity_sentences(source, tokenizer, [cut])


def test_models_of_other_types_are_refused(translator, tmp_path):
    """The check compares with encoder and search and ignores other layers of the model."""
    encoder, search = translator.encoder, translator.search
    ids = keras.Input((None,), dtype="int32")

    class Reversed(GenerationModel):
        def call(self, ids, training=None, mask=None):
            return super().call(ids[:, ::-1])

    for model, message in (
        (
            keras.Model(ids, search(**encoder(ids[:, ::-1]))),
            "model=Functional.*export_functional_onnx or .*_litert",
        ),
        (Reversed(encoder, search), "model=Reversed, which overrides call"),
        ("translator.keras", "Expected a GenerationModel. Received: model=str"),
    ):
        with pytest.raises(ValueError, match=message):
            export_onnx(model, tmp_path / "model.onnx")


def test_layers_that_cannot_be_saved_can_be_exported():
    class Encoder(keras.Layer):
        def __init__(self, embedding):
            super().__init__()
            self.embedding = embedding

        def call(self, ids):
            return {"encoder_outputs": self.embedding(ids)}

    cell = AttentionRNNCell(keras.layers.GRUCell(8), BahdanauAttention(8), attention_units=8)
    decoder = RNNDecoder(cell, keras.layers.ReversibleEmbedding(46, 8), bridge="zero")
    model = GenerationModel(Encoder(keras.layers.Embedding(45, 8)), GreedyDecoder(decoder))
    with pytest.raises(NotImplementedError):
        model.encoder.get_config()
    assert SearchFunction(model).source.vocabulary_size == 45


@pytest.mark.slow
def test_a_model_of_mixed_precision_is_exported_in_that_of_its_weights(tmp_path):
    with precision("mixed_float16"):
        translator = make_translator()
    report = export_onnx(translator, tmp_path / "mixed.onnx")
    assert report.best_equal == 1.0 and report.largest_difference < 1e-4
    encoder, search = translator.encoder, translator.search
    assert {layer.compute_dtype for layer in (encoder, search.decoder)} == {"float16"}
    received, expected = run(tmp_path / "mixed.onnx"), make_translator()(IDS)
    np.testing.assert_array_equal(received["token_ids"], expected["token_ids"])
    np.testing.assert_allclose(received["scores"], expected["scores"], atol=1e-4)


def test_log_probabilities_of_tokens(detailed):
    model, report, outputs = detailed
    assert report.best_equal > 0.95 and not report.cuda.missing
    expected = np.asarray(model(IDS)["token_log_probs"])
    np.testing.assert_allclose(outputs["token_log_probs"], expected, atol=1e-5)
    sums = outputs["token_log_probs"].sum(-1)
    np.testing.assert_allclose(sums, outputs["log_probs"], rtol=1e-5)


def test_most_probable_tokens(detailed):
    model, _, outputs = detailed
    expected = {name: np.asarray(value) for name, value in model(IDS).items()}
    np.testing.assert_array_equal(outputs["top_token_ids"], expected["top_token_ids"])
    values = outputs["top_token_log_probs"]
    np.testing.assert_allclose(values, expected["top_token_log_probs"], atol=1e-5)
    assert values.shape == (*outputs["token_ids"].shape, 3) and (np.diff(values) <= 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("search", all_slow_but(BeamDecoder, cases=[BeamDecoder, GreedyDecoder]))
def test_what_hypotheses_may_not_repeat(tmp_path, search):
    """Repeated tokens scatter to the same logit, which must survive the conversion."""
    translator = make_translator()
    encoder, beam_search = translator.encoder, translator.search
    arguments = {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "max_length": 30}
    model = GenerationModel(encoder, search(beam_search.decoder, **arguments))
    report = export_onnx(model, tmp_path / "model.onnx")
    assert report.best_equal > 0.95 and not report.cuda.missing
    outputs = run(tmp_path / "model.onnx", IDS, 30)
    expected = keras.tree.map_structure(np.array, model(IDS))
    np.testing.assert_array_equal(outputs["token_ids"], expected["token_ids"])
    for tokens, length in zip(outputs["token_ids"][:, 0], outputs["lengths"][:, 0], strict=True):
        pairs = list(zip(tokens[: length - 1], tokens[1:length], strict=True))
        assert len(pairs) > 2 and len(set(pairs)) == len(pairs)


@pytest.mark.slow
@pytest.mark.parametrize("alignments", all_slow_but(True, cases=[False, True]))
def test_coverage_penalty(tmp_path, alignments):
    model = make_translator(coverage_penalty=0.7)
    export_onnx(model, tmp_path / "model.onnx", alignments=alignments)
    outputs = run(tmp_path / "model.onnx")
    assert ("alignments" in outputs) == alignments
    np.testing.assert_allclose(outputs["scores"], model(IDS)["scores"], rtol=1e-5)
    lengths = np.maximum(outputs["lengths"], 1)
    without = outputs["log_probs"] / lengths
    assert (outputs["scores"] < without - 1e-3)[0].all()  # the other source has full coverage


@pytest.mark.slow
def test_groups_of_beams(tmp_path):
    model = make_translator(beam_width=4, num_hypotheses=4, num_groups=2)
    report = export_onnx(model, tmp_path / "model.onnx")
    assert report.best_equal > 0.95 and not report.cuda.missing
    np.testing.assert_array_equal(
        run(tmp_path / "model.onnx")["token_ids"], model(IDS)["token_ids"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("search", all_slow_but(BeamDecoder, cases=[BeamDecoder, GreedyDecoder]))
def test_what_hypotheses_begin_with_is_an_input_on_request(tmp_path, search):
    """Tests prefixes of different lengths, and no prefixes."""
    translator = make_translator()
    encoder, beam_search = translator.encoder, translator.search
    model = GenerationModel(encoder, search(beam_search.decoder, max_length=30))
    report = export_onnx(model, tmp_path / "model.onnx", accept_target_prefix=True)
    assert report.best_equal > 0.95 and not report.cuda.missing
    opened = session(tmp_path / "model.onnx")
    given = {each.name: (each.type, each.shape) for each in opened.get_inputs()}
    assert given["prefix_ids"] == ("tensor(int32)", ["batch", "prefix_length"])
    for prefixes in ([[7, 9, 4], [5, 0, 0]], [[8], [0]], [[], []]):
        prefix_ids = np.array(prefixes, "int32")
        (token_ids,) = opened.run(["token_ids"], {**inputs(), "prefix_ids": prefix_ids})
        results = model.layers[-1](**encoder(IDS), prefix_ids=prefix_ids)
        np.testing.assert_array_equal(token_ids, results["token_ids"])
        begins = token_ids[:, 0, : prefix_ids.shape[1]]
        np.testing.assert_array_equal(np.where(prefix_ids, begins, 0), prefix_ids)


def test_prefixes_of_several_lengths_are_compared(translator):
    function = SearchFunction(translator, accept_target_prefix=True)
    lengths = {len(prefix) for prefix in parity_prefixes(function, 200)}
    assert lengths == {0, 1, 2, 3}
    assert parity_prefixes(SearchFunction(translator), 200) is None


def test_the_runtime_begins_translations_as_it_is_told(translator, tokenizers, tmp_path):
    export_onnx(translator, tmp_path / "model.onnx", *tokenizers, accept_target_prefix=True)
    runtime = Translator(tmp_path / "model.onnx", num_threads=1)
    prefixes = ["die", "ein hund", "", "zwei"]
    own = runtime.translate(SOURCE, prefixes, num_hypotheses=2)
    for translation, prefix in zip(own, prefixes, strict=True):
        assert all(each.text.startswith(prefix) for each in translation.hypotheses)
    (alone,) = runtime.translate(SOURCE[1:2], "ein hund")
    assert alone.token_ids == own[1].token_ids
    assert runtime.translate(SOURCE)[2].token_ids == own[2].token_ids
