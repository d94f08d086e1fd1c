"""Writes the sources of the site into a directory: the guides, the API reference, the examples.

    python docs/site/make_pages.py build/site

`mkdocs.yml` of the repository is copied beside them with the navigation completed.
"""

import argparse
import importlib
import inspect
import os
import posixpath
import re
import shutil
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent)]

import commands_reference  # noqa: E402
from reference import (  # noqa: E402
    GROUPS,
    grouped_names,
    inherited_methods,
    picture,
    public_names,
)

ROOT = Path(__file__).parents[2]
OTHER_PAGES = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "LICENSE": "project/license.md",
    "benchmarks/README.md": "benchmarks/index.md",
    "benchmarks/results/README.md": "benchmarks/results/index.md",
    "export/README.md": "keras-attn-runtime.md",
    "export/serving/README.md": "servers.md",
    "README.md": "index.md",
}
"""Pages by their files in the repository. Files in docs/ have the same path without docs/."""

NOT_SEARCHED = ("CHANGELOG.md", "benchmarks/results/README.md")
"""Pages that the search leaves out: their long sections contain nearly all words."""

NO_PAGES = ("README.md", "ruff.toml")
"""Names of files in docs/ that are not part of the site."""

LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the sources of the site.")
    parser.add_argument("directory", type=Path, help="directory, which is replaced")
    parser.add_argument(
        "--without-results", action="store_true", help="do not run the tutorials: 3 CPU minutes"
    )
    arguments = parser.parse_args()
    directory = arguments.directory
    if directory.exists() and not (directory / "mkdocs.yml").exists():
        parser.error(f"{directory} is no earlier result of this script. Choose another directory.")
    shutil.rmtree(directory, ignore_errors=True)
    pages = directory / "pages"
    pages.mkdir(parents=True)
    (directory / "mkdocs.yml").touch()  # marks the directory, also if the script is interrupted
    write_guides(pages)
    if not arguments.without_results:
        run_tutorials(pages / "tutorials")
    navigation = {
        "reference/": write_reference(pages),
        "examples/": write_examples(pages),
    }
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    text = text.replace("../..", os.path.relpath(ROOT, directory))
    for line, entries in navigation.items():
        text = re.sub(
            rf"^( *)- (.*): {line}$",
            lambda match, entries=entries: (
                f"{match[1]}- {match[2]}:\n"
                + "".join(f"{match[1]}    {entry}\n" for entry in entries).rstrip()
            ),
            text,
            flags=re.MULTILINE,
        )
    (directory / "mkdocs.yml").write_text(text, encoding="utf-8")


def write_guides(pages: Path) -> None:
    for path in sorted((ROOT / "docs").rglob("*")):
        relative = path.relative_to(ROOT / "docs")
        if path.is_dir() or relative.parts[0] == "site" or path.name in NO_PAGES:
            continue
        if path.suffix == ".md":
            write_page(pages, path.relative_to(ROOT).as_posix())
        else:
            target = pages / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    for source in OTHER_PAGES:
        if source != "README.md":
            write_page(pages, source)


def write_page(pages: Path, source: str) -> None:
    """Writes a page, with links to files of the repository turned into links to pages."""
    page = page_of(source) or source
    text = (ROOT / source).read_text(encoding="utf-8")
    if source == "LICENSE":
        text = f"# License\n\n```text\n{text}```\n"
    if source in NOT_SEARCHED:
        text = f"---\nsearch:\n  exclude: true\n---\n\n{text}"

    def link(match: re.Match[str]) -> str:
        target, _, anchor = match[2].partition("#")
        if not target or ":" in target:
            return match[0]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        linked = page_of(file)
        if linked is None:
            raise ValueError(f"{source}: the link to {target} leads to no page of the site")
        if not linked.endswith(".md"):  # a picture or a measurement
            copy = pages / linked
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / file, copy)
        relative = posixpath.relpath(linked, posixpath.dirname(page) or ".")
        return match[1] + relative + (f"#{anchor}" if anchor else "") + match[3]

    (pages / page).parent.mkdir(parents=True, exist_ok=True)
    (pages / page).write_text(LINK.sub(link, text), encoding="utf-8")


