from dataclasses import fields

import keras
import numpy as np
import pytest

from keras_attn import (
    BeamDecoder,
    CausalLanguageModel,
    GenerationModel,
    GreedyDecoder,
    PatchEmbedding,
    SamplingDecoder,
    TransformerDecoderBlock,
    TransformerEncoder,
    TransformerEncoderBlock,
    rnn_seq2seq,
    with_search,
)
from keras_attn._models.generation_result import GenerationResult
from keras_attn._models.with_search import MOST_KEPT, kept_with_search
from keras_attn.text import Language
from tests.contracts import assert_close, numpy, randomize
from tests.models.mean_decoder import MeanDecoder

SOURCES = [[5, 6, 7, 2], [9, 2], [], [8, 3, 4, 5, 6, 2], [4, 4, 2]]


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="others do not compile each size")
def test_last_batch_is_not_compiled_anew(model, expected, monkeypatch):
    sizes = []
    predict = type(model).predict_on_batch

    def record(self, batch):
        sizes.append(len(keras.tree.flatten(batch)[0]))
        return predict(self, batch)

    monkeypatch.setattr(type(model), "predict_on_batch", record)
    found = model.generate(SOURCES, batch_size=3)
    assert sizes == [3, 3]
    for row, ids in enumerate(found):
        length = 0 if expected[row] is None else expected[row]["lengths"][0, 0]
        assert ids == ([] if not length else expected[row]["token_ids"][0, 0, :length].tolist())


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="gradients of PyTorch")
def test_results_of_a_search_require_no_gradients(model):
    results = model(np.array([SOURCES[0]]))
    assert {name for name, value in results.items() if value.requires_grad} == set()
    assert model.encoder(np.array([SOURCES[0]]))["encoder_outputs"].requires_grad


@pytest.mark.slow
def test_seeded_sampler_starts_again_after_loading(tmp_path):
    encoder, decoder = rnn_seq2seq(12, 12, units=4, embedding_dim=4, cell="gru", seed=1)
    model = GenerationModel(encoder, SamplingDecoder(decoder, seed=3, max_length=8, min_length=8))
    sources = np.array([SOURCES[0]] * 4)
    first, second = (numpy(model(sources))["token_ids"] for _ in range(2))
    assert (first != second).any()
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert (numpy(loaded(sources))["token_ids"] == first).all()


class Letters:
    """A tokenizer of small letters, whose ids begin at 3."""

    vocabulary_size = 12
    pad_token_id, start_token_id, end_token_id = 0, 1, 2

    def encode(self, texts):
        return [[ord(letter) - ord("a") + 3 for letter in text] for text in texts]

    def decode(self, rows):
        return ["".join(chr(ord("a") + token - 3) for token in row if token > 2) for row in rows]


@pytest.fixture(scope="module")
def model():
    encoder, decoder = rnn_seq2seq(12, 12, units=4, embedding_dim=4, cell="gru", seed=1)
    search = BeamDecoder(
        decoder,
        beam_width=2,
        num_hypotheses=2,
        max_length=6,
        min_length=2,
        return_alignments=True,
        return_token_log_probs=True,
        return_top_tokens=3,
    )
    model = GenerationModel(encoder, search)
    randomize(model, scale=1.0, seed=2)
    return model


@pytest.fixture(scope="module")
def expected(model):
    """The results for each source alone; `None` for the one without tokens."""
    return [numpy(model(np.array([ids]))) if ids else None for ids in SOURCES]


def test_generate_maps_ids_to_ids_in_their_order(model, expected):
    found = model.generate(SOURCES, batch_size=2)
    for ids, results in zip(found, expected, strict=True):
        length = 0 if results is None else results["lengths"][0, 0]
        assert ids == ([] if results is None else results["token_ids"][0, 0, :length].tolist())
    assert len(set(map(tuple, found))) > 2
    assert model.generate(np.array([[5, 6, 7, 2, 0], [9, 2, 0, 0, 0]])) == found[:2]


def test_generate_maps_texts_to_texts(model):
    texts = ["cde", "g", "", "fabcd", "bb"]
    encoded = Letters().encode(texts)
    ids = model.generate([[*row, 2] if row else [] for row in encoded])
    assert model.generate(texts, Letters()) == Letters().decode(ids)
    assert model.generate(SOURCES, target_tokenizer=Letters()) == Letters().decode(
        model.generate(SOURCES)
    )


