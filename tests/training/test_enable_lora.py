"""LoRA against NumPy, and through training, saving, merging and export."""

import pickle
import warnings

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn import (
    BeamDecoder,
    FeedForward,
    GenerationModel,
    MultiHeadAttention,
    TrainingModel,
    TransformerEncoder,
    TransformerEncoderBlock,
    ensemble_model,
    transformer_seq2seq,
)
from keras_attn._drop_ins.low_rank_adaptation import LowRankAdaptation
from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn._layer.low_rank_settings import low_rank_settings
from keras_attn.training import SequenceCrossentropy, enable_lora, merge_lora
from tests.backend import requires_tensorflow
from tests.public_layers import LAYERS, layer_and_inputs
from tests.slow_cases import all_slow_but

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(2, 5, 8)).astype("float32")
SOURCE = RANDOM.integers(4, 20, (4, 6)).astype("int32")
TARGET = np.concatenate([np.ones((4, 1)), RANDOM.integers(4, 20, (4, 5))], 1).astype("int32")
LABELS = np.concatenate([TARGET[:, 1:], np.full((4, 1), 2)], 1).astype("int32")


def numpy_of(value):
    return ops.convert_to_numpy(ops.cast(value, "float32"))


def randomize(variables):
    for variable in variables:
        variable.assign(RANDOM.normal(0, 0.3, variable.shape))


def parts():
    keras.utils.set_random_seed(1)
    sizes = {"num_layers": 1, "num_heads": 2, "embedding_dim": 16, "intermediate_dim": 24}
    return transformer_seq2seq(20, 20, **sizes)


def test_lora_kernels_of_attention_equal_the_equation():
    layer, plain = (MultiHeadAttention(2, 4, use_bias=False) for _ in range(2))
    layer(X), plain(X)
    layer.enable_lora(3, lora_alpha=6, kernels=["query", "output"])
    assert [v.name for v in layer.trainable_variables] == [
        "key_kernel",
        "value_kernel",
        "lora_query_a",
        "lora_query_b",
        "lora_output_a",
        "lora_output_b",
    ]
    randomize(layer.variables)
    w = {v.name: numpy_of(v) for v in layer.variables}
    for name in ("query", "output"):
        w[f"{name}_kernel"] += 6 / 3 * w[f"lora_{name}_a"] @ w[f"lora_{name}_b"]
    plain.set_weights([w[f"{name}_kernel"] for name in ("query", "key", "value", "output")])
    np.testing.assert_allclose(numpy_of(layer(X)), numpy_of(plain(X)), atol=1e-5)


@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_lora_kernels_of_feed_forward_equal_the_equation(activation):
    layer = FeedForward(6, activation=activation)
    layer(X)
    layer.enable_lora(2, lora_alpha=1)
    randomize(layer.variables)
    w1, b1 = map(numpy_of, (layer.expansion.kernel, layer.expansion.bias))
    w2, b2 = map(numpy_of, (layer.contraction.kernel, layer.contraction.bias))
    w1 = w1 + 0.5 * numpy_of(layer.lora_expansion_a) @ numpy_of(layer.lora_expansion_b)
    w2 = w2 + 0.5 * numpy_of(layer.lora_contraction_a) @ numpy_of(layer.lora_contraction_b)
    hidden = X @ w1 + b1
    if activation == "swiglu":
        gate, hidden = np.split(hidden, 2, -1)
        hidden = gate / (1 + np.exp(-gate)) * hidden
    else:
        hidden = np.maximum(hidden, 0)
    np.testing.assert_allclose(numpy_of(layer(X)), hidden @ w2 + b2, atol=1e-5)


def test_lora_merge_keeps_the_outputs():
    trainer = TrainingModel(*parts())
    variables = enable_lora(trainer, 4, 8, ("query", "key", "value", "output"), ("expansion",))
    randomize(variables)
    inputs = {"source_ids": SOURCE, "target_ids": TARGET}
    before, count = numpy_of(trainer(inputs)), len(trainer.variables)
    merge_lora(trainer)
    assert len(trainer.variables) == count - len(variables)
    np.testing.assert_allclose(numpy_of(trainer(inputs)), before, atol=1e-5)
    with pytest.raises(ValueError, match="Expected a model with LoRA"):
        merge_lora(trainer)


@requires_tensorflow("an export traces with TensorFlow")
def test_lora_export_merges_a_copy():
    from keras_attn.export._trace.portable_copy import portable_copy

    trainer = TrainingModel(*parts())
    randomize(enable_lora(trainer, 4, 8, ("query", "output"), ("expansion", "contraction")))
    inputs = {"source_ids": SOURCE, "target_ids": TARGET}
    before = numpy_of(trainer(inputs))
    (copy,) = portable_copy(trainer)
    assert not any("lora" in weight.name for weight in copy.weights)
    np.testing.assert_allclose(numpy_of(copy(inputs)), before, atol=1e-5)
    np.testing.assert_array_equal(numpy_of(trainer(inputs)), before)


