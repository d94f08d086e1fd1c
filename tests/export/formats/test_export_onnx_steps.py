import pickle
import re
import sys

import keras
import numpy as np
import onnx
import pytest
from keras_attn_runtime import ModelFileError, SteppedModel, StreamingTranslator, Translator
from keras_attn_runtime._models.exported_model import ExportedModel

from keras_attn import (
    AttentionRNNCell,
    BahdanauAttention,
    CombinedAttention,
    GenerationModel,
    GreedyDecoder,
    RNNDecoder,
    transformer_seq2seq,
)
from keras_attn.export import ExportError, export_onnx, export_onnx_steps
from keras_attn.export._checks.onnx_runner import open_session
from tests.backend import precision
from tests.export.small_translator import SOURCE, make_translator

SENTENCES = [[5, 6, 7, 2], [9, 2], [3, 4, 5, 6, 7, 8, 9, 10, 2]]


@pytest.fixture(scope="module")
def directory(translator, tokenizers, tmp_path_factory):
    path = tmp_path_factory.mktemp("steps") / "model"
    report = export_onnx_steps(translator, path, *tokenizers, parity_sentences=SOURCE)
    assert report.sentences >= 200 and report.best_equal == 1 and report.cut > 0
    return path


def assert_same_results(model, stepped, *arguments):
    expected, actual = (each.run(SENTENCES, *arguments) for each in (model, stepped))
    assert set(actual) == set(expected)
    for name in expected:
        if expected[name].dtype == "int32":
            np.testing.assert_array_equal(actual[name], expected[name])
        np.testing.assert_allclose(actual[name], expected[name], rtol=1e-5, atol=1e-6)
    return actual


@pytest.mark.parametrize(("max_length", "length_penalty"), [(30, 1.0), (6, 0.3)])
def test_gives_the_results_of_the_one_file(directory, exported, max_length, length_penalty):
    assert_same_results(
        ExportedModel(exported[0]), SteppedModel(directory), max_length, length_penalty
    )


@pytest.mark.slow
def test_greedy_search_with_alignments_and_a_cache_that_grows(tmp_path):
    encoder, decoder = transformer_seq2seq(
        20, 20, num_layers=1, num_heads=2, embedding_dim=8, intermediate_dim=16, seed=1
    )
    requested = {"return_token_log_probs": True, "return_top_tokens": 2}
    search = GreedyDecoder(decoder, max_length=12, **requested)
    model = GenerationModel(encoder, search)
    report = export_onnx_steps(model, tmp_path / "steps", alignments=True)
    assert report.best_equal == 1 and not model.layers[-1].return_alignments
    step, finish = (onnx.load(tmp_path / "steps" / f"{name}.onnx") for name in ("step", "finish"))
    outputs = {output.name for output in finish.graph.output}
    assert outputs >= {"alignments", "token_log_probs", "top_token_ids", "top_token_log_probs"}
    operators = {node.op_type for node in step.graph.node}
    assert "MatMul" in operators and not operators & {"Loop", "If"}


def test_translations_are_those_of_the_one_file(directory, exported):
    expected = Translator(exported[0]).translate(SOURCE, num_hypotheses=2)
    actual = StreamingTranslator(directory, num_workers=2).translate(SOURCE, num_hypotheses=2)
    assert [each.text for each in actual] == [each.text for each in expected]
    np.testing.assert_allclose(
        [each.score for each in actual], [each.score for each in expected], rtol=1e-5
    )


@pytest.mark.parametrize("options", [{}, {"max_length": 4}])
def test_shows_a_translation_token_by_token(directory, options):
    translator = StreamingTranslator(directory)
    for text in SOURCE:
        (translation,) = translator.translate([text], **options)
        shown = list(translator.stream(text, **options))
        assert shown[-1] == translation.text
        # The search may have continued for hypotheses that were not returned.
        assert len(shown) >= len(translation.token_ids) > 1


def test_the_host_sees_what_goes_from_step_to_step(directory):
    search = SteppedModel(directory).start(SENTENCES, 30, 1.0)
    assert search.values["beams/log_probs"].numpy().shape == (3, 3)
    for step, partial in enumerate(search, start=1):
        assert partial.shape == (3, step) and search.values["step"].numpy() == step
    assert search.done and next(search, None) is None


def test_streams_nothing_of_nothing_and_refuses_what_translate_refuses(directory):
    translator = StreamingTranslator(directory, max_source_length=8)
    assert list(translator.stream(" ")) == list(translator.stream("a dog", max_length=0)) == [""]
    for text in ("a dog eats the bone", None):
        with pytest.raises(ValueError, match="Sentence 0"):
            translator.stream(text)
    with pytest.raises(ValueError, match="length_penalty"):
        translator.stream("a dog", length_penalty=-1)


def test_a_failing_step_is_told(directory):
    with pytest.raises(ModelFileError, match="failed on 1 sentences of up to 2 tokens"):
        SteppedModel(directory).start([[45_000, 2]], 30, 1.0)


def test_files_of_different_exports_are_refused(directory, tmp_path):
    for name in ("start.onnx", "finish.onnx"):
        (tmp_path / name).write_bytes((directory / name).read_bytes())
    step = onnx.load(directory / "step.onnx")
    onnx.helper.set_model_props(step, {"keras_attn.start": "of another"})
    onnx.save(step, tmp_path / "step.onnx")
    with pytest.raises(ModelFileError, match="Expected a step.onnx of the same export"):
        SteppedModel(tmp_path)