def test_generate_puts_the_special_ids_of_the_source_around_texts(model):
    """A prompt begins with its start token, and has no end token."""
    block = TransformerDecoderBlock(1, 8, cross_attention=False)
    decoder = CausalLanguageModel(block, keras.layers.ReversibleEmbedding(12, 8), num_layers=1)
    search = GreedyDecoder(decoder, max_length=4, relative_max_length=None)
    for start in (None, 1):
        writer = GenerationModel(None, search, source_start_token_id=start)
        randomize(writer, scale=2.0, seed=3)
        first = [] if start is None else [start]
        prompts = [[*first, *ids] for ids in Letters().encode(["ab", "f"])]
        expected = Letters().decode(writer.generate(prompts))
        assert writer.generate(["ab", "f"], Letters()) == expected
    other = Letters()
    other.end_token_id = 3
    with pytest.raises(
        ValueError, match="Received: RNNEncoder with end_token_id=2, tokenizer with end_token_id=3"
    ):
        model.generate(["ab"], other)


def test_details_have_the_values_of_the_search(model, expected):
    found = model.generate(SOURCES, target_tokenizer=Letters(), return_details=True)
    for each, ids, results in zip(found, SOURCES, expected, strict=True):
        if results is None:
            assert (each.text, each.token_ids, each.score, each.hypotheses[0].log_prob) == (
                ("", [], 0.0, 0.0)
            )
            assert each.top_tokens == []
            continue
        assert each.token_ids == each.hypotheses[0].token_ids and len(each.hypotheses) == 2
        for rank, hypothesis in enumerate(each.hypotheses):
            length = results["lengths"][0, rank]
            tokens = results["token_ids"][0, rank]
            assert hypothesis.token_ids == tokens[:length].tolist()
            assert hypothesis.text == Letters().decode([hypothesis.token_ids])[0]
            assert hypothesis.ended == (2 in tokens)
            assert_close(hypothesis.score, results["scores"][0, rank])
            assert_close(hypothesis.log_prob, results["log_probs"][0, rank])
            assert_close(sum(hypothesis.token_log_probs), hypothesis.log_prob)
            assert len(hypothesis.top_tokens) == len(hypothesis.token_log_probs)
            for position, top_tokens in enumerate(hypothesis.top_tokens):
                token_ids, pieces, log_probs = zip(*top_tokens, strict=True)
                assert token_ids == tuple(results["top_token_ids"][0, rank, position])
                values = results["top_token_log_probs"][0, rank, position]
                assert_close(np.array(log_probs), values)
                assert set(pieces) == {None}  # the tokenizer has no method `pieces`
            assert hypothesis.alignments.shape == (length, len(ids))
            assert_close(hypothesis.alignments, results["alignments"][0, rank, :length])


def test_details_have_the_fields_of_the_runtime():
    runtime = pytest.importorskip("keras_attn_runtime")
    names = [each.name for each in fields(GenerationResult)]
    assert names == [each.name for each in fields(runtime.GenerationResult)]


def test_generate_describes_images_and_shows_its_progress(capsys):
    encoder = TransformerEncoder(TransformerEncoderBlock(2, 8), PatchEmbedding(4, 4), num_layers=1)
    search = GreedyDecoder(MeanDecoder(), max_length=3)
    model = GenerationModel(encoder, search, inputs=keras.Input((8, 8, 3), name="image"))
    images = np.random.default_rng(1).normal(size=(3, 8, 8, 3)).astype("float32")
    results = numpy(model(images))
    pairs = zip(results["token_ids"][:, 0], results["lengths"][:, 0], strict=True)
    expected = [tokens[:length].tolist() for tokens, length in pairs]
    assert model.generate(images, batch_size=2) == expected
    assert capsys.readouterr().out == ""
    assert model.generate({"image": images}, batch_size=2, verbose=1) == expected
    assert "3/3" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"keys \['image'\]. Received: inputs=\['picture'\]"):
        model.generate({"picture": images})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a text"],), "a source_tokenizer for texts"),
        (("a text", Letters()), r"type str. Pass \[text\]"),
        (([[5, 12]],), r"ids from 0 to 11. Received: source=\[5, 12\]"),
        (([[5.5]],), "list of ids"),
        (([5, 6],), "list of ids .* Received: source=5"),
        ((SOURCES, None, None, 0), "Expected batch_size to be a positive integer"),
    ],
)
def test_generate_refuses_wrong_inputs(model, arguments, message):
    with pytest.raises(ValueError, match=message):
        model.generate(*arguments)


