"""Export of a causal language model to one file that reads prompts and writes continuations."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras_attn_runtime import StreamingTranslator, Translator

from keras_attn import (
    AlibiBias,
    BeamDecoder,
    CausalLanguageModel,
    GenerationModel,
    RotaryPositions,
    TransformerDecoderBlock,
)
from keras_attn.export import (
    export_onnx,
    export_onnx_steps,
    export_onnx_text,
    export_saved_model,
)
from keras_attn.export._checks.parity_sources import pad
from keras_attn.export._formats.export_onnx_text import _run
from keras_attn.text import SentencePieceTokenizer
from tests.contracts import numpy, randomize
from tests.export.small_translator import session

VOCABULARY_SIZE = 12
PROMPT_IDS = np.array(
    [[1, 5, 6, 7, 8], [9, 0, 0, 0, 0], [0, 0, 0, 0, 0], [4, 4, 11, 0, 0]], "int32"
)


def generator(
    make_search=BeamDecoder, cache_block_size=None, start_prompts=False, scale=0.8, **arguments
):
    model = CausalLanguageModel(
        TransformerDecoderBlock(
            2,
            16,
            cross_attention=False,
            rotary=RotaryPositions(),
            num_key_value_heads=1,
            activation="gelu",
        ),
        keras.layers.ReversibleEmbedding(VOCABULARY_SIZE, 8),
        num_layers=1,
        position_bias=AlibiBias(2),
        cache_block_size=cache_block_size,
    )
    model(PROMPT_IDS)
    randomize(model, scale=scale, seed=1)  # hypotheses of several lengths
    search = make_search(
        model, num_hypotheses=2, max_length=9, relative_max_length=None, **arguments
    )
    start_token_id = search.start_token_id if start_prompts else None
    return GenerationModel(None, search, source_start_token_id=start_token_id, name="generator")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer") / "text"
    path.write_text("abc def\nfed cab g\n" * 5)
    return SentencePieceTokenizer.train(path, VOCABULARY_SIZE, "char")


@pytest.fixture(scope="module")
def exported_generator(tokenizer, tmp_path_factory):
    """Returns a model, its exported file and the report of the export."""
    model = generator(beam_width=3, min_length=2)
    path = tmp_path_factory.mktemp("generator") / "generator.onnx"
    return model, path, export_onnx(model, path, tokenizer)


def test_the_file_continues_prompts_as_keras_does(exported_generator):
    assert_continues_as_keras_does(*exported_generator)


@pytest.mark.slow
def test_weights_of_4_bits(tmp_path):
    """The weights of the blocks are in two graphs: before the loop of the search and inside it."""
    report = export_onnx(generator(scale=0.2), tmp_path / "generator.onnx", precision="int4")
    assert 0 < report.precision.mean_difference < 0.3


@pytest.mark.slow
def test_a_file_that_archives_does_too(tmp_path):
    model, path = generator(beam_width=3, min_length=2, cache_block_size=2), tmp_path / "model.onnx"
    assert_continues_as_keras_does(model, path, export_onnx(model, path))


def assert_continues_as_keras_does(model, path, report):
    assert report.best_equal == report.all_equal == 1.0
    opened = session(path)
    names = [output.name for output in opened.get_outputs()]
    lengths = set()
    for prompt_ids in (PROMPT_IDS, PROMPT_IDS[:1], PROMPT_IDS[1:3, :1], np.zeros((0, 3), "int32")):
        inputs = {
            "source_ids": prompt_ids,
            "max_length": np.array(9, "int32"),
            "length_penalty": np.array(1.0, "float32"),
        }
        actual = dict(zip(names, opened.run(names, inputs), strict=True))
        expected = numpy(model(prompt_ids))
        for name in ("token_ids", "lengths"):
            np.testing.assert_array_equal(actual[name], expected[name])
        for name in ("scores", "log_probs"):
            np.testing.assert_allclose(actual[name], expected[name], rtol=1e-5, atol=1e-5)
        lengths |= set(expected["lengths"].flat)
    assert len(lengths) > 2


@pytest.mark.slow
def test_all_forms_go_on_behind_a_text_and_not_behind_its_end(
    exported_generator, tokenizer, tmp_path
):
    pytest.importorskip("onnxruntime_extensions", reason="needs keras-attn[strings]")
    texts = ["abc", "f", "dada fed"]
    ids = tokenizer.encode(texts)
    model, path, _ = exported_generator
    found = numpy(model(pad(ids)))["token_ids"][:, 0]
    expected = tokenizer.decode(found)
    assert len(set(expected)) == 3
    assert_all_forms_continue(model, path, tokenizer, texts, ids, expected, tmp_path)


@pytest.mark.slow
def test_all_forms_know_a_search_with_other_special_ids(tokenizer, tmp_path):
    """The end token is an ordinary piece and also the padding token, as in GPT.

    The texts contain it in the middle and at the end.
    """
    pytest.importorskip("onnxruntime_extensions", reason="needs keras-attn[strings]")
    texts = ["abcd", "f", "cad fed"]
    space, start, end = (tokenizer.encode([f"b{piece}b"])[0][-2] for piece in " ad")
    ids = [[start, *row] for row in tokenizer.encode(texts)]
    model = generator(
        beam_width=3,
        start_prompts=True,
        start_token_id=start,
        end_token_id=end,
        pad_token_id=end,
        suppressed_token_ids=[0, 1, 3, 11, start, space],
    )
    lengths = np.array([[len(each)] for each in ids])
    mask = np.arange(lengths.max()) < lengths
    results = numpy(model.search(pad(ids), mask))
    best = zip(results["token_ids"][:, 0], results["lengths"][:, 0], strict=True)
    expected = tokenizer.decode([row[:length] for row, length in best])
    assert len(set(expected)) == 3 and results["lengths"][:, 0].min() < 9
    export_onnx(model, tmp_path / "model.onnx", tokenizer)
    path = tmp_path / "model.onnx"
    assert_all_forms_continue(model, path, tokenizer, texts, ids, expected, tmp_path)


def assert_all_forms_continue(model, path, tokenizer, texts, ids, expected, tmp_path):
    translations = Translator(path)
    assert [each.text for each in translations.translate(texts)] == expected
    assert [each.text for each in translations.translate_ids(ids)] == expected
    export_onnx_text(model, tmp_path / "text.onnx", tokenizer)
    assert [best for best, _ in _run(tmp_path / "text.onnx", [{"text": texts}])[0]] == expected
    export_saved_model(model, tmp_path / "saved", tokenizer)
    loaded = tf.saved_model.load(tmp_path / "saved")
    found = loaded.translate_texts(tf.constant(texts))["text"][:, 0].numpy()
    assert [text.decode() for text in found] == expected


@pytest.mark.slow
def test_all_forms_go_on_from_the_start_token_alone(tokenizer, tmp_path):
    pytest.importorskip("onnxruntime_extensions", reason="needs keras-attn[strings]")
    texts = ["", "abc", "  "]
    ids = [[1, *row] for row in tokenizer.encode(texts)]
    model = generator(beam_width=3, start_prompts=True)
    expected = tokenizer.decode(numpy(model(pad(ids)))["token_ids"][:, 0])
    assert expected[0] == expected[2] != ""
    export_onnx(model, tmp_path / "model.onnx", tokenizer)
    assert_all_forms_continue(
        model, tmp_path / "model.onnx", tokenizer, texts, ids, expected, tmp_path
    )


def test_the_start_token_alone_is_streamed_and_scored(tokenizer, tmp_path):
    model = generator(beam_width=2, start_prompts=True)
    export_onnx_steps(model, tmp_path / "steps", tokenizer, accept_target_prefix=True)
    translator = StreamingTranslator(tmp_path / "steps")
    written = translator.translate([""])[0]
    assert written.text and list(translator.stream(""))[-1] == written.text
    (scored,) = translator.score([""], ["abc"])
    (ids,) = tokenizer.encode(["abc"])
    decoder = model.decoder
    log_probs = numpy(keras.ops.log_softmax(decoder(np.array([[1, *ids]]))))[0]  # (T, V)
    expected = sum(row[token] for row, token in zip(log_probs, [*ids, 2], strict=True))
    assert scored.text == "abc" and abs(scored.log_prob - expected) < 1e-4


@pytest.mark.slow
def test_no_form_makes_anything_of_nothing(tokenizer, tmp_path):
    pytest.importorskip("onnxruntime_extensions", reason="needs keras-attn[strings]")
    model = generator(beam_width=3, pad_token_id=2)
    export_onnx(model, tmp_path / "model.onnx", tokenizer)
    assert Translator(tmp_path / "model.onnx")([""]) == [""]
    export_onnx_text(model, tmp_path / "text.onnx", tokenizer)
    assert [best for best, _ in _run(tmp_path / "text.onnx", [{"text": [""]}])[0]] == [""]
    export_saved_model(model, tmp_path / "saved", tokenizer)
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    received = loaded.translate_texts(tf.constant([""]))
    assert set(received["text"].numpy().ravel()) == {b""}
    assert not received["lengths"].numpy().any() and not received["scores"].numpy().any()
    assert set(received["token_ids"].numpy().ravel()) <= {2}
