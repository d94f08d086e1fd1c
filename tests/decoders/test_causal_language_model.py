"""Against one pass over prompt and continuation, without memory or cache."""

import itertools

import keras
import numpy as np
import pytest
from keras import tree

from keras_attn import (
    AlibiBias,
    BeamDecoder,
    CausalLanguageModel,
    GenerationModel,
    GreedyDecoder,
    LearnedPositions,
    RelativePositionBias,
    RotaryPositions,
    SinusoidalPositions,
    TransformerDecoderBlock,
)
from keras_attn._backend.gather import reorder
from keras_attn.testing import _search_oracles as search_oracles
from keras_attn.testing import check_layer
from keras_attn.testing._decoder_checks import check_rows
from tests import oracles
from tests.contracts import assert_close, assert_found, assert_identical, numpy, randomize
from tests.slow_cases import all_slow_but

VOCABULARY_SIZE = 5
PROMPTS = [[1, 4, 3, 3, 4], [3], [], [1, 3, 4]]
LONGEST = 5
PROMPT_IDS = np.array([prompt + [0] * (LONGEST - len(prompt)) for prompt in PROMPTS], "int32")
CONTINUATIONS = np.array([[3, 4, 3], [4, 4, 2], [3, 3, 4], [4, 3, 3]], "int32")


def language_model(num_heads=2, head=None, stack=None, **block):
    embedding = keras.layers.ReversibleEmbedding(VOCABULARY_SIZE, 8)
    block = TransformerDecoderBlock(num_heads, 12, cross_attention=False, **block)
    return CausalLanguageModel(block, embedding, head=head, num_layers=2, **(stack or {}))


MODELS = {
    "sinusoidal": lambda: language_model(
        stack={"positions": SinusoidalPositions(), "scale_embedding": True}
    ),
    # Without biases: that of the keys changes no weight, so that it has no gradient.
    "learned, post-norm": lambda: language_model(
        use_bias=False, normalize_first=False, stack={"positions": LearnedPositions(12)}
    ),
    "rotary, rms, swiglu, grouped": lambda: language_model(
        num_heads=4,
        num_key_value_heads=2,
        key_dim=2,
        rotary=RotaryPositions(),
        normalization="rms",
        activation="swiglu",
        use_bias=False,
    ),
    "alibi, with a head": lambda: language_model(
        head=keras.layers.Dense(VOCABULARY_SIZE), stack={"position_bias": AlibiBias(2)}
    ),
    "relative": lambda: language_model(
        stack={"position_bias": RelativePositionBias(2, 8, max_distance=6, bidirectional=False)}
    ),
    "sinusoidal, window": lambda: language_model(
        sliding_window=2, stack={"positions": SinusoidalPositions()}
    ),
    "rotary, archive": lambda: language_model(
        rotary=RotaryPositions(), stack={"cache_block_size": 2}
    ),
    "alibi, window, archive": lambda: language_model(
        sliding_window=3, stack={"position_bias": AlibiBias(2), "cache_block_size": 1}
    ),
    "sinusoidal, fixed cache": lambda: language_model(
        stack={"positions": SinusoidalPositions(), "growing_cache": False}
    ),
    "rotary, fixed cache": lambda: language_model(
        rotary=RotaryPositions(), stack={"growing_cache": False}
    ),
    "alibi, fixed cache": lambda: language_model(
        stack={"position_bias": AlibiBias(2), "growing_cache": False}
    ),
    "relative, window, fixed cache": lambda: language_model(
        sliding_window=3,
        stack={
            "position_bias": RelativePositionBias(2, 8, max_distance=6, bidirectional=False),
            "growing_cache": False,
        },
    ),
}
ENCODED = {"encoder_outputs": PROMPT_IDS, "encoder_mask": PROMPT_IDS != 0}


FAST = ["rotary, rms, swiglu, grouped", "relative", "alibi, window, archive", "rotary, fixed cache"]


@pytest.fixture(params=all_slow_but(*FAST, cases=MODELS, on_jax=FAST[-1:]))
def name(request):
    return request.param


def made(name, scale=0.5):
    model = MODELS[name]()
    model(PROMPT_IDS)
    return randomize(model, scale)


def after_prompts(model, continuations, prompts=PROMPTS):
    """Logits of the token after each prompt and after each token of a continuation but the last.

    One behind the other, with padding behind both: the future, which no position sees.
    """
    prompts = [prompt or [1] for prompt in prompts]
    continuations = np.asarray(continuations)
    time = continuations.shape[1]
    ids = np.zeros((len(prompts), LONGEST + time), "int32")
    for row, prompt, continuation in zip(ids, prompts, continuations, strict=True):
        row[: len(prompt) + time] = [*prompt, *continuation]
    logits = numpy(model(ids))
    starts = [len(prompt) - 1 for prompt in prompts]
    return np.array([row[n : n + time] for row, n in zip(logits, starts, strict=True)])  # (B, T, V)


