import gzip

import pytest

from keras_attn._files.lines import read_lines


def test_lines_end_at_newlines_only(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("one\ntwo\r\n\nth\rr\x0cee\u2028\x85\n four ".encode())
    assert list(read_lines(path)) == ["one", "two", "", "th\rr\x0cee\u2028\x85", " four "]


def test_gzip_and_plain_files_give_the_same_lines(tmp_path):
    data = "größe\nöl\n".encode()
    (tmp_path / "plain.txt").write_bytes(data)
    (tmp_path / "packed.txt.gz").write_bytes(gzip.compress(data))
    assert list(read_lines(tmp_path / "plain.txt")) == ["größe", "öl"]
    assert list(read_lines(str(tmp_path / "packed.txt.gz"))) == ["größe", "öl"]


def test_byte_order_mark_is_dropped_from_the_first_line_only(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("\ufeffone\n\ufefftwo\n".encode())
    assert list(read_lines(path)) == ["one", "\ufefftwo"]


def test_empty_file_has_no_lines(tmp_path):
    (tmp_path / "text").write_bytes(b"")
    assert list(read_lines(tmp_path / "text")) == []


@pytest.mark.parametrize("name", ["text.txt", "text.txt.gz"])
def test_invalid_utf8_names_file_and_line(tmp_path, name):
    data = "good\ngrün\n".encode() + "größe".encode("latin-1") + b"\n"
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    with pytest.raises(ValueError, match=rf"{name}', line 3, byte 2 of the line is 0xf6"):
        list(read_lines(tmp_path / name))


def test_truncated_or_false_gzip_names_the_file(tmp_path):
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(bytes(range(64, 123)) * 500)[:-20])
    with pytest.raises(ValueError, match="complete gzip file.*text.gz"):
        list(read_lines(path))
    path.write_text("not compressed\n")
    with pytest.raises(ValueError, match="complete gzip file.*text.gz"):
        list(read_lines(path))


def test_lines_are_read_on_demand(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"fine\n\xff\n")
    assert next(read_lines(path)) == "fine"
