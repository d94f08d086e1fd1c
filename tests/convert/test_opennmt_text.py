"""Vocabularies of OpenNMT-tf, and folders of it from text to text."""

import io

import numpy as np
import pytest

pytest.importorskip("tensorflow")
yaml = pytest.importorskip("yaml")

from keras_attn.convert import ConversionError, from_opennmt_tf  # noqa: E402
from keras_attn.training import RunDirectory  # noqa: E402
from keras_attn_commands.main import main  # noqa: E402
from tests.convert.opennmt_checkpoints import (  # noqa: E402
    SOURCE_SIZE,
    SPECIAL,
    TARGET_SIZE,
    arguments_text,
    opennmt_variables,
    random_source_ids,
    write_opennmt,
    write_vocabulary,
)
from tests.convert.small_checkpoints import ENGLISH, write_folder  # noqa: E402
from tests.test_documentation import run_blocks  # noqa: E402

ONE_LAYER = {"layers": (1, 1)}


def write(folder, sizes=(SOURCE_SIZE, TARGET_SIZE), **options):
    options = {**ONE_LAYER, "sizes": sizes, **options}
    return write_opennmt(folder, opennmt_variables(5, **options), arguments_text(**options))


@pytest.fixture
def folder(tmp_path):
    """A folder with a configuration that names its vocabularies by paths of the training."""
    path = write(tmp_path / "run")
    write_vocabulary(path / "source.vocab", SOURCE_SIZE, "s")
    write_vocabulary(path / "target.vocab", TARGET_SIZE, "t")
    data = {f"{side}_vocabulary": f"data/{side}.vocab" for side in ("source", "target")}
    (path / "data.yml").write_text(yaml.safe_dump({"data": data}))
    return path


def test_opennmt_words_are_separated_by_spaces(folder):
    pytest.importorskip("tokenizers")
    converted = from_opennmt_tf(folder)
    assert converted.tokenizers == "words between spaces, because no tokenization is known"
    source, target = converted.source_tokenizer, converted.target_tokenizer
    unknown = SOURCE_SIZE - 1
    assert source.encode(["s0  s1 S1 s35\u00a0s2", ""]) == [[3, 4, unknown, 38, 5], []]
    assert source.unknown_token_id == unknown and source.vocabulary_size == SOURCE_SIZE
    assert target.decode([[1, 3, 4, TARGET_SIZE - 1, 2, 0, 0]]) == ["t0 t1 <unk>"]
    text = converted.model.generate(["s0 s1", "s7"], source, target)
    assert all(word in (*SPECIAL, "<unk>") or word[0] == "t" for word in " ".join(text).split())


def test_opennmt_vocabulary_of_both_sides_is_one_tokenizer(tmp_path):
    pytest.importorskip("tokenizers")
    folder = write(tmp_path / "run", (SOURCE_SIZE, SOURCE_SIZE), share="ALL")
    vocabulary = write_vocabulary(tmp_path / "both.vocab", SOURCE_SIZE)
    converted = from_opennmt_tf(folder, source_vocabulary=vocabulary, target_vocabulary=vocabulary)
    assert converted.source_tokenizer.vocabulary_size == SOURCE_SIZE
    assert converted.target_tokenizer is None


def test_opennmt_models_without_a_known_tokenization_have_ids(folder):
    (folder / "data.yml").unlink()
    converted = from_opennmt_tf(folder)
    assert converted.source_tokenizer is None and converted.target_tokenizer is None
    assert converted.tokenizers.startswith("none, because no vocabulary is known; use ids")
    data = {f"{side}_vocabulary": f"{side}.vocab" for side in ("source", "target")}
    data["source_tokenization"] = {"type": "OpenNMTTokenizer", "params": {"mode": "aggressive"}}
    (folder / "data.yml").write_text(yaml.safe_dump({"data": data}))
    converted = from_opennmt_tf(folder)
    assert converted.source_tokenizer is None and converted.target_tokenizer is None
    assert "OpenNMTTokenizer is not a SentencePiece model; use ids" in converted.tokenizers


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:-1], "a vocabulary of 39 tokens, .* Received: 38 tokens in"),
        (lambda lines: ["<pad>", *lines[1:]], r"begins with \('<blank>', .*Received: \['<pad>'"),
        (lambda lines: [*lines[:-1], "s0"], "Received: 's0' twice"),
    ],
)
def test_opennmt_wrong_vocabularies_are_refused(folder, change, message):
    path = folder / "source.vocab"
    lines = change(path.read_text().splitlines())
    path.write_text("\n".join(lines))
    with pytest.raises(ConversionError, match=message):
        from_opennmt_tf(folder)
    path.unlink()
    with pytest.raises(ConversionError, match="does not exist. Pass its path with --source-vocab"):
        from_opennmt_tf(folder)


