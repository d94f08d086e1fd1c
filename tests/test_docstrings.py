"""Docstrings of public objects are complete: Args, call arguments, Returns and an example."""

import ast
import builtins
import doctest
import importlib
import inspect
import re

import keras
import pytest

import keras_attn
from keras_attn._attention.attention_mechanism import AttentionMechanism

PACKAGES = (
    "keras_attn",
    "keras_attn.convert",
    "keras_attn.forecasting",
    "keras_attn.text",
    "keras_attn.training",
    "keras_attn.visualize",
)
OPTIONAL_PACKAGES = ("keras_attn.export",)
"""Packages that need more than a backend; their docstrings are checked where they load."""

WITHOUT_EXAMPLE = {
    "keras_attn.convert.Conversion",
    "keras_attn.convert.ConversionError",
    "keras_attn.convert.Verification",
    "keras_attn.export.ExportError",
}
"""Exceptions, which nobody creates, and results of functions that have an example."""


def public_objects():
    """Public classes and functions by their qualified names, each once."""
    packages = list(PACKAGES)
    for name in OPTIONAL_PACKAGES:
        try:
            importlib.import_module(name)
            packages.append(name)
        except ImportError:
            pass
    found = {}
    for package in packages:
        module = importlib.import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if callable(value) and value not in found.values():
                found[f"{package}.{name}"] = value
    return found


OBJECTS = public_objects()


def section(docstring, title):
    """Text of a section of a docstring, or `None` without the section."""
    match = re.search(rf"^{title}:\n(.*?)(?=^\S|\Z)", docstring, re.DOTALL | re.MULTILINE)
    return match and match[1]


def parameters(function):
    return [name for name in inspect.signature(function).parameters if name != "self"]


def undocumented(text, names):
    """Names of parameters without an entry `name:` in the text of a section."""
    entries = re.findall(r"^    (\*{0,2}\w+(?:, \*{0,2}\w+)*):", text or "", re.MULTILINE)
    documented = {name.strip(" *") for entry in entries for name in entry.split(",")}
    return [name for name in names if name not in documented]


def call_of(value):
    """The `call` method of a layer class, or `None`."""
    is_layer = inspect.isclass(value) and issubclass(value, keras.layers.Layer)
    return value.call if is_layer and value.call is not keras.layers.Layer.call else None


def problems(name, value):
    """Missing parts of the docstring of an object, as strings."""
    docstring = inspect.getdoc(value) if not inspect.isclass(value) else value.__doc__
    if not docstring:
        return ["docstring"]
    docstring = inspect.cleandoc(docstring)
    missing = []
    is_exception = inspect.isclass(value) and issubclass(value, Exception)
    if not is_exception and not getattr(value, "_is_protocol", False):
        names = undocumented(section(docstring, "Args"), parameters(value))
        missing += [f"Args: {each}" for each in names]
    call = call_of(value)
    if call is not None:
        names = undocumented(section(docstring, "Call arguments"), parameters(call))
        if issubclass(value, keras.Model):  # those of every Keras model
            names = [each for each in names if each not in ("training", "mask")]
        missing += [f"Call arguments: {each}" for each in names]
    returns_value = call is not None or (
        not inspect.isclass(value) and re.search(r"^\s+(return|yield) \S", source(value), re.M)
    )
    if returns_value and not section(docstring, "Returns"):
        missing.append("Returns")
    if name not in WITHOUT_EXAMPLE and not re.search(r"^Example:\n\n", docstring, re.MULTILINE):
        missing.append("Example")
    return missing


def source(function):
    return inspect.getsource(inspect.unwrap(function))


@pytest.mark.parametrize("name", OBJECTS)
def test_docstring_of_public_object_is_complete(name):
    assert not problems(name, OBJECTS[name])


@pytest.mark.parametrize("name", OBJECTS)
def test_docstring_begins_with_one_line(name):
    lines = inspect.cleandoc(OBJECTS[name].__doc__).splitlines()
    assert lines[0].endswith(".")
    assert not lines[1:] or lines[1] == ""


def names_without_origin(code):
    """Names that code uses, but neither imports nor defines."""
    nodes = list(ast.walk(ast.parse(code)))
    known = set(dir(builtins))
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            known |= {(each.asname or each.name).partition(".")[0] for each in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            known.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            known.add(node.name)
        elif isinstance(node, ast.arg):
            known.add(node.arg)
    return {node.id for node in nodes if isinstance(node, ast.Name)} - known


@pytest.mark.parametrize("name", OBJECTS)
def test_example_imports_what_it_uses(name):
    examples = doctest.DocTestParser().get_examples(OBJECTS[name].__doc__)
    code = "".join(each.source for each in examples)
    assert not names_without_origin(code)
    assert not re.findall(r"^(?:from|import) keras_attn\S*\._.*", code, re.MULTILINE)


def test_names_without_origin():
    assert names_without_origin("import a.b\nc = a(lambda d: d)\nprint(e)") == {"e"}


def mechanisms():
    return [
        value
        for value in vars(keras_attn).values()
        if inspect.isclass(value)
        and issubclass(value, AttentionMechanism)
        and value.call is AttentionMechanism.call
    ]


@pytest.mark.parametrize("mechanism", mechanisms(), ids=lambda each: each.__name__)
def test_mechanism_repeats_the_call_arguments_of_its_base(mechanism):
    for title in ("Call arguments", "Returns"):
        expected = section(inspect.cleandoc(AttentionMechanism.__doc__), title)
        assert section(inspect.cleandoc(mechanism.__doc__), title) == expected


def test_problems_names_each_missing_part():
    def function(first, second):
        """Returns the first.

        Args:
            first: Int.
        """
        return first

    assert problems("function", function) == ["Args: second", "Returns", "Example"]
