"""Files of sentence pairs: which are found, how they are cleaned, and what is rejected."""

import gzip

import pytest

from keras_attn.text import prepare_pairs

SPLITS = ("train", "valid", "test")


def write(folder, **texts):
    """Writes files, whose names are given with _ in place of the dot."""
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name.replace("_", ".", 1)).write_bytes(text.encode())


def lines(path):
    return path.read_text(encoding="utf-8").splitlines()


def parallel_files(folder, **replaced):
    texts = {}
    for split, count in (("train", 5), ("val", 2), ("test", 3)):
        for side in ("en", "de"):
            texts[f"{split}_{side}"] = "".join(f"{split} {i} {side}\n" for i in range(count))
    write(folder, **(texts | replaced))


def test_texts_are_cleaned_and_dropped_pairs_counted(tmp_path):
    parallel_files(
        tmp_path / "data",
        train_en="\ufeffone \r\n\r\n  three\nfour\n \nsix",
        train_de="eins\n\n drei\t\n\nfünf\nsechs\n",
        test_en="six\nthree\nnew\n",
        test_de="sechs\ndrei \nneu\n",
    )
    counts = prepare_pairs(tmp_path / "data", tmp_path / "out", "en", "de")
    assert lines(tmp_path / "out" / "train.source") == ["one", "three", "six"]
    assert lines(tmp_path / "out" / "train.target") == ["eins", "drei", "sechs"]
    assert counts["train"].pairs == 3 and counts["train"].empty == 3
    assert counts["train"].empty_lines == (2, 4, 5)
    assert counts["test"].repeated == 2 and counts["valid"].repeated == 0
    assert counts["valid"].origin == "val.en and val.de"
    assert list(counts) == list(SPLITS)


