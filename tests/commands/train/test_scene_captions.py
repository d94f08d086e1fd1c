"""Captions are compared with hand-written ones, and verified by a parser of their grammar."""

import numpy as np
import pytest

from keras_attn_commands.train import scene_captions, scenes

SCENES = scenes.generate(200, seed=3, split="test")

TWO = scenes.Scene(
    (
        scenes.Object("circle", "red", "large", False, 0, 0, (0.0, 0.0)),
        scenes.Object("diamond", "blue", "small", True, 1, 2, (0.0, 0.0)),
    )
)
THREE = scenes.Scene(
    (*TWO.objects, scenes.Object("star", "green", "small", True, 2, 0, (0.0, 0.0)))
)
FOUR = scenes.Scene(
    (*THREE.objects, scenes.Object("cross", "white", "large", False, 2, 2, (0.0, 0.0)))
)
CAPTIONS = {
    TWO: (
        "a large red circle is left of a small hollow blue diamond",
        "ein großer roter Kreis ist links von einer kleinen hohlen blauen Raute",
    ),
    THREE: (
        "a large red circle is left of a small hollow blue diamond and above a hollow green star",
        "ein großer roter Kreis ist links von einer kleinen hohlen blauen Raute und über einem "
        "hohlen grünen Stern",
    ),
    FOUR: (
        "a red circle is left of a blue diamond and a green star is left of a white cross",
        "ein roter Kreis ist links von einer blauen Raute und ein grüner Stern ist links von einem "
        "weißen Kreuz",
    ),
}


@pytest.mark.parametrize("scene", CAPTIONS, ids=["two", "three", "four"])
def test_caption_is_written_in_both_languages(scene):
    texts = tuple(scene_captions.caption(scene, each) for each in scene_captions.LANGUAGES)
    assert texts == CAPTIONS[scene]


def test_captions_have_8_to_20_words_and_are_true():
    for scene in SCENES:
        for language in scene_captions.LANGUAGES:
            text = scene_captions.caption(scene, language)
            assert 8 <= len(text.split()) <= 20
            assert scene_captions.is_true(text, scene, language)
            assert not scene_captions.is_true(text, scene, "de" if language == "en" else "en")


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "a large red circle is above a small hollow blue diamond", True),
        ("en", "a small hollow blue diamond is right of a large red circle", True),
        ("en", "a small hollow green star is below a large red circle", True),
        ("en", "a small red circle is above a small hollow blue diamond", False),
        ("en", "a large red circle is above a small blue diamond", False),
        ("en", "a large hollow red circle is above a small hollow blue diamond", False),
        ("en", "a large red circle is below a small hollow blue diamond", False),
        ("en", "a large red circle is left of a large red circle", False),
        ("en", "a large red circle is left of", False),
        ("en", "a red large circle is left of a small hollow blue diamond", False),
        ("en", "", False),
        ("de", "ein großer roter Kreis ist über einer kleinen hohlen blauen Raute", True),
        ("de", "eine kleine hohle blaue Raute ist unter einem großen roten Kreis", True),
        ("de", "ein großer roter Kreis ist über eine kleine hohle blaue Raute", False),
        ("de", "eine großer roter Kreis ist über einer kleinen hohlen blauen Raute", False),
        ("de", "ein großes rotes Kreis ist über einer kleinen hohlen blauen Raute", False),
    ],
)  # fmt: skip
def test_caption_is_checked_against_the_scene_and_the_grammar(language, text, expected):
    assert scene_captions.is_true(text, THREE, language) is expected


def test_files_contain_images_and_captions(tmp_path):
    image = pytest.importorskip("PIL.Image")
    scene_captions.write_files(tmp_path / "test", SCENES[:3])
    for number, scene in enumerate(SCENES[:3]):
        with image.open(tmp_path / f"test/images/{number:04}.png") as picture:
            np.testing.assert_array_equal(np.array(picture), scenes.draw(scene))
    lines = (tmp_path / "test/captions.de").read_text(encoding="utf-8").splitlines()
    assert lines == [scene_captions.caption(scene, "de") for scene in SCENES[:3]]
