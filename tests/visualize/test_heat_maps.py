import os
import subprocess
import sys

import numpy as np
import pytest

from keras_attn.visualize import plot_alignments, plot_attention_grid

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
    with pytest.raises(ImportError, match=r"pip install keras-attn\[plot\]"):
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
    places = [ax.get_subplotspec() for ax in figure.axes]
    assert [(at.rowspan.start, at.colspan.start) for at in places] == [(0, 0), (0, 1), (1, 0)]
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
