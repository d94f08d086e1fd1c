"""Results of `Translator`, tested with the copying model of `fake_model`."""

import base64
import dataclasses
import threading

import numpy as np
import pytest
import sentencepiece
from keras_attn_runtime import InputError, ModelFileError, TopToken, Translator
from keras_attn_runtime._errors import BatchError, run_failures
from keras_attn_runtime._models import exported_model

from tests.runtime.fake_model import SENTENCES, train_tokenizer


def test_translates_a_list_of_texts(translator):
    assert translator(["some text", "two dogs"]) == ["some text", "two dogs"]


def test_zero_sentences_give_an_empty_list(translator):
    assert translator([]) == []
    assert translator.translate([]) == []
    assert translator.translate_ids(np.zeros((0, 5), "int32")) == []


def test_full_result_of_a_sentence(translator, tokenizer_model):
    reference = sentencepiece.SentencePieceProcessor(model_proto=tokenizer_model)
    (result,) = translator.translate(["two dogs"])
    assert result.text == "two dogs"
    assert result.token_ids == reference.encode("two dogs")
    assert result.pieces == reference.encode("two dogs", out_type=str)
    assert result.source_pieces == [*result.pieces, "</s>"]
    length = len(result.token_ids)
    assert result.log_prob == -length
    assert result.score == -1.0  # log_prob / length^1, the penalty in the file
    np.testing.assert_array_equal(result.alignments, np.eye(length, length + 1))
    assert not result.truncated


def test_call_arguments_reach_the_model(translator):
    (result,) = translator.translate(["two dogs run"], max_length=4, length_penalty=0.5)
    assert len(result.token_ids) == 4
    assert result.log_prob == -4.0
    assert result.score == pytest.approx(-4.0 / 4**0.5)


def test_defaults_come_from_the_file(write_model):
    translator = Translator(write_model(search__max_length=3, search__length_penalty=0.0))
    (result,) = translator.translate(["two dogs run"])
    assert len(result.token_ids) == 3
    assert result.score == -3.0


def test_hypotheses_are_best_first(translator):
    (result,) = translator.translate(["two dogs"], num_hypotheses=2)
    assert [hypothesis.text for hypothesis in result.hypotheses] == ["two dogs", ""]
    empty = result.hypotheses[1]
    assert (empty.token_ids, empty.pieces, empty.log_prob) == ([], [], 0.0)
    assert empty.alignments.shape == (0, len(result.source_pieces))


def test_file_without_alignments(write_model):
    translator = Translator(write_model(alignments=False))
    (result, empty) = translator.translate(["two dogs", ""])
    assert result.text == "two dogs"
    assert result.alignments is None and empty.alignments is None


def test_log_probabilities_of_tokens(translator, write_model):
    """In the copying model each token has log probability -1, and the end token 0."""
    assert not translator.has_token_log_probs
    assert translator.translate([""])[0].token_log_probs is None
    translator = Translator(write_model(token_log_probs=True))
    assert translator.has_token_log_probs
    result, nothing = translator.translate(["two dogs", ""], num_hypotheses=2)
    best, ended = result.hypotheses
    assert best.token_log_probs == result.token_log_probs == [-1.0] * len(best.token_ids) + [0.0]
    assert best.ended and ended.ended and ended.token_log_probs == [0.0]
    assert nothing.token_log_probs == []
    (cut,) = translator.translate(["two dogs"], max_length=2)
    assert not cut.ended and cut.token_log_probs == [-1.0, -1.0]


def test_most_probable_tokens(translator, write_model):
    """In the copying model, these are each token with -1, and the unknown token with -2."""
    assert not translator.has_top_tokens
    assert translator.translate([""])[0].top_tokens is None
    translator = Translator(write_model(top_tokens=True))
    assert translator.has_top_tokens
    result, nothing = translator.translate(["two dogs", ""], num_hypotheses=2)
    best, ended = result.hypotheses
    expected = [
        [TopToken(token_id, piece, -1.0), TopToken(3, "<unk>", -2.0)]
        for token_id, piece in zip(best.token_ids, best.pieces, strict=True)
    ]
    end = [TopToken(0, "<pad>", 0.0)] * 2  # in this model
    assert best.top_tokens == result.top_tokens == [*expected, end] and len(expected) > 1
    assert ended.top_tokens == [end] and nothing.top_tokens == []
    (cut,) = translator.translate(["two dogs"], max_length=2)
    assert cut.top_tokens == expected[:2] and "top_tokens" not in repr(cut)
    (stopped,) = translator.translate(["two dogs"], stop_texts=" dogs")
    assert stopped.top_tokens == expected[: len(stopped.token_ids)] != expected