def first_tokens(model, memory):
    return numpy(model.first_token_ids(memory, 1))


def test_steps_equal_one_pass_over_prompt_and_continuation(name):
    model = made(name)
    expected = after_prompts(model, CONTINUATIONS)
    memory = model.prepare_memory(**ENCODED)
    assert all(leaf.shape[0] == len(PROMPTS) for leaf in tree.flatten(memory))
    tokens = first_tokens(model, memory)
    assert tokens.tolist() == [4, 3, 1, 4]
    state = model.initial_state(memory, max_length=CONTINUATIONS.shape[1])
    for t, following in enumerate(CONTINUATIONS.T):
        logits, new_state = model.step(tokens, state, memory)
        assert numpy(logits).dtype == "float32"
        assert_close(numpy(logits), expected[:, t])
        tree.assert_same_structure(new_state, state)
        tokens, state = following, new_state


def test_teacher_forcing_goes_on_behind_prompts(name):
    model = made(name)
    starts = first_tokens(model, model.prepare_memory(**ENCODED))
    token_ids = np.concatenate([starts[:, None], CONTINUATIONS[:, :-1]], axis=1)
    logits = numpy(model(token_ids, **ENCODED))
    assert_close(logits, after_prompts(model, CONTINUATIONS))


def test_beams_of_one_prompt_and_chosen_rows(name):
    model = made(name)
    rows, beam_width = np.array([3, 1, 0], "int32"), 2
    prompts = [PROMPTS[row] for row in rows for _ in range(beam_width)]
    continuations = np.random.default_rng(1).integers(2, 5, (len(prompts), 3))
    expected = after_prompts(model, continuations, prompts)
    memory = model.select(model.prepare_memory(**ENCODED), rows)
    state = model.initial_state(memory, beam_width, max_length=3)
    check_rows(state, len(rows), beam_width)
    tokens = np.repeat(first_tokens(model, memory), beam_width)
    for t, following in enumerate(continuations.T.astype("int32")):
        logits, state = model.step(tokens, state, memory)
        assert_close(numpy(logits), expected[:, t])
        tokens = following


def test_beams_go_on_with_the_tokens_of_their_parents(name):
    model = made(name)
    parents = np.array([[1, 1], [0, 0], [1, 0], [0, 1]])  # of the beams, after their first token
    beams = parents.shape[1]
    rows = (parents + np.arange(len(PROMPTS))[:, None] * beams).reshape(-1).astype("int32")
    prompts = [prompt for prompt in PROMPTS for _ in range(beams)]
    first, second = np.random.default_rng(2).integers(2, 5, (2, len(rows))).astype("int32")
    behind = np.stack([first[rows], second, second], axis=1)
    memory = model.prepare_memory(**ENCODED)
    state = model.initial_state(memory, beams, max_length=3)
    _, state = model.step(np.repeat(first_tokens(model, memory), beams), state, memory)
    _, state = model.step(first, state, memory)
    logits, _ = model.step(second, model.archive(reorder(state, rows)), memory)
    assert_close(numpy(logits), after_prompts(model, behind, prompts)[:, 2])


def test_attention_weights_are_dropped_behind_prompts_too():
    model = language_model(attention_dropout=0.5, seed=1)
    inputs = {"token_ids": CONTINUATIONS, **ENCODED}
    inference = numpy(model(**inputs))
    assert_identical(numpy(model(**inputs)), inference)
    assert not np.allclose(numpy(model(**inputs, training=True)), inference)


def test_what_padding_holds_changes_nothing():
    model = made("rotary, rms, swiglu, grouped")
    noise = np.where(ENCODED["encoder_mask"], PROMPT_IDS, 4)
    noisy = {**ENCODED, "encoder_outputs": noise}
    assert_identical(numpy(model(CONTINUATIONS, **noisy)), numpy(model(CONTINUATIONS, **ENCODED)))


def test_without_a_mask_no_prompt_is_padded():
    model = made("sinusoidal")
    full = {"encoder_outputs": np.where(np.arange(3) == 2, 0, CONTINUATIONS)}
    masked = {**full, "encoder_mask": np.ones_like(CONTINUATIONS, "bool")}
    assert_identical(numpy(model(CONTINUATIONS, **full)), numpy(model(CONTINUATIONS, **masked)))
    search = GreedyDecoder(model, max_length=3, relative_max_length=None)
    assert_close(numpy(search(**full)), numpy(search(**masked)))


def test_the_future_is_not_seen(name):
    model = made(name)
    other = CONTINUATIONS.copy()
    other[:, 2] = 0  # padding, too, is a future that is not seen
    assert_close(numpy(model(other))[:, :2], numpy(model(CONTINUATIONS))[:, :2])
    assert (numpy(model(other))[:, 2] != numpy(model(CONTINUATIONS))[:, 2]).any()