def test_generate_refuses_a_tokenizer_of_another_model(model):
    tokenizer = Letters()
    tokenizer.vocabulary_size = 13
    for arguments in ({"source_tokenizer": tokenizer}, {"target_tokenizer": tokenizer}):
        (name,) = arguments
        with pytest.raises(ValueError, match=f"{name} to have at most 12 ids.*=13"):
            model.generate(SOURCES, **arguments)


def with_prefix(model, ids, prefix):
    """The best hypothesis of the search for one source and one prefix."""
    encoded = model.encoder(np.array([ids]))
    results = numpy(model.search(**encoded, prefix_ids=np.array([prefix], "int32")))
    return results["token_ids"][0, 0, : results["lengths"][0, 0]].tolist()


def test_results_begin_with_the_prefix_of_their_source(model):
    prefixes = [[4, 5], [7], [6], [], [3, 3, 3]]
    expected = [
        with_prefix(model, ids, prefix) if ids else []
        for ids, prefix in zip(SOURCES, prefixes, strict=True)
    ]
    assert model.generate(SOURCES, batch_size=2, target_prefix=prefixes) == expected
    assert all(
        row[: len(prefix)] == prefix for row, prefix in zip(expected, prefixes, strict=True) if row
    )
    shared = [with_prefix(model, ids, [4]) if ids else [] for ids in SOURCES]
    assert model.generate(SOURCES, target_prefix=[4]) == shared
    texts = model.generate(SOURCES, target_tokenizer=Letters(), target_prefix="b")
    assert texts == Letters().decode(shared)


def test_languages_add_their_ids_to_sources_and_results(model):
    tokenizer = Letters()
    tokenizer.languages = {
        "a": Language(source_start=[3], target_start=[4]),
        "b": Language(source_end=[5], target_start=[6], source_tag=[7]),
    }
    ids = [[7, 3, *row, 2] for row in tokenizer.encode(["cd", "f"])]
    expected = tokenizer.decode([with_prefix(model, row, [6]) for row in ids])
    pair = {"source_language": "a", "target_language": "b"}
    assert model.generate(["cd", "f"], tokenizer, **pair) == expected
    ids = [[*row, 2, 5] for row in tokenizer.encode(["cd", "f"])]
    expected = tokenizer.decode([with_prefix(model, row, [4, 8]) for row in ids])
    pair = {"source_language": "b", "target_language": "a", "target_prefix": [8]}
    assert model.generate(["cd", "f"], tokenizer, **pair) == expected
    assert model.generate(["", ""], tokenizer, **pair) == ["", ""]
    del tokenizer.languages["b"]  # a single language needs no choice
    assert model.generate(["cd"], tokenizer) == model.generate(
        ["cd"], tokenizer, source_language="a", target_language="a"
    )


@pytest.mark.parametrize(
    ("sources", "arguments", "message"),
    [
        (["ab"], {}, "source_language to be a language of the tokenizer: a, b. Received:.*None"),
        (["ab"], {"source_language": "a", "target_language": "c"}, "target_language='c'"),
        ([[5, 2]], {"source_language": "a"}, "texts with source_language"),
        ([[5, 2]], {"target_prefix": [12]}, "ids from 0 to 11. Received:.*id 12"),
        ([[5, 2]], {"target_prefix": [[4], [5]]}, "for each of the 1 sources. Received:.*2"),
        ([[5, 2]], {"target_prefix": "a"}, "a target_tokenizer for a target_prefix"),
    ],
)
def test_generate_refuses_wrong_languages_and_prefixes(model, sources, arguments, message):
    tokenizer = Letters()
    tokenizer.languages = {"a": Language(source_start=[3]), "b": Language(source_start=[4])}
    given = tokenizer if isinstance(sources[0], str) else None
    with pytest.raises(ValueError, match=message):
        model.generate(sources, given, **arguments)


def test_settings_of_a_call_replace_those_of_the_search(model):
    expected = with_search(model, beam_width=1, max_length=3).generate(SOURCES)
    assert model.generate(SOURCES, beam_width=1, max_length=3) == expected
    assert model.generate(SOURCES) != expected
    first = kept_with_search(model, {"beam_width": 1, "max_length": 3})
    assert kept_with_search(model, {"max_length": 3, "beam_width": 1}) is first  # compiled once
    for width in range(2, 2 + MOST_KEPT):
        kept_with_search(model, {"beam_width": width})
    assert kept_with_search(model, {"beam_width": 1, "max_length": 3}) is not first
    with pytest.raises(ValueError, match="beam_with"):
        model.generate(SOURCES, beam_with=2)
    with pytest.raises(ValueError, match="num_beams.*beam_width"):
        model.generate(SOURCES, num_beams=2)