@requires_tensorflow("an export traces with TensorFlow")
@pytest.mark.parametrize("form", ["onnx", "litert"])
def test_lora_export_of_a_functional_model_has_merged_kernels(tmp_path, form):
    pytest.importorskip("tf2onnx" if form == "onnx" else "ai_edge_litert")
    from keras_attn import export

    inputs = keras.Input((5, 8), name="inputs")
    outputs = keras.layers.Dense(3)(TransformerEncoderBlock(2, 16)(inputs))
    model = keras.Model(inputs, outputs)
    before = numpy_of(model(X))
    randomize(enable_lora(model, 2, 8, ("query", "output"), ("expansion",)))
    expected = numpy_of(model(X))
    assert np.abs(expected - before).max() > 0.1
    path = tmp_path / "model"
    function = getattr(export, f"export_functional_{form}")
    assert function(model, path, X).largest_difference <= 1e-5
    np.testing.assert_array_equal(numpy_of(model(X)), expected)
    assert b"lora" not in path.read_bytes()


@pytest.mark.parametrize(
    "policy", all_slow_but("mixed_bfloat16", cases=["float32", "mixed_bfloat16"])
)
def test_lora_fit_trains_only_the_updates(policy):
    keras.config.set_dtype_policy(policy)
    try:
        trainer = TrainingModel(*parts())
    finally:
        keras.config.set_dtype_policy("float32")
    updates = enable_lora(trainer, 4)
    names = {id(each) for each in updates}
    assert {id(each) for each in trainer.trainable_variables} == names
    assert {each.dtype for each in updates} == {"float32"}
    frozen = [each for each in trainer.variables if id(each) not in names]
    frozen = [each for each in frozen if "seed_generator" not in each.path]
    before = [numpy_of(each) for each in frozen]
    optimizer = keras.optimizers.Adam(0.01, gradient_accumulation_steps=2)
    trainer.compile(optimizer, SequenceCrossentropy(), jit_compile=False)
    data = {"source_ids": SOURCE, "target_ids": TARGET}
    losses = trainer.fit(data, LABELS, batch_size=2, epochs=8, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    for old, variable in zip(before, frozen, strict=True):
        np.testing.assert_array_equal(old, numpy_of(variable))
    assert all(np.any(numpy_of(each)) for each in updates)
    with pytest.raises(ValueError, match="Call enable_lora before compile"):
        enable_lora(trainer, 4)


def test_lora_saved_models_keep_the_updates(tmp_path):
    trainer = TrainingModel(*parts())
    updates = enable_lora(trainer, 4, 16.0, feed_forward_kernels=["contraction"])
    randomize(updates)
    inputs = {"source_ids": SOURCE, "target_ids": TARGET}
    expected = numpy_of(trainer(inputs))
    trainer.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(numpy_of(loaded(inputs)), expected, atol=1e-6)
    again = enable_lora(loaded, 4, feed_forward_kernels=["contraction"])
    assert len(loaded.trainable_variables) == len(again) == len(updates)
    for one, other in zip(updates, again, strict=True):
        np.testing.assert_array_equal(numpy_of(one), numpy_of(other))
    with pytest.raises(ValueError, match="rank=4"):
        enable_lora(loaded, 3)


def test_lora_weights_without_updates_reset_them(tmp_path):
    trainer = TrainingModel(*parts())
    inputs = {"source_ids": SOURCE, "target_ids": TARGET}
    expected = numpy_of(trainer(inputs))
    trainer.save_weights(tmp_path / "model.weights.h5")
    randomize(enable_lora(trainer, 2))
    assert np.abs(numpy_of(trainer(inputs)) - expected).max() > 0.01
    trainer.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_allclose(numpy_of(trainer(inputs)), expected, atol=1e-6)


def test_lora_refuses_layers_that_it_cannot_adapt():
    layer = MultiHeadAttention(2, 4)
    with pytest.raises(ValueError, match="Expected a layer that is built"):
        layer.enable_lora(2)
    layer(X)
    for arguments, message in (
        ({"rank": 0}, "rank"),
        ({"rank": 9}, "Expected rank to be at most 8"),
        ({"rank": 2, "kernels": ["gate"]}, "Expected kernels to be some of"),
        ({"rank": 2, "lora_alpha": -1.0}, "lora_alpha"),
    ):
        with pytest.raises(ValueError, match=message):
            layer.enable_lora(**arguments)
    layer.trainable = False
    with pytest.raises(ValueError, match="Expected a trainable layer"):
        layer.enable_lora(2)
    with pytest.raises(ValueError, match="trainable keras_attn.MultiHeadAttention"):
        enable_lora(layer, 2)
    layer.trainable = True
    layer.enable_lora(2)
    with pytest.raises(ValueError, match="Expected a layer without LoRA"):
        layer.enable_lora(2)
    constrained = MultiHeadAttention(2, 4, kernel_constraint="max_norm")
    constrained(X)
    with pytest.raises(ValueError, match="kernel_constraint"):
        constrained.enable_lora(2)
    quantized = FeedForward(16)
    quantized(X)
    quantized.contraction.quantize("int8")
    with pytest.raises(ValueError, match="not quantized"):
        quantized.enable_lora(2)


def test_lora_names_what_replaces_the_attention_of_keras():
    inputs = keras.Input((5, 8))
    attention = keras.layers.MultiHeadAttention(2, 4, name="theirs")
    model = keras.Model(inputs, attention(inputs, inputs))
    with pytest.raises(ValueError, match=r"\['theirs'\] are Keras layers: use keras_attn.Multi"):
        enable_lora(model, 2)
    attention.query_dense.enable_lora(2)  # the other advice of the message
    assert attention.query_dense.lora_enabled


def test_loaded_lora_continues_without_a_warning(tmp_path):
    """Keras builds the optimizer of a compiled file for all weights, and warns."""
    inputs = keras.Input(X.shape[1:])
    model = keras.Model(inputs, MultiHeadAttention(2, 4)(inputs, inputs))
    enable_lora(model, 2)
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    model.save(tmp_path / "model.keras")
    with pytest.warns(UserWarning, match="Skipping variable loading for optimizer"):
        loaded = keras.saving.load_model(tmp_path / "model.keras")
    with pytest.raises(ValueError, match="Load a saved model with compile=False"):
        enable_lora(loaded, 2)
    with warnings.catch_warnings(action="error"):
        loaded = keras.saving.load_model(tmp_path / "model.keras", compile=False)
    assert len(enable_lora(loaded, 2)) == len(loaded.trainable_variables) == 4


def copies(model):
    """Copies of a model with the same weights, by each way in which Keras copies."""
    cloned = keras.models.clone_model(model)
    from_json = keras.models.model_from_json(model.to_json())
    for copy in (cloned, from_json):
        copy.set_weights(model.get_weights())
    return cloned, from_json, pickle.loads(pickle.dumps(model))


def test_lora_is_kept_by_copies_of_a_configuration():
    trainer = TrainingModel(*parts())
    block = trainer.decoder.stack.blocks[0]
    block.feed_forward.enable_lora(3, 5.0, ["contraction"])  # another rank than the attention has
    enable_lora(trainer, 2, 8)
    randomize(each for each in trainer.weights if "lora" in each.name)
    inputs = {"source_ids": SOURCE, "target_ids": TARGET}
    expected = numpy_of(trainer(inputs))
    for copy in copies(trainer):
        np.testing.assert_allclose(numpy_of(copy(inputs)), expected, atol=1e-5)
        assert copy.decoder.stack.blocks[0].feed_forward.lora_alpha == 5.0
    merge_lora(trainer)
    for copy in copies(trainer):  # the configuration has no updates any more
        assert not any("lora" in each.name for each in copy.weights)
        np.testing.assert_allclose(numpy_of(copy(inputs)), expected, atol=1e-5)


def test_lora_is_kept_by_the_configuration_of_an_ensemble():
    encoder, decoder = parts()
    translator = GenerationModel(encoder, BeamDecoder(decoder, beam_width=2, max_length=6))
    enable_lora(translator, 2)
    search = ensemble_model([translator, translator]).search
    copy = type(search).from_config(search.get_config())
    layers = [each for each in flatten_layers([copy]) if isinstance(each, MultiHeadAttention)]
    assert layers and all(each.get_config()["lora"] for each in layers)


@pytest.mark.parametrize("name", LAYERS)
def test_lora_is_kept_by_the_configuration_of_each_layer(name):
    layer, inputs = layer_and_inputs(name)
    if not any(isinstance(each, LowRankAdaptation) for each in flatten_layers([layer])):
        pytest.skip("no kernels to adapt")
    layer(**inputs)
    for each in flatten_layers([layer]):
        if isinstance(each, LowRankAdaptation):
            each.enable_lora(2, 4.0)
    copy = type(layer).from_config(layer.get_config())
    copy(**inputs)
    assert low_rank_settings(copy) == low_rank_settings(layer)
    assert [each.shape for each in copy.weights] == [each.shape for each in layer.weights]


def test_lora_of_a_template_is_refused():
    block = TransformerEncoderBlock(2, 8)
    block(X)
    enable_lora(block, 2)
    with pytest.raises(ValueError, match=r"Expected a layer without low-rank updates"):
        TransformerEncoder(block, keras.layers.Embedding(9, 8), num_layers=2)
