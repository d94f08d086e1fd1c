"""Model descriptions and configurations of OpenNMT-tf."""

import pytest

pytest.importorskip("tensorflow")
yaml = pytest.importorskip("yaml")

from keras_attn.convert import ConversionError, from_opennmt_tf  # noqa: E402
from keras_attn.convert._opennmt_description import read_description  # noqa: E402
from keras_attn.convert._opennmt_settings import (  # noqa: E402
    CONFIGURATION,
    opennmt_search,
    read_config,
    source_controls,
)
from keras_attn.convert._settings import Settings  # noqa: E402
from tests.convert.opennmt_checkpoints import (  # noqa: E402
    arguments_text,
    opennmt_variables,
    write_opennmt,
)

CLASS = """
import opennmt
import tensorflow as tf

raise RuntimeError("this file must not run")
UNITS = 16

class Own(opennmt.models.Transformer):
    def __init__(self):
        super().__init__(
            source_inputter=opennmt.inputters.WordEmbedder(embedding_size=UNITS),
            target_inputter=opennmt.inputters.WordEmbedder(embedding_size=UNITS),
            num_layers=(1, 2), num_units=UNITS, num_heads=4, ffn_inner_dim=24,
            ffn_activation=tf.nn.swish,
        )

    def auto_config(self, num_replicas=1):
        return super().auto_config(num_replicas=num_replicas)

model = Own
"""


@pytest.mark.parametrize(
    ("text", "class_name", "arguments"),
    [
        ('model = lambda: m.get_model_from_catalog("TransformerBase")', "TransformerBase", {}),
        ("model = opennmt.models.Transformer", "Transformer", {}),
        (
            "def model():\n    return Transformer(None, None, 3, num_units=8)",
            "Transformer",
            {"source_inputter": None, "target_inputter": None, "num_layers": 3, "num_units": 8},
        ),
        (
            "model = lambda: Transformer(position_encoder_class=lambda: x.PositionEmbedder(8))",
            "Transformer",
            {"position_encoder_class": "PositionEmbedder"},
        ),
        (
            CLASS,
            "Transformer",
            {
                "source_inputter": "WordEmbedder",
                "target_inputter": "WordEmbedder",
                "num_layers": (1, 2),
                "num_units": 16,
                "num_heads": 4,
                "ffn_inner_dim": 24,
                "ffn_activation": "swish",
            },
        ),
    ],
    ids=["catalog", "class", "function", "lambda", "derived class"],
)
def test_opennmt_descriptions_are_read_but_not_run(text, class_name, arguments):
    found = read_description(text, "model_description.py")
    assert (found.class_name, found.arguments) == (class_name, arguments)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model = lambda: Transformer(num_layers=2 * 3)", "'2 \\* 3', which is neither"),
        ("model = lambda: Transformer(**options)", "the arguments of Transformer"),
        ("model = 1 +", "invalid syntax"),
        ("other = 1", r"definitions of \['other'\]"),
        ('model = lambda: m.get_model_from_catalog("NMTSmallV1")', "recurrent layers cannot be"),
        ('model = lambda: m.get_model_from_catalog("GPT2Small")', "Language models cannot be"),
        ("model = lambda: opennmt.models.SequenceToSequence()", "one of the models .*Received"),
    ],
)
def test_opennmt_descriptions_that_cannot_be_read_are_refused(text, message):
    with pytest.raises(ConversionError, match=message):
        read_description(text, "model_description.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("opennmt") / "run"
    return write_opennmt(path, opennmt_variables(layers=(1, 1)), description=False)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ("maximum_relative_position=20", "relative positions of keys and values"),
        ("source_inputter=opennmt.inputters.CharConvEmbedder(8, 8)", "not embeddings of words"),
        ("ffn_activation=tf.nn.elu", "Expected ffn_activation .*Received: ffn_activation='elu'"),
        ("position_encoder_class=Own", "Expected position_encoder_class .*'Own'"),
        ("some_option=3", r"some_option=3 \(an unknown setting\)"),
        ("num_heads=5", "Expected num_units of the model to be a multiple of num_heads=5"),
        ("num_layers=LAYERS", "Expected num_layers of the model to be a positive integer or"),
        ("share_embeddings=7", "Expected share_embeddings"),
    ],
)
def test_opennmt_arguments_without_counterpart_are_refused(folder, tmp_path, changed, message):
    path = tmp_path / "description.py"
    name, _, _ = changed.partition("=")
    rest = [each for each in arguments_text(layers=(1, 1)).split(", ") if name not in each]
    path.write_text(f"model = lambda: Transformer({', '.join([*rest, changed])})")
    with pytest.raises(ConversionError, match=message):
        from_opennmt_tf(folder, model_type=str(path))


def test_opennmt_arguments_and_configuration_are_refused_together(folder, tmp_path):
    path, config = tmp_path / "description.py", tmp_path / "own.yml"
    text = "ffn_activation=tf.nn.elu, share_embeddings=7, num_units=10, num_heads=4"
    path.write_text(f"model = lambda: Transformer(maximum_relative_position=20, {text})")
    params = {"decoding_noise": [{"dropout": 0.1}], "sampling_topk": 5, "num_hypotheses": 8}
    config.write_text(yaml.safe_dump({"params": params}))
    with pytest.raises(ConversionError) as info:
        from_opennmt_tf(folder, model_type=str(path), config=config)
    assert "Received: 7 problems." in str(info.value)
    for name in ("maximum_relative_position", "ffn_activation", "share_embeddings", "num_units"):
        assert f"{name}=" in str(info.value)
    for each in ("noise in the results", "to be 1 with sampling", "at most params/beam_width=4"):
        assert each in str(info.value)


