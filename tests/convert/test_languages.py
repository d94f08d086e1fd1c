"""Folders of multilingual models: each request selects a pair of languages."""

import json

import numpy as np
import pytest

from keras_attn.convert import ConversionError, from_transformers

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")
sentencepiece = pytest.importorskip("sentencepiece")

from tests.convert.against_transformers import randomize, save  # noqa: E402
from tests.convert.small_checkpoints import train_pieces  # noqa: E402
from tests.convert.test_fairseq_models import make  # noqa: E402

LINES = ["the cat sleeps in the red house", "die katze schläft im haus", "zwei katzen schlafen"]
CODES = {"m2m_100": ["__de__", "__en__", "__fr__"], "nllb": ["deu_Latn", "eng_Latn", "fra_Latn"]}
CODES["mbart50"] = ["de_DE", "en_XX", "fr_XX"]


def write(folder, kind):
    """Writes a folder with the files of a published model. Returns the model and the vocabulary."""
    model = train_pieces(LINES)
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
    own = [pieces.id_to_piece(id_) for id_ in range(3, pieces.get_piece_size())]
    names = ["<s>", "<pad>", "</s>", "<unk>", *own]
    codes = CODES[kind]
    folder.mkdir()
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    if kind == "m2m_100":
        names = names[:4] + names[:3:-1]  # the ids are not in the order of the model
        vocabulary = {name: id_ for id_, name in enumerate(names)}
        (folder / "vocab.json").write_text(json.dumps(vocabulary))
    names = [*names, *codes] + ([] if kind == "m2m_100" else ["<mask>"])
    special = {"additional_special_tokens": codes}
    (folder / "special_tokens_map.json").write_text(json.dumps(special))
    config = {"tokenizer_class": "MBart50Tokenizer" if kind == "mbart50" else "M2M100Tokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "src_lang": "en"}))
    made = make("mbart" if kind == "mbart50" else "m2m_100", vocab_size=len(names) + 2)
    language = names.index(codes[0])
    search = {"num_beams": 2, "max_length": 10, "bad_words_ids": [[1]]}
    save(randomize(made, 3), folder, forced_bos_token_id=language, **search)
    return made, names, pieces


def their_texts(model, names, converted, source, **generation):
    """Texts that transformers generates, with the tokens of the language."""
    with torch.no_grad():
        ids = model.generate(torch.tensor(source).long(), **generation)
    return converted.target_tokenizer.decode(ids[:, 1:].numpy())


@pytest.mark.parametrize("kind", CODES)
def test_languages_select_the_ids_of_transformers(tmp_path, kind):
    model, names, pieces = write(tmp_path / kind, kind)
    converted = from_transformers(tmp_path / kind)
    codes = CODES[kind]
    languages = converted.source_tokenizer.languages
    assert list(languages) == [code.strip("_") for code in codes]
    assert converted.model_card.source_language == ("en" if kind == "m2m_100" else None)
    assert not converted.model.search.score_prefix
    assert converted.model.search.forced_prefix_ids == []
    english, french = (names.index(code) for code in codes[1:])
    assert list(languages[codes[1].strip("_")].source_start) == [english]
    assert list(converted.target_tokenizer.languages[codes[2].strip("_")].target_start) == [french]

    # The same ids, and the same outputs for a selected language, as the ids in transformers.
    for line in LINES:
        ids = [names.index(piece) for piece in pieces.encode(line, out_type=str)]
        assert converted.source_tokenizer.encode([line]) == [ids]
    source = np.array([[english, *ids, 2]], "int32")
    prefix = np.array([[french]], "int32")
    with torch.no_grad():
        expected = model.generate(torch.tensor(source).long(), forced_bos_token_id=french)
    encoded = converted.model.encoder(source)
    found = np.array(converted.model.search(**encoded, prefix_ids=prefix)["token_ids"])[0, 0]
    expected = expected[0, 1:].tolist()
    assert [id_ for id_ in found.tolist() if id_ != 1] == [id_ for id_ in expected if id_ != 1]


def test_ids_of_languages_must_agree(tmp_path):
    write(tmp_path / "nllb", "nllb")
    added = [{"id": 5, "content": "eng_Latn"}, {"id": 6, "content": "fra_Latn"}]
    (tmp_path / "nllb" / "tokenizer.json").write_text(json.dumps({"added_tokens": added}))
    with pytest.raises(ConversionError, match="id 5 for eng_Latn, which is the id of"):
        from_transformers(tmp_path / "nllb")


@pytest.mark.parametrize("kind", CODES)
def test_texts_are_translated_between_selected_languages(tmp_path, kind):
    model, names, pieces = write(tmp_path / kind, kind)
    converted = from_transformers(tmp_path / kind)
    english, french = (names.index(code) for code in CODES[kind][1:])
    ids = [names.index(piece) for piece in pieces.encode(LINES[0], out_type=str)]
    source = np.array([[english, *ids, 2]])
    expected = their_texts(model, names, converted, source, forced_bos_token_id=french)
    tokenizers = converted.source_tokenizer, converted.target_tokenizer
    pair = [code.strip("_") for code in CODES[kind][1:]]
    languages = {"source_language": pair[0], "target_language": pair[1]}
    assert converted.model.generate(LINES[:1], *tokenizers, **languages) == expected
    with pytest.raises(ValueError, match="source_language to be a language"):
        converted.model.generate(LINES[:1], *tokenizers)


def test_the_first_mbart_has_one_target_language(tmp_path):
    """Its sources end with their language, and its decoder begins with that of the target."""
    model, names, pieces = write(tmp_path / "mbart25", "mbart50")
    config = {"tokenizer_class": "MBartTokenizer"}
    (tmp_path / "mbart25" / "tokenizer_config.json").write_text(json.dumps(config))
    english, french = (names.index(code) for code in CODES["mbart50"][1:])
    language = {"forced_bos_token_id": None, "decoder_start_token_id": french}
    save(model, tmp_path / "mbart25", **language)
    converted = from_transformers(tmp_path / "mbart25")
    assert converted.model.search.start_token_id == french
    assert converted.target_tokenizer.languages == {}
    rows = [[names.index(piece) for piece in pieces.encode(line, out_type=str)] for line in LINES]
    tokenizers = converted.source_tokenizer, converted.target_tokenizer
    found = converted.model.generate(LINES, *tokenizers, source_language="en_XX")
    for row, text in zip(rows, found, strict=True):
        source = np.array([[*row, 2, english]])
        assert their_texts(model, names, converted, source) == [text]
