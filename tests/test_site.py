"""The site can show the docstrings of all public names, and its reference lists each name."""

import importlib.util
import logging
import sys
from pathlib import Path

import pytest

griffe = pytest.importorskip("griffe")
pytest.importorskip("tf2onnx")
pytest.importorskip("matplotlib")
ROOT = Path(__file__).parents[1]
SITE = ROOT / "docs" / "site"


def load(name):
    spec = importlib.util.spec_from_file_location(name, SITE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_the_reference_lists_each_public_name_once():
    reference = load("reference")
    listed = [entry for entries in reference.grouped_names().values() for entry in entries]
    assert sorted(listed) == sorted(set(reference.public_names()))


def test_griffe_has_no_warnings(caplog):
    reference = load("reference")
    extension = load("griffe_docstrings").ImportedDocstrings()
    loader = griffe.GriffeLoader(
        search_paths=[str(ROOT), str(ROOT / "export")],
        extensions=griffe.load_extensions(extension),
    )
    for package in ("keras_attn_checks", "keras_attn_runtime", "keras_attn"):
        loader.load(package)
    options = {"returns_multiple_items": False, "returns_named_value": False}
    with caplog.at_level(logging.WARNING):
        caplog.clear()
        for package, name in reference.public_names():
            item = loader.modules_collection[f"{package}.{name}"]
            item = item.final_target if item.is_alias else item
            methods = item.members.values() if item.is_class else ()
            for each in (item, *methods):
                if not (each.name.startswith("_") or each.is_alias or each.docstring is None):
                    each.docstring.parse("google", **options)
    messages = [record.getMessage() for record in caplog.records]
    assert not messages, "\n".join(messages)
