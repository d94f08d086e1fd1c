"""What the example of translation can be told."""

import sys

import pytest
import translation_options


@pytest.mark.parametrize(
    "options, message",
    [
        (["--model", "transformer", "--no-input-feeding"], "--no-input-feeding is an option of"),
        (["--heads", "8"], "--heads is an option of --model transformer"),
        (["--source", "en"], "--source and --target need --data"),
    ],
)
def test_options_that_would_do_nothing_are_refused(options, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["train_translation.py", *options])
    with pytest.raises(SystemExit):
        translation_options.parse_arguments()
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "options, expected", [([], 0.02), (["--tokenizer", "bpe"], 0.02), (["--tokenizer", "char"], 0)]
)
def test_only_the_pieces_of_bpe_are_drawn_by_default(options, expected, monkeypatch):
    options = ["--data", "texts", "--model", "transformer", *options]
    monkeypatch.setattr(sys, "argv", ["train_translation.py", *options])
    assert translation_options.parse_arguments().subword_sampling == expected
