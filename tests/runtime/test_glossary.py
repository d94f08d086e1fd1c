import pytest
from keras_attn_runtime import Glossary, GlossaryEntry

TERMS = "# animals\ncat\tKatze\nhouse cat\tHauskatze\tWohnungskatze\n\nUS\tUSA\ndog's\tHundes\n"


@pytest.fixture
def glossary(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_bytes(b"\xef\xbb\xbf" + TERMS.replace("\n", "\r\n").encode())
    return Glossary.read(path)


@pytest.mark.parametrize(
    "text, phrases",
    [
        ("The cat sleeps.", [["Katze"]]),
        ("CAT, Cat and cat", [["Katze"]]),
        ("A house  cat and a cat", [["Hauskatze", "Wohnungskatze"], ["Katze"]]),
        ("concatenate the category", []),
        ("US and us", [["USA"]]),
        ("with us", []),
        ("the dog's bone", [["Hundes"]]),
        ("", []),
    ],
)
def test_terms_are_found_as_words(glossary, text, phrases):
    assert glossary.phrases(text) == phrases


@pytest.mark.parametrize(
    "term, text, is_found",
    [
        ("5 µm", "is 5 μm", True),
        ("istanbul", "İstanbul", True),
        ("house", "houſe", True),
        ("猫", "我的猫很大", True),
        ("แมว", "ฉันมีแมวดำ", True),
        ("राम", "रामा", False),
        ("राम", "राम है", True),
        ("cafe", "cafe\u0301", False),
        ("café", "a cafe\u0301.", True),
        ("c++", "in C++ code", True),
        ("a.b", "axb", False),
    ],
)
def test_terms_of_other_scripts(term, text, is_found):
    found = Glossary([GlossaryEntry(term, ["x"])]).phrases(text)
    assert found == ([["x"]] if is_found else [])


def test_a_carriage_return_is_no_line_end(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_bytes(b"a\rb\tx\r\nc\ty\n")
    assert Glossary.read(path).phrases("a\rb c") == [["x"], ["y"]]


def test_entries_say_what_was_found(glossary):
    assert len(glossary) == 4
    entry = GlossaryEntry("house cat", ("Hauskatze", "Wohnungskatze"))
    assert glossary.find("My house cat") == [entry]
    assert Glossary([]).find("cat") == []


@pytest.mark.parametrize(
    "text, lines",
    [
        ("cat\n", "1"),
        ("cat\tKatze\nCAT\tKatze\ncat\tKater\n", "3"),
        ("\tKatze\ncat\t\n", "1, 2"),
        ("cat \tKatze\t \n", "1"),
        ("x\n" * 12, "1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and others"),
    ],
)
def test_wrong_lines_are_named(tmp_path, text, lines):
    path = tmp_path / "terms.tsv"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"with other lines: {lines}\\. "):
        Glossary.read(path)


def test_other_encodings_and_entries_are_errors(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_bytes("Bär\tbear\n".encode("latin-1"))
    with pytest.raises(ValueError, match="Expected a glossary in UTF-8"):
        Glossary.read(path)
    with pytest.raises(ValueError, match="not empty"):
        GlossaryEntry("cat", ())
    with pytest.raises(ValueError, match="not empty"):
        GlossaryEntry("cat", "Katze")
    with pytest.raises(ValueError, match="cat' twice"):
        Glossary([GlossaryEntry("cat", ("Katze",)), GlossaryEntry(" cat", ("Kater",))])
