"""Training of converted models: LoRA, its exports, resuming, bfloat16, and frozen parts."""

import keras
import numpy as np
import pytest

from keras_attn import TrainingModel
from keras_attn.convert import from_transformers
from keras_attn.training import compile_for_training, enable_lora, fit
from tests.backend import requires_tensorflow
from tests.convert.lora_options import LORA
from tests.convert.small_checkpoints import (
    PAD,
    VOCABULARY_SIZE,
    marian_weights,
    random_sources,
    write_folder,
)
from tests.export.small_translator import litert_settings
from tests.slow_cases import all_slow_but

pytest.importorskip("safetensors")

SOURCES = random_sources(6)
STEPS = 4


class Batches:
    """Batches whose targets are their sources."""

    steps_per_epoch = STEPS

    def stream(self, start_step=0):
        step = start_step
        while True:
            sources = random_sources(4, length=7, seed=step % STEPS)
            starts = np.full((len(sources), 1), PAD, "int32")
            targets = np.concatenate([starts, sources[:, :-1]], axis=1)
            yield {"source_ids": sources, "target_ids": targets}, sources
            step += 1

    def dataset(self, start_step=0):
        import tensorflow as tf

        ids = tf.TensorSpec((None, None), tf.int32)
        signature = ({"source_ids": ids, "target_ids": ids}, ids)
        return tf.data.Dataset.from_generator(
            lambda: self.stream(start_step), output_signature=signature
        )


class StopAt(keras.callbacks.Callback):
    """Interrupts a training within the second epoch."""

    steps_run = 0

    def on_train_batch_end(self, batch, logs=None):
        self.steps_run += 1
        if self.steps_run == STEPS + 2:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    generation = {"num_beams": 2, "max_length": 8, "bad_words_ids": [[PAD]]}
    generation |= {"eos_token_id": 0, "decoder_start_token_id": PAD, "pad_token_id": PAD}
    path = tmp_path_factory.mktemp("checkpoint") / "marian"
    weights = {
        name: value * (3 if value.ndim > 1 else 1) + ("norm.weight" in name)
        for name, value in marian_weights(seed=0).items()
    }
    weights["final_logits_bias"][0, 0] += 6  # some hypotheses end early
    return write_folder(path, weights=weights, generation_config=generation)


@pytest.fixture
def policy():
    """Sets the policy of the layers that are created afterwards."""
    yield keras.config.set_dtype_policy
    keras.config.set_dtype_policy("float32")


def trainer_of(model):
    return TrainingModel(model.encoder, model.decoder)


def arrays(variables):
    return [keras.ops.convert_to_numpy(keras.ops.cast(each, "float32")) for each in variables]


