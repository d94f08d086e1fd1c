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


@pytest.mark.parametrize("kind", CODES)
def test_languages_select_the_ids_of_transformers(tmp_path, kind):
    model, names, pieces = write(tmp_path / kind, kind)
    converted = from_transformers(tmp_path / kind)
    codes = CODES[kind]
    languages = converted.source_tokenizer.languages
    assert list(languages) == [code.strip("_") for code in codes]
    assert converted.card.source_language == ("en" if kind == "m2m_100" else None)
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
    with pytest.raises(ConversionError, match="id 5 for the language eng_Latn"):
        from_transformers(tmp_path / "nllb")