def test_hypotheses_that_do_not_exist_are_left_out(translator, monkeypatch):
    """Missing hypotheses have the log probability -1e9 in the outputs of the search."""
    run = translator._model.run

    def find_one(*arguments):
        outputs = run(*arguments)
        for name in ("scores", "log_probs"):
            outputs[name][:, 1] = -1e9
        return outputs

    monkeypatch.setattr(translator._model, "run", find_one)
    (result,) = translator.translate(["two dogs"], num_hypotheses=2)
    assert [hypothesis.text for hypothesis in result.hypotheses] == ["two dogs"]


def test_ids_need_no_tokenizer(write_model, translator):
    nothing = {"keras_attn.source_tokenizer": None}
    without = Translator(write_model(nothing, source__tokenizer="none", target__tokenizer="none"))
    ids = [[5, 6, 7], []]
    for result, expected in zip(
        without.translate_ids(ids), translator.translate_ids(ids), strict=True
    ):
        assert (result.token_ids, result.score) == (expected.token_ids, expected.score)
        assert result.text is result.pieces is result.source_pieces is None
    for translate in (without, without.translate, without.translate_iterable):
        with pytest.raises(ModelFileError, match="or give ids to `translate_ids`"):
            translate(["two dogs"])
    both = (
        "Expected a file with a source tokenizer and a target tokenizer, .* Received: source "
        "tokenizer='none', target tokenizer='none'. Export it with source_tokenizer=... and target"
    )
    with pytest.raises(ModelFileError, match=both):
        without(["two dogs"])
    with pytest.raises(ModelFileError, match="Expected a source tokenizer in the file"):
        Translator(write_model(nothing))
    other = Translator(write_model(source__tokenizer="other"))
    with pytest.raises(ModelFileError, match="or give ids to `translate_ids`"):
        other(["two dogs"])


def test_separate_vocabularies(write_model):
    # The target tokenizer decodes the same ids to a different text.
    target = train_tokenizer(30, ["zyx wvu", "uvw xyz"])
    encoded = base64.b64encode(target).decode()
    translator = Translator(write_model({"keras_attn.target_tokenizer": encoded}))
    (result,) = translator.translate(["two dogs"])
    reference = sentencepiece.SentencePieceProcessor(model_proto=target)
    known = [id if id < reference.get_piece_size() else 3 for id in result.token_ids]
    assert result.text == reference.decode(known)
    assert 3 in known  # ids outside of the target vocabulary are unknown


def test_empty_text_does_not_reach_the_model(translator, monkeypatch):
    monkeypatch.setattr(translator._model, "run", lambda *_: pytest.fail("the model was run"))
    for result in translator.translate(["", "   ", "\u3000", "\t"]):
        assert (result.text, result.token_ids, result.score, result.log_prob) == ("", [], 0.0, 0.0)
        assert result.alignments.shape == (0, 0)
    assert [result.text for result in translator.translate_ids([[], [2], [2, 0, 0], [0, 0]])] == (
        ["", "", "", ""]
    )


def test_max_length_zero_gives_empty_translations(translator, monkeypatch):
    monkeypatch.setattr(translator._model, "run", lambda *_: pytest.fail("the model was run"))
    (result,) = translator.translate(["two dogs"], max_length=0)
    assert result.text == "" and result.hypotheses[0].text == ""
    assert result.source_pieces[-1] == "</s>"


@pytest.mark.parametrize("batch_size, window", [(1, 1), (2, 3), (4, None), (100, 7), (3, 1000)])
def test_order_is_kept(translator, batch_size, window):
    random = np.random.default_rng(1)
    words = " ".join(SENTENCES).split()
    texts = [" ".join(random.choice(words, random.integers(0, 12))) for _ in range(50)]
    assert translator(texts, batch_size=batch_size, window=window) == texts