def tables(model, limit):
    """For each prompt, the log probabilities (V,) after every continuation below `limit`."""
    inner = list(itertools.product((3, 4), repeat=limit - 1))
    repeated = [prompt for prompt in PROMPTS for _ in inner]
    continuations = [[*tokens, 0] for tokens in inner] * len(PROMPTS)
    found = oracles.log_softmax(after_prompts(model, continuations, repeated))
    return [
        {
            tokens[:length]: log_probs[length]
            for tokens, log_probs in zip(inner, of_prompt, strict=True)
            for length in range(limit)
        }
        for of_prompt in np.split(found, len(PROMPTS))
    ]


SEARCHED = ["sinusoidal", "rotary, rms, swiglu, grouped", "alibi, fixed cache", "rotary, archive"]


@pytest.mark.parametrize(
    "name",
    all_slow_but(
        *SEARCHED, cases=SEARCHED, on_jax=["rotary, rms, swiglu, grouped", "alibi, fixed cache"]
    ),
)
def test_searches_find_the_best_continuations(name):
    limit, model = 4, made(name, scale=1.0)
    lookups = [table.__getitem__ for table in tables(model, limit)]
    encoded = {"encoder_outputs": PROMPT_IDS, "encoder_mask": PROMPT_IDS != 0}
    arguments = {"max_length": limit, "relative_max_length": None}

    exact = BeamDecoder(model, beam_width=24, num_hypotheses=3, stop="exact", **arguments)
    every = [search_oracles.every_hypothesis(lookup, limit)[:3] for lookup in lookups]
    assert_found(numpy(exact(**encoded)), every)

    greedy = [
        [search_oracles.hypothesis(*search_oracles.greedy_search(lookup, limit))]
        for lookup in lookups
    ]
    assert_found(numpy(GreedyDecoder(model, **arguments)(**encoded)), greedy)

    beam = BeamDecoder(model, beam_width=2, num_hypotheses=2, **arguments)
    expected = [search_oracles.beam_search(lookup, limit, 2, 2) for lookup in lookups]
    assert_found(numpy(beam(**encoded)), expected)


def test_an_empty_prompt_is_the_start_token():
    model = made("rotary, fixed cache")
    arguments = {"max_length": 4, "relative_max_length": None}
    generator = GenerationModel(None, BeamDecoder(model, beam_width=2, **arguments))
    empty, start = numpy(generator(np.zeros((1, 3), "int32"))), numpy(generator(np.array([[1]])))
    assert_close(empty, start)


def test_a_mask_of_one_row_is_for_all_prompts():
    search = GreedyDecoder(made("relative"), max_length=4, relative_max_length=None)
    one = np.array([[True] * (PROMPT_IDS.shape[1] - 1) + [False]])
    found = [
        numpy(search(PROMPT_IDS, encoder_mask=mask))
        for mask in (one, np.repeat(one, len(PROMPT_IDS), axis=0))
    ]
    assert_close(*found)


@pytest.mark.parametrize(
    ("name", "prompts"), [("learned, post-norm", {}), ("rotary, rms, swiglu, grouped", ENCODED)]
)
def test_is_a_good_layer(name, prompts):
    inputs = {"token_ids": CONTINUATIONS, **prompts}
    check_layer(MODELS[name], inputs, mixed_dtype="float32")


def test_a_generator_is_saved_with_its_search(tmp_path):
    model = made("relative")
    search = BeamDecoder(
        model, beam_width=3, num_hypotheses=2, max_length=5, relative_max_length=None
    )
    generator = GenerationModel(None, search)
    expected = numpy(generator(PROMPT_IDS))
    assert (expected["lengths"] > 0).any()
    generator.save(tmp_path / "generator.keras")
    loaded = keras.models.load_model(tmp_path / "generator.keras")
    assert_close(numpy(loaded(PROMPT_IDS)), expected)
    assert loaded.encoder is None and loaded.source_encoder.vocabulary_size == VOCABULARY_SIZE


def test_a_graph_of_known_prompt_length_can_archive():
    model = made("rotary, archive")
    search = BeamDecoder(model, beam_width=2, max_length=5, relative_max_length=None)
    generator = GenerationModel(None, search)
    expected = numpy(generator(PROMPT_IDS))
    assert_close(generator.predict(PROMPT_IDS, verbose=0), expected)


def test_blocks_that_attend_to_a_memory_are_refused():
    with pytest.raises(ValueError, match="cross_attention=False"):
        CausalLanguageModel(
            TransformerDecoderBlock(2, 12), keras.layers.ReversibleEmbedding(VOCABULARY_SIZE, 8)
        )


def test_prompt_and_continuation_share_the_learned_positions():
    model = language_model(stack={"positions": LearnedPositions(6)})
    search = GreedyDecoder(model, max_length=9, relative_max_length=None, suppressed_token_ids=[2])
    lengths = numpy(search(**ENCODED))["lengths"][:, 0]
    # The last token of a prompt is the input of the first step.
    assert lengths.tolist() == [6 - max(len(prompt) - 1, 0) for prompt in PROMPTS]
