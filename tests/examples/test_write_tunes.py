"""Tunes in ABC notation: which are kept, how new they are, and their MIDI files."""

import importlib.util
from types import SimpleNamespace

import pytest

pytest.importorskip("keras_attn_runtime")
import abc_tunes
import write_tunes

HEADER = "X:1\nT:Test\nM:4/4\nL:1/8\nK:D\n"
COMPLETE = HEADER + "AG|FAdA FAdA|GBdB (3GAB dB|A2c2 A>cec|dfaf gecA|d4 d4:|!"
SHORT_BAR = HEADER + "FAdA FAdA|GBdB GBd|Acec Acec|dfaf gecA|"
needs_music21 = pytest.mark.skipif(
    importlib.util.find_spec("music21") is None, reason="music21 is not installed"
)


def settings(**given):
    return SimpleNamespace(**{"tunes": 3, "draws": 3, "seed": 1, "least_novelty": 0.0, **given})


@pytest.fixture
def bars_without_music21(monkeypatch):
    """Tunes that begin with "good" have complete bars; those with "bad" cannot be parsed."""

    def bars_of(tune):
        return None if tune.startswith("bad") else [tune.startswith("good")]

    monkeypatch.setattr(write_tunes, "bars_of", bars_of)


def test_each_tune_is_drawn_again_until_it_is_complete(bars_without_music21):
    rounds = {3: ["good 1", "bad", "short"], 4: [None, "good 1"], 5: ["good 2", "good 3"]}
    asked = []

    def draw(count, seed):
        asked.append((count, seed))
        return rounds[seed]

    kept, draws = write_tunes.keep_tunes(draw, settings(), lambda tune: 1.0)
    assert asked == [(3, 3), (2, 4), (2, 5)]  # "good 1" was already kept
    assert kept == ["good 1", "good 2", "good 3"]
    report = write_tunes.report_of(kept, draws, lambda tune: 0.5)
    assert (report["kept"], report["draws"]) == (3, 7)
    assert report["draws_for_each_tune"] == 7 / 3
    assert [report[f"share_{each}"] for each in ("ended", "parsed", "complete")] == [
        6 / 7,
        5 / 7,
        4 / 7,
    ]


def test_at_most_the_given_number_of_draws(bars_without_music21):
    kept, draws = write_tunes.keep_tunes(lambda count, _: ["short"] * count, settings(), None)
    assert kept == [] and len(draws) == 9


def test_copies_are_refused(bars_without_music21):
    shares = {"good copy": 0.1, "good new": 0.6}
    kept, _ = write_tunes.keep_tunes(
        lambda count, _: list(shares), settings(tunes=2, draws=1, least_novelty=0.5), shares.get
    )
    assert kept == ["good new"]


def test_melody_has_no_header_and_no_bar_lines():
    assert abc_tunes.melody(COMPLETE) == "AGFAdAFAdAGBdB(3GABdBA2c2A>cecdfafgecAd4d4"


def test_novelty_is_the_share_of_unknown_windows():
    novelty = abc_tunes.Novelty(["X:1\nabcd|efgh"], window=4)
    assert novelty("X:2\nab cd ef|gh") == 0.0
    assert novelty("X:1\nABCDEFG") == 1.0
    # bcde and cdef are known; defA, efAB and fABC are new.
    assert novelty("bcdefABC") == 3 / 5
    assert novelty("ab") == 1.0  # shorter than a window


def test_blank_lines_divide_tunes():
    assert abc_tunes.split_tunes("\nX:1\nab\n\n \nX:2\ncd\n") == ["X:1\nab", "X:2\ncd"]


@needs_music21
@pytest.mark.filterwarnings("ignore")  # of music21
def test_complete_bars_are_those_that_fill_the_meter():
    assert abc_tunes.bars_of(COMPLETE) == [True] * 6
    assert abc_tunes.bars_of(SHORT_BAR) == [True, False, True, True]
    assert abc_tunes.bars_of(SHORT_BAR.replace("GBd|", "GBd:|")) == [True] * 4
    assert abc_tunes.bars_of(SHORT_BAR.replace("GBd|", "GBdBG|")) == [True, False, True, True]
    assert abc_tunes.bars_of(HEADER) is None


@needs_music21
@pytest.mark.filterwarnings("ignore")
def test_midi_files_have_the_notes_of_the_tune(tmp_path):
    import music21

    abc_tunes.write_midi(HEADER + "D2 FA d4|f8|", tmp_path / "tune.mid")
    assert (tmp_path / "tune.mid").read_bytes()[:4] == b"MThd"
    notes = music21.converter.parse(tmp_path / "tune.mid").flatten().notes
    # Two sharps: F is F sharp. Lengths are in quarters.
    expected = [(62, 1), (66, 0.5), (69, 0.5), (74, 2), (78, 4)]
    assert [(each.pitch.midi, each.quarterLength) for each in notes] == expected
    with pytest.raises(ValueError, match="Expected a tune that music21 can parse. Received: tune="):
        abc_tunes.write_midi("nothing", tmp_path / "other.mid")
