"""What the pictures of a caption show, read from the artists of Matplotlib."""

import io

import numpy as np
import pytest

from keras_attn.visualize import plot_attention_over_image

plt = pytest.importorskip("matplotlib.pyplot")
IMAGE = np.full((20, 30, 3), 200, "uint8")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def one_hot(*positions, count=6):
    return np.eye(count, dtype="float32")[list(positions)]


def opacity(ax):
    """The opacity of the layer over the image, `(height, width)`."""
    image, layer = (np.asarray(each.get_array()) for each in ax.images)
    np.testing.assert_allclose(image, np.full_like(image, 200 / 255), rtol=1e-6)
    return layer[..., 3]


def test_layer_is_opaque_where_the_word_attends():
    figure = plot_attention_over_image(IMAGE, ["a", "star"], one_hot(0, 5), grid=(2, 3))
    assert [ax.get_title() for ax in figure.axes] == ["", "a", "star"]
    np.testing.assert_allclose(figure.axes[0].images[0].get_array(), 200 / 255, rtol=1e-6)
    for ax, (row, column) in zip(figure.axes[1:], [(0, 0), (1, 2)], strict=True):
        assert opacity(ax).shape == (20, 30)
        cells = opacity(ax)[4:20:10, 4:30:10]  # near the centers
        assert np.unravel_index(cells.argmax(), (2, 3)) == (row, column)
        assert cells[row, column] > 0.6
        np.testing.assert_allclose(cells[1 - row, 2 - column], 0, atol=0.05)
        (frame,) = ax.patches
        assert frame.get_bbox().bounds == (10 * column, 10 * row, 10, 10)


def test_words_have_their_own_scale_and_a_frame_if_they_have_a_focus():
    weights = np.array([[0.7, 0.1, 0.1, 0.1], [0.25, 0.25, 0.25, 0.25]])
    figure = plot_attention_over_image(IMAGE[..., 0], ["star", "is"], weights)
    star, others = opacity(figure.axes[1]), opacity(figure.axes[2])
    np.testing.assert_allclose([star.max(), star.min()], [0.7, 0.1], rtol=1e-5)
    np.testing.assert_allclose(others, 0.7, rtol=1e-5)
    assert [len(ax.patches) for ax in figure.axes] == [0, 1, 0]


def test_pieces_are_joined_to_words():
    pieces, weights = ["▁gro", "ß", "er", "▁Stern", "</s>"], one_hot(0, 1, 1, 3, 3, count=4)
    figure = plot_attention_over_image(IMAGE, pieces[:4], weights[:4], title="de")
    assert [ax.get_title() for ax in figure.axes] == ["", "großer", "Stern"]
    shown = opacity(figure.axes[1])
    np.testing.assert_allclose(shown[[4, 4, 15], [24, 5, 5]], [0.7, 0.35, 0.0], atol=1e-5)


def test_special_tokens_are_words_of_their_own():
    pieces = ["<s>", "▁two", "▁dog", "<unk>", "s", "<0xC3>", "</s>", "x", "<|im_end|>", "▁a"]
    weights = np.eye(10, 12, dtype="float32")
    figure = plot_attention_over_image(IMAGE, pieces, weights, grid=(3, 4))
    titles = ["<s>", "two", "dog<unk>s<0xC3>", "</s>", "x", "<|im_end|>", "a"]
    assert [ax.get_title() for ax in figure.axes] == ["", *titles]
    for ax, position in zip(np.array(figure.axes)[[1, 2, 4, 5, 7]], (0, 1, 6, 7, 9), strict=True):
        cells = opacity(ax)[3::7, 3::8]
        assert np.unravel_index(cells.argmax(), (3, 4)) == divmod(position, 4)
    titles = ["two", "</s>"]  # without SentencePiece, each token is a word
    figure = plot_attention_over_image(IMAGE, titles, one_hot(0, 1, count=4))
    assert [ax.get_title() for ax in figure.axes] == ["", *titles]


def test_long_words_fit_above_their_image():
    words = ["Donaudampfschifffahrtsgesellschaftskapitän", "语" * 30, "a"]
    figure = plot_attention_over_image(IMAGE, words, one_hot(0, 1, 2, count=4))
    figure.savefig(io.BytesIO())
    for ax in figure.axes[1:]:
        image, title = ax.get_window_extent(), ax.title.get_window_extent()
        assert title.width <= 1.1 * image.width and ax.title.get_fontsize() >= 6


def test_more_words_need_more_rows():
    figure = plot_attention_over_image(
        IMAGE / np.float32(255), [f"w{number}" for number in range(8)], one_hot(*[3] * 8, count=4)
    )
    assert len(figure.axes) == 9
    assert figure.axes[6].get_subplotspec().rowspan.start == 1


@pytest.mark.parametrize(
    ("convert", "arguments"),
    [
        (lambda image: image, {}),
        (lambda image: image.astype("float32"), {}),
        (lambda image: image / np.float32(255), {}),
        (lambda image: image / np.float32(127.5) - 1, {"pixel_range": (-1, 1)}),
        (lambda image: np.dstack([image, np.full((20, 20), 255, "uint8")]), {}),
    ],
    ids=["integers", "floats to 255", "floats to 1", "floats from -1", "rgba"],
)
def test_saved_picture_has_the_colors_of_the_image(convert, arguments, tmp_path):
    image = np.zeros((20, 20, 3), "uint8")
    image[:10, :10], image[:10, 10:], image[10:, :10] = (200, 40, 10), (0, 90, 255), (130,) * 3
    figure = plot_attention_over_image(convert(image), ["a"], one_hot(3, count=4), **arguments)
    figure.savefig(tmp_path / "picture.png")
    saved = plt.imread(tmp_path / "picture.png")[..., :3]
    box = figure.axes[0].get_window_extent()
    for row, column in [(5, 5), (5, 15), (15, 5), (15, 15)]:
        x = round(box.x0 + box.width * column / 20)
        y = saved.shape[0] - round(box.y1 - box.height * row / 20)
        np.testing.assert_allclose(saved[y, x], image[row, column] / 255, atol=2 / 255)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image": np.zeros((3, 4, 5))}, "of shape .height, width.* Received: .*3, 4, 5"),
        ({"image": np.full((3, 4, 3), -1.0)}, "Pass the values of black and white as pixel_range"),
        ({"pixel_range": (1, 0)}, "Received: pixel_range=.1, 0."),
        ({"grid": (3, 3)}, "Received: 4 positions, grid=.3, 3."),
        ({"alignments": one_hot(0, 1, count=5)}, "Received: 5 positions, grid=None"),
        ({"target_tokens": ["a"]}, "one row per target token"),
        ({"alignments": [[2.0, 0, 0, 0], [1, 0, 0, 0]]}, "attention weights in .0, 1."),
        ({"alignments": 3.0}, "one row per target token"),
    ],
)
def test_arguments_are_checked(changes, message):
    arguments = {"image": IMAGE, "target_tokens": ["a", "b"], "alignments": one_hot(0, 1, count=4)}
    with pytest.raises(ValueError, match=message):
        plot_attention_over_image(**{**arguments, **changes})


@pytest.mark.parametrize("grid", [(True, 4), "22", (2.0, 2), (2,), 4])
def test_the_grid_is_two_integers(grid):
    with pytest.raises(ValueError, match="Expected grid to be two ints"):
        plot_attention_over_image(np.zeros((8, 8, 3), "uint8"), ["a"], [[0.25] * 4], grid=grid)
