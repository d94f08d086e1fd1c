"""Translators are written for CTranslate2, which finds the same ids."""

import json

import keras
import numpy as np
import pytest

import keras_attn
from keras_attn.export import ExportError, export_ctranslate2
from keras_attn.training import RunDirectory
from keras_attn_commands.main import main

ctranslate2 = pytest.importorskip("ctranslate2")

SOURCE, TARGET = 60, 70
SEARCH = {
    "max_length": 12,
    "relative_max_length": None,
    "length_penalty_form": "average_with_end",
    # CTranslate2 removes such ids before the softmax, and this library after it.
    "suppressed_token_ids": [],
}


def translator(seed=0, **changed):
    """A small Transformer with random weights and an end token that is sometimes likely."""
    sizes = {"num_layers": 2, "num_heads": 2, "embedding_dim": 16, "intermediate_dim": 32}
    encoder, decoder = keras_attn.transformer_seq2seq(
        SOURCE, TARGET, **{**sizes, "max_length": 64, "seed": seed, **changed}
    )
    decoder(np.ones((1, 2), "int32"), **encoder(np.ones((1, 2), "int32")))
    random = np.random.default_rng(seed)
    for variable in {id(each): each for each in encoder.weights + decoder.weights}.values():
        noise = random.normal(size=variable.shape) * (0.4 if len(variable.shape) > 1 else 0.1)
        variable.assign(np.array(variable) + noise.astype("float32"))
    table = np.array(decoder.embedding.embeddings)
    table[2] *= 1.5
    decoder.embedding.embeddings.assign(table)
    search = keras_attn.BeamDecoder(decoder, **SEARCH)
    return keras_attn.GenerationModel(encoder, search)


def sources(count, encoder, size):
    """Padded ids with an end token."""
    random = np.random.default_rng(0)
    special = {encoder.pad_token_id, encoder.start_token_id, encoder.end_token_id}
    usable = [id_ for id_ in range(size) if id_ not in special]
    ids = random.choice(usable, (count, 9)).astype("int32")
    for row, end in zip(ids, random.integers(1, 9, count), strict=True):
        row[end], row[end + 1 :] = encoder.end_token_id, encoder.pad_token_id
    if encoder.start_token_id is not None:
        ids = np.concatenate([np.full((count, 1), encoder.start_token_id, "int32"), ids], axis=1)
    return ids


def our_ids(model, ids):
    found = model(ids)
    rows, lengths = np.array(found["token_ids"])[:, 0], np.array(found["lengths"])[:, 0]
    end = model.search.end_token_id
    return [
        row[: length + int(length < len(row) and row[length] == end)].tolist()
        for row, length in zip(rows, lengths, strict=True)
    ]


def their_ids(folder, model, ids, arguments):
    encoder = model.encoder
    source, target = (read_vocabulary(folder, side) for side in ("source", "target"))
    special = {encoder.pad_token_id, encoder.start_token_id, encoder.end_token_id}
    batch = [[source[id_] for id_ in row if id_ not in special] for row in ids.tolist()]
    engine = ctranslate2.Translator(str(folder), device="cpu", intra_threads=1)
    found = engine.translate_batch(batch, return_end_token=True, **arguments)
    by_token = {token: id_ for id_, token in enumerate(target)}
    return [[by_token[token] for token in each.hypotheses[0]] for each in found]


def read_vocabulary(folder, side):
    paths = [folder / f"{name}_vocabulary.json" for name in (side, "shared")]
    path = next(path for path in paths if path.is_file())
    return json.loads(path.read_text(encoding="utf-8"))


def equal_fraction(model, folder, report, count=40):
    ids = sources(count, model.encoder, model.encoder.embedding.input_dim)
    expected = our_ids(model, ids)
    assert len({tuple(row) for row in expected}) >= 8, "outputs must differ"
    theirs = their_ids(folder, model, ids, report.arguments)
    return np.mean([a == b for a, b in zip(expected, theirs, strict=True)])