@pytest.mark.parametrize("name", ["partial", "next/done"])
def test_step_that_does_not_give_what_the_loop_reads_is_refused(directory, tmp_path, name):
    for each in ("start.onnx", "finish.onnx"):
        (tmp_path / each).write_bytes((directory / each).read_bytes())
    step = onnx.load(directory / "step.onnx")
    del step.metadata_props[-1]  # its checksum
    (output,) = [each for each in step.graph.output if each.name == name]
    step.graph.node.append(onnx.helper.make_node("Cast", [name], ["floats"], to=1))
    output.name, output.type.tensor_type.elem_type = "floats", onnx.TensorProto.FLOAT
    onnx.save(step, tmp_path / "step.onnx")
    with pytest.raises(ModelFileError, match=f"Expected values for .*{name.split('/')[-1]}"):
        SteppedModel(tmp_path)


def test_streaming_translator_and_stepped_model_pickle(directory):
    translator = StreamingTranslator(directory, max_source_length=8)
    restored = pickle.loads(pickle.dumps(translator))
    assert type(restored) is StreamingTranslator and restored.max_source_length == 8
    assert list(restored.stream("a dog")) == list(translator.stream("a dog"))
    model = SteppedModel(directory)
    assert_same_results(pickle.loads(pickle.dumps(model)), model, 30, 1.0)


def test_files_without_checksums_are_not_told_apart(directory, tmp_path):
    """Errors about checksums advise this for files that were edited on purpose."""
    for name in ("step.onnx", "finish.onnx"):
        (tmp_path / name).write_bytes((directory / name).read_bytes())
    start = onnx.load(directory / "start.onnx")
    (checksum,) = [e for e in start.metadata_props if e.key == "keras_attn.file_checksum"]
    start.metadata_props.remove(checksum)
    onnx.save(start, tmp_path / "start.onnx")
    assert_same_results(SteppedModel(directory), SteppedModel(tmp_path), 30, 1.0)


def test_the_one_file_and_the_steps_are_told_apart(directory, exported):
    with pytest.raises(ModelFileError, match=re.escape("Expected a file with inputs")):
        Translator(directory / "start.onnx")
    with pytest.raises(ModelFileError, match="Expected a directory with start.onnx.*a file. Use"):
        StreamingTranslator(exported[0])


def test_a_disagreement_leaves_the_old_directory(directory, translator, monkeypatch):
    def copy_wrongly(model, path):
        path.write_bytes((directory / path.name).read_bytes())
        run = open_session(path)
        if path.name == "finish.onnx":
            return lambda **values: {**run(**values), "scores": run(**values)["scores"] + 0.01}
        return run

    module = sys.modules["keras_attn.export._formats.export_onnx_steps"]
    for name in ("trace", "convert", "clean"):
        monkeypatch.setattr(module, name, lambda *_: None)
    monkeypatch.setattr(module, "write_model", copy_wrongly)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    with pytest.raises(ExportError, match="largest difference"):
        export_onnx_steps(translator, directory)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
    assert list(directory.parent.iterdir()) == [directory]


def test_streams_nothing_where_the_limit_is_no_tokens(directory, monkeypatch):
    translator = StreamingTranslator(directory)
    monkeypatch.setattr(translator._model, "start_source", lambda *arguments: iter([]))
    assert list(translator.stream("a dog")) == [""]


@pytest.mark.parametrize("names", [None, ("text", "tags")])
def test_the_implicit_mask_of_an_encoder_counts(tmp_path, names):
    class Encoder(keras.Layer):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.embedding = keras.layers.Embedding(20, 8, mask_zero=True)
            self.supports_masking = True

        def call(self, ids):
            return {"encoder_outputs": self.each(self.embedding(ids))}

        def compute_mask(self, ids, previous_mask):
            return {"encoder_outputs": self.each(self.embedding.compute_mask(ids))}

        def each(self, value):
            return value if names is None else dict.fromkeys(names, value)

    attention = BahdanauAttention(8)
    if names is not None:
        attention = CombinedAttention({name: BahdanauAttention(8) for name in names})
    cell = AttentionRNNCell(keras.layers.GRUCell(8), attention, attention_units=8)
    decoder = RNNDecoder(cell, keras.layers.ReversibleEmbedding(20, 8), bridge="zero")
    model = GenerationModel(Encoder(), GreedyDecoder(decoder, max_length=6))
    report = export_onnx_steps(model, tmp_path / "steps")
    assert report.best_equal == 1


@pytest.mark.slow
def test_a_model_of_mixed_precision_is_exported_in_that_of_its_weights(tmp_path):
    with precision("mixed_float16"):
        translator = make_translator()
    assert export_onnx_steps(translator, tmp_path / "steps").best_equal == 1


@pytest.mark.slow
def test_begins_as_it_is_told(translator, tokenizers, tmp_path):
    for export, name in ((export_onnx, "model.onnx"), (export_onnx_steps, "steps")):
        export(translator, tmp_path / name, *tokenizers, accept_target_prefix=True)
    prefixes = ["die", "", "zwei v", "ein"]
    stepped = StreamingTranslator(tmp_path / "steps")
    one_file = Translator(tmp_path / "model.onnx").translate(SOURCE, prefixes)
    assert [each.text for each in stepped.translate(SOURCE, prefixes)] == [
        each.text for each in one_file
    ]
    for text, prefix, translation in zip(SOURCE, prefixes, one_file, strict=True):
        *shown, last = stepped.stream(text, target_prefix=prefix)
        assert last == translation.text and last.startswith(prefix)
        assert all(prefix.startswith(each) or each.startswith(prefix) for each in shown)
