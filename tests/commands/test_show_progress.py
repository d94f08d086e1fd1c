"""The phases and counts that commands show on standard error."""

import io
import logging

import pytest

from keras_attn_checks.progress import LOGGER, report_count, report_phase
from keras_attn_commands.show_progress import show_progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def work():
    report_phase("Converting")
    report_phase("Comparing")
    for done in (1, 8):
        report_count(done, 8)
    report_count(9, 0)  # the total is unknown
    report_phase("Writing")
    report_count(1, 2)


@pytest.mark.parametrize("is_terminal", [False, True])
def test_phases_are_lines_and_counts_are_for_terminals(monkeypatch, is_terminal):
    stream = Terminal() if is_terminal else io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    with show_progress():
        work()
    erase = "\r\x1b[K"
    counts = f"  1 of 8{erase}  8 of 8{erase}" if is_terminal else ""
    end = f"  1 of 2{erase}" if is_terminal else ""
    assert stream.getvalue() == f"Converting\nComparing\n{counts}Writing\n{end}"


def test_progress_is_silent_in_python(capfd):
    work()
    assert capfd.readouterr() == ("", "")


def test_progress_leaves_the_logger_as_it_was(monkeypatch):
    monkeypatch.setattr("sys.stderr", io.StringIO())
    before = LOGGER.level, LOGGER.propagate, list(LOGGER.handlers)
    with pytest.raises(KeyboardInterrupt), show_progress():
        raise KeyboardInterrupt
    assert (LOGGER.level, LOGGER.propagate, list(LOGGER.handlers)) == before
    assert not LOGGER.isEnabledFor(logging.INFO)