MODELS = {
    "pre-norm": {},
    "post-norm": {"normalize_first": False, "activation": "gelu"},
    "learned positions": {"positions": "learned", "activation": "gelu_tanh"},
    "relative positions": {"positions": "relative", "use_bias": False},
    "gated": {"activation": "swiglu", "normalization": "rms"},
    "own key size": {"activation": "geglu", "key_dim": 5},
    "epsilon": {"epsilon": 0.01, "share_embeddings": True, "target_vocabulary_size": SOURCE},
}


@pytest.mark.parametrize("name", MODELS)
def test_beam_search_finds_the_same_ids(tmp_path, name):
    changed = dict(MODELS[name])
    size = changed.pop("target_vocabulary_size", TARGET)
    if size != TARGET:
        encoder, decoder = keras_attn.transformer_seq2seq(
            SOURCE,
            size,
            num_layers=1,
            num_heads=2,
            embedding_dim=16,
            intermediate_dim=32,
            seed=0,
            **changed,
        )
        model = keras_attn.GenerationModel(encoder, keras_attn.BeamDecoder(decoder, **SEARCH))
    else:
        model = translator(**changed)
    report = export_ctranslate2(model, tmp_path / "model")
    assert report.largest_difference < 1e-4
    assert report.left_out == ()
    if size == TARGET:
        assert equal_fraction(model, tmp_path / "model", report) == 1


def test_search_settings_become_arguments(tmp_path):
    model = keras_attn.with_search(
        translator(positions="relative"), beam_width=3, length_penalty=0.5, num_hypotheses=2
    )
    report = export_ctranslate2(model, tmp_path / "model")
    assert equal_fraction(model, tmp_path / "model", report) == 1
    greedy = keras_attn.with_search(model, keras_attn.GreedyDecoder)
    report = export_ctranslate2(greedy, tmp_path / "greedy")
    assert report.arguments["beam_size"] == 1
    assert equal_fraction(greedy, tmp_path / "greedy", report) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"repetition_penalty": 1.5},
        {"no_repeat_ngram_size": 2},
        {"suppressed_sequences": [[one, two] for one in range(3, 30) for two in range(3, 30, 2)]},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_greedy_search_with_rules_about_earlier_tokens_finds_the_same_ids(tmp_path, changed):
    model = keras_attn.with_search(
        translator(positions="relative"), keras_attn.GreedyDecoder, **changed
    )
    report = export_ctranslate2(model, tmp_path / "model")
    assert equal_fraction(model, tmp_path / "model", report) == 1


def test_settings_that_ctranslate2_does_not_have_are_reported(tmp_path):
    model = keras_attn.with_search(
        translator(),
        stop="exact",
        suppressed_token_ids=[0, 1],
        relative_max_length=(2, 10),
        length_penalty_form="average",
        force_end_token=True,
    )
    report = export_ctranslate2(model, tmp_path / "model")
    names = " ".join(report.left_out)
    for name in ("stop='exact'", "relative_max_length", "'average'", "force_end_token=True"):
        assert name in names
    assert report.arguments["suppress_sequences"] == [["<pad>"], ["<s>"]]
    assert (tmp_path / "model" / "export.txt").read_text() == f"{report}\n"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"positions": "rotary"}, "encoder: rotary in the blocks"),
        ({"positions": "alibi"}, "decoder: position_bias=AlibiBias"),
        ({"num_key_value_heads": 1}, "num_key_value_heads=1 with num_heads=2"),
        ({"sliding_window": 3}, "sliding_window in the blocks"),
        ({"activation": "softplus"}, "activation='softplus'"),
        ({"activation": "linear"}, "activation='linear'"),
    ],
)
def test_a_transformer_that_ctranslate2_cannot_hold_is_refused(tmp_path, changed, message):
    with pytest.raises(ExportError, match=message):
        export_ctranslate2(translator(**changed), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_other_models_are_refused(tmp_path):
    encoder, decoder = keras_attn.rnn_seq2seq(20, 30, units=8, embedding_dim=8)
    search = keras_attn.BeamDecoder(decoder, max_length=5)
    with pytest.raises(ExportError, match="RNNEncoder instead of TransformerEncoder"):
        export_ctranslate2(keras_attn.GenerationModel(encoder, search), tmp_path / "model")
    with pytest.raises(ValueError, match="precision='int4'"):
        export_ctranslate2(translator(), tmp_path / "model", precision="int4")
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "model.bin").write_text("mine")
    with pytest.raises(FileExistsError, match="a directory with other content"):
        export_ctranslate2(translator(), folder)