def run_tutorials(directory: Path) -> None:
    """Replaces each tutorial by its text with the results, and writes it as a notebook, too."""
    import jupytext
    import nbconvert
    from nbconvert.preprocessors import ExecutePreprocessor

    for path in sorted(directory.glob("*.md")):
        notebook = jupytext.read(path)
        options = {"kernel_name": "python3", "coalesce_streams": True}
        ExecutePreprocessor(timeout=600, **options).preprocess(notebook)
        for cell in notebook.cells:  # standard error is the log of TensorFlow
            outputs = cell.get("outputs", [])
            cell["outputs"] = [each for each in outputs if each.get("name") != "stderr"]
            if cell.cell_type == "markdown":
                del cell["outputs"]
        text, resources = nbconvert.MarkdownExporter().from_notebook_node(
            notebook, {"unique_key": path.stem, "output_files_dir": path.stem}
        )
        for name, content in resources["outputs"].items():
            (directory / name).parent.mkdir(exist_ok=True)
            (directory / name).write_bytes(content)
        jupytext.write(notebook, path.with_suffix(".ipynb"))
        link = f"[Download this page as a notebook]({path.stem}.ipynb)"
        path.write_text(f"{without_codes(text)}\n{link}\n", encoding="utf-8")


def without_codes(text: str) -> str:
    """Removes the codes that color the output on a terminal."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def page_of(file: str) -> str | None:
    """Returns the page or copied file of a file in the repository, or `None`."""
    if file in OTHER_PAGES:
        return OTHER_PAGES[file]
    if file == "examples":
        return "examples/index.md"
    if file.startswith("examples/"):
        return str(Path(file).with_suffix(".md"))
    if file.startswith("docs/"):
        return file.removeprefix("docs/")
    return file if file.startswith("benchmarks/") else None


def write_reference(pages: Path) -> list[str]:
    """Writes a page for each public name and command, and one for each group."""
    directory = pages / "reference"
    directory.mkdir(parents=True)
    navigation = ["- reference/index.md"]
    overview = ["# API reference", ""]
    groups = grouped_names()
    listed = [entry for entries in groups.values() for entry in entries]
    missing = set(public_names()) ^ set(listed)
    if missing or len(set(listed)) < len(listed):
        raise ValueError(f"reference.py must list each public name once: {sorted(missing)}")
    for title, entries in groups.items():
        group = title.lower()
        text, _ = GROUPS[title]
        table = ["| name | |", "|---|---|"]
        navigation += [f"- {title}:", f"    - reference/{group}.md"]
        for package, name in entries:
            page = f"{package}/{name}.md"
            summary = first_line(getattr(importlib.import_module(package), name))
            table.append(f"| [`{package}.{name}`]({page}) | {summary} |")
            navigation.append(f"    - {name}: reference/{page}")
            (directory / package).mkdir(exist_ok=True)
            (directory / page).write_text(
                f"---\ntitle: {name}\ndescription: {summary!r}\n---\n\n::: {package}.{name}\n"
                + inherited_methods(name)
                + picture(name),
                encoding="utf-8",
            )
        body = "\n".join([f"# {title}", "", text, "", *table, ""])
        (directory / f"{group}.md").write_text(body, encoding="utf-8")
        overview += [f"## [{title}]({group}.md)", "", text, "", *table, ""]
    commands = commands_reference.pages()
    navigation += ["- Commands:"]
    overview += ["## Commands", "", "| command | |", "|---|---|"]
    (directory / "commands").mkdir()
    for name, (summary, text) in commands.items():
        page = f"commands/{name.replace(' ', '-')}.md"
        navigation.append(f"    - {name}: reference/{page}")
        overview.append(f"| [`{name}`]({page}) | {summary} |")
        (directory / page).write_text(text, encoding="utf-8")
    (directory / "index.md").write_text("\n".join([*overview, ""]), encoding="utf-8")
    return navigation


def write_examples(pages: Path) -> list[str]:
    """Writes a page for each example program, with its code."""
    directory = pages / "examples"
    directory.mkdir(parents=True)
    navigation = ["- examples/index.md"]
    overview = ["# Examples", "", "Complete programs of at most 150 lines, each for itself."]
    overview += ["`keras-attn examples DIR` copies them from the installed package.", ""]
    overview += ["| program | |", "|---|---|"]
    for path in sorted((ROOT / "examples").glob("*.py")):
        code = path.read_text(encoding="utf-8")
        summary = code.split('"""')[1].split("\n")[0]
        navigation.append(f"- {path.name}: examples/{path.stem}.md")
        overview.append(f"| [`{path.name}`]({path.stem}.md) | {summary} |")
        text = f"# {path.name}\n\n{summary}\n\n```python\n{code}```\n"
        (directory / f"{path.stem}.md").write_text(text, encoding="utf-8")
    (directory / "index.md").write_text("\n".join([*overview, ""]), encoding="utf-8")
    return navigation


def first_line(value: object) -> str:
    return (inspect.getdoc(value) or "").split("\n")[0]


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main()