def sentencepiece_folder(path, tokenization=None):
    """A folder whose vocabulary was made from a SentencePiece model, as onmt-build-vocab does."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(ENGLISH * 2),
        model_writer=model,
        vocab_size=48,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = [processor.id_to_piece(id_) for id_ in range(processor.get_piece_size())]
    special = {"<unk>", "<s>", "</s>"}
    tokens = [*SPECIAL, *sorted(set(pieces) - special), "averyunlikelytoken0"]
    sizes = (len(tokens) + 1, len(tokens) + 1)
    folder = write(path, sizes, layers=(2, 2), end_bias=-1.0)
    (folder / "shared.model").write_bytes(model.getvalue())
    (folder / "shared.vocab").write_text("".join(f"{token}\n" for token in tokens))
    sides = ("source", "target")
    data = {f"{side}_vocabulary": "shared.vocab" for side in sides}
    if tokenization is not None:
        data |= {f"{side}_tokenization": tokenization for side in sides}
    (folder / "data.yml").write_text(yaml.safe_dump({"data": data}))
    return folder, processor, tokens


TOKENIZATIONS = {
    "found": None,
    "configured": {"type": "SentencePieceTokenizer", "params": {"model": "data/shared.model"}},
    "OpenNMT's tokenizer": {"mode": "none", "sp_model_path": "shared.model"},
}


@pytest.mark.parametrize("tokenization", TOKENIZATIONS.values(), ids=TOKENIZATIONS)
def test_opennmt_sentencepiece_models_have_the_ids_of_the_vocabulary(tmp_path, tokenization):
    pytest.importorskip("sentencepiece")
    folder, processor, tokens = sentencepiece_folder(tmp_path / "run", tokenization=tokenization)
    converted = from_opennmt_tf(folder)
    assert converted.tokenizers == "shared.model" and converted.target_tokenizer is None
    texts = [*ENGLISH, "the dog sleeps", "quiz: two cats"]
    unknown = len(tokens)
    expected = [
        [tokens.index(piece) if piece in tokens else unknown for piece in pieces]
        for pieces in processor.encode_as_pieces(texts)
    ]
    assert converted.source_tokenizer.encode(texts) == expected
    assert converted.source_tokenizer.decode(expected[:3]) == ENGLISH[:3]


def test_opennmt_parameters_beside_a_sentencepiece_model_are_not_ignored(tmp_path):
    """Only in the mode none are the tokens of pyonmttok those of SentencePiece."""
    pytest.importorskip("sentencepiece")
    tokenization = {"mode": "none", "sp_model_path": "shared.model"}
    folder, _, _ = sentencepiece_folder(tmp_path / "run", tokenization=tokenization)
    data = yaml.safe_load((folder / "data.yml").read_text())["data"]

    def convert(params, **options):
        params = {"type": "OpenNMTTokenizer", "params": params}
        data["source_tokenization"] = data["target_tokenization"] = params
        (folder / "data.yml").write_text(yaml.safe_dump({"data": data}))
        return from_opennmt_tf(folder, **options)

    harmless = {"segment_case": True, "joiner_annotate": False, "sp_nbest_size": 64}
    reports = [str(each) for each in convert({**tokenization, **harmless}).settings]
    line = "data.yml: data/source_tokenization/segment_case = True: irrelevant, not used in the"
    assert any(report.startswith(line) for report in reports)
    for change, message in (
        ({"mode": "aggressive", "case_markup": True}, "source_tokenization/case_markup=True"),
        ({"mode": None}, "source_tokenization/mode=None"),
        ({"with_separators": True}, "target_tokenization/with_separators=True"),
        ({"unheard_of": 1}, "unheard_of=1 .an unknown setting"),
    ):
        with pytest.raises(ConversionError, match=message):
            convert({**tokenization, **change})
    del tokenization["mode"]  # the default of OpenNMT-tf splits words
    with pytest.raises(ConversionError, match="source_tokenization/mode='conservative'"):
        convert(tokenization)
    names = [f"data/{side}_tokenization/mode" for side in ("source", "target")]
    assert convert(tokenization, ignore_settings=names).count("ignored") == 2


def test_opennmt_sentencepiece_models_of_other_vocabularies_are_not_used(tmp_path):
    pytest.importorskip("sentencepiece")
    pytest.importorskip("tokenizers")
    folder, _, tokens = sentencepiece_folder(tmp_path / "run")
    write_vocabulary(folder / "shared.vocab", len(tokens) + 1)
    converted = from_opennmt_tf(folder)
    assert "words between spaces" in converted.tokenizers
    assert "shared.model does not have tokens such as 'w0'" in converted.tokenizers
    data = yaml.safe_load((folder / "data.yml").read_text())["data"]
    data["source_tokenization"] = {"mode": "none", "sp_model_path": "shared.model"}
    (folder / "data.yml").write_text(yaml.safe_dump({"data": data}))
    with pytest.raises(ConversionError, match=r"without \['w0', 'w1', 'w2'\]. Check that it"):
        from_opennmt_tf(folder)
    (folder / "shared.model").unlink()
    with pytest.raises(ConversionError, match="'shared.model', which does not exist. Copy it"):
        from_opennmt_tf(folder)


def test_opennmt_command_writes_a_run_directory(folder, tmp_path, capsys):
    run = tmp_path / "RUN"
    (folder / "data.yml").unlink()
    arguments = ["convert", str(folder), str(run), "--report"]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "architecture: Transformer of OpenNMT-tf" in printed
    assert "model_description.py: num_units = 16: mapped, size of the vectors" in printed
    assert "a Transformer of OpenNMT-tf. Settings: 5 mapped" in printed
    sources = random_source_ids(3)
    expected = np.array(from_opennmt_tf(folder).model(sources)["token_ids"])
    found = RunDirectory(run).load_model("generation")(sources)["token_ids"]
    np.testing.assert_array_equal(np.array(found), expected)
    for side in ("source", "target"):
        arguments += [f"--{side}-vocabulary", str(folder / f"{side}.vocab")]
    pytest.importorskip("tokenizers")
    assert main(arguments) == 0
    assert RunDirectory(run).source_tokenizer.encode(["s0"]) == [[3]]


def test_opennmt_command_writes_nothing_on_an_error(folder, tmp_path, capsys):
    run = str(tmp_path / "RUN")
    (folder / "model_description.py").unlink()
    assert main(["convert", str(folder), run]) == 1
    assert "Nothing was converted. Expected the file model_desc" in capsys.readouterr().err
    assert main(["convert", str(folder), run, "--model-type", "NMTSmallV1"]) == 1
    assert "Models with recurrent layers cannot be converted" in capsys.readouterr().err
    assert main(["convert", str(folder), run, "--verify"]) == 1
    assert "Omit --verify" in capsys.readouterr().err
    pytest.importorskip("safetensors")
    other = str(write_folder(tmp_path / "marian"))
    assert main(["convert", other, run, "--model-type", "TransformerBase"]) == 1
    assert "Omit --model-type" in capsys.readouterr().err
    assert not (tmp_path / "RUN").exists()


def test_opennmt_part_of_the_guide(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_opennmt(folder / "avg", opennmt_variables(5, **ONE_LAYER), description=False)
    (folder / "data.yml").rename(tmp_path / "data.yml")
    names = run_blocks("docs/convert-opennmt.md", {})
    assert names["converted"].architecture == "Transformer of OpenNMT-tf"
    assert (tmp_path / "RUN" / "model.keras").is_file()


@pytest.mark.slow
def test_opennmt_onnx_files_write_the_ids_and_texts_of_keras(tmp_path):
    pytest.importorskip("sentencepiece")
    pytest.importorskip("onnxruntime")
    from keras_attn_runtime import Translator

    from keras_attn import with_search
    from tests.export.small_translator import session

    folder, _, tokens = sentencepiece_folder(tmp_path / "run")
    run, path = tmp_path / "RUN", tmp_path / "model.onnx"
    assert main(["convert", str(folder), str(run)]) == 0
    assert main(["export", "onnx", str(run), str(path), "--search", "max_length=12"]) == 0
    sources = random_source_ids(200, len(tokens) + 1)
    model = with_search(from_opennmt_tf(folder).model, max_length=12)
    expected = np.array(model(sources)["token_ids"])[:, 0]
    limits = {"max_length": np.array(12, "int32"), "length_penalty": np.array(1, "float32")}
    found = session(path).run(["token_ids"], {"source_ids": sources, **limits})[0][:, 0]
    np.testing.assert_array_equal(found, expected)
    assert len({tuple(row) for row in expected.tolist()}) > 20
    texts = model.generate(ENGLISH, RunDirectory(run).source_tokenizer)
    translations = Translator(path, num_threads=1).translate(ENGLISH)
    assert [each.text for each in translations] == texts
