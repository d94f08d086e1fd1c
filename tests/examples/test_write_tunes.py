"""Tunes in ABC notation: which are kept, how new they are, and their MIDI files."""

import importlib.util
import json
from types import SimpleNamespace

import pytest
import write_tunes

from tests.examples.scripts import EXAMPLES, python

HEADER = "X:1\nT:Test\nM:4/4\nL:1/8\nK:D\n"
COMPLETE = HEADER + "AG|FAdA FAdA|GBdB (3GAB dB|A2c2 A>cec|dfaf gecA|d4 d4:|!"
SHORT_BAR = HEADER + "FAdA FAdA|GBdB GBd|Acec Acec|dfaf gecA|"
needs_music21 = pytest.mark.skipif(
    importlib.util.find_spec("music21") is None, reason="music21 is not installed"
)


@pytest.fixture
def bars_without_music21(monkeypatch):
    """Tunes that begin with "good" have complete bars; those with "bad" cannot be parsed."""

    def bars_of(tune):
        return None if tune.startswith("bad") else [tune.startswith("good")]

    monkeypatch.setattr(write_tunes, "bars_of", bars_of)
    monkeypatch.setattr(write_tunes, "TUNES", 3)


def known(*tunes):
    return {window for tune in tunes for window in write_tunes.windows(tune)}


def test_each_tune_is_drawn_again_until_it_is_complete(bars_without_music21):
    rounds = {0: ["good 1", "bad", "short"], 1: [None, "good 1"], 2: ["good 2", "good 3"]}
    asked = []

    def draw(count, seed):
        asked.append((count, seed))
        return rounds[seed]

    kept, report = write_tunes.keep_tunes(draw, known("good 3 and more"))
    assert asked == [(3, 0), (2, 1), (2, 2)]  # "good 1" was already kept
    assert kept == ["good 1", "good 2", "good 3"]
    assert report == {
        "kept": 3,
        "draws": 7,
        "share_ended": 6 / 7,
        "share_parsed": 5 / 7,
        "share_complete": 4 / 7,
        "mean_novelty": 1.0,
    }


def test_at_most_the_given_number_of_draws(bars_without_music21):
    kept, report = write_tunes.keep_tunes(lambda count, _: ["short"] * count, set())
    assert kept == [] and report["draws"] == 9 and report["mean_novelty"] == 0.0


def test_copies_are_refused(bars_without_music21):
    kept, _ = write_tunes.keep_tunes(lambda *_: ["good copy", "good new"], known("a good copy |"))
    assert kept == ["good new"]


def test_windows_have_no_header_and_no_bar_lines():
    melody = "AGFAdAFAdAGBdB(3GABdBA2c2A>cecdfafgecAd4d4"
    found = write_tunes.windows(COMPLETE)
    assert found[0] + "".join(window[-1] for window in found[1:]) == melody
    assert {len(window) for window in found} == {8}


def test_novelty_is_the_share_of_unknown_windows(monkeypatch):
    monkeypatch.setattr(write_tunes, "WINDOW", 4)
    corpus = known("X:1\nabcd|efgh")
    assert write_tunes.novelty("X:2\nab cd ef|gh", corpus) == 0.0
    assert write_tunes.novelty("X:1\nABCDEFG", corpus) == 1.0
    # bcde and cdef are known; defA, efAB and fABC are new.
    assert write_tunes.novelty("bcdefABC", corpus) == 3 / 5
    assert write_tunes.novelty("ab", corpus) == 1.0  # shorter than a window


def test_blank_lines_divide_tunes():
    assert write_tunes.split_tunes("\nX:1\nab\n\n \nX:2\ncd\n") == ["X:1\nab", "X:2\ncd"]


def test_an_existing_folder_is_refused(tmp_path):
    assert "--corpus" in python(tmp_path, "-S", EXAMPLES / "write_tunes.py", "--help").stdout
    arguments = [EXAMPLES / "write_tunes.py", "writer.onnx", tmp_path, "--corpus", "corpus.abc"]
    error = python(tmp_path, *arguments, status=2).stderr
    assert f"Expected a new folder. Received: {tmp_path}, which exists." in error


@needs_music21
@pytest.mark.filterwarnings("ignore")  # of music21
def test_a_folder_contains_the_kept_tunes_only(tmp_path, monkeypatch):
    runtime = pytest.importorskip("keras_attn_runtime")
    drawn = [SimpleNamespace(text=COMPLETE, ended=True), SimpleNamespace(text="", ended=False)]
    translator = SimpleNamespace(translate=lambda prompts, seed: drawn)
    monkeypatch.setattr(runtime, "Translator", lambda path: translator)
    monkeypatch.setattr(write_tunes, "TUNES", 2)
    (tmp_path / "corpus.abc").write_text(SHORT_BAR)
    out = tmp_path / "new" / "tunes"
    arguments = ["writer.onnx", out, "--corpus", tmp_path / "corpus.abc"]
    monkeypatch.setattr("sys.argv", ["write_tunes.py", *map(str, arguments)])
    with pytest.raises(SystemExit, match="Expected 2 tunes. Train the model for longer."):
        write_tunes.main()
    assert {path.name for path in out.iterdir()} == {"tune-001.abc", "tune-001.mid", "tunes.json"}
    assert (out / "tune-001.abc").read_text() == f"{COMPLETE}\n"
    assert json.loads((out / "tunes.json").read_text())["draws"] == 6
    assert list(out.parent.iterdir()) == [out]


@needs_music21
@pytest.mark.filterwarnings("ignore")
def test_complete_bars_are_those_that_fill_the_meter():
    bars_of = write_tunes.bars_of
    assert bars_of(COMPLETE) == [True] * 6
    assert bars_of(SHORT_BAR) == [True, False, True, True]
    assert bars_of(SHORT_BAR.replace("GBd|", "GBd:|")) == [True] * 4
    assert bars_of(SHORT_BAR.replace("GBd|", "GBdBG|")) == [True, False, True, True]
    for wrong in (HEADER, "nothing", COMPLETE.replace("M:4/4\n", "")):
        assert bars_of(wrong) is None


@needs_music21
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "notes, played",
    [
        ("A8|B8:|c8|d8:|", "ABABCDCD"),  # the start of the second repeat is left out
        ("|:A8|B8:|:c8|d8:|", "ABABCDCD"),
        ("A8|B8:|\n|:c8|d8:|", "ABABCDCD"),
        ("A8|B8::c8|d8:|", "ABABCDCD"),
        ("|:A8|1B8:|2c8|]|:d8|e8:|", "ABACDEDE"),  # two endings
        ("A8|B8:|\nc8|d8:|!\ne8|", "ABABCDCDE"),
    ],
)
def test_repeats_are_played(notes, played, tmp_path):
    import music21

    write_tunes.write_midi(HEADER + notes, tmp_path / "tune.mid")
    found = music21.converter.parse(tmp_path / "tune.mid").flatten().notes
    assert "".join(note.pitch.step for note in found) == played


@needs_music21
@pytest.mark.filterwarnings("ignore")
def test_midi_files_have_the_notes_of_the_tune(tmp_path):
    import music21

    write_tunes.write_midi(HEADER + "D2 FA d4|f8|", tmp_path / "tune.mid")
    assert (tmp_path / "tune.mid").read_bytes()[:4] == b"MThd"
    notes = music21.converter.parse(tmp_path / "tune.mid").flatten().notes
    # Two sharps: F is F sharp. Lengths are in quarters.
    expected = [(62, 1), (66, 0.5), (69, 0.5), (74, 2), (78, 4)]
    assert [(each.pitch.midi, each.quarterLength) for each in notes] == expected
