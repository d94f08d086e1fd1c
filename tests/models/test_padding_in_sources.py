"""Sources that contain the padding, start or end token: all ids of a list are tokens."""

import keras
import numpy as np
import pytest

from keras_attn import (
    CausalLanguageModel,
    EnsembleEncoder,
    GenerationModel,
    GreedyDecoder,
    LearnedPositions,
    TransformerDecoderBlock,
    rnn_seq2seq,
    transformer_seq2seq,
)
from tests.contracts import assert_close, numpy
from tests.slow_cases import all_slow_but

SIZE = 12
ROWS = [[5, 6, 7], [0, 5, 6, 7], [5, 0, 6], [5, 6, 0], [1, 5, 1], [5, 2, 6, 2], [0], [2], [5, 0, 0]]


def prompt_model(pad, start=1, end=2):
    block = TransformerDecoderBlock(2, 16, cross_attention=False)
    embedding = keras.layers.ReversibleEmbedding(SIZE, 8)
    decoder = CausalLanguageModel(block, embedding, num_layers=1, positions=LearnedPositions(8))
    search = GreedyDecoder(
        decoder,
        max_length=4,
        relative_max_length=None,
        pad_token_id=pad,
        start_token_id=start,
        end_token_id=end,
        suppressed_token_ids=[0, 1, 2],
    )
    model = GenerationModel(None, search)
    return with_large_weights(model)


def with_large_weights(model):
    """Gives the matrices values for which the outputs depend on all tokens."""
    random = np.random.default_rng(0)
    for weight in model.weights:
        if len(weight.shape) > 1:
            weight.assign(random.normal(scale=0.9, size=weight.shape))
    return model


def continuation(model, prompt):
    """The greedy continuation by teacher forcing, which needs no masks."""
    tokens = list(prompt)
    for _ in range(min(4, 8 - len(prompt) + 1)):
        logits = numpy(model.decoder(np.array([tokens])))[0, -1]
        tokens.append(int(logits[3:].argmax()) + 3)
    return tokens[len(prompt) :]


@pytest.mark.parametrize("pad", all_slow_but(0, 1, 2, cases=[0, 1, 2], on_jax=[1]))
def test_prompts_of_lists_contain_any_token(pad):
    model = prompt_model(pad)
    expected = [continuation(model, prompt) for prompt in ROWS]
    assert len(set(map(tuple, expected))) > 4
    assert model.generate(ROWS) == expected
    assert [model.generate([prompt])[0] for prompt in ROWS] == expected


def test_an_array_of_prompts_is_padded_on_the_right():
    model = prompt_model(2)
    rows = np.array([[5, 2, 6, 2], [5, 6, 2, 2], [7, 8, 9, 10]])
    expected = [continuation(model, prompt) for prompt in ([5, 2, 6], [5, 6], [7, 8, 9, 10])]
    assert model.generate(rows) == expected
    results = numpy(model(np.array([[5, 2, -1, 2], [5, 6, 2, 2]])))["token_ids"]
    assert results[:, 0].tolist() == [continuation(model, [5, 2]), continuation(model, [5, 6])]


def test_prompts_are_limited_by_the_learned_positions():
    model = prompt_model(0)
    prompts = [[5] * length for length in (5, 6, 7, 8)]
    expected = [continuation(model, prompt) for prompt in prompts]
    assert [len(row) for row in expected] == [4, 3, 2, 1]
    assert model.generate(prompts) == expected
    with pytest.raises(ValueError, match="at most 8 ids.* Received: a source with 9 ids"):
        model.generate([[5] * 9])


def test_texts_longer_than_the_learned_positions_are_truncated():
    class Digits:
        vocabulary_size, pad_token_id, start_token_id, end_token_id = SIZE, 0, 1, 2

        def encode(self, texts):
            return [[int(digit) for digit in text] for text in texts]

        def decode(self, rows):
            return ["".join(map(str, row)) for row in rows]

    model = prompt_model(0)
    found = model.generate(["345", "3456789345", "305"], Digits(), return_details=True)
    assert [each.truncated for each in found] == [False, True, False]
    expected = [
        continuation(model, ids) for ids in ([3, 4, 5], [3, 4, 5, 6, 7, 8, 9, 3], [3, 0, 5])
    ]
    assert [each.token_ids for each in found] == expected


def encoder_models():
    rnn, decoder = rnn_seq2seq(SIZE, SIZE, units=8, embedding_dim=8, cell="gru", seed=1)
    yield rnn, decoder
    sizes = {"num_layers": 1, "embedding_dim": 8, "intermediate_dim": 16, "num_heads": 2}
    yield transformer_seq2seq(SIZE, SIZE, **sizes, seed=1)


@pytest.mark.parametrize("number", [0, 1])
def test_sources_contain_any_token(number):
    encoder, decoder = list(encoder_models())[number]
    assert EnsembleEncoder([encoder]).masks_only_trailing_padding
    search = GreedyDecoder(decoder, max_length=4, suppressed_token_ids=[0, 1, 2])
    model = GenerationModel(encoder, search)
    with_large_weights(model)
    sources = [[*row, 2] for row in ROWS]
    expected = []
    for ids in sources:
        encoded = encoder(np.array([ids]), mask=np.ones((1, len(ids)), "bool"))
        expected.append(numpy(search(**encoded))["log_probs"][0, 0])
    assert len(set(np.round(expected, 4))) == len(sources)
    found = model.generate(sources, return_details=True)
    assert_close([each.log_prob for each in found], expected)


def test_an_embedding_with_a_mask_refuses_padding_inside_of_a_source():
    _, decoder = next(encoder_models())
    encoder, _ = rnn_seq2seq(SIZE, SIZE, units=8, embedding_dim=8, cell="gru")
    encoder.embedding.supports_masking = True
    model = GenerationModel(encoder, GreedyDecoder(decoder, max_length=4))
    with pytest.raises(ValueError, match="pad_token_id=0 at position 1"):
        model.generate([[5, 2], [5, 0, 6, 2]])


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        ([5, 0, 6], "pad_token_id=0 only at the end.* at position 1"),
        ([5, 2, 6], "end_token_id=2 only at the end.* at position 1"),
        ([5] * 9, "at most 4 tokens.* Received: target_prefix with 9 tokens"),
    ],
)
def test_prefixes_that_no_result_can_begin_with_are_refused(prefix, message):
    with pytest.raises(ValueError, match=message):
        prompt_model(0).generate([[5, 6]], target_prefix=prefix)


def test_a_prefix_may_end_with_padding_or_the_end_token():
    model = prompt_model(0)
    assert model.generate([[5, 6]], target_prefix=[7, 0, 0]) == model.generate(
        [[5, 6]], target_prefix=[7]
    )
    assert model.generate([[5, 6]], target_prefix=[7, 2]) == [[7]]
