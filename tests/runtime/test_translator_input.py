"""Invalid sentences and options raise a clear ValueError."""

import collections
import types

import numpy as np
import pytest
from keras_attn_runtime import InputError, Translator

TOO_LONG = [5] * 513


@pytest.mark.parametrize(
    "options, message",
    [
        ({"max_length": -1}, r"max_length to be an integer in \[0.*max_length=-1"),
        ({"max_length": 2.5}, "max_length=2.5"),
        ({"max_length": True}, "max_length=True"),
        ({"max_length": 2**31}, "max_length=2147483648"),
        ({"length_penalty": float("nan")}, "length_penalty=nan"),
        ({"length_penalty": float("inf")}, "length_penalty=inf"),
        ({"length_penalty": -0.5}, "length_penalty=-0.5"),
        ({"length_penalty": 10**400}, "length_penalty=1000"),
        ({"length_penalty": "1"}, "length_penalty='1'"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"window": 0}, "window=0"),
        ({"num_hypotheses": 0}, "num_hypotheses=0"),
        ({"num_hypotheses": 3}, "at most 2.*num_hypotheses=3"),
    ],
)
def test_options_out_of_range(translator, options, message):
    with pytest.raises(ValueError, match=message):
        translator(["some text"], **options)
    # Raised immediately, also for iterables of translations.
    with pytest.raises(ValueError, match=message):
        translator.translate_iterable(["some text"], **options)


def test_options_that_there_are_not_are_named(translator):
    with pytest.raises(TypeError, match="options out of .*'batch_size'.*Received: beam_size"):
        translator(["some text"], beam_size=2)


@pytest.mark.parametrize("value", ["error", "no", 1, None])
def test_what_is_true_or_false_is_nothing_else(translator, model_path, value):
    with pytest.raises(ValueError, match=f"truncate to be True or False.*truncate={value!r}"):
        Translator(model_path, truncate=value)


@pytest.mark.parametrize("path", [None, 5, b"model.onnx"])
def test_a_path_is_a_string_or_a_path(path):
    with pytest.raises(ValueError, match=f"Received: type={type(path).__name__}"):
        Translator(path)


def test_more_threads_than_any_processor_has_are_refused(model_path):
    with pytest.raises(ValueError, match=r"num_threads to be an integer in \[1, 1024\]"):
        Translator(model_path, num_threads=100_000)


def test_numpy_scalars_are_numbers(translator):
    options = {"max_length": np.int64(50), "length_penalty": np.float32(0.5)}
    assert translator(["some text"], **options) == ["some text"]


@pytest.mark.parametrize("number", [np.uint8(32), np.int8(8), np.int8(16)])
def test_small_numpy_integers_do_not_overflow(translator, number):
    texts = ["some text", "two dogs"] * 200
    assert translator(texts, batch_size=number) == texts
    assert translator(texts, batch_size=number, window=300) == texts


@pytest.mark.parametrize("texts", ["some text", b"some text", 5, None])
def test_a_lone_text_is_not_a_list(translator, texts):
    with pytest.raises(ValueError, match="a list with one item for each sentence"):
        translator(texts)


@pytest.mark.parametrize(
    "item, message",
    [
        (b"bytes", "expected a string.*type=bytes"),
        (None, "type=NoneType"),
        (7, "type=int"),
        ("half of a pair: \ud83d", "UTF-8"),
    ],
)
def test_items_that_are_not_text(translator, item, message):
    with pytest.raises(InputError, match=message) as caught:
        translator(["some text", item])
    assert caught.value.index == 1


@pytest.mark.parametrize(
    "ids, message",
    [
        ([5, 64], r"\[0, 64\).*id 64 at position 1"),
        ([-1], r"\[0, 64\).*id -1 at position 0"),
        ([5, 10**9], "id 1000000000"),
        ([5.0, 6.0], "dtype=float64"),
        ([True, False], "dtype=bool"),
        (["5"], "dtype=<U1"),
        ([[5], [6]], r"rank 1.*shape=\(2, 1\)"),
        ([[5], [6, 7]], "a sequence of integer ids"),
        (5, r"rank 1.*shape=\(\)"),
        (None, "rank 1"),
        ([5, 0, 6], "padding at position 1"),
        (TOO_LONG, "max_source_length=512.*513 tokens"),
    ],
)
def test_ids_that_are_refused(translator, ids, message):
    with pytest.raises(InputError, match=message) as caught:
        translator.translate_ids([[5, 6], [7], ids])
    assert caught.value.index == 2


@pytest.mark.parametrize("sentences", [np.array(5), 5, None, "56"])
def test_ids_that_are_no_batch(translator, sentences):
    with pytest.raises(ValueError, match="Expected sentences"):
        translator.translate_ids(sentences)


def test_long_text_is_refused_with_its_place(model_path):
    translator = Translator(model_path, max_source_length=10)
    with pytest.raises(InputError, match="Sentence 1 .*at most max_source_length=10") as caught:
        translator(["a tree", "some text " * 20])
    assert caught.value.index == 1
    # A stream first returns the earlier translations.
    results = translator.translate_iterable(["a tree", "some text " * 20, "a dog"])
    assert next(results).text == "a tree"
    with pytest.raises(InputError):
        next(results)


def test_limit_of_the_source_is_exact(translator):
    assert translator.translate_ids([TOO_LONG[:512]], max_length=1)[0].token_ids == [5]


@pytest.mark.parametrize("limit", [0, -1, 1.5, True])
def test_limit_of_the_source_out_of_range(model_path, limit):
    with pytest.raises(ValueError, match="max_source_length"):
        Translator(model_path, max_source_length=limit)


def test_a_model_that_knows_fewer_positions_lowers_the_limit(write_model):
    translator = Translator(write_model(source__max_length=3))
    assert translator.max_source_length == 3
    assert translator.translate_ids([[5, 6, 7]])[0].token_ids == [5, 6, 7]
    with pytest.raises(InputError, match="at most max_source_length=3"):
        translator.translate_ids([[5, 6, 7, 8]])
    assert Translator(write_model(source__max_length=3), max_source_length=2).max_source_length == 2
    assert Translator(write_model()).max_source_length == 512


@pytest.mark.parametrize(
    "texts",
    [
        {"text": "some text"},
        {"some text": 1}.keys(),
        {"some text"},
        frozenset(["some text"]),
        collections.OrderedDict(a="some text"),
        types.MappingProxyType({"a": "some text"}),
    ],
    ids=lambda texts: type(texts).__name__,
)
def test_texts_without_an_order_are_refused(translator, texts):
    with pytest.raises(ValueError, match="list with one item.*type="):
        translator(texts)
    with pytest.raises(ValueError, match="list with one item.*type="):
        translator.translate_iterable(texts)
    with pytest.raises(ValueError, match="list with one item.*type="):
        translator.translate_ids(texts)


def test_table_is_refused(translator):
    """Iterating a table of pandas or pyarrow gives its columns."""

    class Table:
        columns = ("text",)

        def __iter__(self):
            return iter(self.columns)

    with pytest.raises(ValueError, match="list with one item.*type=Table"):
        translator(Table())


def test_values_of_a_dict_are_texts(translator):
    assert translator({1: "some text", 2: "two dogs"}.values()) == ["some text", "two dogs"]