def test_lower_precisions_are_smaller(tmp_path):
    model = translator(embedding_dim=64, intermediate_dim=256)
    sizes = {}
    for precision in ("float32", "float16", "bfloat16", "int16", "int8"):
        export_ctranslate2(model, tmp_path / precision, precision=precision, num_positions=16)
        sizes[precision] = (tmp_path / precision / "model.bin").stat().st_size
    assert sizes.pop("int8") < sizes["float32"] / 2
    assert max(size for name, size in sizes.items() if "16" in name) < 0.6 * sizes["float32"]


def test_low_rank_updates_are_merged(tmp_path):
    model = translator()
    keras_attn.training.enable_lora(model, rank=2)
    for variable in model.trainable_variables:
        variable.assign(keras.random.normal(variable.shape, seed=3) * 0.3)
    report = export_ctranslate2(model, tmp_path / "model")
    assert report.largest_difference < 1e-4


def test_the_command_writes_pieces_of_the_tokenizer(tmp_path, capsys):
    from keras_attn.text import SentencePieceTokenizer

    path = tmp_path / "text"
    path.write_text("the cat sleeps\na dog eats the bone\n" * 20)
    tokenizer = SentencePieceTokenizer.train([path], 20, "char")
    encoder, decoder = keras_attn.transformer_seq2seq(
        *(tokenizer.vocabulary_size,) * 2,
        num_layers=1,
        num_heads=2,
        embedding_dim=8,
        intermediate_dim=16,
        seed=0,
    )
    run = RunDirectory.create(tmp_path / "run", "generation", tokenizer)
    run.save_model(keras_attn.GenerationModel(encoder, keras_attn.BeamDecoder(decoder)))
    out = tmp_path / "model"
    assert main(["export", "ctranslate2", str(run.path), str(out)]) == 0
    assert "beam_size=4" in capsys.readouterr().out
    pieces = read_vocabulary(out, "shared")
    assert pieces == tokenizer.pieces(range(tokenizer.vocabulary_size))
    config = json.loads((out / "config.json").read_text())
    assert (config["add_source_eos"], config["add_source_bos"]) == (True, False)
    assert config["decoder_start_token"] == "<s>"
    assert main(["export", "ctranslate2", str(run.path), str(out)]) == 0  # replaced
    with pytest.raises(SystemExit):
        main(["export", "ctranslate2", str(run.path), str(out), "--alignments"])
    assert "argument --alignments: Only the formats onnx, " in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["marian", "marian, separate", "bart", "mbart", "m2m_100", "pegasus", "fsmt", "t5 1.1"]
)
def test_converted_translators_find_the_same_ids(tmp_path, name):
    pytest.importorskip("transformers")
    from tests.convert.written_models import convert_generator

    model = convert_generator(name, tmp_path / "original").model
    changed = {"force_end_token": False, "suppressed_token_ids": []}
    model = keras_attn.with_search(model, **changed)
    report = export_ctranslate2(model, tmp_path / "model")
    assert report.largest_difference < 1e-4
    assert equal_fraction(model, tmp_path / "model", report) == 1


def test_suppressed_tokens_without_probability_are_exact(tmp_path):
    """With renormalize_logits, both libraries exclude the padding before the softmax."""
    pytest.importorskip("transformers")
    from tests.convert.written_models import convert_generator

    options = {"renormalize_logits": True, "forced_eos_token_id": None}
    model = convert_generator("marian", tmp_path / "original", **options).model
    report = export_ctranslate2(model, tmp_path / "model")
    assert report.arguments["suppress_sequences"] == [["<pad>"]]
    assert report.left_out == ()
    assert equal_fraction(model, tmp_path / "model", report) == 1