def test_opennmt_model_type_is_required_without_a_description(folder):
    with pytest.raises(ConversionError, match="Pass the name of the model .*--model-type"):
        from_opennmt_tf(folder)
    with pytest.raises(ConversionError, match="one of the models .*'TransformerBig'.*'Big'"):
        from_opennmt_tf(folder, model_type="Big")
    with pytest.raises(ConversionError, match="Check that TransformerTiny belongs to these"):
        from_opennmt_tf(folder, model_type="TransformerTiny")


def search(tmp_path, **params):
    path = tmp_path / "data.yml"
    path.write_text(yaml.safe_dump({"params": params}))
    settings = read_config(path)
    settings.check()
    return opennmt_search(settings)


def test_opennmt_search_has_the_settings_of_the_inference(tmp_path):
    found = search(tmp_path)
    assert found.class_name == "BeamDecoder" and found.arguments["beam_width"] == 4
    assert found.arguments["stop"] == "exact" and found.arguments["max_length"] == 250
    assert found.arguments["length_penalty_form"] == "none"
    found = search(tmp_path, beam_width=1, length_penalty=0.6, maximum_decoding_length=9)
    assert found.class_name == "GreedyDecoder" and found.arguments["max_length"] == 9
    found = search(tmp_path, beam_width=5, num_hypotheses=0, minimum_decoding_length=2)
    assert found.arguments["num_hypotheses"] == 5 and found.arguments["min_length"] == 2
    found = search(tmp_path, beam_width=1, sampling_topk=0, sampling_temperature=0.5)
    assert found.class_name == "SamplingDecoder"
    assert (found.arguments["top_k"], found.arguments["temperature"]) == (None, 0.5)
    settings = Settings("data.yml", {"auto_config": False}, CONFIGURATION, True)
    assert opennmt_search(settings).class_name == "GreedyDecoder"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"length_penalty": 0.6}, "length_penalty_form='gnmt'"),
        ({"coverage_penalty": 0.2}, "coverage penalty of a different form"),
        ({"replace_unknown_target": True}, "copies words of the source"),
        ({"decoding_noise": [{"dropout": 0.1}]}, "noise in the results"),
        ({"sampling_topk": 5}, "params/beam_width in data.yml to be 1 with sampling"),
        ({"num_hypotheses": 8}, "at most params/beam_width=4. Received: 8"),
        ({"own_option": 1}, r"params/own_option=1 \(an unknown setting\)"),
    ],
)
def test_opennmt_searches_without_counterpart_are_refused(tmp_path, params, message):
    with pytest.raises(ConversionError, match=message):
        search(tmp_path, **params)


def test_opennmt_settings_are_reported_and_can_be_ignored(folder, tmp_path):
    config = {
        "model_dir": "run",
        "params": {"length_penalty": 0.6, "dropout": 0.3, "optimizer": "LazyAdam"},
        "data": {"source_sequence_controls": {"end": True}, "train_features_file": "a.txt"},
        "train": {"batch_size": 3072},
        "eval": None,
    }
    path = tmp_path / "own.yml"
    path.write_text(yaml.safe_dump(config))
    description = tmp_path / "description.py"
    description.write_text(f"model = lambda: Transformer({arguments_text(layers=(1, 1))})")
    options = {"model_type": str(description), "config": path}
    with pytest.raises(ConversionError, match="--ignore-setting"):
        from_opennmt_tf(folder, **options)
    converted = from_opennmt_tf(folder, **options, ignore_settings=["params/length_penalty"])
    assert converted.count("ignored") == 1
    encoder = converted.model.encoder
    assert (encoder.start_token_id, encoder.end_token_id, encoder.pad_token_id) == (None, 2, 0)
    assert encoder.stack.blocks[0].attention_dropout == 0.3
    report = converted.report()
    assert "own.yml: params/optimizer = 'LazyAdam': irrelevant, only used in training" in report
    assert "description.py: num_heads = 4: mapped, num_heads" in report
    with pytest.raises(ConversionError, match="which the checkpoint does not"):
        from_opennmt_tf(folder, **options, ignore_settings=["params/length_penalty", "other"])
    with pytest.raises(ValueError, match=r"Pass \['other'\]"):
        from_opennmt_tf(folder, **options, ignore_settings="other")


def test_opennmt_sources_of_scaling_models_have_an_end_token():
    automatic, explicit, other = (
        Settings("data.yml", values, CONFIGURATION, True)
        for values in (
            {},
            {"data/source_sequence_controls": {"start": True}},
            {"auto_config": False},
        )
    )
    assert source_controls("ScalingNmtEnDe", automatic) == {"end": True}
    assert source_controls("ScalingNmtEnDe", explicit) == {"start": True}
    assert source_controls("ScalingNmtEnDe", other) == {"end": False}
    assert source_controls("TransformerBase", automatic) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [("a: [", "Expected YAML"), ("- a", "Expected a mapping .*list"), (None, "does not exist")],
)
def test_opennmt_configurations_that_cannot_be_read_are_named(folder, tmp_path, text, message):
    path = tmp_path / "own.yml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConversionError, match=message):
        from_opennmt_tf(folder, model_type="TransformerTiny", config=path)
