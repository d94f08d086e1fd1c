"""Synthetic images of simple scenes, as image data without a download.

A scene contains two to four objects in the cells of a 3 x 3 grid. Each object has one of six kinds,
six colours and two sizes, and is filled or hollow. No two objects of a scene have the same kind and
colour. `scene_captions.py` describes scenes in two languages.

Each combination of kinds and colours belongs to one split, so that the scenes of the test split
have combinations that never occur in training.
"""

import hashlib
import itertools
import random
from typing import NamedTuple

import numpy as np

SPLITS = ("train", "valid", "test")
SIDE = 48
"""Width and height of an image in pixels."""

CELL = SIDE // 3
RADII = {"small": 4.4, "large": 7.2}
"""Distance in pixels from the centre of an object to its farthest point."""

LINE = 0.2
"""Line width of a hollow object as a fraction of its radius."""

COLOURS = {
    "red": (230, 40, 40),
    "green": (40, 190, 60),
    "blue": (60, 90, 250),
    "yellow": (250, 220, 50),
    "purple": (170, 60, 200),
    "white": (245, 245, 245),
}
BACKGROUND = (25, 25, 30)
KINDS = ("circle", "square", "triangle", "star", "cross", "diamond")


class Object(NamedTuple):
    """An object of a scene in a cell of the grid."""

    kind: str
    colour: str
    size: str
    is_hollow: bool
    row: int
    column: int
    shift: tuple[float, float]  # from the centre of the cell, in pixels: down, right


class Scene(NamedTuple):
    """Objects, sorted by row and column."""

    objects: tuple[Object, ...]


def split_of(scene: Scene) -> str:
    """Returns the split of a scene, which depends only on the kinds and colours of its objects."""
    names = sorted(f"{each.colour} {each.kind}" for each in scene.objects)
    number = hashlib.sha256("/".join(names).encode()).digest()[0]
    return "test" if number < 26 else "valid" if number < 38 else "train"  # test: 10 %, valid: 5 %


def generate(count: int, seed: int = 0, split: str = "train") -> list[Scene]:
    """Generates random scenes of a split.

    Args:
        count: Integer of at least 0. The list for a larger count begins with the same scenes.
        seed: Integer. The same seed gives the same scenes.
        split: `"train"`, `"valid"` or `"test"`.

    Returns:
        List of `count` `Scene`s.

    Raises:
        ValueError: If `count` is negative or `split` is unknown.
    """
    if count < 0:
        raise ValueError(f"Expected count to be at least 0. Received: count={count}.")
    if split not in SPLITS:
        raise ValueError(f"Expected split to be one of {SPLITS}. Received: split={split!r}.")
    rng = random.Random(f"{split} {seed}")
    looks = list(itertools.product(KINDS, COLOURS))
    cells = list(itertools.product(range(3), range(3)))
    scenes = []
    while len(scenes) < count:
        number = rng.choice((2, 3, 4))
        objects = [
            Object(
                kind,
                colour,
                rng.choice(tuple(RADII)),
                rng.random() < 0.5,
                *cell,
                (rng.uniform(-0.7, 0.7), rng.uniform(-0.7, 0.7)),
            )
            for (kind, colour), cell in zip(
                rng.sample(looks, number), sorted(rng.sample(cells, number)), strict=True
            )
        ]
        scene = Scene(tuple(objects))
        if split_of(scene) == split:
            scenes.append(scene)
    return scenes


def draw(scene: Scene) -> np.ndarray:
    """Draws a scene.

    Args:
        scene: `Scene`.

    Returns:
        uint8 array of shape `(48, 48, 3)`: red, green and blue.
    """
    image = np.full((SIDE, SIDE, 3), BACKGROUND, float)
    for each in scene.objects:
        y, x = np.mgrid[:SIDE, :SIDE] + 0.5
        y -= (each.row + 0.5) * CELL + each.shift[0]
        x -= (each.column + 0.5) * CELL + each.shift[1]
        distance = _distance(each.kind, y, x, RADII[each.size])
        if each.is_hollow:
            half = LINE * RADII[each.size] / 2
            distance = np.abs(distance + half) - half
        opacity = np.clip(0.5 - distance, 0, 1)[..., None]  # smooth edges
        image = opacity * np.array(COLOURS[each.colour]) + (1 - opacity) * image
    return np.round(image).astype("uint8")


def _distance(kind, y, x, radius):
    """Returns the signed distance of each pixel to the outline of a shape; negative inside."""
    if kind == "circle":
        return np.hypot(y, x) - radius
    if kind == "square":
        return np.maximum(abs(y), abs(x)) - 0.85 * radius
    if kind == "diamond":
        return (abs(y) + abs(x) - radius) * np.sqrt(0.5)
    if kind == "triangle":
        return np.maximum(
            y - 0.6 * radius, 0.45 * (0.4 * radius - y) + 0.9 * abs(x) - 0.63 * radius
        )
    if kind == "cross":
        wide, narrow = radius, 0.42 * radius
        return np.minimum(
            np.maximum(abs(y) - wide, abs(x) - narrow), np.maximum(abs(y) - narrow, abs(x) - wide)
        )
    # Star: the angle to the nearest tip, and the edge from this tip at `radius` to the notch.
    angle = (np.arctan2(x, -y) + np.pi / 5) % (2 * np.pi / 5) - np.pi / 5
    length = np.hypot(y, x)
    along, across = length * np.cos(angle), length * abs(np.sin(angle))
    slope = 0.42 * np.sin(np.pi / 5), 1 - 0.42 * np.cos(np.pi / 5)
    return (slope[0] * (along - radius) + slope[1] * across) / np.hypot(*slope)
