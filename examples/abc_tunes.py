"""Tunes in ABC notation: parsing, complete bars, novelty, and MIDI files. It needs music21.

music21 both reads ABC and writes MIDI, so the notes in a MIDI file are the notes that were checked.
"""

import os
import re
from pathlib import Path
from unittest import mock

from keras_attn_runtime._files.working_directory import working_directory


def split_tunes(text):
    """Splits a text into tunes at blank lines."""
    return [tune.strip("\n") for tune in re.split(r"\n\s*\n", text) if tune.strip()]


def parse_tune(tune):
    """Returns the score of a tune, or `None` if music21 cannot parse it or it has no notes."""
    from music21 import converter, stream

    # Remove the `!` with which older ABC files end a line of the score.
    tune = re.sub("!$", "", tune, flags=re.MULTILINE)
    try:
        score = converter.parse(tune, format="abc")
        has_notes = score.recurse().notes and score.recurse().getElementsByClass(stream.Measure)
    except Exception:  # music21 and its ABC reader raise errors of many classes
        return None
    return score if has_notes else None


def complete_bars(score):
    """Returns a bool for each bar, whether it is complete, or `None` if the score has no meter.

    A bar is complete if the total duration of its notes equals the meter. Bars next to the start or
    end of the tune, to repeats and to double bars may be shorter, because they can contain an
    upbeat.
    """
    from music21 import stream

    bars = list(score.recurse().getElementsByClass(stream.Measure))
    try:
        lengths = [bar.duration.quarterLength for bar in bars]
        full = [bar.barDuration.quarterLength for bar in bars]
    except Exception:  # music21 raises errors of many classes
        return None
    ends = [bar.rightBarline is not None and bar.rightBarline.type != "regular" for bar in bars]
    begins = [bar.leftBarline is not None and bar.leftBarline.type != "regular" for bar in bars]
    may_be_short = [
        index in (0, len(bars) - 1)
        or begins[index]
        or ends[index]
        or ends[index - 1]
        or begins[index + 1]
        for index in range(len(bars))
    ]
    return [
        length == whole or (short and length < whole)
        for length, whole, short in zip(lengths, full, may_be_short, strict=True)
    ]


def bars_of(tune):
    """Returns a bool for each bar, whether it is complete, or `None` if parsing fails."""
    if parse_tune(tune) is None:
        return None
    # By default, music21 splits a bar that is too long into several complete bars. Without this
    # step (`reBar`), the score has the same bars as the text.
    with mock.patch("music21.abcFormat.translate.reBar"):
        score = parse_tune(tune)
    return None if score is None else complete_bars(score)


def melody(tune):
    """Returns the notes of a tune: its text without header, bar lines, repeats and spaces."""
    lines = [line for line in tune.splitlines() if not re.match(r"[A-Za-z]:|%", line)]
    return re.sub(r"[\s|:!\[\]\\]", "", "".join(lines))


class Novelty:
    """Share of a tune's melody that occurs in no tune of a corpus.

    Melodies are compared in windows of characters, and a window is new if no tune of the corpus
    contains it. A tune that is transposed, or whose durations are changed, counts as new.

    Args:
        tunes: list of strings, the corpus.
        window: int, number of characters; 8 are about one bar.
    """

    def __init__(self, tunes, window=8):
        self.window = window
        self.known = {each for tune in tunes for each in self._windows(melody(tune))}

    def __call__(self, tune):
        """Returns a float in [0, 1]: 0 if the whole melody can be found in the corpus."""
        windows = self._windows(melody(tune))
        return sum(each not in self.known for each in windows) / len(windows)

    def _windows(self, text):
        last = max(0, len(text) - self.window)
        return [text[start : start + self.window] for start in range(last + 1)]


def write_midi(tune, path):
    """Writes a tune as a MIDI file, with its repeats played if they are consistent."""
    score = parse_tune(tune)
    if score is None:
        raise ValueError(f"Expected a tune that music21 can parse. Received: tune={tune!r}")
    from music21.repeat import ExpanderException

    try:
        score = score.expandRepeats()
    except ExpanderException:  # for example, a repeat that has an end but no beginning
        pass
    path = Path(path)
    with working_directory(path.parent, path.name) as directory:
        score.write("midi", fp=directory / path.name)
        os.replace(directory / path.name, path)
