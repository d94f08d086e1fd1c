import sys

import attention_map
import pytest

from keras_attn import BeamDecoder, GenerationModel, transformer_seq2seq
from keras_attn.training import RunDirectory
from tests.export.small_translator import SOURCE, make_translator

TEXT = "\n".join(SOURCE[:2])


@pytest.fixture
def draw(tmp_path, tokenizers, monkeypatch):
    """Runs the program in a folder with a run directory and a file of sentences."""

    def run(translator, out, text=TEXT):
        pytest.importorskip("matplotlib").use("Agg")
        monkeypatch.chdir(tmp_path)
        RunDirectory.create("run", "generation", *tokenizers).save_model(translator)
        (tmp_path / "in.txt").write_text(text)
        monkeypatch.setattr(sys, "argv", ["attention_map.py", "run", "in.txt", "--out", out])
        attention_map.main()
        return tmp_path / out

    return run


def make_transformer():
    encoder, decoder = transformer_seq2seq(
        45, 46, num_layers=2, embedding_dim=8, num_heads=2, intermediate_dim=8
    )
    search = BeamDecoder(decoder, beam_width=2, max_length=8, return_alignments=True)
    return GenerationModel(encoder, search)


def test_a_picture_shows_the_first_sentence(draw, capsys):
    path = draw(make_translator(return_alignments=True), "map.png")
    assert path.stat().st_size > 1000
    first, wrote, rest = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{SOURCE[0]}  ->  ") and wrote == "Wrote map.png"
    assert rest == "It shows the first of 2 sentences. A page shows all: --out FILE.html"


def test_a_page_shows_all_sentences_and_heads(draw, capsys):
    page = draw(make_transformer(), "map.html").read_text()
    assert page.count('"source":') == 2 and "block_1" in page
    assert capsys.readouterr().out.count("  ->  ") == 2


def test_wrong_inputs_are_one_line(draw):
    with pytest.raises(SystemExit, match="was trained without attention"):
        draw(make_translator(attention=None), "map.png")
    with pytest.raises(SystemExit, match="only blank lines in in.txt"):
        draw(make_translator(), "map.png", text="\n \n")
    with pytest.raises(SystemExit, match="2"):
        draw(make_translator(), "map.pdf")
