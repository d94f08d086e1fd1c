"""Forms of CSV files that pandas, Excel and R write, and files whose cells are in odd places."""

import io

import numpy as np
import pytest
from keras_attn_runtime import read_series_tables

NAN = np.nan
DAYS = ["2024-01-30", "2024-01-31", "2024-02-01"]


def values(text, *columns, **options):
    (table,) = read_series_tables(io.StringIO(text, newline=""), columns or ("a",), **options)
    return table.values.tolist() if columns else table.column("a").tolist()


@pytest.mark.parametrize(
    "text, options",
    [
        ("date,a\n{0},1.5\n{1},\n{2},-200.0\n", {}),  # pandas
        (",date,a\n0,{0},1.500000\n1,{1},\n2,{2},-2.000e+02\n", {}),  # float_format, index
        ('"date","a"\n"{0}","1.5"\n"{1}",""\n"{2}","-200"\n', {}),  # QUOTE_ALL
        ('date,a\n{0},"1,5"\n{1},\n{2},"-200,0"\n', {"decimal": ","}),  # decimal=","
        ("date;a\n{0};1,5\n{1};\n{2};-200\n", {"delimiter": ";", "decimal": ","}),  # Excel
        ("\ufeffdate;a\r\n{0};1,5\r\n{1};\r\n{2};-200\r\n\r\n",)
        + ({"delimiter": ";", "decimal": ","},),
        ("date\ta\r\n{0}\t1.5\r\n{1}\t\r\n{2}\t-200\r\n", {"delimiter": "\t"}),
        ("date,a,,\r\n{0},1.5,,\r\n{1},,,\r\n{2},-200,,\r\n", {}),  # empty columns
        ("date,a\r{0},1.5\r{1},\r{2},-200\r", {}),  # CSV (Macintosh)
        ('"","date","a"\n"1",{0},1.5\n"2",{1},NA\n"3",{2},-200\n', {}),  # R: write.csv
        ('"";"date";"a"\n"1";{0};1,5\n"2";{1};NA\n"3";{2};-2e+02\n',)
        + ({"delimiter": ";", "decimal": ","},),  # R: write.csv2
        ('note,date,a\n"of two\n""lines""",{0},1.5\n,{1},nan\n,{2},-200\n\n\n', {}),
    ],
)
@pytest.mark.parametrize("kind", ["path", "bytes", "text", "utf-16"])
def test_forms_of_files_have_the_same_values(tmp_path, text, options, kind):
    text = text.format(*DAYS)
    if kind == "path":
        file = tmp_path / "a.csv"
        file.write_text(text, encoding="utf-8", newline="")
    elif kind == "text":
        file = io.StringIO(text, newline="")
    else:
        file = io.BytesIO(text.encode("utf-8" if kind == "bytes" else kind))
    (table,) = read_series_tables(file, ["a"], "date", **options)
    np.testing.assert_array_equal(table.column("a"), [1.5, NAN, -200])
    assert [str(each) for each in table.times] == DAYS
    first = 3 if text.startswith("note") else 2
    assert list(table.lines) == [2, first + 1, first + 2]


def test_empty_cells_of_one_column_are_missing_values():
    np.testing.assert_array_equal(values("a\n1\n\n\n4\n"), [1, NAN, NAN, 4])
    np.testing.assert_array_equal(values('a\n1\n""\n'), [1, NAN])  # pandas
    np.testing.assert_array_equal(values("a\n\n1\n  \nNA\n"), [NAN, 1, NAN, NAN])
    with pytest.raises(ValueError, match="at the end of a file with one column.*empty line 3"):
        values("a\n1\n\n\n")


