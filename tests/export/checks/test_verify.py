import itertools
import types

import numpy as np
import pytest

import keras_attn
from keras_attn._models.vocabulary_side import Side
from keras_attn.export import ExportError, ParityReport
from keras_attn.export._checks.parity_sentences import random_sentences
from keras_attn.export._checks.parity_sources import IdSources, pad
from keras_attn.export._checks.precision_report import PrecisionReport
from keras_attn.export._checks.search_comparison import SearchComparison
from keras_attn.export._checks.token_budget import TokenBudget
from keras_attn.export._checks.verify import (
    DRAWN_TOKENS,
    compare_translations,
    precision_batches,
    translated_batches,
)
from keras_attn.export._trace.search_function import SearchFunction

SEARCH = types.SimpleNamespace(
    max_length=9,
    setting_value={"length_penalty": 1.0}.get,
    pad_token_id=0,
    start_token_id=1,
    end_token_ids=[2],
    is_stochastic=False,
)


BUDGET = TokenBudget(num_weights=1000, num_open_hypotheses=2)
SIDE = Side(50, pad_token_id=0, start_token_id=None, end_token_id=2, add_end=True)


def translate(source_ids, max_length, length_penalty):
    """Returns the source, truncated to `max_length`, as first hypothesis, and 7 as second."""
    length = min(int(max_length), source_ids.shape[1])
    copy = source_ids[:, :length]
    seven = np.zeros_like(copy)
    seven[:, 0] = 7
    ids = np.stack([copy, seven], axis=1)
    lengths = ((ids != 0) & (ids != 2)).sum(axis=2).astype("int32")
    log_probs = -(1.0 + ids.sum(axis=2)).astype("float32")
    scores = log_probs / np.maximum(lengths, 1) ** length_penalty
    return {"token_ids": ids, "lengths": lengths, "scores": scores, "log_probs": log_probs}


def changed(change):
    def other(**inputs):
        outputs = translate(**inputs)
        change(outputs)
        return outputs

    return other


def compare(actual, count=200):
    return compare_translations(expected(translate, count), actual, SEARCH)


def expected(run, count=200):
    return translated_batches(run, IdSources(random_sentences(SIDE, count)), SEARCH, BUDGET)


def test_a_copy_agrees():
    report = compare(translate)
    report.check()
    assert report.sentences == 200 and report.batch_sizes == {1, 7, 31, 32}
    assert report.longest == 9 and report.tokens > 200
    assert 0 < report.cut < 200
    assert (report.best_equal, report.all_equal, report.largest_difference) == (1.0, 1.0, 0.0)


@pytest.mark.parametrize(("share", "agrees"), [(0.03, True), (0.1, False)])
def test_what_is_drawn_may_part(share, agrees):
    """Sampled tokens may differ by rounding. 99.5 % of searched hypotheses must be equal."""
    random = np.random.default_rng(0)

    def part(outputs):
        other = random.random(len(outputs["scores"])) < share
        outputs["token_ids"][other, 0, 0] += 1
        outputs["scores"][other, 0] -= 1

    for is_stochastic in (False, True):
        search = types.SimpleNamespace(**{**vars(SEARCH), "is_stochastic": is_stochastic})

        def run(seeds=None, **inputs):
            return translate(**inputs)

        def parted(seeds=None, **inputs):
            return changed(part)(**inputs)

        sources = IdSources(random_sentences(SIDE, 200))
        batches = list(translated_batches(run, sources, search, BUDGET))
        seeds = [inputs["seeds"] for inputs, _ in batches if "seeds" in inputs]
        assert len(np.unique(np.concatenate(seeds))) == 200 if is_stochastic else not seeds
        report = compare_translations(batches, parted, search)
        if is_stochastic and agrees:
            report.check()
        else:
            with pytest.raises(ExportError, match="disagrees with Keras"):
                report.check()


def test_more_padding_is_no_difference():
    def widen(outputs):
        outputs["token_ids"] = np.pad(outputs["token_ids"], ((0, 0), (0, 0), (0, 3)))

    report = compare(changed(widen))
    assert (report.all_equal, report.largest_difference) == (1.0, 0.0)