def assert_equal(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture(scope="module")
def adapted(folder):
    """Returns a converted model with random low-rank updates, and its results."""
    model = from_transformers(folder).model
    before = model(SOURCES)
    for seed, each in enumerate(enable_lora(trainer_of(model), **LORA)):
        each.assign(np.random.default_rng(seed).normal(0, 0.4, each.shape))
    after = model(SOURCES)
    assert np.any(np.array(after["token_ids"]) != np.array(before["token_ids"]))
    assert len(np.unique(after["token_ids"], axis=0)) >= 4
    assert len(np.unique(after["lengths"])) >= 2
    return model, {name: np.array(value) for name, value in after.items()}


def check_outputs(found, adapted):
    """Compares an exported file with the model whose updates are not merged."""
    model, expected = adapted
    assert any("lora" in each.name for each in model.weights)
    # Files of other formats have other numbers of padding ids.
    steps = expected["lengths"].max()
    ids = [np.array(each["token_ids"])[:, :, :steps] for each in (found, expected)]
    np.testing.assert_array_equal(*ids)
    np.testing.assert_array_equal(found["lengths"], expected["lengths"])
    for name in ("scores", "log_probs"):
        np.testing.assert_allclose(found[name], expected[name], atol=1e-5)


LIMITS = {"max_length": np.array(7, "int32"), "length_penalty": np.array(1, "float32")}


@requires_tensorflow("an export traces with TensorFlow")
def test_lora_of_a_converted_model_is_merged_in_an_onnx_file(adapted, tmp_path):
    pytest.importorskip("onnxruntime")
    import onnx

    from keras_attn.export import export_onnx
    from tests.export.small_translator import session

    path = tmp_path / "model.onnx"
    assert export_onnx(adapted[0], path).best_equal == 1
    assert not any("lora" in each.name for each in onnx.load(path).graph.initializer)
    file = session(path)
    names = [each.name for each in file.get_outputs()]
    outputs = file.run(None, {"source_ids": SOURCES, **LIMITS})
    check_outputs(dict(zip(names, outputs, strict=True)), adapted)


@requires_tensorflow("an export traces with TensorFlow")
def test_lora_of_a_converted_model_is_merged_in_a_saved_model(adapted, tmp_path):
    tf = pytest.importorskip("tensorflow")
    from keras_attn.export import export_saved_model

    export_saved_model(adapted[0], tmp_path / "saved")
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    variables = tf.train.list_variables(str(tmp_path / "saved/variables/variables"))
    shapes = [shape for _, shape in variables]
    assert [8, 12] in shapes and [8, LORA["rank"]] not in shapes
    limits = {name: tf.constant(value) for name, value in LIMITS.items()}
    found = loaded.translate_ids(tf.constant(SOURCES), **limits)
    check_outputs(found, adapted)


@requires_tensorflow("an export traces with TensorFlow")
def test_lora_of_a_converted_model_is_merged_in_a_litert_file(adapted, tmp_path):
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    from keras_attn.export import export_litert

    export_litert(adapted[0], tmp_path / "model.tflite")
    file = interpreter.Interpreter(str(tmp_path / "model.tflite"))
    runner = file.get_signature_runner("serving_default")
    model, expected = adapted
    for row, source in enumerate(SOURCES):  # these files read one source
        outputs = {name: values[row : row + 1] for name, values in expected.items()}
        limits = {**LIMITS, **litert_settings(model.search)}
        check_outputs(runner(source_ids=source[None], **limits), (model, outputs))


@pytest.mark.parametrize("lora", [LORA, pytest.param(None, marks=pytest.mark.slow)])
def test_an_interrupted_training_continues_with_equal_weights(folder, tmp_path, lora):
    def train(directory, seed=0, callbacks=()):
        keras.utils.set_random_seed(seed)
        trainer = trainer_of(from_transformers(folder).model)
        if lora:
            enable_lora(trainer, **lora)
        else:
            trainer.encoder.trainable = False
        compile_for_training(trainer, 0.01, ignore_class=PAD)
        initial = arrays(trainer.trainable_variables)
        fit(
            trainer,
            Batches(),
            epochs=3,
            directory=directory,
            save_steps=1,
            callbacks=callbacks,
            verbose=0,
        )
        return trainer, initial

    unbroken, initial = train(tmp_path / "unbroken")
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "stopped", callbacks=[StopAt()])
    resumed, other = train(tmp_path / "stopped", seed=1)
    if lora:  # other random updates at first
        assert any(np.any(one != two) for one, two in zip(initial, other, strict=True))
    assert int(resumed.optimizer.iterations) == 3 * STEPS
    slots = resumed.optimizer.variables
    assert len(slots) == 2 + 2 * len(resumed.trainable_variables)  # Adam: two moments
    assert_equal(arrays(resumed.variables), arrays(unbroken.variables))
    assert_equal(arrays(slots), arrays(unbroken.optimizer.variables))


@pytest.mark.parametrize(
    ("dtype", "accumulation", "frozen"),
    all_slow_but(
        ("float32", 2, "encoder"),
        ("mixed_bfloat16", None, "embedding"),
        cases=[
            ("float32", None, "nothing"),
            ("float32", 2, "encoder"),
            ("mixed_bfloat16", None, "embedding"),
            ("mixed_bfloat16", 2, "nothing"),
        ],
    ),
)
def test_a_converted_model_is_trained(folder, policy, dtype, accumulation, frozen):
    policy(dtype)
    model = from_transformers(folder).model
    trainer = trainer_of(model)
    assert trainer.decoder.stack.blocks[0].feed_forward.compute_dtype == dtype[-8:].strip("_")
    if frozen == "encoder":
        model.encoder.trainable = False
    elif frozen == "embedding":
        model.encoder.embedding.trainable = False
    compile_for_training(trainer, 0.02, ignore_class=PAD, gradient_accumulation_steps=accumulation)
    assert {each.dtype for each in trainer.trainable_variables} == {"float32"}
    fixed = [each for each in trainer.variables if not each.trainable and "seed" not in each.path]
    assert bool(fixed) == (frozen != "nothing")
    before, moving = arrays(fixed), arrays(trainer.trainable_variables)
    losses = fit(trainer, Batches(), epochs=8, verbose=0).history["loss"]
    assert losses[-1] < losses[0] - 0.3
    assert int(trainer.optimizer.iterations) == 8 * STEPS // (accumulation or 1)
    assert_equal(arrays(fixed), before)
    changed = [
        np.any(one != two)
        for one, two in zip(arrays(trainer.trainable_variables), moving, strict=True)
    ]
    assert all(changed)
    assert np.array(model(SOURCES)["token_ids"]).max() < VOCABULARY_SIZE
