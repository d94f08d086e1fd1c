import onnx
import pytest

from keras_attn import BeamDecoder, search_model, transformer_seq2seq
from keras_attn.export import export_onnx
from tests.export.small_graphs import loop_bodies


@pytest.fixture(scope="module")
def steps(tmp_path_factory):
    """The graph of a step of the search, by the number of layers."""
    graphs = {}
    for num_layers in (1, 2):
        encoder, decoder = transformer_seq2seq(
            20, 20, num_layers=num_layers, num_heads=2, embedding_dim=8, intermediate_dim=16, seed=1
        )
        search = BeamDecoder(decoder, 3, max_length=8)
        path = tmp_path_factory.mktemp("transformer") / "model.onnx"
        export_onnx(search_model(encoder, search), path)
        graphs[num_layers] = loop_bodies(onnx.load(path))[-1]
    return graphs


def test_a_step_has_few_operators(steps):
    """Each takes a few microseconds, whatever it computes."""
    one, two = len(steps[1].node), len(steps[2].node)
    assert two - one <= 39 and one <= 180


def test_the_products_of_a_layer_are_as_few_as_they_can_be(steps):
    products = [[node.op_type for node in steps[n].node].count("MatMul") for n in (1, 2)]
    # Queries, keys and values together; the queries of the memory; two outputs, two layers of the
    # feed-forward network; and four of attention.
    assert products[1] - products[0] == 10
    assert products[0] == 10 + 1