@pytest.mark.parametrize("name", ["scores", "log_probs"])
@pytest.mark.parametrize("wrong", [0.05, np.nan])
def test_wrong_numbers_are_refused(name, wrong):
    def disturb(outputs):
        outputs[name] = outputs[name] + wrong

    with pytest.raises(ExportError, match="disagrees with Keras"):
        compare(changed(disturb)).check()


def test_a_score_that_is_a_sum_is_compared_like_one():
    def sums(rounding):
        def change(outputs):
            outputs["scores"] = outputs["log_probs"] * 1000 * (1 + rounding)

        return changed(change)

    compare_translations(expected(sums(0)), sums(1e-6), SEARCH).check()
    with pytest.raises(ExportError, match="disagrees with Keras"):
        compare_translations(expected(sums(0)), sums(1e-3), SEARCH).check()


@pytest.mark.parametrize("wrong", [0.05, np.nan])
@pytest.mark.parametrize("name", ["alignments", "token_log_probs"])
def test_wrong_values_of_tokens_are_refused(name, wrong):
    def with_values(error):
        def other(**inputs):
            outputs = translate(**inputs)
            shape = outputs["token_ids"].shape
            if name == "alignments":
                shape = (*shape, inputs["source_ids"].shape[1])
            return {**outputs, name: np.full(shape, error - 0.5)}

        return other

    compare_translations(expected(with_values(0.0)), with_values(0.0), SEARCH).check()
    with pytest.raises(ExportError, match="disagrees with Keras"):
        compare_translations(expected(with_values(0.0)), with_values(wrong), SEARCH).check()


def test_a_model_that_ignores_the_penalty_is_refused():
    with pytest.raises(ExportError, match="disagrees with Keras"):
        compare(lambda **inputs: translate(**{**inputs, "length_penalty": 1.0})).check()


@pytest.mark.parametrize("hypothesis", [0, 1])
def test_wrong_ids_are_refused_however_small_their_number(hypothesis):
    calls = []

    def disturb(outputs):
        calls.append(1)
        # 3 of the 200 sentences have different ids and scores.
        if len(calls) in (3, 6, 9):
            outputs["token_ids"][0, hypothesis, 0] += 1
            outputs["scores"][0, hypothesis] -= 1

    with pytest.raises(ExportError, match="98.5%"):
        compare(changed(disturb)).check()


def test_ties_may_change_places_but_not_everywhere():
    calls = []

    def swap(outputs):
        calls.append(1)
        if len(calls) % 3 == 1 or everywhere:
            outputs["token_ids"][:, 0, 0] += 1

    everywhere = False
    report = compare(changed(swap))
    report.check()
    assert report.best_equal < 1 == report.best_tied
    everywhere = True
    with pytest.raises(ExportError, match="the same best ids for 0.0%"):
        compare(changed(swap)).check()


def test_wrong_lengths_are_refused():
    def shorten(outputs):
        outputs["lengths"] = outputs["lengths"] - 1

    with pytest.raises(ExportError):
        compare(changed(shorten)).check()


def test_a_missing_output_is_refused():
    with pytest.raises(ExportError, match="Expected the outputs"):
        compare(changed(lambda outputs: outputs.pop("log_probs")))


def test_the_report_says_what_was_compared():
    report = ParityReport(
        sentences=200, batch_sizes={32, 1}, tokens=990, longest=20, cut=12, largest_difference=2e-6
    )
    assert str(report).startswith("200 sentences (12 cut by max_length) in batches of 1 and 32 (")
    assert "(990 tokens, at most 20 in a hypothesis): the same best ids" in str(report)
    assert str(report).endswith("2.0e-06")


def test_the_report_of_a_precision_names_the_weights_that_were_compared_with_keras():
    report = ParityReport(sentences=200, precision=PrecisionReport("int8", 200, 0.9, 0.01))
    before, after = str(report).split("; ")
    assert "with float32 weights (0 tokens" in before
    assert after.startswith("int8 against float32")


def test_the_report_starts_with_a_warning_if_the_agreement_is_low():
    assert str(ParityReport(best_equal=0.99)).startswith("0 sentences")
    assert str(ParityReport(best_equal=0.96)).startswith("WARNING, LOW AGREEMENT: 4.0% of the best")
    assert str(ParityReport(is_stochastic=True, each_equal=0.96)).startswith("WARNING")
    assert not str(ParityReport(is_stochastic=True, best_equal=0.9)).startswith("WARNING")
    precision = PrecisionReport("int8", 200, 0.6, 0.05)
    assert "int8 changes 40.0% of the best" in str(ParityReport(precision=precision))
    precision = PrecisionReport("int8", 200, 0.9, 0.05)
    assert str(ParityReport(precision=precision)).startswith("0 sentences")


