"""Ctrl-C ends a command, whatever the code that it interrupts makes of it."""

import os
import signal
import time

import pytest

from keras_attn_commands.interruption import interruptible
from keras_attn_commands.quiet_import import LOG_LEVEL, quiet_import
from keras_attn_commands.train import command
from keras_attn_commands.train.translation_settings import TranslationSettings


@pytest.fixture(autouse=True)
def foreground():
    """Handles SIGINT as in the foreground: background jobs of a shell ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press_ctrl_c():
    signal.raise_signal(signal.SIGINT)


class Finalizer:
    """Python ignores exceptions in `__del__`."""

    def __del__(self):
        press_ctrl_c()


def ignore_the_error():
    try:
        press_ctrl_c()
    except:  # noqa: E722
        time.sleep(0.5)  # longer than until the first repetition


def replace_the_error():
    try:
        press_ctrl_c()
    except KeyboardInterrupt:
        raise ImportError("cannot import name 'dtypes'") from None


@pytest.mark.parametrize("work", [press_ctrl_c, Finalizer, ignore_the_error, replace_the_error])
def test_ctrl_c_is_a_keyboard_interrupt(work):
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), interruptible():
        work()
        for _ in range(500):
            time.sleep(0.01)
    assert signal.getsignal(signal.SIGINT) is before


def test_cleaning_up_is_not_interrupted():
    cleaned = []
    with pytest.raises(KeyboardInterrupt), interruptible():
        try:
            press_ctrl_c()
        finally:
            for number in range(100):
                time.sleep(0.01)
                cleaned.append(number)
    assert len(cleaned) == 100


def test_other_errors_are_unchanged():
    with pytest.raises(ImportError, match="other"), interruptible():
        raise ImportError("other")


def test_ctrl_c_in_an_import_shows_no_log_lines(monkeypatch, capfd):
    monkeypatch.setenv(LOG_LEVEL, "2")
    with pytest.raises(KeyboardInterrupt), quiet_import():
        os.write(2, b"I0000 00:00:1795837165.815378    7731 port.cc:153] oneDNN\n")
        press_ctrl_c()
    assert capfd.readouterr().err == ""


def test_line_of_a_training_says_how_far_it_is(tmp_path):
    settings = TranslationSettings(run_dir=tmp_path)
    assert command._stopped(settings) == command.STOPPED
    (tmp_path / "history.json").write_text('{"history": {"loss": [3.0, 2.0]}}')
    expected = "Stopped after epoch 2. Run the same command to continue."
    assert command._stopped(settings) == expected
    settings.dry_run = True
    assert command._stopped(settings) == "Stopped. Nothing was trained."
