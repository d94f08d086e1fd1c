"""Labelled texts: accepted files, cleaning, the held-out part, and rejected files."""

import gzip

import pytest

from keras_attn.text import read_labelled_texts

ROWS = [(f"text {number}", "ab"[number % 2]) for number in range(400)]


def write(path, text, encoding="utf-8"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))
    return path


def pairs(split):
    return list(zip(split.texts, split.labels, strict=True))


def test_lines_are_cleaned_and_counted(tmp_path):
    text = '\ufeffpos\t a "fine" film \tx\r\n\n neg \tdull\n\t no label\npos\t \n'
    write(tmp_path / "train.tsv", text)
    write(tmp_path / "dev.tsv", "neg\tdull\npos\tnew\n")
    write(tmp_path / "test-2.tsv", "neg\tother\n")
    splits = read_labelled_texts(tmp_path)
    assert list(splits) == ["train", "valid", "test"]
    assert pairs(splits["train"]) == [('a "fine" film', "pos"), ("dull", "neg")]
    assert splits["train"].empty == 3 and splits["train"].origin == "train.tsv"
    assert splits["valid"].repeated == 1 and splits["test"].repeated == 0


def test_csv_cells_are_quoted_and_columns_named(tmp_path):
    path = write(tmp_path / "a.csv", 'id,Text,LABEL\n1,"one, two\nthree",x\n2,"say ""no""",y\n')
    for number in range(6):
        path.write_text(f"{path.read_text()}{number},line {number},{'xy'[number % 2]}\n")
    splits = read_labelled_texts(path)
    everything = {pair for split in splits.values() for pair in pairs(split)}
    assert {("one, two three", "x"), ('say "no"', "y")} <= everything and len(everything) == 8
    other = write(tmp_path / "b.csv", path.read_text().replace("Text,LABEL", "review,stars"))
    assert read_labelled_texts(other, "stars", "review")["train"].texts == splits["train"].texts
    with pytest.raises(ValueError, match=r"columns 'stars' and 'text'.*b.csv', whose first line"):
        read_labelled_texts(other, "stars")


def test_files_of_labels_and_compressed_files_are_read(tmp_path):
    for split in ("train", "valid", "test"):
        for label in ("neg", "pos"):
            write(tmp_path / "plain" / f"{split}.{label}", f"{split} {label}\n\n")
    write(tmp_path / "plain" / "train.pos~", "backup\n")
    write(tmp_path / "plain" / "notes.txt", "none\n")
    plain = read_labelled_texts(tmp_path / "plain")
    assert pairs(plain["valid"]) == [("valid neg", "neg"), ("valid pos", "pos")]
    assert plain["test"].empty == 2 and plain["train"].origin == "train.neg and train.pos"
    for path in (tmp_path / "plain").iterdir():
        packed = tmp_path / "packed" / f"{path.name}.gz"
        packed.parent.mkdir(exist_ok=True)
        packed.write_bytes(gzip.compress(path.read_bytes()))
    packed = read_labelled_texts(tmp_path / "packed")
    assert [pairs(split) for split in packed.values()] == [pairs(s) for s in plain.values()]


def test_each_label_is_held_out_by_the_text_only(tmp_path):
    rows = ROWS * 2 + [("both", "a"), ("both", "b"), ("single", "c")]
    path = write(tmp_path / "x.tsv", "".join(f"{label}\t{text}\n" for text, label in rows))
    splits = read_labelled_texts(path)
    texts = {split: set(each.texts) for split, each in splits.items()}
    assert sum(len(each.texts) for each in splits.values()) == len(rows)
    assert not texts["train"] & texts["valid"] and not texts["test"] & (
        texts["train"] | texts["valid"]
    )
    for split in ("valid", "test"):
        assert splits[split].labels.count("a") == splits[split].labels.count("b") == 20
    assert {"both", "single"} <= texts["train"]
    write(path, "".join(f"{label}\t{text}\n" for text, label in reversed(rows)))
    assert pairs(read_labelled_texts(path)["test"]) == pairs(splits["test"])[::-1]


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("x.tsv", "", "Expected labelled texts. Received: '.*x.tsv', without any"),
        ("x.tsv", "\n \n", "without any"),
        ("x.tsv", "a\tone\ntwo\n", "2 columns, separated by tabs.*x.tsv'. Received: line 2, 'two'"),
        ("x.csv", "a,one\ntwo\n", "2 columns, separated by commas, .*x.csv'. Received: line 2"),
        ("x.csv", 'a,"one\n', "Expected a CSV file. Received: '.*x.csv', line 1: unexpected end"),
        ("x.tsv", "a\tone\na\ttwo\n", "two labels. Received: only 'a' in x.tsv"),
        ("x.tsv", "a\tone\nb\ttwo\n", "more than 2 different texts of a label.*2 texts in x.tsv"),
        ("x.tsv", "label\tsentence\na\tone\n", "header with the columns 'label' and 'text'"),
        ("x.tsv", "".join(f"text {i}\ta\n" for i in range(60)), "60 labels of 60 texts.*Exchange"),
    ],
)
def test_wrong_tables_are_named(tmp_path, name, text, message):
    path = write(tmp_path / name, text)
    with pytest.raises(ValueError, match=message):
        read_labelled_texts(path)


@pytest.mark.parametrize(
    "files, message",
    [
        ({}, r"train.tsv, train.csv, or a file train.LABEL .*Received: \[\]"),
        ({"train.pos": "a"}, r"at least two labels.*Received: \['train.pos'\]"),
        (
            {"train.a": "x", "train.b": "y", "dev.a": "z"},
            r"for valid .*only \['dev.a'\]. Add",
        ),
        (
            {"train.a": "x", "train.b": "y", "test.c": "z"},
            r"\['a', 'b'\]. Received: .*test.c'",
        ),
        ({"train.a": "x", "train.b": "\n"}, r"Received: '.*train.b', without any"),
        ({"train.a": "x", "train.b": "y", "train.a.gz": ""}, "Received: train.a and train.a.gz"),
        ({"train.tsv": "a\tx", "train.csv": ""}, "Received: train.tsv and train.csv"),
        ({"train.tsv": "a\tx\nb\ty", "valid.tsv": "c\tx"}, r"\['c'\] in valid.tsv of .*Correct"),
    ],
)
def test_wrong_directories_are_named(tmp_path, files, message):
    for name, text in files.items():
        write(tmp_path / name, text)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read_labelled_texts(tmp_path)


def test_wrong_paths_and_encodings_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent', which does not exist"):
        read_labelled_texts(tmp_path / "absent")
    path = write(tmp_path / "x.tsv", "a\té\n", "latin-1")
    with pytest.raises(ValueError, match="Expected text in UTF-8. Received: .*x.tsv.*line 1"):
        read_labelled_texts(path)
