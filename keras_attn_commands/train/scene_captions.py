"""Captions of generated scenes in English and German, and a parser that verifies captions.

    en: a large red circle is left of a small hollow blue square
    de: ein großer roter Kreis ist links von einem kleinen hohlen blauen Quadrat

The caption is determined by the scene. It names the objects row by row, and in a row from left to
right:

- two objects: the first one, its relation to the second one, and the second one;
- three objects: additionally the relation of the first one to the third one, and the third one
  without its size;
- four objects: two sentences with two objects each, without sizes and without "hollow".

`is_true` parses any caption of this grammar and verifies it against a scene.
"""

import itertools
import re
from collections.abc import Sequence
from pathlib import Path

from keras_attn.files import atomic_replace, write_lines
from keras_attn_commands.train import scenes

LANGUAGES = ("en", "de")
VERBS = {"en": "is", "de": "ist"}
CONJUNCTIONS = {"en": "and", "de": "und"}
RELATIONS = {
    "en": {"left": "left of", "right": "right of", "above": "above", "below": "below"},
    "de": {"left": "links von", "right": "rechts von", "above": "über", "below": "unter"},
}
GERMAN_KINDS = {  # noun; nominative endings of "ein" and of adjectives
    "circle": ("Kreis", "", "er"),
    "square": ("Quadrat", "", "es"),
    "triangle": ("Dreieck", "", "es"),
    "star": ("Stern", "", "er"),
    "cross": ("Kreuz", "", "es"),
    "diamond": ("Raute", "e", "e"),
}
GERMAN_ADJECTIVES = {
    "small": "klein",
    "large": "groß",
    "hollow": "hohl",
    "red": "rot",
    "green": "grün",
    "blue": "blau",
    "yellow": "gelb",
    "purple": "violett",
    "white": "weiß",
}


def caption(scene: scenes.Scene, language: str) -> str:
    """Returns the caption of a scene, such as `"a red circle is left of a large blue star"`.

    Args:
        scene: `scenes.Scene`.
        language: `"en"` or `"de"`.
    """
    words, conjunction = RELATIONS[language], CONJUNCTIONS[language]

    def sentence(first, second, is_short=False):
        subject = _name(first, language, True, is_short, is_short)
        other = _name(second, language, language == "en", is_short, is_short)
        return f"{subject} {VERBS[language]} {words[_relation(first, second)]} {other}"

    first, second, *others = scene.objects
    if len(others) == 2:
        third, fourth = others
        return f"{sentence(first, second, True)} {conjunction} {sentence(third, fourth, True)}"
    text = sentence(first, second)
    for third in others:
        name = _name(third, language, language == "en", without_size=True)
        text += f" {conjunction} {words[_relation(first, third)]} {name}"
    return text


def _relation(first, second):
    """Returns the position of the first object relative to the second one, on the longer axis."""
    rows, columns = second.row - first.row, second.column - first.column
    if abs(columns) >= abs(rows):
        return "left" if columns > 0 else "right"
    return "above" if rows > 0 else "below"


def _name(each, language, is_subject, without_size=False, without_hollow=False):
    """Returns an object with article and adjectives, such as `"a small hollow red circle"`."""
    adjectives = [] if without_size else [each.size]
    adjectives += ["hollow"] if each.is_hollow and not without_hollow else []
    adjectives.append(each.colour)
    if language == "en":
        return " ".join(["a", *adjectives, each.kind])
    noun, article, ending = GERMAN_KINDS[each.kind]
    if not is_subject:  # dative case
        article, ending = ("er" if article else "em"), "en"
    adjectives = [GERMAN_ADJECTIVES[word] + ending for word in adjectives]
    return " ".join([f"ein{article}", *adjectives, noun])


def is_true(text: str, scene: scenes.Scene, language: str) -> bool:
    """Returns whether a text is a caption of this grammar and is true of a scene.

    A caption may name any objects of the scene, with or without their sizes. Each name must match a
    different object that has the attributes and relations in the text. A name without "hollow" is
    the name of a filled object, except in captions of four objects.

    Args:
        text: string.
        scene: `scenes.Scene`.
        language: `"en"` or `"de"`.
    """
    claims = _parse(text, language)
    if claims is None:
        return False
    names, relations = claims
    return any(
        all(_matches(name, each) for name, each in zip(names, objects, strict=True))
        and all(_holds(word, objects[first], objects[second]) for first, word, second in relations)
        for objects in itertools.permutations(scene.objects, len(names))
    )


