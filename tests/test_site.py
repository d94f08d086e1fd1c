"""The site can show the docstrings of all public names, and its reference lists each name."""

import importlib.util
import json
import logging
import os
import re
import shutil
import subprocess
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
    names = {name for _, name in listed}
    for (file, _), pages in reference.PICTURES.items():
        assert (ROOT / "docs" / file).exists() and names.issuperset(pages.split())


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


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site without the results of the tutorials. A link to a missing page is an error."""
    directory = tmp_path_factory.mktemp("site") / "site"
    script = [str(SITE / "make_pages.py"), str(directory), "--without-results"]
    for command in (script, ["-m", "zensical", "build", "--strict", "-f", "mkdocs.yml"]):
        folder = directory if command[0] == "-m" else ROOT
        result = subprocess.run(
            [sys.executable, *command],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'export'}"},
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stdout + result.stderr
    return directory / "site"


@pytest.mark.parametrize(
    ("name", "methods"),
    [
        ("AttentionMechanism", ["initial_state", "attend_step", "num_positions"]),
        ("StatefulAttention", ["initial_state", "attend_once", "attend_step", "compute_weights"]),
        ("StepDecoder", ["initial_state", "step"]),
    ],
)
def test_reference_lists_the_methods_that_subclasses_override_or_call(site, name, methods):
    page = (site / "reference" / "keras_attn" / name / "index.html").read_text(encoding="utf-8")
    missing = [each for each in methods if f'id="keras_attn.{name}.{each}"' not in page]
    assert not missing


def test_pages_load_nothing_from_the_net(site):
    loaded = re.compile(
        r"<(?:script|img|iframe|source)[^>]+src=\"?(https?:)?//|@import|<link[^>]+>"
    )
    pages = list(site.rglob("*.html"))
    assert len(pages) > 200
    for page in pages:
        for match in loaded.finditer(page.read_text(encoding="utf-8")):
            tag = match[0]
            is_file = tag.startswith("<link") and ("stylesheet" in tag or "preload" in tag)
            assert tag.startswith("<link") and not (is_file and "//" in tag), (page, tag)


SEARCH = """
import fs from "fs";
import vm from "vm";
const [worker, index, queries] = process.argv.slice(2);
const self = {}, filter = { input: { type: "operator", data: { operator: "and", operands: [] } } };
filter.aggregation = { input: [{ type: "term", data: { field: "tags" } }] };
const send = (message) => new Promise((resolve) => {
  self.postMessage = resolve;
  self.onmessage({ data: structuredClone(message) });
});
vm.runInNewContext(fs.readFileSync(worker, "utf8"), { self, Intl });
const data = JSON.parse(fs.readFileSync(index, "utf8"));
await send({ type: 0, data });
const found = {};
for (const input of JSON.parse(queries)) {
  const results = (await send({ type: 2, data: { input, filter } })).data.items;
  const pages = results.map((each) => data.items[each.id].location.split("/")[0]);
  found[input] = [...new Set(pages)].slice(0, 3);
}
console.log(JSON.stringify(found));
"""
"""Runs the program of the site's search in Node. Prints the first three pages of each query."""

PAGES = {
    "browser": "javascript",
    "continue interrupted training": "train-translator",
    "Could not locate class": "errors",
    "coverage penalty": "search",
    "custom attention": "custom-layers",
    "early stopping": "train-translator",
    "FastAPI": "deploy",
    "how many sentences do I need": "small-corpora",
    "LoRA": "fine-tune",
    "mask padding": "masks",
    "n-best lists": "generate",
    "out of memory": "training-speed",
    "plot attention weights": "add-attention",
    "quantize": "export",
    "small corpus": "small-corpora",
    "temperature": "sampling",
    "TensorBoard": "train-translator",
    "TensorFlow Addons": "migration",
}
"""Pages that a user looks for with a query."""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
def test_the_search_finds_what_users_look_for(site):
    (worker,) = site.glob("assets/javascripts/workers/search.*.js")
    program = site.parent / "search.mjs"
    program.write_text(SEARCH, encoding="utf-8")
    arguments = [program, worker, site / "search.json", json.dumps(list(PAGES))]
    found = subprocess.run(["node", *arguments], capture_output=True, check=True)
    found = json.loads(found.stdout)
    assert {query: pages for query, pages in found.items() if PAGES[query] not in pages} == {}
