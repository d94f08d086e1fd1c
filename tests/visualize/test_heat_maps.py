import io
import itertools
import os
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from keras_attn.visualize import (
    plot_alignments,
    plot_attention_grid,
    plot_attention_over_image,
    plot_forecast,
    write_alignment_html,
)

plt = pytest.importorskip("matplotlib.pyplot")

SOURCE = ["▁Ein", "▁Hund", "▁bell", "t", "▁", "</s>"]
TARGET = ["▁a", "▁dog", "▁barks", "</s>"]


@pytest.fixture
def alignments():
    weights = np.random.default_rng(1).random((len(TARGET), len(SOURCE)))
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_draws_the_weights_from_black_to_white(alignments):
    ax = plot_alignments(alignments, SOURCE, TARGET)
    (image,) = ax.get_images()
    np.testing.assert_allclose(image.get_array(), alignments, atol=1e-6)
    assert image.get_clim() == (0.0, 1.0)
    black, white = image.cmap(image.norm(0.0)), image.cmap(image.norm(1.0))
    assert black[:3] == (0.0, 0.0, 0.0) and white[:3] == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("own_axes", [False, True])
@pytest.mark.parametrize("weights", [[0.05, 0.2, 0.15], [[0.05, 0.2, 0.15]]])
def test_plot_alignments_scales_a_single_row_to_its_maximum(own_axes, weights):
    """The row of a classifier, whose weights are all small: white is the largest one."""
    given = plt.figure().add_subplot() if own_axes else None
    ax = plot_alignments(weights, list("abc"), ["good"], given)
    ax.figure.canvas.draw()
    (image,) = ax.get_images()
    shades = image.cmap(image.norm(np.ravel(image.get_array())))[:, 0]
    np.testing.assert_allclose(shades, [0.25, 1.0, 0.75], atol=0.01)
    bar = image.colorbar.ax
    assert labels(bar.xaxis) == ["0", "0.2"]
    below, above = bar.get_tightbbox().extents, ax.get_window_extent().extents
    assert 0 <= below[1] and below[3] <= above[1]  # inside of the picture, below the map


@pytest.mark.parametrize("scale", ["one", "max"])
def test_plot_alignments_scale_can_be_chosen(alignments, scale):
    for weights, targets in ((alignments, TARGET), (alignments[:1], TARGET[:1])):
        (image,) = plot_alignments(weights, SOURCE, targets, scale=scale).get_images()
        assert image.get_clim() == (0, 1) if scale == "one" else (0, np.float32(weights.max()))
        assert (image.colorbar is None) == (scale == "one")


def test_plot_alignments_of_nothing_but_zeros_is_black():
    (image,) = plot_alignments([[0.0, 0.0]], ["a", "b"], ["c"]).get_images()
    assert image.get_clim() == (0, 1) and not np.any(image.get_array())


def test_plot_alignments_refuses_an_unknown_scale(alignments):
    with pytest.raises(ValueError, match="scale='log'"):
        plot_alignments(alignments, SOURCE, TARGET, scale="log")


def test_source_is_on_top_and_output_runs_downwards(alignments):
    ax = plot_alignments(alignments, SOURCE, TARGET)
    ax.figure.canvas.draw()
    # In pixels from the lower left corner, of what was really drawn.
    (left, bottom), (right, top) = ax.get_window_extent().get_points()
    xs = [label.get_window_extent() for label in ax.get_xticklabels()]
    ys = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert all(box.y0 >= top for box in xs)
    assert all(box.x1 <= left for box in ys)
    assert [box.x0 for box in xs] == sorted(box.x0 for box in xs)
    assert [box.y0 for box in ys] == sorted((box.y0 for box in ys), reverse=True)
    assert all(left <= (box.x0 + box.x1) / 2 <= right for box in xs)
    assert all(bottom <= (box.y0 + box.y1) / 2 <= top for box in ys)
    # Each label stands at its own row or column of the image.
    centres = ax.transData.inverted().transform([(box.x0 + box.width / 2, 0) for box in xs])[:, 0]
    np.testing.assert_allclose(centres, range(len(SOURCE)), atol=0.3)