def test_random_sentences_have_no_special_ids_and_repeat():
    sentences = random_sentences(Side(9, 0, 1, 2), 50)
    assert sentences == random_sentences(Side(9, 0, 1, 2), 50)
    assert all(1 <= len(sentence) <= 16 for sentence in sentences)
    assert max(map(len, random_sentences(Side(9, 0, 1, 2, max_length=5), 50))) == 5
    assert set(itertools.chain(*sentences)) == {1, 3, 4, 5, 6, 7, 8}
    np.testing.assert_array_equal(pad([[5, 2], [2]]), [[5, 2], [2, 0]])


def test_the_tolerance_grows_with_the_logits():
    """Rounding errors of float32 are relative to the logits, errors of a conversion are not."""
    rounding, wrong = 3.5e-4, 0.02
    report = ParityReport(largest_difference=rounding)
    with pytest.raises(ExportError, match=r"differences up to 0.0001\. "):
        report.check()
    report = ParityReport(largest_difference=rounding, largest_logit=130.0)
    report.check()
    with pytest.raises(ExportError, match=r"differences up to 0.0001 at logits up to 130\. "):
        report.check(1e-5)
    report.largest_difference = wrong
    with pytest.raises(ExportError, match=r"differences up to 0.001 at logits up to 130\. "):
        report.check()
    report.check(tolerance=0.002)


def test_a_difference_in_the_longest_hypotheses_alone_is_refused():
    def disturb(outputs):
        if outputs["token_ids"].shape[2] == 40:
            outputs["token_ids"][:, 0, 30:] += 1
            outputs["scores"] -= 1

    search = types.SimpleNamespace(**{**vars(SEARCH), "max_length": 40})
    sources = IdSources([*random_sentences(SIDE, 199, lengths=(1, 16)), [9] * 50])
    batches = list(translated_batches(translate, sources, search, BUDGET))
    compare_translations(batches, translate, search).check()
    report = compare_translations(batches, changed(disturb), search)
    assert report.best_tied == 0.995
    with pytest.raises(ExportError, match="and for the longest sentence"):
        report.check()


@pytest.mark.parametrize("change", [0.0, 0.01])
def test_weights_that_changed_a_little_are_found_at_large_logits(change):
    """Rounding errors at logits of 130 are accepted, a wrong weight is not."""
    encoder, decoder = keras_attn.transformer_seq2seq(
        30, 30, num_layers=1, num_heads=2, embedding_dim=16, intermediate_dim=16, seed=3
    )
    search = keras_attn.GreedyDecoder(decoder, max_length=5, relative_max_length=None)
    model = keras_attn.GenerationModel(encoder, search)
    table = max(decoder.weights, key=lambda weight: weight.shape[0] * weight.shape[-1])
    table.assign(table * 40)
    function = SearchFunction(model)
    comparison = SearchComparison(function)
    expected = list(comparison.expected())
    for weight in decoder.weights:
        if weight.path.endswith("kernel"):
            weight.assign(weight * (1 + change))
    if change:
        with pytest.raises(ExportError, match="at logits up to"):
            comparison.compare(SearchFunction(model).runner(), expected)
    else:
        report = comparison.compare(SearchFunction(model).runner(), expected)
        assert report.scale > 3


@pytest.mark.parametrize(("limit", "expected"), [(3, 3), (DRAWN_TOKENS + 5, DRAWN_TOKENS)])
def test_precision_batches_limit_the_length_of_samples(limit, expected):
    batch = {"source_ids": np.ones((2, 3), "int32"), "max_length": np.array(limit, "int32")}
    search = types.SimpleNamespace(is_stochastic=True)
    (inputs,) = precision_batches([batch], search)
    # ONNX Runtime accepts arrays, but not NumPy scalars.
    assert isinstance(inputs["max_length"], np.ndarray) and inputs["max_length"].dtype == "int32"
    assert inputs["max_length"] == expected and inputs["source_ids"] is batch["source_ids"]