def test_batches_hold_sentences_of_similar_length(translator, monkeypatch):
    batches = []
    run = translator._model.run
    monkeypatch.setattr(
        translator._model,
        "run",
        lambda sentences, *rest: batches.append(list(map(len, sentences))) or run(sentences, *rest),
    )
    # Lengths with the end token, in two windows of four sentences, two batches each.
    sentences = [[5] * (length - 1) for length in (2, 9, 3, 8, 7, 4, 6, 5)]
    translator.translate_ids(sentences, batch_size=2, window=4)
    assert batches == [[9, 8], [3, 2], [7, 6], [5, 4]]


def test_a_stream_is_read_one_window_ahead(translator):
    read = []

    def texts():
        for number in range(100):
            read.append(number)
            yield "some text"

    results = translator.translate_iterable(texts(), window=10, batch_size=4)
    assert read == []
    next(results)
    assert len(read) == 10
    assert sum(1 for _ in results) == 99


def test_a_stream_that_fails_gives_what_came_before(translator):
    def texts():
        yield from ["some text", "two dogs", "a tree"]
        raise OSError("the disk is gone")

    results = translator.translate_iterable(texts(), window=100)
    assert [next(results).text for _ in range(3)] == ["some text", "two dogs", "a tree"]
    with pytest.raises(OSError, match="the disk is gone"):
        next(results)


@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_batch_that_fails_is_halved(translator, model_path, monkeypatch, num_workers):
    """Simulates a lack of memory: a batch of more than 20 tokens fails."""
    texts = [" ".join(["tree"] * number) for number in (3, 1, 6, 2, 5, 4, 1)]
    expected = translator(texts)
    halving = Translator(model_path, num_threads=1, num_workers=num_workers)
    sizes = fail_where(monkeypatch, halving, lambda batch: len(batch) * max(map(len, batch)) > 20)
    assert halving(texts, batch_size=4) == expected
    assert 4 in sizes and 1 in sizes


def test_a_sentence_that_fails_keeps_back_nothing_before_it(translator, monkeypatch):
    texts = ["some text", "two dogs", "a tree"] * 5
    texts[7] = "a tree a tree"  # the longest, so that it is in the first batch
    (bad,) = translator.translate(texts[7:8])
    fail_where(monkeypatch, translator, lambda batch: max(map(len, batch)) > len(bad.token_ids))
    results = translator.translate_iterable(texts, batch_size=4)
    assert [next(results).text for _ in range(7)] == texts[:7]
    with pytest.raises(BatchError, match="Sentence 7 .* failed on 1 sentences") as caught:
        next(results)
    assert caught.value.index == 7


def test_the_failing_sentence_is_counted_over_windows(translator, monkeypatch):
    (bad,) = translator.translate(["a tree a tree"])
    fail_where(monkeypatch, translator, lambda batch: max(map(len, batch)) > len(bad.token_ids))
    results = translator.translate_iterable(["", "a tree"] * 3 + ["a tree a tree"], window=2)
    with pytest.raises(BatchError, match="Sentence 6 "):
        list(results)


def test_memory_that_numpy_lacks_halves_the_batch(translator, monkeypatch):
    source_rows, texts = exported_model.source_rows, ["some text", "two dogs", "a tree"]

    def pad(rows, *arguments):
        if len(rows) > 1:
            raise MemoryError
        return source_rows(rows, *arguments)

    monkeypatch.setattr(exported_model, "source_rows", pad)
    assert translator(texts) == texts


def test_alignments_can_be_left_out(translator):
    first, empty = translator.translate(["two dogs", ""], alignments=False)
    assert (first.alignments, empty.alignments) == (None, None)
    assert translator.translate(["two dogs"])[0].alignments is not None
    with pytest.raises(ValueError, match="alignments to be True or False"):
        translator.translate(["two dogs"], alignments="no")


def fail_where(monkeypatch, translator, fails):
    """Makes ONNX Runtime fail for some batches. Returns a list of the sizes of all batches."""
    sizes, run = [], translator._model._search

    def search(feeds, call):
        batch = [row[row != 0] for row in feeds["source_ids"]]
        sizes.append(len(batch))
        with run_failures(*feeds["source_ids"].shape):
            if fails(batch):
                raise RuntimeError("bad allocation")
        return run(feeds, call)

    monkeypatch.setattr(translator._model, "_search", search)
    return sizes