@pytest.mark.parametrize(
    "text, message",
    [
        ("a,b\n1,2,5\n", r"2 cells in each line.* 3 cells in line 2: \['1', '2', '5'\]"),
        ("a,b\n1\n", "2 cells in each line.* 1 cells in line 2"),
        ("a,b\n1,2\n\n3,4\n", "empty line 3 between rows"),
        ("a,b\n1,2\n \n3,4\n", "empty line 3 between rows"),
        ("b\n1\n", r"columns \['a'\] in the file. Received: \['b'\]"),
        ("a;b\n1;2\n", "Use --delimiter semicolon"),
        ("a,b,a\n1,2,3\n", r"one column 'a'.*2 columns with this name: \['a', 'b', 'a'\]"),
        ("a\n", "Expected rows"),
        ("a,b\n\n\n", "Expected rows"),
        ("", r"columns \['a'\].*Received: \[\]"),
        ("a,b\n1," + "x" * 200_000 + "\n", "at most 131,072 characters.*begins in line 2"),
        ('a,b\n1,"x\n2,y\n', "unexpected end of data, in the row that begins in line 2"),
        ('a,b\n1,x\n2,"y"z\n', "in the row that begins in line 3"),
        ("a,b\n1,x\n2,\0\n", "a NUL character in line 3"),
        *((f"a\n1\n{cell}\n", "column 'a', line 3. Received: ") for cell in
          ("x", "inf", "-Infinity", "1e39", "-4e38", "1_000", "0x10", "1 000", "5%", "$5", "\u0661",
           "#N/A", "1.2.3", "+-1", "1e", ".", "None", "TRUE", "9" * 5000)),
        ('a\n1\n"1,5"\n', "Received: '1,5'. Use --decimal comma"),
        ('a\n1\n"1,250.5"\n', "Received: '1,250.5'. Leave"),
    ],
)  # fmt: skip
def test_odd_files_raise_an_error_with_the_line(text, message):
    with pytest.raises(ValueError, match=message):
        values(text)


@pytest.mark.parametrize("cell", ["1.5", "1.234,5", "1,234,5", "1,2.3"])
def test_points_and_thousands_separators_are_errors_with_decimal_commas(cell):
    with pytest.raises(ValueError, match="column 'a', line 2"):
        values(f"a;b\n{cell};1\n", delimiter=";", decimal=",")


def test_numbers_may_have_any_notation():
    cells = ["1", "-1.", "+.5", "1E5", " 2.5e-3 ", "3.4e38", "007", "-0"]
    expected = np.array([1, -1, 0.5, 1e5, 2.5e-3, 3.4e38, 7, 0], "float32")
    np.testing.assert_array_equal(np.float32(values("a\n" + "\n".join(cells))), expected)


def test_bytes_that_are_not_utf8_are_an_error_with_the_line(tmp_path):
    content = "a,name\n1,x\n2,K\xf6ln\n".encode("latin-1")
    (tmp_path / "a.csv").write_bytes(content)
    with open(tmp_path / "a.csv", encoding="utf-8") as text:
        for file in (tmp_path / "a.csv", io.BytesIO(content), text):
            with pytest.raises(ValueError, match="in UTF-8. Received: byte 0xf6 in line 3"):
                read_series_tables(file, ["a"])
    with pytest.raises(ValueError, match="a NUL character in line 1"):
        read_series_tables(io.BytesIO("a\n1\n".encode("utf-16-le")), ["a"])


def test_names_of_series_are_never_empty():
    text = "s,a\nNA,1\nx,2\n{},3\n"
    tables = read_series_tables(io.StringIO(text.format("x")), ["a"], None, "s")
    assert [(each.name, each.column("a").tolist()) for each in tables] == [
        ("NA", [1]),
        ("x", [2, 3]),
    ]
    with pytest.raises(ValueError, match="name of a series in column 's', line 4. Received: ' '"):
        read_series_tables(io.StringIO(text.format(" ")), ["a"], None, "s")


def test_times_of_all_series_have_one_form():
    text = "s,t,a\nx,20240131,1\ny,1,2\n"
    with pytest.raises(ValueError, match="'1' in line 3, an integer, and '20240131' in line 2"):
        read_series_tables(io.StringIO(text), ["a"], "t", "s")


@pytest.mark.parametrize("options", [{"delimiter": ""}, {"delimiter": ";;"}, {"decimal": "'"}])
def test_wrong_options_raise_an_error(options):
    with pytest.raises(ValueError, match="Expected delimiter to be one character"):
        values("a\n1\n", **options)
