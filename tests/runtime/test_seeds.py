"""Seeds of sampling, tested with the copying model of `fake_model`."""

import random

import numpy as np
import onnx
import pytest
from keras_attn_runtime import Translator
from keras_attn_runtime._calls.options import Options
from keras_attn_runtime._inputs.source import Source

from tests.runtime.fake_model import build_model, metadata

SENTENCES = [[9, 2], [7, 8, 9, 2], [5, 2], [6, 5, 2], [2], [4, 2]]


@pytest.fixture(scope="module")
def path(tokenizer_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("seeds") / "model.onnx"
    onnx.save(build_model(metadata(tokenizer_model, ["seeds"]), is_stochastic=True), path)
    return path


@pytest.fixture(scope="module")
def translator(path):
    return Translator(path, num_threads=1)


def seeds(seed, count):
    """Returns the seeds of a number of sentences: consecutive integers from a random start."""
    first = random.Random(seed).randrange(2**31)
    return [first + number for number in range(count)]


def drawn(translations):
    """Returns the seed of each sentence modulo 50."""
    return [each.token_ids[0] - 8 if each.token_ids else None for each in translations]


@pytest.mark.parametrize("options", [{}, {"batch_size": 1}, {"batch_size": 2, "window": 3}])
@pytest.mark.parametrize("num_workers", [1, 2])
def test_each_sentence_has_its_own_wherever_it_is_translated(path, num_workers, options):
    translator = Translator(path, num_threads=1, num_workers=num_workers)
    assert translator.is_stochastic
    found = translator.translate_ids(SENTENCES, seed=3, **options)
    expected = [each % 50 for each in seeds(3, 6)]
    expected[4] = None  # a sentence without tokens does not reach the model
    assert drawn(found) == expected


def test_neighbours_have_nothing_in_common(translator):
    found = [translator._prepared([Source([9, 2], False)] * 1000, Options(seed=n)) for n in (1, 2)]
    first, second = ({source.seed for source in sources} for sources in found)
    assert len(first) == len(second) == 1000 and not first & second


def test_they_start_again_behind_the_last(translator, monkeypatch):
    monkeypatch.setattr(random.Random, "randrange", lambda self, stop: stop - 2)
    found = translator.translate_ids([[9, 2]] * 3, seed=np.int64(1))
    assert drawn(found) == [(2**31 - 2) % 50, (2**31 - 1) % 50, 0]


def test_without_one_each_call_draws_anew(translator):
    firsts = {drawn(translator.translate_ids([[9, 2]] * 2))[0] for _ in range(20)}
    assert len(firsts) > 5


def test_a_batch_that_is_halved_keeps_them(translator, monkeypatch):
    original = translator._model._search

    def search(feeds, call):
        from keras_attn_runtime._errors import BatchError

        if len(feeds["source_ids"]) > 1:
            raise BatchError("no memory")
        return original(feeds, call)

    monkeypatch.setattr(translator._model, "_search", search)
    assert drawn(translator.translate_ids(SENTENCES[:4], seed=3)) == [
        each % 50 for each in seeds(3, 4)
    ]


@pytest.mark.parametrize("seed", [-1, 1.5, "1", True, 2**31])
def test_out_of_range(translator, seed):
    with pytest.raises(ValueError, match="Expected seed to be an integer in"):
        translator(["some text"], seed=seed)


def test_a_file_that_does_not_draw_has_none(model_path):
    translator = Translator(model_path)
    assert not translator.is_stochastic
    with pytest.raises(ValueError, match="does not sample. Received: seed=1"):
        translator(["some text"], seed=1)


def test_command(path, model_path, start_command):
    lines = b"some text\ntwo dogs\n"
    outputs = [start_command(path, "--seed", "3").communicate(lines)[0].decode() for _ in range(2)]
    assert outputs[0] == outputs[1] and outputs[0].count("\n") == 2
    assert start_command(path, "--seed", "4").communicate(lines)[0].decode() != outputs[0]
    process = start_command(model_path, "--seed", "3")
    _, message = process.communicate(lines)
    assert process.returncode == 1 and b"does not sample" in message
