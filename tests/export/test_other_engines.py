"""Exported files return the same ids in engines other than ONNX Runtime.

Both engines ignore the input `sequence_lens` of LSTM and GRU operators, which contains the lengths
of the sentences: the reference of onnx 1.23 always, OpenVINO 2026.4 if the sizes of the inputs are
dynamic. So recurrent encoders get batches without padding.

Install OpenVINO with `pip install -e '.[openvino]'`. Its tests are skipped if it is missing.
"""

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from keras_attn import BeamDecoder, GenerationModel, transformer_seq2seq
from keras_attn.export import export_onnx
from tests.export.small_translator import make_translator, session, settings_of

pytestmark = pytest.mark.slow


def make_transformer():
    encoder, decoder = transformer_seq2seq(
        45, 46, num_layers=2, num_heads=2, embedding_dim=16, intermediate_dim=32, seed=3
    )
    search = BeamDecoder(
        decoder,
        beam_width=3,
        num_hypotheses=2,
        max_length=12,
        return_token_log_probs=True,
        return_top_tokens=2,
    )
    return GenerationModel(encoder, search)


MODELS = {
    "transformer": make_transformer,
    "lstm": lambda: make_translator(max_length=12),
    "rules": lambda: make_translator(
        cell="gru", max_length=12, no_repeat_ngram_size=2, min_length=6, num_groups=3
    ),
}
FILES = [("transformer", "float32"), ("transformer", "int8"), ("lstm", "float32"), ("lstm", "int8")]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    directory, made = tmp_path_factory.mktemp("engines"), {}

    def export(name, precision):
        if (name, precision) not in made:
            made[name, precision] = directory / f"{name}-{precision}.onnx"
            export_onnx(MODELS[name](), made[name, precision], precision=precision)
        return made[name, precision]

    return export


def batches(sentences, size, padded):
    """Yields batches of inputs for random sentences of 1 to 9 tokens, with or without padding."""
    rng = np.random.default_rng(0)
    for begin in range(0, sentences, size):
        count = min(size, sentences - begin)
        lengths = rng.integers(1, 10, count) if padded else np.full(count, rng.integers(1, 10))
        ids = rng.integers(3, 45, (len(lengths), 10)).astype("int32")
        ids[np.arange(10) == lengths[:, None]] = 2
        ids[np.arange(10) > lengths[:, None]] = 0
        yield {
            "source_ids": ids[:, : lengths.max() + 1],
            "max_length": np.array(12, "int32"),
            "length_penalty": np.array(1.0, "float32"),
        }


def share_of_equal_hypotheses(path, run, sentences, size=8):
    """Returns the fraction of hypotheses with the ids of ONNX Runtime, and compares their scores.

    Args:
        path: path of the exported file.
        run: function that runs another engine; maps inputs to a list of outputs.
        sentences, size: ints, number of sentences and batch size.
    """
    opened, equal = session(path), []
    names = [each.name for each in opened.get_outputs()]
    for inputs in batches(sentences, size, padded="transformer" in path.name):
        inputs |= settings_of(opened)
        expected = dict(zip(names, opened.run(None, inputs), strict=True))
        received = dict(zip(names, run(inputs), strict=True))
        assert received["token_ids"].shape[:2] == expected["token_ids"].shape[:2]
        steps = max(each["token_ids"].shape[2] for each in (expected, received))
        ids = [
            np.pad(each["token_ids"], [(0, 0), (0, 0), (0, steps - each["token_ids"].shape[2])])
            for each in (expected, received)
        ]
        is_equal = (ids[0] == ids[1]).all(axis=-1) & (expected["lengths"] == received["lengths"])
        difference = np.abs(expected["scores"] - received["scores"])[is_equal]
        assert difference.max(initial=0) < 1e-4 or "int8" in str(path)
        equal.append(is_equal)
    return np.concatenate(equal).mean()


@pytest.mark.parametrize(("name", "precision"), [*FILES, ("rules", "float32")])
def test_openvino_finds_equal_ids(exported, name, precision):
    openvino = pytest.importorskip("openvino", reason="needs keras-attn[openvino]")
    path = exported(name, precision)
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    outputs = [each.name for each in session(path).get_outputs()]

    def run(inputs):
        results = compiled(inputs)
        return [results[output] for output in outputs]

    assert share_of_equal_hypotheses(path, run, 200) >= (1.0 if precision == "float32" else 0.95)


class GatherElements(OpRun):
    """Replaces the operator of onnx.reference, which fails for matrices of more than 64 columns."""

    op_domain = ""

    def _run(self, data, indices, axis=0):
        return (np.take_along_axis(data, indices, axis),)


@pytest.mark.parametrize(("name", "precision"), [*FILES, ("rules", "float32")])
def test_the_reference_of_onnx_finds_equal_ids(exported, name, precision):
    path = exported(name, precision)
    evaluator = ReferenceEvaluator(onnx.load(path), new_ops=[GatherElements])
    run = lambda inputs: evaluator.run(None, inputs)  # noqa: E731
    least = 1.0 if precision == "float32" else 0.9
    assert share_of_equal_hypotheses(path, run, 8, size=4) >= least
