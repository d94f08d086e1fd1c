import json
import math

import keras
import numpy as np
import onnx
import pytest

from keras_attn import (
    BeamDecoder,
    GenerationModel,
    TransformerDecoder,
    TransformerDecoderBlock,
    TransformerEncoder,
    TransformerEncoderBlock,
    transformer_seq2seq,
)
from keras_attn.export import export_onnx
from keras_attn.export._formats.file_metadata import describe
from keras_attn.export._passes.graph import nested_graphs
from keras_attn.export._trace.search_function import SearchFunction
from tests.export.small_graphs import loop_bodies, operators, optimized_operators
from tests.export.small_translator import session


def export(directory, num_layers, cache_block_size=None, **options):
    """Returns the graph of a search step and the report of the export."""
    encoder, decoder = transformer_seq2seq(
        20, 20, num_layers=num_layers, num_heads=2, embedding_dim=8, intermediate_dim=16, seed=1
    )
    decoder.cache_block_size = cache_block_size
    model = GenerationModel(encoder, BeamDecoder(decoder, beam_width=3, max_length=8))
    report = export_onnx(model, directory / "model.onnx", **options)
    return loop_bodies(onnx.load(directory / "model.onnx"))[-1], report


@pytest.fixture(scope="module")
def steps(tmp_path_factory):
    """Returns the graph of a search step, by number of layers."""
    directory = tmp_path_factory.mktemp("transformer")
    graphs = {}
    for num_layers in (1, 2):
        graphs[num_layers], report = export(directory, num_layers)
        assert not report.cuda.missing
    return graphs


@pytest.mark.slow
def test_a_step_has_few_operators(steps):
    """Each operator takes at least a few microseconds."""
    one, two = len(steps[1].node), len(steps[2].node)
    assert two - one <= 40 and one <= 159


@pytest.mark.slow
def test_the_products_of_a_layer_are_as_few_as_they_can_be(steps):
    products = [[node.op_type for node in steps[n].node].count("MatMul") for n in (1, 2)]
    # Joint queries, keys and values; queries of the cross-attention; two outputs; two layers of the
    # feed-forward network; and four products of attention.
    assert products[1] - products[0] == 10
    assert products[0] == 10 + 1


@pytest.mark.slow
def test_a_step_copies_what_the_last_ones_left_and_no_archive(steps, tmp_path):
    step, report = export(tmp_path, 2, cache_block_size=3)
    assert not report.cuda.missing and report.best_equal == report.all_equal == 1.0
    # Keys and values of a layer grow; the archived ones are read without a copy.
    assert len(step.input) == len(steps[2].input)
    products = [[node.op_type for node in each.node].count("MatMul") for each in (step, steps[2])]
    assert products[0] - products[1] == 2 * 2


@pytest.mark.slow
def test_half_precision_converts_little_and_runs_on_a_gpu(steps, tmp_path):
    step, report = export(tmp_path, 1, precision="float16")
    assert not report.cuda.missing
    # Positions; scores and weights of self- and cross-attention; logits.
    casts = [[node.op_type for node in each.node].count("Cast") for each in (step, steps[1])]
    assert casts[0] - casts[1] == 1 + 2 * 2 + 1


@pytest.mark.slow
def test_onnx_runtime_reads_weights_of_4_bits_in_every_product(tmp_path):
    export(tmp_path, 1, precision="int4")
    written = onnx.load(tmp_path / "model.onnx")
    stored = [op for inner in nested_graphs(written.graph) for op in operators(inner)]
    joined = optimized_operators(written, tmp_path)
    assert "DequantizeLinear" not in joined
    assert joined.count("MatMulNBits") == stored.count("DequantizeLinear") >= 4 + 7


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_export_keeps_an_output_bias_and_one_shared_matrix(tmp_path, precision):
    embedding = keras.layers.ReversibleEmbedding(300, 8)
    encoder = TransformerEncoder(TransformerEncoderBlock(2, 16), embedding, num_layers=1)
    block = TransformerDecoderBlock(2, 16)
    decoder = TransformerDecoder(block, embedding, num_layers=1, use_output_bias=True)
    model = GenerationModel(encoder, BeamDecoder(decoder, beam_width=3, max_length=8))
    bias = np.random.default_rng(0).normal(size=300)
    bias[2] += 3  # some hypotheses end early
    decoder.output_bias.assign(bias)
    path = tmp_path / "model.onnx"
    report = export_onnx(model, path, precision=precision)
    assert report.best_equal > (0.5 if precision == "int8" else 0.99)
    graphs = nested_graphs(onnx.load(path).graph)
    shapes = [tuple(each.dims) for graph in graphs for each in graph.initializer]
    assert sum(math.prod(shape) == 300 * 8 for shape in shapes) == 1
    ids = np.array([[5, 6, 7, 2]], "int32")
    arguments = {"max_length": np.array(8, "int32"), "length_penalty": np.array(1, "float32")}
    found = session(path).run(["token_ids"], {"source_ids": ids, **arguments})[0]
    decoder.output_bias.assign(0 * bias)
    without = np.array(model(ids)["token_ids"])
    assert found.tolist() != without.tolist()  # the bias has an effect


def test_the_file_tells_how_many_positions_the_model_has_learned():
    encoder, decoder = transformer_seq2seq(
        9, 9, num_layers=1, num_heads=2, embedding_dim=8, positions="learned", max_length=20
    )
    model = GenerationModel(encoder, BeamDecoder(decoder, beam_width=2))
    settings = json.loads(describe(SearchFunction(model))["keras_attn.settings"])
    assert settings["source"]["max_length"] == 19  # plus the end token