def _parse(text, language):
    """Returns the claims of a caption, or `None` if the text is not a caption.

    Returns:
        Tuple `(names, relations)`. `names` is a list with the attributes of each object.
        `relations` is a list of tuples: the index of the first object, a key of `RELATIONS`, and
        the index of the second object.
    """
    name, relation = _NAMES[language], "|".join(RELATIONS[language].values())
    conjunction = CONJUNCTIONS[language]
    sentence = f"({name}) {VERBS[language]} ({relation}) ({name})"
    keys = {word: key for key, word in RELATIONS[language].items()}
    if match := re.fullmatch(f"{sentence} {conjunction} {sentence}", text):
        first, word, second, third, other, fourth = match.groups()
        written = [(first, True), (second, False), (third, True), (fourth, False)]
        relations = [(0, keys[word], 1), (2, keys[other], 3)]
        is_short = True
    elif match := re.fullmatch(f"{sentence}(?: {conjunction} ({relation}) ({name}))?", text):
        first, word, second, other, third = match.groups()
        written = [(first, True), (second, False)] + ([(third, False)] if third else [])
        relations = [(0, keys[word], 1)] + ([(0, keys[other], 2)] if third else [])
        is_short = False
    else:
        return None
    names = [_read_name(name, language, subject, is_short) for name, subject in written]
    return None if None in names else (names, relations)


def _read_name(text, language, is_subject, is_short):
    """Returns the attributes in the name of an object, or `None` if a word has a wrong ending."""
    words = GERMAN_ADJECTIVES if language == "de" else {}
    found = {
        attribute: next((each for each in values if f" {words.get(each, each)}" in text), None)
        for attribute, values in (
            ("size", scenes.RADII),
            ("colour", scenes.COLOURS),
            ("hollow", ["hollow"]),
        )
    }
    nouns = {GERMAN_KINDS[kind][0] if language == "de" else kind: kind for kind in scenes.KINDS}
    named = scenes.Object(
        nouns[text.split()[-1]],
        found["colour"] or "",
        found["size"] or "small",
        found["hollow"] is not None,
        *(0, 0, (0, 0)),
    )
    if _name(named, language, is_subject or language == "en", found["size"] is None) != text:
        return None
    attributes: dict[str, str | bool] = {"kind": named.kind, "colour": named.colour}
    if not is_short or named.is_hollow:
        attributes["is_hollow"] = named.is_hollow
    return attributes | ({"size": found["size"]} if found["size"] else {})


def _matches(attributes, each):
    return all(getattr(each, name) == value for name, value in attributes.items())


def _holds(relation, first, second):
    return {
        "left": first.column < second.column,
        "right": first.column > second.column,
        "above": first.row < second.row,
        "below": first.row > second.row,
    }[relation]


_GERMAN_COLOURS = "|".join(GERMAN_ADJECTIVES[each] for each in scenes.COLOURS)
_GERMAN_NOUNS = "|".join(noun for noun, _, _ in GERMAN_KINDS.values())
_NAMES = {
    "en": r"a (?:(?:small|large) )?(?:hollow )?"
    rf"(?:{'|'.join(scenes.COLOURS)}) (?:{'|'.join(scenes.KINDS)})",
    "de": r"ein(?:e|em|er)? (?:(?:klein|groß)\w* )?(?:hohl\w* )?"
    rf"(?:{_GERMAN_COLOURS})\w* (?:{_GERMAN_NOUNS})",
}
"""Regular expressions of the names of objects; `_read_name` checks the endings."""


def write_files(directory: str | Path, several: Sequence[scenes.Scene]) -> None:
    """Writes `images/0000.png`, ..., and the captions to `captions.en` and `captions.de`.

    Args:
        directory: path; it is created if it is missing.
        several: list of `scenes.Scene`s.
    """
    from PIL import Image

    images = Path(directory) / "images"
    images.mkdir(parents=True, exist_ok=True)
    for number, scene in enumerate(several):
        with atomic_replace(images / f"{number:04}.png") as partial:
            Image.fromarray(scenes.draw(scene)).save(partial)
    for language in LANGUAGES:
        lines = [caption(scene, language) for scene in several]
        write_lines(images.parent / f"captions.{language}", lines)