def test_ids_with_and_without_end_and_padding_are_the_same(translator):
    plain = translator.translate_ids([[5, 6, 7], [8]])
    padded = translator.translate_ids(np.array([[5, 6, 7, 2, 0], [8, 2, 0, 0, 0]], "int64"))
    assert plain == padded
    assert plain[0].token_ids == [5, 6, 7]


def test_truncation_on_request(model_path):
    translator = Translator(model_path, max_source_length=4, truncate=True)
    long, short = translator.translate_ids([[5, 6, 7, 8, 9, 10], [5, 6, 7, 8]])
    assert long.token_ids == [5, 6, 7, 8] and long.truncated
    assert short.token_ids == [5, 6, 7, 8] and not short.truncated


def test_text_keeps_separators_and_strange_characters(translator):
    # One result for each item, whatever separators or control characters it has.
    texts = ["some\u2028text", "some\ntext", "two\0dogs", "\u200d", "🙂", "e\u0301"]
    assert len(translator(texts)) == len(texts)


@pytest.mark.parametrize("num_workers", [2, 3])
def test_workers_translate_several_batches_at_once(translator, model_path, num_workers):
    several = Translator(model_path, num_threads=1, num_workers=num_workers)
    assert len(several._model._sessions) == num_workers
    texts = [*SENTENCES, "", *SENTENCES[::-1]] * 5
    for options in ({"batch_size": 3}, {"batch_size": 1, "window": 4, "num_hypotheses": 2}):
        assert several.translate(texts, **options) == translator.translate(texts, **options)
    with pytest.raises(InputError):
        list(several.translate_iterable([*SENTENCES, "\ud800"], batch_size=2))


@pytest.mark.parametrize("num_workers", [0, -1, 1.5, "2", True, 1025])
def test_workers_out_of_range(model_path, num_workers):
    with pytest.raises(ValueError, match="num_workers"):
        Translator(model_path, num_workers=num_workers)


def test_threads_of_all_workers_are_limited(model_path):
    with pytest.raises(ValueError, match=r"num_threads .* in \[1, 256\]"):
        Translator(model_path, num_workers=4, num_threads=257)


def test_eight_threads_share_one_translator(translator):
    random = np.random.default_rng(2)
    words = " ".join(SENTENCES).split()
    inputs = [
        [" ".join(random.choice(words, random.integers(0, 15))) for _ in range(40)]
        for _ in range(8)
    ]

    def work(number):
        # Each thread has different options, which must not affect other threads.
        options = {"batch_size": 1 + number, "length_penalty": number / 4, "num_hypotheses": 2}
        results = translator.translate(inputs[number], max_length=5 + number, **options)
        texts = translator.translate_iterable(inputs[number], window=1 + number)
        ids = translator.translate_ids([[5 + number] * (1 + number)])
        return results, list(texts), ids

    expected = [work(number) for number in range(8)]
    results = [[] for _ in range(8)]
    barrier = threading.Barrier(8)

    def repeat(number):
        barrier.wait()
        for _ in range(5):
            results[number].append(work(number))

    threads = [threading.Thread(target=repeat, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result, of_one_thread in zip(results, expected, strict=True):
        assert result == [of_one_thread] * 5
        for again in result:
            for new, old in zip(again[0], of_one_thread[0], strict=True):
                np.testing.assert_array_equal(new.alignments, old.alignments)


def test_translation_prints_one_short_line(translator):
    text = "two dogs run over the green field " * 10 + "\n"
    (translation,) = translator.translate([text], num_hypotheses=2)
    printed = str(translation)
    assert "\n" not in printed and printed == repr(translation)
    start = (
        f"GenerationResult(text={translation.text!r}, score=-1, log_prob={translation.log_prob:.6g}"
    )
    assert printed.startswith(start) and printed.endswith("ended=False, num_hypotheses=2)")
    assert str(translation.hypotheses[0]) == printed.replace(
        "GenerationResult", "Hypothesis"
    ).replace(", num_hypotheses=2", "")


def test_translation_without_text_prints_its_ids(translator):
    hypothesis = dataclasses.replace(translator.translate(["some text"])[0], text=None)
    assert f"token_ids={hypothesis.token_ids}" in str(hypothesis)
