"""Calls of the runtime with valid and invalid types, checked by basedpyright and never run.

If an expected error does not occur, its comment is unnecessary, which is also an error.
"""

from collections.abc import Iterator
from typing import assert_type

import numpy as np
from keras_attn_runtime import (
    CancelToken,
    GenerationResult,
    SteppedModel,
    StreamingTranslator,
    Translator,
)
from keras_attn_runtime._models.stepped_search import SteppedSearch

IDS = np.zeros(3, np.int64)


def results_have_types(translator: Translator, streaming: StreamingTranslator) -> None:
    assert_type(translator(["a"]), list[str])
    assert_type(translator(["a"], "b", max_length=3), list[str])
    assert_type(translator.translate(["a"], target_prefix=["b"]), list[GenerationResult])
    assert_type(translator.translate_iterable(iter("a")), Iterator[GenerationResult])
    assert_type(translator.score(["a"], ["b"]), list[GenerationResult | None])
    assert_type(streaming.stream("a", cancel_token=CancelToken()), Iterator[str])
    assert_type(SteppedModel("folder").start([[1, 2]], 3, 1.0), SteppedSearch)


def ids_are_lists_or_arrays(translator: Translator) -> None:
    translator.translate_ids([[1, 2]], [3])
    translator.translate_ids([(1, 2)], [[3]])
    translator.translate_ids(np.zeros((2, 3), np.int32), IDS)
    translator.translate_ids([IDS], [IDS])
    translator.translate_ids([["a"]])  # pyright: ignore[reportArgumentType]


def inputs_are_arrays_or_lists_of_arrays(translator: Translator) -> None:
    translator.generate({"image": np.zeros((2, 3))}, "a")
    translator.generate({"image": [np.zeros((2, 3)), [[1.0]]]}, ["a", "b"])
    translator.generate([IDS])  # pyright: ignore[reportArgumentType]


def wrong_arguments_do_not_match(translator: Translator) -> None:
    Translator("file", providers=[("cuda", {"device_id": 1}), "cpu"])
    Translator(1)  # pyright: ignore[reportArgumentType]
    Translator("file", num_thread=1)  # pyright: ignore[reportCallIssue]
    translator.translate(["a"], max_lenght=3)  # pyright: ignore[reportCallIssue]
