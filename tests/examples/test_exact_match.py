import sys

import exact_match
import pytest


@pytest.fixture
def compare(tmp_path, monkeypatch):
    """Runs the command on two texts."""

    def run(translated, reference):
        paths = tmp_path / "translated", tmp_path / "reference"
        for path, text in zip(paths, (translated, reference), strict=True):
            path.write_bytes(text.encode())
        monkeypatch.setattr(sys, "argv", ["exact_match.py", *map(str, paths)])
        exact_match.main()

    return run


def test_prints_the_share_and_what_differs(compare, capsys):
    compare("a\nb\nc\n\n", "a\nB\nc\n\n")
    output = capsys.readouterr().out
    assert "exact match: 75.00 % (3 of 4 lines)" in output
    assert "expected 'B', received 'b'" in output


def test_only_newlines_separate_lines(compare, capsys):
    compare("a\u2028b\rb\nc", "a\u2028b\rb\nc\n")
    assert "(2 of 2 lines)" in capsys.readouterr().out


def test_windows_ends_its_lines_otherwise(compare, capsys):
    compare("a\nb\n", "a\r\nb\r\n")
    assert "(2 of 2 lines)" in capsys.readouterr().out


def test_unequal_line_counts_are_refused(compare):
    with pytest.raises(SystemExit, match="Received: 1 in .*translated, 2 in .*reference"):
        compare("a\n", "a\nb\n")
