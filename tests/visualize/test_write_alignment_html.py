"""The page as a file, and as a browser shows it: colours, lines and texts under a real mouse."""

import html.parser
import json
import shutil

import numpy as np
import pytest

from keras_attn.visualize import write_alignment_html
from tests.visualize.browser import Browser

EVIL = "</script><script>document.title='broken'</script><!--"
ALIGNMENTS = np.array([[0.9, 0.1, 0.0], [0.25, 0.0, 0.75]])
EXAMPLES = [
    {
        "source_tokens": ["▁Ein", "▁Hund", "</s>"],
        "target_tokens": ["▁dog", "</s>"],
        "alignments": ALIGNMENTS,
    },
    {
        "source_tokens": [EVIL, "&amp;"],
        "target_tokens": ["صبي", "{{title}}", "\\u003c", "\ud800"],
        "alignments": {
            "block_0": np.array([[[1, 0]] * 4, [[0, 1]] * 4]),
            "block_1": np.array([[0.5, 0.5]] * 4),
        },
    },
]
RIGHT, UP, ENTER, ESCAPE = "\ue014", "\ue013", "\ue007", "\ue00c"

needs_browser = pytest.mark.skipif(
    not (shutil.which("chromedriver") and shutil.which("chromium")),
    reason="needs chromium and chromedriver (Debian: chromium-driver)",
)


class Reader(html.parser.HTMLParser):
    """The data of a page, and how many scripts it has."""

    def __init__(self, page):
        super().__init__()
        self.scripts, self.data, self.is_data = 0, "", False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.scripts += tag == "script"
        self.is_data = tag == "script" and ("id", "examples") in attributes

    def handle_endtag(self, tag):
        self.is_data = False

    def handle_data(self, data):
        self.data += data if self.is_data else ""


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "attention.html"
    write_alignment_html(path, EXAMPLES, title="a <b> & {{examples}}")
    return path


def test_the_page_has_every_word_and_every_weight(page):
    reader = Reader(page.read_text(encoding="utf-8"))
    first, second = json.loads(reader.data)
    assert reader.scripts == 2
    assert first["source"] == ["Ein", "Hund", "</s>"] and first["target"] == ["dog", "</s>"]
    assert first["texts"] == ["Ein Hund </s>", "dog </s>"]
    assert first["weights"] == [["", ALIGNMENTS.tolist()]]
    for side in ("source", "target"):
        tokens = EXAMPLES[1][f"{side}_tokens"]
        assert second[side] == [token.replace("\ud800", "\ufffd") for token in tokens]
    weights = dict(second["weights"])
    assert list(weights) == [
        "block_0, mean of 2 heads",
        "block_0, head 0",
        "block_0, head 1",
        "block_1",
    ]
    assert weights["block_0, mean of 2 heads"] == [[0.5, 0.5]] * 4
    assert weights["block_0, head 1"] == [[0, 1]] * 4


def test_the_page_asks_for_nothing_from_elsewhere(page):
    text = page.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert " src=" not in text and "url(" not in text and "@import" not in text


