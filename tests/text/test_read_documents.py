"""Text for language models: documents, the held-out part, and files that are refused."""

import gzip

import pytest

from keras_attn.text import read_documents


def write(path, text):
    path.write_bytes(text.encode("utf-8"))
    return path


def test_documents_are_divided_at_blank_lines(tmp_path):
    tunes = write(tmp_path / "tunes", "\n\nX:1\n abc \n\n\nX:2\ndef\n \t\nX:3\n")
    new = write(tmp_path / "new", "X:4\n")
    training, validation = read_documents(tunes, new, separated=True)
    assert training == ["X:1\n abc ", "X:2\ndef", "X:3"]
    assert validation == ["X:4"]


def test_the_end_of_a_text_is_held_out(tmp_path):
    text = "row, row\n\nrow your boat " * 100
    (training,), (validation,) = read_documents(write(tmp_path / "text", text))
    assert training + validation == text and len(validation) == len(text) // 20


@pytest.mark.parametrize("form", ["bom", "crlf", "gz"])
def test_forms_of_a_file_are_equal(tmp_path, form):
    text = "one\n\ntwo  \n\nthree"
    expected = read_documents(write(tmp_path / "plain", text + "\n"), separated=True)
    path = tmp_path / "other"
    if form == "gz":
        path = tmp_path / "other.gz"
        path.write_bytes(gzip.compress(text.encode()))
    else:
        write(path, "\ufeff" + text if form == "bom" else text.replace("\n", "\r\n"))
    assert read_documents(path, separated=True) == expected


def test_held_out_documents_depend_on_their_text_only(tmp_path):
    documents = [f"document {number}" for number in range(400)] * 2
    path = write(tmp_path / "text", "\n\n".join(documents))
    training, validation = read_documents(path, separated=True)
    assert set(training).isdisjoint(validation) and sorted(training + validation) == sorted(
        documents
    )
    assert len(validation) == 40
    write(path, "\n\n".join(reversed(documents)))
    assert read_documents(path, separated=True) == (training[::-1], validation[::-1])


@pytest.mark.parametrize(
    "text, separated, message",
    [
        ("", False, "Expected text. Received: '.*text', without any visible"),
        (" \n\n\t\n", True, "Expected text. Received: '.*text', without any visible"),
        ("X:1\nabc\n", True, "at least two documents.*Received: 1 in '.*text'. Separate"),
        ("a", False, "at least two characters.*Received: 1 in '.*text'. Pass a file"),
        ("a\n\na\n\na", True, "Received: 3 in "),
    ],
)
def test_too_little_text_is_refused(tmp_path, text, separated, message):
    path = write(tmp_path / "text", text)
    with pytest.raises(ValueError, match=message):
        read_documents(path, separated=separated)


def test_blank_validation_text_and_other_encodings_are_refused(tmp_path):
    text, blank = write(tmp_path / "text", "a b"), write(tmp_path / "blank", "\n")
    with pytest.raises(ValueError, match="Expected text. Received: '.*blank'"):
        read_documents(text, blank)
    (tmp_path / "latin").write_bytes("é".encode("latin-1"))
    with pytest.raises(ValueError, match="Expected text in UTF-8. Received: .*latin.*line 1"):
        read_documents(tmp_path / "latin")