def test_pieces_are_shown_as_words(alignments):
    ax = plot_alignments(alignments, SOURCE, TARGET)
    assert labels(ax.xaxis) == ["Ein", "Hund", "bell", "t", "␣", "</s>"]
    assert labels(ax.yaxis) == ["a", "dog", "barks", "</s>"]


def test_characters_that_cannot_be_seen_are_shown():
    ax = plot_alignments(np.eye(4), ["\n", "\t", " ", ""], ["a", "b", "c", "d"])
    assert labels(ax.xaxis) == ["\\n", "\\t", "␣", "␣"]


def test_short_labels_stand_upright_and_long_ones_are_turned():
    ax = plot_alignments(np.eye(3), ["3", "Montag", "Mai"], list("5/3"))
    ax.figure.canvas.draw()
    assert [label.get_rotation() for label in ax.get_xticklabels()] == [0.0, 90.0, 90.0]


def test_no_labels_overlap(alignments):
    source, target = [*"de: Montag, den 3. Mai 2021", "</s>"], [*"2021-05-03", "</s>"]
    ax = plot_alignments(np.zeros((len(target), len(source))), source, target)
    ax.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
    assert all(a.x1 <= b.x0 for a, b in zip(boxes, boxes[1:], strict=False))
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert all(a.y0 >= b.y1 for a, b in zip(boxes, boxes[1:], strict=False))


def test_dollars_are_not_formulas(tmp_path):
    tokens = ["$5_{x}$", "\\$", "$$"]
    ax = plot_alignments(np.eye(3), tokens, tokens, title="costs $5 or $6")
    ax.figure.savefig(tmp_path / "dollars.png")
    assert labels(ax.xaxis) == tokens
    for text in [ax.title, *ax.get_xticklabels(), *ax.get_yticklabels()]:
        assert not text.get_parse_math()


def test_scripts_of_the_default_font_are_drawn_without_warnings(tmp_path):
    """DejaVu Sans, which comes with Matplotlib, has these; a missing one would warn and so fail."""
    tokens = ["ντοκος", "собака", "été", "ß", "مرحبا"]
    ax = plot_alignments(np.eye(5), tokens, tokens, title="Ünïcödé")
    ax.figure.savefig(tmp_path / "scripts.png")
    assert labels(ax.yaxis) == tokens


def test_a_character_that_the_default_font_lacks_is_looked_up_in_other_fonts():
    """STIXGeneral, which comes with Matplotlib too, has U+2A0C, and DejaVu Sans Mono lacks it."""
    from matplotlib import font_manager

    character = "\u2a0c"
    with plt.rc_context({"font.family": ["DejaVu Sans Mono"]}):
        ax = plot_alignments([[1.0]], [character], ["a"])
        (label,) = ax.get_xticklabels()
        first, *others = label.get_fontfamily()
    assert first == "DejaVu Sans Mono" and others
    for family, has_it in [(first, False), (others[0], True)]:
        font = font_manager.get_font(font_manager.findfont(family))
        assert bool(font.get_char_index(ord(character))) == has_it


def test_draws_on_given_axes_with_a_title(alignments):
    figure, (left, right) = plt.subplots(1, 2)
    ax = plot_alignments(alignments, SOURCE, TARGET, ax=right, title="A dog", cmap="viridis")
    assert ax is right
    assert right.get_title() == "A dog"
    assert right.get_images()[0].get_cmap().name == "viridis"
    assert not left.get_images()
    assert plt.get_fignums() == [figure.number]


def test_a_new_figure_grows_with_the_sentence():
    small = plot_alignments(np.eye(3), list("abc"), list("abc")).figure.get_size_inches()
    large = plot_alignments(np.eye(40), ["w"] * 40, ["w"] * 40).figure.get_size_inches()
    huge = plot_alignments(np.eye(200), ["w"] * 200, ["w"] * 200).figure.get_size_inches()
    assert all(small < large) and all(large < huge) and all(huge <= 30)


def test_tensors_are_drawn(alignments):
    from keras import ops

    ax = plot_alignments(ops.convert_to_tensor(alignments, "float16"), SOURCE, TARGET)
    np.testing.assert_allclose(ax.get_images()[0].get_array(), alignments, atol=1e-3)


