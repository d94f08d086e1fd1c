"""Converted Transformers of OpenNMT-tf against NumPy."""

import keras
import numpy as np
import pytest

pytest.importorskip("tensorflow")

from keras_attn import GreedyDecoder  # noqa: E402
from keras_attn.convert import from_opennmt_tf  # noqa: E402
from keras_attn.convert._opennmt_checkpoint import OpenNMTCheckpoint  # noqa: E402
from tests.convert.opennmt_checkpoints import (  # noqa: E402
    SOURCE_SIZE,
    TARGET_SIZE,
    arguments_text,
    opennmt_variables,
    random_source_ids,
    write_opennmt,
)
from tests.convert.opennmt_oracle import OpenNMTOracle  # noqa: E402

SAME = {"sizes": (SOURCE_SIZE, SOURCE_SIZE)}
CASES = {
    "separate": {"seed": 3},
    "one embedding": {**SAME, "share": "ALL"},
    "shared inputs": {**SAME, "share": "SOURCE_TARGET_INPUT"},
    "tied output": {"share": "TARGET"},
    "post-norm": {**SAME, "share": "ALL", "pre_norm": False},
    "without attention biases": {"mha_bias": False},
    "without output bias": {"output_layer_bias": False},
    "tied, without output bias": {"share": "TARGET", "output_layer_bias": False},
    "gelu, other depths": {"ffn_activation": "opennmt.layers.gelu", "layers": (1, 3)},
    "swish": {"ffn_activation": "tf.nn.swish"},
    "learned positions": {
        "num_positions": 12,
        "position_encoder_class": "lambda: opennmt.layers.PositionEmbedder(12)",
    },
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_opennmt_logits_and_greedy_ids_equal_numpy(tmp_path, options):
    variables = opennmt_variables(**options)
    folder = write_opennmt(tmp_path / "run", variables, arguments_text(**options))
    model = from_opennmt_tf(folder).model
    oracle = OpenNMTOracle(variables, **options)
    sources = random_source_ids(6)
    encoded = model.encoder(sources)
    size = min(variables[name].shape[0] for name in variables if name.endswith("embedding"))
    targets = np.random.default_rng(2).integers(3, size, (6, 5)).astype("int32")
    targets[:, 0] = 1
    found = keras.ops.convert_to_numpy(model.decoder(targets, **encoded))
    search = GreedyDecoder(
        model.decoder, max_length=8, relative_max_length=None, suppressed_token_ids=[]
    )
    results = {name: np.array(each) for name, each in search(**encoded).items()}
    for row, source in enumerate(sources):
        source = source[source > 0]
        np.testing.assert_allclose(found[row], oracle.logits(source, targets[row]), atol=2e-5)
        ids = results["token_ids"][row, 0].tolist()
        expected = oracle.greedy(source, 8)
        assert ids[: len(expected)] == expected
        assert not any(ids[len(expected) :])


def test_opennmt_names_are_those_of_the_checkpoint(tmp_path):
    """The names that OpenNMT-tf 2.32 writes, without those of the optimizer."""
    folder = write_opennmt(tmp_path / "run", opennmt_variables(layers=(1, 1)))
    names = set(OpenNMTCheckpoint(folder).shapes)
    assert names == set(opennmt_variables(layers=(1, 1)))
    expected = {
        "model/decoder/layers/0/attention/0/input_layer_norm/gamma": (16,),
        "model/decoder/layers/0/ffn/layer/inner/kernel": (16, 24),
        "model/decoder/output_layer/kernel": (16, TARGET_SIZE),
        "model/encoder/layers/0/self_attention/layer/linear_queries/kernel": (16, 16),
        "model/examples_inputter/features_inputter/embedding": (SOURCE_SIZE, 16),
        "model/examples_inputter/labels_inputter/embedding": (TARGET_SIZE, 16),
    }
    shapes = OpenNMTCheckpoint(folder).shapes
    assert {name: shapes[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("name", "features", "hidden", "heads", "layers"),
    [
        ("TransformerBase", 512, 2048, 8, 6),
        ("TransformerBigSharedEmbeddings", 1024, 4096, 16, 6),
        ("ScalingNmtEnDe", 1024, 4096, 16, 6),
        ("TransformerTiny", 64, 64, 2, 2),
    ],
)
def test_opennmt_catalog_has_the_sizes_of_the_papers(name, features, hidden, heads, layers):
    from keras_attn.convert._opennmt_description import DESCRIPTION, describe
    from keras_attn.convert._opennmt_settings import ARGUMENTS
    from keras_attn.convert._settings import Settings

    settings = Settings(DESCRIPTION, describe(name).arguments, ARGUMENTS)
    names = ("num_units", "ffn_inner_dim", "num_heads", "num_layers")
    assert [settings[each] for each in names] == [features, hidden, heads, layers]


def test_opennmt_models_of_the_catalog_are_converted(tmp_path):
    sizes = {"features": 64, "hidden": 64, "layers": (2, 2)}
    variables = opennmt_variables(**sizes)
    folder = write_opennmt(tmp_path / "tiny", variables, description=False)
    converted = from_opennmt_tf(folder, model_type="TransformerTiny")
    assert converted.model.encoder.stack.blocks[0].self_attention.num_heads == 2
    assert converted.architecture == "TransformerTiny of OpenNMT-tf"
    text = 'from opennmt import models\nmodel = lambda: models.get_model_from_catalog("{}")\n'
    (folder / "model_description.py").write_text(text.format("TransformerTiny"))
    sources = random_source_ids(4)
    same = from_opennmt_tf(folder)
    for name, value in converted.model.encoder(sources).items():
        np.testing.assert_array_equal(np.array(value), np.array(same.model.encoder(sources)[name]))
