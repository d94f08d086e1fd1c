"""Rules of a search against searches of single sentences with the same rule in NumPy."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_attn
from keras_attn import BeamDecoder, GreedyDecoder, LogitsRule, RuleInput, SamplingDecoder
from keras_attn.testing import _search_oracles as search_oracles
from tests.contracts import assert_close, assert_found, assert_identical, numpy, tensor
from tests.search.table_decoder import TableDecoder, log_probs_of, random_tables
from tests.slow_cases import slow_on_jax

LIMIT, SIZE = 7, 7
TABLES = random_tables(11, batch=6, vocabulary_size=SIZE, end_logit=-0.5)
PRICES = np.random.default_rng(3).uniform(-1, 1, (6, SIZE)).astype("float32")


@keras.saving.register_keras_serializable(package="tests")
class Budget(LogitsRule):
    """Each token may occur `most` times. Adds a price for each token, times a weight.

    The state is the number of times that each token was generated.
    """

    call_inputs = {
        "most": RuleInput(1, "int32"),
        "prices": RuleInput(np.zeros(SIZE, "float32"), shape=(SIZE,)),
    }

    def build(self, log_probs_shape):
        self.factor = self.add_weight(shape=(), initializer="ones", name="factor")
        self.built = True

    def initial_state(self, batch_size, inputs):
        return {"counts": ops.zeros((batch_size, SIZE), "int32")}

    def call(self, log_probs, token_ids, step, state, inputs):
        columns = ops.shape(token_ids)[2]
        is_last = ops.cast(ops.arange(columns, dtype="int32") == step - 1, "int32")  # (t,)
        last = ops.one_hot(ops.reshape(token_ids, (-1, columns)), SIZE, dtype="int32")
        counts = state["counts"] + ops.sum(last * is_last[:, None], axis=1)  # (B*K, V)
        log_probs = log_probs + self.factor * inputs["prices"]
        is_used_up = (counts >= inputs["most"]) & (ops.arange(SIZE) != 2)
        return ops.where(is_used_up, -np.inf, log_probs), {"counts": counts}


def found(search, rules=None, factor=1.0, rule_inputs=None, **settings):
    call = {name: settings.pop(name) for name in ("prefix_ids", "seeds") if name in settings}
    rules = [Budget()] if rules is None else rules
    settings = {"max_length": LIMIT, "relative_max_length": None, "rules": rules, **settings}
    layer = search(TableDecoder(), **settings)
    layer.build(TABLES.shape)
    if rules and isinstance(rules[0], Budget):
        rules[0].factor.assign(factor)
    return numpy(layer(TABLES, rule_inputs=rule_inputs, **call))


def ruled(table, most, prices):
    log_probs_after = log_probs_of(table)

    def with_rule(prefix):
        log_probs = np.array(log_probs_after(prefix), "float64") + prices
        for token in set(prefix) - {2}:
            if list(prefix).count(token) >= most:
                log_probs[token] = -np.inf
        return log_probs

    return with_rule


def inputs_of(most, prices):
    return {"most": tensor(most), "prices": tensor(prices)}


@slow_on_jax
@pytest.mark.parametrize(("most", "width"), [(1, 1), (1, 3), (2, 3)])
def test_beam_search_equals_a_search_of_each_sentence(most, width):
    options = {"beam_width": width, "num_hypotheses": width}
    expected = [
        search_oracles.beam_search(ruled(table, most, 0.5 * prices), LIMIT, **options)
        for table, prices in zip(TABLES, PRICES, strict=True)
    ]
    assert_found(found(BeamDecoder, None, 0.5, inputs_of(most, PRICES), **options), expected)


def test_greedy_search_equals_a_search_of_each_sentence():
    expected = [
        [search_oracles.hypothesis(*search_oracles.greedy_search(ruled(table, 1, prices), LIMIT))]
        for table, prices in zip(TABLES, PRICES, strict=True)
    ]
    assert_found(found(GreedyDecoder, rule_inputs=inputs_of(1, PRICES)), expected)


def test_each_sample_obeys_the_rule():
    seeds = tensor([3, 4, 5, 6, 7, 8])
    for most in (1, 2):
        inputs = {"most": tensor(most)}
        results = found(SamplingDecoder, rule_inputs=inputs, num_hypotheses=20, seeds=seeds)
        rows = results["token_ids"].reshape(-1, results["token_ids"].shape[-1])
        assert max(np.bincount(row[row > 2]).max(initial=0) for row in rows) == most


def test_defaults_and_one_row_for_all():
    options = {"beam_width": 2}
    given = found(BeamDecoder, rule_inputs=inputs_of(1, np.zeros((6, SIZE), "float32")), **options)
    assert_identical(found(BeamDecoder, **options), given)
    row = found(BeamDecoder, rule_inputs={"prices": tensor(PRICES[:1])}, **options)
    rows = found(BeamDecoder, rule_inputs={"prices": tensor(PRICES[[0] * 6])}, **options)
    assert_identical(row, rows)


def test_rules_apply_in_order_and_before_forbidden_sequences():
    class Only(LogitsRule):
        """Makes one token certain."""

        def __init__(self, token, **kwargs):
            super().__init__(**kwargs)
            self.token = token

        def call(self, log_probs, token_ids, step, state, inputs):
            return ops.where(ops.arange(SIZE) == self.token, 5.0, log_probs), state

    search = GreedyDecoder(TableDecoder(), rules=[Only(3), Only(4)], max_length=4)
    results = numpy(search(TABLES))  # of equal tokens, the first one
    assert (results["token_ids"] == 3).all()
    search = GreedyDecoder(
        TableDecoder(), rules=[Only(3)], suppressed_sequences=[[3, 3]], max_length=4
    )
    tokens = numpy(search(TABLES))["token_ids"][:, 0]
    assert (tokens[:, 0] == 3).all() and (tokens[:, 1] != 3).all()


def test_a_prefix_ignores_the_rule_but_counts():
    prefix = tensor([[3, 3]] * 6)
    options = {"prefix_ids": prefix, "return_token_log_probs": True}
    results = found(GreedyDecoder, **options)
    plain = found(GreedyDecoder, [], **options)
    first = [each["token_log_probs"][:, 0, :2] for each in (results, plain)]
    assert_close(*first, 1e-6)
    tokens = results["token_ids"][:, 0]
    assert (tokens[:, :2] == 3).all() and not (tokens[:, 2:] == 3).any()


def translator(**settings):
    keras.utils.set_random_seed(2)
    encoder, decoder = keras_attn.rnn_seq2seq(9, SIZE, units=4, embedding_dim=4)
    settings = {"rules": [Budget()], "suppressed_token_ids": [0, 1, 2], "max_length": 4, **settings}
    return keras_attn.GenerationModel(encoder, BeamDecoder(decoder, **settings))


def test_saving_and_other_settings_keep_the_rule(tmp_path):
    model = translator(beam_width=2)
    model.search.rules[0].factor.assign(2.5)
    prices = np.arange(SIZE, dtype="float32") / 4
    expected = model.generate([[5, 6, 2]], rule_inputs={"most": 2, "prices": prices})
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert float(loaded.search.rules[0].factor) == 2.5
    received = loaded.generate([[5, 6, 2]], rule_inputs={"most": 2, "prices": prices})
    assert received == expected != model.generate([[5, 6, 2]])
    other = keras_attn.with_search(model, GreedyDecoder)
    assert other.search.rules == model.search.rules
    assert model.generate([[5, 6, 2]], beam_width=1) == other.generate([[5, 6, 2]])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rules": [Budget]}, "list of LogitsRule. Received: an item of type type"),
        ({"rules": 3}, "Expected rules to be a list of LogitsRule layers"),
    ],
    ids=str,
)
def test_other_rules(settings, message):
    with pytest.raises(ValueError, match=message):
        BeamDecoder(TableDecoder(), **settings)


def test_two_inputs_of_one_name():
    other = Budget()
    other.call_inputs = {"most": RuleInput(2, "int32")}
    with pytest.raises(ValueError, match="two inputs 'most'. Rename"):
        GreedyDecoder(TableDecoder(), rules=[Budget(), other])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"least": 1}, r"rule_inputs out of \['most', 'prices'\].*Received: \['least'\]"),
        ({"most": np.ones((6, 1))}, r"a scalar for the rule input 'most'.*\(6, 1\)"),
        ({"prices": np.ones((6, 2))}, r"'prices' with the shape \(batch, 7\).*\(6, 2\)"),
        ({"prices": np.ones((4, SIZE))}, "or .1, 7. for all batch entries"),
        ({"prices": np.full((6, SIZE), np.nan)}, "finite numbers for the rule input 'prices'"),
    ],
    ids=str,
)
def test_other_inputs(inputs, message):
    with pytest.raises(ValueError, match=message):
        found(GreedyDecoder, rule_inputs=inputs)


def test_a_rule_that_returns_something_else():
    class Wrong(LogitsRule):
        def call(self, log_probs, token_ids, step, state, inputs):
            return log_probs

    with pytest.raises(ValueError, match="Wrong.call to return a tuple of log_probs and a state"):
        found(GreedyDecoder, [Wrong()])


def test_defaults_of_another_shape():
    with pytest.raises(ValueError, match=r"default of a RuleInput with the shape \(None, 2\)"):
        RuleInput([1.0, 2.0], shape=(None, 2))
    with pytest.raises(ValueError, match="float32 or int32. Received: dtype='bool'"):
        RuleInput(True, "bool")
