"""Objects are found in the images again, by colour and position."""

import numpy as np
import pytest

from keras_attn_commands.train import scenes

SCENES = scenes.generate(200, seed=3, split="test")


def cells_of_colour(image, colour):
    """Returns the cells of the grid with pixels that a colour covers to at least 35 %."""
    difference = image - np.array(scenes.BACKGROUND, float)
    full = np.array(scenes.COLOURS[colour]) - np.array(scenes.BACKGROUND)
    opacity = difference @ full / (full @ full)  # thin lines are never fully opaque
    rest = np.abs(difference - opacity[..., None] * full).max(axis=-1)
    close = (opacity > 0.35) & (rest < 12)
    grid = close.reshape(3, scenes.CELL, 3, scenes.CELL).any(axis=(1, 3))
    return set(zip(*np.nonzero(grid), strict=True))


def test_objects_are_drawn_in_their_cells():
    for scene in SCENES[:50]:
        image = scenes.draw(scene)
        assert image.shape == (48, 48, 3) and image.dtype == np.uint8
        for colour in scenes.COLOURS:
            cells = {(each.row, each.column) for each in scene.objects if each.colour == colour}
            assert cells_of_colour(image, colour) == cells


def pixels(**changes):
    """Returns the number of bright pixels of one object in the middle."""
    arguments = {
        "kind": "circle", "colour": "white", "size": "large", "is_hollow": False,
        "row": 1, "column": 1, "shift": (0.0, 0.0),
    }  # fmt: skip
    scene = scenes.Scene((scenes.Object(**{**arguments, **changes}),))
    return int((scenes.draw(scene)[..., 0] > 130).sum())


@pytest.mark.parametrize("kind", scenes.KINDS)
def test_size_and_hole_change_the_number_of_pixels(kind):
    assert pixels(kind=kind) > 2 * pixels(kind=kind, size="small") > 10
    assert 5 < pixels(kind=kind, size="small", is_hollow=True)
    assert pixels(kind=kind, is_hollow=True) < 0.85 * pixels(kind=kind)


def test_kinds_look_different():
    images = [
        scenes.draw(scenes.Scene((scenes.Object(kind, "red", "small", False, 0, 0, (0.0, 0.0)),)))
        for kind in scenes.KINDS
    ]
    for index, image in enumerate(images):
        for other in images[:index]:
            assert np.abs(image.astype(int) - other).sum() > 1000


def test_circle_has_the_area_of_its_radius():
    expected = np.pi * scenes.RADII["large"] ** 2
    assert pixels() == pytest.approx(expected, rel=0.05)


def test_splits_share_no_combination():
    def combinations(split):
        return {
            frozenset((each.kind, each.colour) for each in scene.objects)
            for scene in scenes.generate(2000, split=split)
        }

    splits = [combinations(split) for split in scenes.SPLITS]
    assert not splits[0] & splits[1] and not splits[0] & splits[2] and not splits[1] & splits[2]
    assert all(len(each) > 300 for each in splits)


def test_larger_count_appends_scenes():
    assert scenes.generate(5, seed=3, split="test") == SCENES[:5]
    assert scenes.generate(5, seed=4, split="test") != SCENES[:5]


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="count to be at least 0. Received: count=-1"):
        scenes.generate(-1)
    with pytest.raises(ValueError, match="split to be one of .* Received: split='dev'"):
        scenes.generate(1, split="dev")