@pytest.mark.parametrize(
    "examples, message",
    [
        ([], "at least one example"),
        ([{"source_tokens": ["a"], "target_tokens": ["b"]}], "without alignments"),
        ([{**EXAMPLES[0], "alignments": ALIGNMENTS.T}], "one row per target token"),
        ([{**EXAMPLES[0], "alignments": {}}], "at least one layer and head"),
        ([{**EXAMPLES[0], "alignments": 2 * ALIGNMENTS}], r"weights in \[0, 1\]"),
    ],
)
def test_what_cannot_be_shown_is_refused(examples, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        write_alignment_html(tmp_path / "attention.html", examples)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def browser():
    with Browser(shutil.which("chromedriver")) as opened:
        yield opened


def percents(browser, side):
    script = "return [...document.querySelectorAll(arguments[0])].map(x => x.dataset.percent || '')"
    return browser.run(script, f"#{side} .token")


def lines(browser):
    return browser.run("return document.querySelectorAll('#lines path').length")


def note(browser):
    return browser.run("return document.getElementById('note').textContent")


@needs_browser
def test_a_word_under_the_mouse_shows_what_it_looked_at(page, browser):
    browser.open(page)
    assert percents(browser, "source") == [""] * 3
    browser.point_at("#target .token:nth-child(2)")
    assert percents(browser, "source") == ["25 %", "", "75 %"]
    assert note(browser) == "</s> looked at </s> 75 %, Ein 25 %"
    assert lines(browser) == 2
    colours = "return [...document.querySelectorAll('#source .token')].map(x => getComputedStyle(x)"
    little, none, much = browser.run(f"{colours}.backgroundColor)")
    assert len({little, none, much}) == 3
    browser.point_at("#source .token:nth-child(1)")
    assert percents(browser, "target") == ["90 %", "25 %"]
    assert note(browser) == "Ein was looked at by dog 90 %, </s> 25 %"
    assert percents(browser, "source") == [""] * 3
    browser.point_at("#map tbody tr:nth-child(1) td:nth-child(3)")
    assert note(browser) == "dog looked at Ein 90 %, Hund 10 %"
    assert browser.complaints() == []


@needs_browser
def test_the_words_of_a_classifier_are_always_colored(tmp_path, browser):
    """Relative to the largest weight; also after the mouse has been elsewhere."""
    path = tmp_path / "attention.html"
    example = {"source_tokens": list("abc"), "target_tokens": ["good"]}
    write_alignment_html(path, [{**example, "alignments": [0.05, 0.2, 0.1]}])
    browser.open(path)
    shown = "return [...document.querySelectorAll('#source .token')]"
    shown += ".map(x => Number(x.style.getPropertyValue('--w')))"
    for _ in range(2):
        assert browser.run(shown) == [0.25, 1, 0.5]
        assert percents(browser, "source") == ["5 %", "20 %", "10 %"]
        assert note(browser) == "good looked at b 20 %, c 10 %, a 5 %"
        browser.point_at("#source .token:nth-child(1)")
        assert percents(browser, "target") == ["5 %"]
        browser.point_at("h1")
    assert browser.complaints() == []


def test_weights_of_one_label_need_no_target_axis(tmp_path):
    path = tmp_path / "attention.html"
    example = {"source_tokens": list("abc"), "target_tokens": ["good"]}
    write_alignment_html(path, [{**example, "alignments": np.array([0.05, 0.2, 0.15])}])
    (data,) = json.loads(Reader(path.read_text(encoding="utf-8")).data)
    assert data["weights"] == [["", [[0.05, 0.2, 0.15]]]]


@needs_browser
def test_lines_end_at_the_words(page, browser):
    browser.open(page)
    browser.point_at("#target .token:nth-child(1)")
    ends = """
        const box = element => element.getBoundingClientRect();
        const svg = box(document.getElementById("lines"));
        const path = document.querySelector("#lines path");
        const [from, to] = [path.getPointAtLength(0), path.getPointAtLength(path.getTotalLength())];
        const [source, target] = ["source", "target"].map(
            side => box(document.querySelector(`#${side} .token`)));
        return [
            from.x + svg.left - source.left - source.width / 2, from.y + svg.top - source.bottom,
            to.x + svg.left - target.left - target.width / 2, to.y + svg.top - target.top,
        ];
    """
    np.testing.assert_allclose(browser.run(ends), 0, atol=1)


@needs_browser
def test_the_keyboard_is_enough(page, browser):
    browser.open(page)
    browser.run("document.querySelector('#target .token').focus()")
    assert note(browser).startswith("dog looked at Ein 90 %")
    browser.type(RIGHT)
    assert note(browser).startswith("</s> looked at")
    browser.type(UP)  # to the largest weight
    assert note(browser) == "</s> was looked at by </s> 75 %"
    browser.type(ENTER)
    browser.point_at("#target .token:nth-child(1)")
    assert note(browser) == "</s> was looked at by </s> 75 %"
    browser.type(ESCAPE)
    assert note(browser) == "Point at a word to see what it looked at."


@needs_browser
def test_texts_are_shown_as_they_are(page, browser):
    browser.open(page)
    assert browser.run("return document.title") == "a <b> & {{examples}}"
    assert browser.run("return document.querySelector('h1').textContent") == "a <b> & {{examples}}"
    browser.point_at("nav button:nth-child(2)", press=True)
    tokens = "return [...document.querySelectorAll('#source .token')].map(x => x.textContent)"
    assert browser.run(tokens) == EXAMPLES[1]["source_tokens"]
    direction = "return getComputedStyle(document.getElementById(arguments[0])).direction"
    assert [browser.run(direction, side) for side in ("source", "target")] == ["ltr", "rtl"]
    assert browser.run("return document.scripts.length") == 2


@needs_browser
def test_heads_and_layers_can_be_chosen(page, browser):
    browser.open(page)
    assert browser.run("return document.getElementById('choice').hidden")
    browser.point_at("nav button:nth-child(2)", press=True)
    browser.point_at("#target .token:nth-child(1)")
    assert percents(browser, "source") == ["50 %", "50 %"]
    browser.run("""
        const select = document.getElementById("weights");
        select.selectedIndex = 2;
        select.dispatchEvent(new Event("change"));
    """)
    assert percents(browser, "source") == ["", "100 %"]


@needs_browser
def test_light_and_dark(page, browser):
    browser.open(page)
    colour = "return getComputedStyle(document.body).backgroundColor"
    before = browser.run(colour)
    browser.point_at("#theme", press=True)
    assert browser.run(colour) != before
    browser.point_at("#theme", press=True)
    assert browser.run(colour) == before


def test_control_characters_and_surrogates_are_written(tmp_path):
    tokens = ["\x00", "a\udc80", "\x1b"]
    example = {"source_tokens": tokens, "target_tokens": tokens, "alignments": np.eye(3)}
    write_alignment_html(tmp_path / "page.html", [example], title="\ud800 \x07")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    (data,) = json.loads(Reader(text).data)
    assert data["source"] == [r"\x00", "a\ufffd", r"\x1b"]
    assert "<title>\ufffd \\x07</title>" in text