def test_compressed_files_and_others_give_the_same(tmp_path):
    parallel_files(tmp_path / "plain")
    parallel_files(tmp_path / "packed")
    for path in (tmp_path / "packed").iterdir():
        (path.parent / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    for name in ("plain", "packed"):
        prepare_pairs(tmp_path / name, tmp_path / f"{name}-out", "en", "de")
    for split in SPLITS:
        for side in ("source", "target"):
            written = [tmp_path / f"{name}-out" / f"{split}.{side}" for name in ("plain", "packed")]
            assert lines(written[0]) == lines(written[1]) != []


def test_a_file_of_pairs_is_split_by_its_sources(tmp_path):
    path = tmp_path / "fra.txt"
    rows = [f"{i % 900} go\tva {i}\tCC-BY {i}\n" for i in range(2000)]
    path.write_text("".join(rows), encoding="utf-8")
    counts = prepare_pairs(path, tmp_path / "out")
    read = {split: lines(tmp_path / "out" / f"{split}.source") for split in SPLITS}
    assert sum(map(len, read.values())) == 2000
    assert not set(read["train"]) & set(read["test"]) and not set(read["valid"]) & set(read["test"])
    assert 60 < counts["valid"].pairs < 140 and 60 < counts["test"].pairs < 140
    assert counts["test"].repeated == 0 and counts["test"].origin == "a part of fra.txt"
    assert all("CC-BY" not in line for line in lines(tmp_path / "out" / "train.target"))
    prepare_pairs(path, tmp_path / "again")
    assert lines(tmp_path / "again" / "test.target") == lines(tmp_path / "out" / "test.target")


def test_a_missing_test_set_is_a_part_of_the_training_data(tmp_path):
    parallel_files(tmp_path / "data")
    rows = [f"sentence {i}\n" for i in range(1000)]
    write(tmp_path / "data", train_en="".join(rows), train_de="".join(rows))
    for side in ("en", "de"):
        (tmp_path / "data" / f"test.{side}").unlink()
    counts = prepare_pairs(tmp_path / "data", tmp_path / "out", "en", "de")
    assert counts["valid"].pairs == 2 and counts["valid"].origin == "val.en and val.de"
    assert 25 < counts["test"].pairs == 1000 - counts["train"].pairs < 80


def test_pairs_that_are_held_out_for_validation_are_not_training_pairs(tmp_path):
    rows = "".join(f"sentence {i}\n" for i in range(1000))
    write(tmp_path / "data", train_en=rows, train_de=rows, test_en=rows, test_de=rows)
    counts = prepare_pairs(tmp_path / "data", tmp_path / "out", "en", "de")
    assert counts["test"].repeated == counts["train"].pairs == 1000 - counts["valid"].pairs < 1000


def test_the_input_is_not_replaced(tmp_path):
    data = tmp_path / "data"
    write(data, train_source="one\n\n", train_target="eins\n\n")
    with pytest.raises(ValueError, match="directory outside of path, which is read"):
        prepare_pairs(data, tmp_path / "x" / ".." / "data", "source", "target")
    with pytest.raises(ValueError, match="train.source outside of path"):
        prepare_pairs(data / "train.source", data)
    assert (data / "train.source").read_text() == "one\n\n"


def test_a_test_set_has_a_longer_name_on_both_sides(tmp_path):
    parallel_files(tmp_path / "data")
    for side in ("en", "de"):
        (tmp_path / "data" / f"test.{side}").rename(tmp_path / "data" / f"test.de-en.{side}")
    counts = prepare_pairs(tmp_path / "data", tmp_path / "out", "de", "en")
    assert counts["test"].origin == "test.de-en.de and test.de-en.en"
    parallel_files(tmp_path / "data")  # the exact name is preferred
    counts = prepare_pairs(tmp_path / "data", tmp_path / "out", "de", "en")
    assert counts["test"].origin == "test.de and test.en"


@pytest.mark.parametrize(
    "files, message",
    [
        ({"train_en": "one\n"}, r"train.en' with 1 and .*train.de' with 5 lines"),
        ({"test_de": "eins\n"}, r"test.en' with 3 and .*test.de' with 1 lines"),
        ({"val_en": "\n\n"}, r"two sentences for valid. Received: 2 pairs with a blank side"),
        ({"train_en": "", "train_de": ""}, r"for train. Received: 0 pairs"),
        ({"train_en.gz": "x"}, r"one file train.en in .* Received: train.en and train.en.gz"),
        ({"dev_en": "x\n", "dev_de": "x\n"}, r"one set of files for valid .*'dev.en', 'val.en'"),
    ],
)
def test_wrong_files_are_named(tmp_path, files, message):
    parallel_files(tmp_path / "data", **files)
    with pytest.raises(ValueError, match=message):
        prepare_pairs(tmp_path / "data", tmp_path / "out", "en", "de")
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_wrong_paths_are_named(tmp_path):
    parallel_files(tmp_path / "data")
    write(tmp_path, pairs_tsv="Go.\tVa !\nRun!\n", latin_tsv="")
    (tmp_path / "latin.tsv").write_bytes("Go.\tVa l\xe0\n".encode("latin-1"))
    (tmp_path / "data" / "val.de").unlink()
    out = tmp_path / "out"
    with pytest.raises(FileNotFoundError, match=r"only \['val.en'\]. Add the missing files"):
        prepare_pairs(tmp_path / "data", out, "en", "de")
    with pytest.raises(FileNotFoundError, match=r"'fr' and 'de' for train .*only \['train.de'\]"):
        prepare_pairs(tmp_path / "data", out, "fr", "de")
    with pytest.raises(FileNotFoundError, match=r"Expected train.fr and train.es.*'test.de'"):
        prepare_pairs(tmp_path / "data", out, "fr", "es")
    with pytest.raises(FileNotFoundError, match=r"absent', which does not exist"):
        prepare_pairs(tmp_path / "absent", out)
    with pytest.raises(ValueError, match=r"two suffixes .*source='en', target=None"):
        prepare_pairs(tmp_path / "data", out, "en")
    with pytest.raises(ValueError, match=r"no suffixes with a text file"):
        prepare_pairs(tmp_path / "pairs.tsv", out, "en", "de")
    with pytest.raises(ValueError, match=r"line 2, 'Run!'"):
        prepare_pairs(tmp_path / "pairs.tsv", out)
    with pytest.raises(ValueError, match=r"UTF-8. Received: path=.*latin.tsv', line 1"):
        prepare_pairs(tmp_path / "latin.tsv", out)


def test_lines_with_a_blank_side_are_those_of_the_file(tmp_path):
    rows = [f"{row}\t{row}\n" if row % 4 else f"{row}\t \n" for row in range(1, 101)]
    (tmp_path / "pairs.tsv").write_text("".join(rows), encoding="utf-8")
    counts = prepare_pairs(tmp_path / "pairs.tsv", tmp_path / "out")
    assert sum(each.empty for each in counts.values()) == 25
    for each in counts.values():
        assert len(each.empty_lines) == min(10, each.empty)
        assert all(line % 4 == 0 for line in each.empty_lines)
    assert counts["train"].empty_lines[0] == 4
