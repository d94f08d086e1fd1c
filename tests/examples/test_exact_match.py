import sys

import exact_match
import pytest


@pytest.fixture
def compare(tmp_path, monkeypatch):
    """Runs the command on two texts."""

    def run(translated, reference, *options):
        paths = tmp_path / "translated", tmp_path / "reference"
        for path, text in zip(paths, (translated, reference), strict=True):
            path.write_bytes(text.encode())
        monkeypatch.setattr(sys, "argv", ["exact_match.py", *map(str, paths), *options])
        exact_match.main()

    return run


def test_prints_the_share_and_what_differs(compare, capsys):
    compare("a\nb\nc\n\n", "a\nB\nc\n\n", "--minimum", "75")
    output = capsys.readouterr().out
    assert "exact match: 75.00 % (3 of 4 lines)" in output
    assert "expected 'B', received 'b'" in output


def test_fails_below_the_minimum(compare):
    with pytest.raises(SystemExit, match="at least 98.0 %"):
        compare("a\nb\n", "a\nc\n", "--minimum", "98")


def test_only_newlines_separate_lines(compare, capsys):
    compare("a\u2028b\rb\nc", "a\u2028b\rb\nc\n", "--minimum", "100")
    assert "(2 of 2 lines)" in capsys.readouterr().out


def test_windows_ends_its_lines_otherwise(compare, capsys):
    compare("a\nb\n", "a\r\nb\r\n", "--minimum", "100")
    assert "(2 of 2 lines)" in capsys.readouterr().out


def test_unequal_line_counts_are_refused(compare):
    with pytest.raises(SystemExit, match="Received: 1 in .*translated, 2 in .*reference"):
        compare("a\n", "a\nb\n")