@pytest.mark.parametrize(
    "shape", [(len(SOURCE), len(TARGET)), (1, len(TARGET), len(SOURCE)), (len(SOURCE),), (0, 0)]
)
def test_alignments_that_do_not_fit_the_tokens_are_refused(shape):
    with pytest.raises(ValueError, match="one row per target token.*alignments with shape"):
        plot_alignments(np.zeros(shape), SOURCE, TARGET)


def test_an_empty_sentence_is_refused():
    with pytest.raises(ValueError, match="at least one of each.*0 source tokens"):
        plot_alignments(np.zeros((2, 0)), [], ["a", "b"])


@pytest.mark.parametrize("number", [-0.1, 1.1, np.nan, np.inf])
def test_numbers_that_are_no_weights_are_refused(alignments, number):
    alignments[1, 2] = number
    with pytest.raises(ValueError, match=r"weights in \[0, 1\].*Received: alignments from"):
        plot_alignments(alignments, SOURCE, TARGET)


def test_without_matplotlib_the_error_names_the_extra(alignments, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[plot\]'"):
        plot_alignments(alignments, SOURCE, TARGET)


def test_the_module_is_imported_without_matplotlib():
    command = "import sys; sys.modules['matplotlib'] = None; import keras_attn.visualize"
    environment = {**os.environ, "KERAS_BACKEND": "numpy"}
    assert subprocess.run([sys.executable, "-c", command], env=environment).returncode == 0


def test_a_grid_has_a_row_for_each_layer_and_a_column_for_each_head(alignments):
    scores = {"block_0": np.stack([alignments, alignments[::-1]]), "block_1": alignments[None]}
    figure = plot_attention_grid(scores, SOURCE, TARGET, title="a dog barks")
    drawn = [np.asarray(ax.get_images()[0].get_array()) for ax in figure.axes]
    expected = [alignments, alignments[::-1], alignments]
    for received, weights in zip(drawn, expected, strict=True):
        np.testing.assert_allclose(received, weights, atol=1e-6)
    first, right, below = (ax.get_window_extent() for ax in figure.axes)
    assert first.y0 == right.y0 > below.y1 and below.x0 == first.x0 < first.x1 < right.x0
    assert [ax.get_ylabel() for ax in figure.axes] == ["block_0", "", "block_1"]
    assert figure.get_suptitle() == "a dog barks"


def test_attention_without_heads_is_a_grid_of_one_column(alignments):
    figure = plot_attention_grid({"attention": alignments}, SOURCE, TARGET)
    (ax,) = figure.axes
    np.testing.assert_allclose(np.asarray(ax.get_images()[0].get_array()), alignments, atol=1e-6)


@pytest.mark.parametrize("scores", [{}, {"block_0": np.ones((2, 1, 4, 6))}])
def test_a_grid_needs_layers_with_heads(scores):
    with pytest.raises(ValueError, match=r"shapes \{.*Select one batch entry"):
        plot_attention_grid(scores, SOURCE, TARGET)


LONG = ["internationalization", "a" * 39, "ab" * 500, "语" * 30, "مرحبا" * 5]


def assert_whole(figure):
    """Checks that all labels are inside of the figure and off the maps; returns the map sizes."""
    figure.savefig(io.BytesIO())
    width, height = figure.get_size_inches() * figure.dpi
    for ax in figure.axes:
        box = ax.get_window_extent()
        texts = [ax.title, ax.xaxis.label, ax.yaxis.label]
        texts += [label for label in ax.get_xticklabels() if ax.xaxis.get_tick_params()["labeltop"]]
        texts += [
            label for label in ax.get_yticklabels() if ax.yaxis.get_tick_params()["labelleft"]
        ]
        for text in texts:
            label = text.get_window_extent()
            if text.get_text():
                assert -1 <= label.x0 <= label.x1 <= width + 1
                assert -1 <= label.y0 <= label.y1 <= height + 1
                assert label.x1 <= box.x0 + 1 or label.y0 >= box.y1 - 1 or label.y1 <= box.y0 + 1
    return [(ax.get_window_extent().width, ax.get_window_extent().height) for ax in figure.axes]


@pytest.mark.parametrize("word", LONG, ids=[word[:6] for word in LONG])
def test_long_labels_leave_the_map_as_it_is(word):
    short = assert_whole(plot_alignments([[0.1, 0.8, 0.1]] * 2, list("abc"), list("de")).figure)
    for source, target in ((["a", word, "c"], ["d", "e"]), (["a", "b", "c"], [word, word])):
        ax = plot_alignments([[0.1, 0.8, 0.1]] * 2, source, target, title=word[:40])
        np.testing.assert_allclose(assert_whole(ax.figure), short)


@pytest.mark.parametrize("word", LONG, ids=[word[:6] for word in LONG])
def test_long_labels_leave_the_maps_of_a_grid_as_they_are(word):
    weights = np.full((2, 2, 3), 0.3)
    short = assert_whole(
        plot_attention_grid({"a": weights, "b": weights}, list("abc"), list("de"), title="t")
    )
    scores = {word: weights, word + "b": weights}
    figure = plot_attention_grid(scores, ["a", word, "c"], [word, "e"], title=word[:40])
    np.testing.assert_allclose(assert_whole(figure), short)


def test_many_labels_are_smaller_and_do_not_overlap():
    ax = plot_alignments(np.eye(200)[:2], ["abc"] * 200, ["w"] * 2)
    ((width, height),) = assert_whole(ax.figure)
    assert width == pytest.approx(100 * height) and width > 2800
    boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
    assert all(a.x1 <= b.x0 + 1 for a, b in itertools.pairwise(boxes))


def test_long_tokens_are_shortened_in_the_middle():
    ax = plot_alignments([[1.0]], ["x" * 30 + "yz" * 20], ["a"])
    (label,) = labels(ax.xaxis)
    assert len(label) == 40 and label == "x" * 26 + "…" + "zyzyzyzyzyzyz"


@pytest.mark.parametrize("format", ["png", "pdf", "svg", "ps"])
def test_control_characters_and_surrogates_are_visible_in_every_format(format, tmp_path):
    tokens = ["\x00", "a\x07b", "\x1b[0m", "\ud800x", "\ufffe", "\x85", "$_^{"]
    figures = [
        plot_alignments(np.eye(7), tokens, tokens, title="".join(tokens)).figure,
        plot_attention_grid({"\x01": np.eye(7)}, tokens, tokens, title="\x02"),
        plot_attention_over_image(np.zeros((9, 9)), tokens, np.eye(9)[:7], title="\ud900"),
        plot_forecast([1, 2], [[1, 2, 3]], title="\x03", label="\x04"),
    ]
    for number, figure in enumerate(figures):
        path = tmp_path / f"{number}.{format}"
        figure.savefig(path)
        if format == "svg":
            ElementTree.parse(path)
    expected = [r"\x00", r"a\x07b", r"\x1b[0m", "\ufffdx", "\ufffd", r"\x85", "$_^{"]
    assert labels(figures[0].axes[0].xaxis) == expected


def test_figures_do_not_stay_open(alignments):
    image = np.zeros((9, 9))
    for _ in range(6):  # Matplotlib warns of more than 20 open figures
        plot_alignments(alignments, SOURCE, TARGET)
        plot_attention_grid({"a": alignments}, SOURCE, TARGET)
        plot_attention_over_image(image, ["a"], [[1.0, 0.0, 0.0, 0.0]])
        plot_forecast([1, 2], [[1, 2, 3]])
    assert plt.get_fignums() == []


def test_masked_weights_are_refused(alignments):
    masked = np.ma.masked_less(alignments, 0.05)
    assert np.ma.is_masked(masked)
    example = {"source_tokens": SOURCE, "target_tokens": TARGET}
    for plot in (
        lambda weights: plot_alignments(weights, SOURCE, TARGET),
        lambda weights: plot_attention_grid({"a": weights}, SOURCE, TARGET),
        lambda weights: plot_attention_over_image(np.zeros((6, 6)), TARGET, weights, grid=(2, 3)),
        lambda weights: write_alignment_html("none", [{**example, "alignments": weights}]),
        lambda weights: plot_forecast(range(6), np.zeros((4, 3)), attention=weights),
    ):
        for weights in (masked, list(masked)):
            with pytest.raises(ValueError, match=r"without masked cells.*filled\(0.0\)"):
                plot(weights)
    # A masked array without masked cells is an ordinary array.
    plot_alignments(np.ma.masked_array(alignments), SOURCE, TARGET)
