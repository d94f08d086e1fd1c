"""LiteRT files give the same results as ONNX files, through the same methods."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import onnx
import pytest
from keras_attn_runtime import (
    Cancelled,
    CancelToken,
    DeadlineExceeded,
    InputError,
    ProviderError,
    Translator,
)

from tests.runtime.conftest import RUNTIME
from tests.runtime.endless import within_a_minute
from tests.runtime.fake_litert import ENDLESS_ID, FIXED, INPUTS, SLOW_ID, litert_bytes
from tests.runtime.fake_model import SENTENCES, build_model, metadata

pytest.importorskip("ai_edge_litert")

TEXTS = [*SENTENCES, "", "a tree", "some text"]


@pytest.fixture(scope="module")
def paths(tokenizer_model, tmp_path_factory):
    """Returns the paths of the files of all models, by name."""
    directory = tmp_path_factory.mktemp("litert")
    found = {name: directory / f"{name}.tflite" for name in INPUTS}
    for name, path in found.items():
        path.write_bytes(litert_bytes(tokenizer_model, name))
    return found


@pytest.fixture(scope="module")
def translators(paths):
    return {name: Translator(path, num_threads=1) for name, path in paths.items()}


@pytest.fixture(scope="module")
def onnx_translators(tokenizer_model, tmp_path_factory):
    """Returns translators of ONNX files with the same inputs."""
    directory, found = tmp_path_factory.mktemp("onnx"), {}
    for name, inputs in INPUTS.items():
        options = {"prefix": "prefix_ids" in inputs, "is_stochastic": "seeds" in inputs}
        model = build_model(metadata(tokenizer_model, inputs), **options)
        onnx.save(model, directory / f"{name}.onnx")
        found[name] = Translator(directory / f"{name}.onnx", num_threads=1)
    return found


def assert_equal(results, expected):
    assert len(results) == len(expected)
    for result, other in zip(results, expected, strict=True):
        assert result.hypotheses == other.hypotheses  # all but the alignments
        assert (result.source_pieces, result.truncated) == (other.source_pieces, other.truncated)
        for one, two in zip(result.hypotheses, other.hypotheses, strict=True):
            np.testing.assert_array_equal(one.alignments, two.alignments)


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_size": 3, "num_hypotheses": 2},
        {"max_length": 3, "length_penalty": 0.5, "num_hypotheses": 2},
        {"max_length": 0},
        {"window": 2},
    ],
    ids=["defaults", "batch_size", "limits", "max_length=0", "window"],
)
def test_litert_results_equal_those_of_onnx(translators, onnx_translators, name, options):
    if "seeds" in INPUTS[name]:
        options = {**options, "seed": 5}
    found = translators[name].translate(TEXTS, **options)
    assert_equal(found, onnx_translators[name].translate(TEXTS, **options))
    found = list(translators[name].translate_iterable(iter(TEXTS), **options))
    assert_equal(found, onnx_translators[name].translate(TEXTS, **options))
    ids = [[9, 10], [11] * 50, [], [12]]
    found = translators[name].translate_ids(ids, **options)
    assert_equal(found, onnx_translators[name].translate_ids(ids, **options))


@pytest.mark.parametrize("prefix", ["a", ["a tree", "", "two"]])
@pytest.mark.parametrize("name", ["copy-batch-4", "copy-any-batch"])
def test_litert_prefixes_equal_those_of_onnx(translators, onnx_translators, name, prefix):
    options = {"seed": 1} if "seeds" in INPUTS[name] else {}
    found, expected = (
        each[name].translate(TEXTS[:3], prefix, **options)
        for each in (translators, onnx_translators)
    )
    assert_equal(found, expected)
    assert found[0].text.startswith("a") and found[0].text.endswith(TEXTS[0])


def test_litert_scores_equal_those_of_onnx(translators, onnx_translators):
    pairs = (["some text", "two dogs"], ["a tree", "the bus"])
    options = {"skip_unscorable": True}
    found, expected = (
        each["copy-any-batch"].score(*pairs, **options) for each in (translators, onnx_translators)
    )
    assert found == expected


def test_litert_attributes_describe_the_file(translators):
    plain, drawing = translators["copy"], translators["copy-batch-4"]
    assert plain.has_alignments and not plain.has_token_log_probs
    assert (plain.supports_target_prefix, plain.is_stochastic) == (False, False)
    assert (drawing.supports_target_prefix, drawing.is_stochastic) == (True, True)
    assert plain.settings.format == 2 and plain.settings.source.tokenizer == "sentencepiece"


@pytest.mark.parametrize("name, sizes", [("copy", {1}), ("copy-batch-4", {4})])
def test_fixed_batch_size_is_filled_and_never_exceeded(paths, monkeypatch, name, sizes):
    translator = Translator(paths[name], num_threads=1)
    (session,) = translator._model._sessions
    seen, run = [], session.run

    def watched(names, feeds, call):
        seen.append(feeds["source_ids"])
        return run(names, feeds, call)

    monkeypatch.setattr(session, "run", watched)
    options = {"seed": 1} if translator.is_stochastic else {}
    results = translator.translate_ids([[9, 10], [11], [12, 13, 14], [15], [16]], **options)
    assert {len(each) for each in seen} == sizes
    assert len(seen) == -(-5 // max(sizes))
    assert [each.hypotheses[0].token_ids[-1] for each in results] == [10, 11, 14, 15, 16]
    if max(sizes) == 4:  # the last batch has copies of its row
        np.testing.assert_array_equal(seen[-1], np.repeat(seen[-1][:1], 4, axis=0))


def test_fixed_source_length_pads_sources_and_lowers_the_limit(tokenizer_model, tmp_path):
    path = tmp_path / "fixed.tflite"
    path.write_bytes(litert_bytes(tokenizer_model, FIXED))
    translator = Translator(path, num_threads=1)
    assert (translator.max_source_length, translator.has_alignments) == (7, False)
    sentences = [[9], [], [10, 11, 12, 13, 14, 15, 16], [17, 18]]
    assert [each.token_ids for each in translator.translate_ids(sentences)] == sentences
    found = translator.translate_ids(sentences, max_length=2)
    assert [each.token_ids for each in found] == [each[:2] for each in sentences]
    with pytest.raises(InputError, match="at most max_source_length=7 tokens"):
        translator.translate_ids([[9] * 8])
    cut = Translator(path, num_threads=1, truncate=True).translate_ids([[9] * 8])[0]
    assert (cut.token_ids, cut.truncated) == ([9] * 7, True)


def test_outputs_of_copies_are_dropped_and_not_kept_in_memory(translators):
    model = translators["copy-batch-4"]._model
    outputs = model.run([[9, 2], [10, 2]], 10, 1.0)
    assert {name: len(each) for name, each in outputs.items()} == dict.fromkeys(outputs, 2)
    assert all(each.base is None for each in outputs.values())
    with pytest.raises(ValueError, match="LiteRT failed on 5 .*at most 4 rows"):
        model.run([[9, 2]] * 5, 10, 1.0)


def test_ids_outside_of_the_vocabulary_never_reach_the_interpreter(paths, monkeypatch):
    translator = Translator(paths["copy-any-batch"], num_threads=1)
    (session,) = translator._model._sessions
    monkeypatch.setattr(session, "run", lambda *_: pytest.fail("the model was run"))
    for ids in ([9, 64], [-1], [2**31 - 1], [2**40]):
        with pytest.raises(InputError, match=r"in \[0, 64\)"):
            translator.translate_ids([[9], ids])
        with pytest.raises(ValueError, match=r"in \[0, 64\)"):
            translator.translate_ids([[9]], target_prefix=ids)
    with pytest.raises(InputError, match="at most max_source_length=512 tokens"):
        translator.translate_ids([[9] * 513])
    assert translator.translate_ids([[], [0, 0]])[0].token_ids == []


def test_calls_of_many_threads_share_the_interpreters(paths):
    for num_workers in (1, 2):
        translator = Translator(paths["copy"], num_threads=1, num_workers=num_workers)
        expected, results = translator(TEXTS), {}

        def call(number, translator=translator, results=results):
            results[number] = translator(TEXTS, batch_size=number + 1)

        threads = [threading.Thread(target=call, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert results == dict.fromkeys(range(6), expected)


def test_providers_other_than_the_cpu_are_refused(paths):
    for providers in ("CPU", ["CPUExecutionProvider"], [("cpu", {})]):
        assert Translator(paths["copy"], providers, num_threads=1)(["a tree"]) == ["a tree"]
    for providers in ("cuda", ["cuda", "cpu"], [("cpu", {"device_id": 1})], [], 5, [5], [("cpu",)]):
        with pytest.raises(ProviderError, match="LiteRT files run on the CPU|a name or a list"):
            Translator(paths["copy"], providers)


# Deadlines. LiteRT finishes the sentence that it runs in the background.


def test_deadline_ends_the_call_and_a_later_call_waits_for_the_interpreter(paths):
    translator = Translator(paths["copy"], num_threads=1)
    start = time.monotonic()
    with pytest.raises(DeadlineExceeded) as error:
        translator.translate_ids([[9], [SLOW_ID], [10]], timeout=0.2)
    assert time.monotonic() - start < 60
    # Sorted by length, with equal lengths in the order of the input.
    assert [each and each.token_ids for each in error.value.translations] == [[9], None, None]
    with pytest.raises(DeadlineExceeded):
        translator.translate_ids([[9]], timeout=0.0)
    assert [each.token_ids for each in translator.translate_ids([[9], [SLOW_ID]])] == [
        [9],
        [SLOW_ID],
    ]


def test_cancel_token_ends_the_call(paths):
    translator = Translator(paths["copy"], num_threads=1)
    token = CancelToken()
    threading.Timer(0.2, token.cancel).start()
    with pytest.raises(Cancelled) as error:
        translator.translate_ids([[9], [10], [SLOW_ID]], cancel_token=token)
    given = error.value.translations
    assert [each and each.token_ids for each in given] == [[9], [10], None]


def test_endless_search_does_not_block_the_caller(paths):
    """In a separate process, which ends although the interpreter is still busy."""
    code = (
        "import sys; from keras_attn_runtime import DeadlineExceeded, Translator\n"
        "from keras_attn_runtime._calls import worker_pool\n"
        "worker_pool.LONGEST_EXIT = 0.2\n"
        "translator = Translator(sys.argv[1], num_threads=1)\n"
        "for _ in range(2):\n"
        "    try: translator.translate_ids([[9], [63]], timeout=0.3)\n"
        "    except DeadlineExceeded as error: print(error.index, flush=True)\n"
    )
    assert ENDLESS_ID == 63
    process = within_a_minute(
        lambda: subprocess.run(
            [sys.executable, "-c", code, paths["copy"]],
            env=dict(os.environ, PYTHONPATH=str(RUNTIME)),
            capture_output=True,
            text=True,
            timeout=50,
        )
    )
    assert (process.returncode, process.stdout) == (0, "1\n0\n"), process.stderr
