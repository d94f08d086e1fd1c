"""Griffe extension: shows docstrings and signatures as Python has them after the import.

Docstrings contain placeholders that are filled when the package is imported, and constructors take
options as `**options: Unpack[...]`. Reading the source alone would show neither. The section "Call
arguments" becomes a table like that of the arguments, with the types of `call`.
"""

import importlib
import inspect
import re
import typing
from collections.abc import Iterator
from typing import Any

import griffe

KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: griffe.ParameterKind.positional_only,
    inspect.Parameter.POSITIONAL_OR_KEYWORD: griffe.ParameterKind.positional_or_keyword,
    inspect.Parameter.VAR_POSITIONAL: griffe.ParameterKind.var_positional,
    inspect.Parameter.KEYWORD_ONLY: griffe.ParameterKind.keyword_only,
    inspect.Parameter.VAR_KEYWORD: griffe.ParameterKind.var_keyword,
}
ENTRY = re.compile(r"^    (\*{0,2}\w+(?:, \*{0,2}\w+)*): ", re.MULTILINE)


class ImportedDocstrings(griffe.Extension):
    """Replaces docstrings and parameters of all classes and functions by the imported ones."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        for item in list(items(pkg)):
            value = imported(item)
            if value is None:
                continue
            if item.is_class:
                show_class(item, value)
            else:
                show_parameters(item, value)
            if item.docstring is not None:
                text = one_name_an_entry(inspect.cleandoc(value.__doc__ or ""))
                text = headings(call_arguments(text, value))
                item.docstring.value = returned_tensors(text) if item.is_class else text


def items(parent: griffe.Object) -> Iterator[Any]:
    """Yields the classes, functions and methods of a package."""
    for member in parent.members.values():
        if member.is_alias:
            continue
        if member.is_class or (member.is_function and member.name != "__init__"):
            yield member
        if member.is_class or member.is_module:
            yield from items(member)


def imported(item: Any) -> Any:
    """Returns the Python object, or `None` if its module needs another package."""
    try:
        value: Any = importlib.import_module(item.module.path)
    except ImportError:
        return None
    for name in item.path.removeprefix(item.module.path + ".").split("."):
        value = inspect.getattr_static(value, name, None)
        value = getattr(value, "__func__", value)  # of class methods and static methods
    return value if inspect.isclass(value) or inspect.isfunction(value) else None


def show_class(item: griffe.Class, value: type) -> None:
    """Gives a class the parameters of its constructor, its own or an inherited one."""
    if item.docstring is None or "Args:" not in (value.__doc__ or ""):
        return
    if "__init__" not in item.members:
        item.set_member("__init__", griffe.Function("__init__", parent=item))
    show_parameters(item.members["__init__"], value)


def show_parameters(item: Any, value: Any) -> None:
    signature = signature_of(value)
    names = [parameter.name for parameter in item.parameters]
    own = ["self"] if names[:1] == ["self"] and "self" not in signature.parameters else []
    parameters = [item.parameters["self"]] if own else []
    arguments = [*signature.parameters.values(), *passed_on(value, signature)]
    for each in sorted(arguments, key=lambda each: each.kind):  # `**kwargs` is last
        parameters.append(
            griffe.Parameter(
                each.name,
                annotation=None if each.annotation is each.empty else type_text(each.annotation),
                kind=KINDS[each.kind],
                default=default_text(each),
            )
        )
    item.parameters = griffe.Parameters(*parameters)
    if signature.return_annotation not in (signature.empty, None) and not inspect.isclass(value):
        item.returns = type_text(signature.return_annotation)


def signature_of(value: Any) -> inspect.Signature:
    """Returns the signature, without parameters for an exception that has that of Python."""
    try:
        return inspect.signature(value)
    except ValueError:
        return inspect.Signature()


def passed_on(value: Any, signature: inspect.Signature) -> list[inspect.Parameter]:
    """Returns the documented arguments that `**kwargs` passes to the base classes."""
    inherited = {}
    for base in value.__mro__[1:-1] if inspect.isclass(value) else ():
        if base.__module__.startswith("keras_attn"):
            inherited = dict(signature_of(base).parameters) | inherited
    documented = ENTRY.findall(section(value.__doc__ or "", "Args"))
    names = [name for name in documented if name in inherited and name not in signature.parameters]
    return [inherited[name].replace(kind=inspect.Parameter.KEYWORD_ONLY) for name in names]


def section(docstring: str, title: str) -> str:
    found = re.search(rf"^{title}:\n((?:    .*\n|\n)*)", inspect.cleandoc(docstring) + "\n", re.M)
    return found[1] if found else ""


def one_name_an_entry(text: str) -> str:
    """Repeats the text of an entry such as `rows, columns: ...` for each of the names."""

    def entries(match: re.Match[str]) -> str:
        return "".join(f"    {name}: {match[2]}" for name in match[1].split(", "))

    pattern = r"^    (\w+(?:, \w+)+): (.*\n(?:     .*\n)*)"
    return re.sub(pattern, entries, text + "\n", flags=re.MULTILINE)


def type_text(annotation: Any) -> str:
    """Returns a type as it is written in code, without the names of modules."""
    if isinstance(annotation, str):
        text = annotation
    elif isinstance(annotation, type) and not typing.get_args(annotation):
        text = annotation.__qualname__
    else:
        text = re.sub(r"Optional\[(.*)\]$", r"\1 | None", str(annotation))
        text = re.sub(r"^typing\.Union\[(.*)\]$", lambda match: union(annotation), text)
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", text).replace("NoneType", "None")


def union(annotation: Any) -> str:
    return " | ".join(type_text(each) for each in typing.get_args(annotation))


def default_text(parameter: inspect.Parameter) -> str | None:
    """Returns the default as it is written in code, or `None` for a required parameter."""
    value = parameter.default
    if value is parameter.empty:
        return {parameter.VAR_POSITIONAL: "()", parameter.VAR_KEYWORD: "{}"}.get(parameter.kind)
    return value.__name__ if inspect.isclass(value) or inspect.isfunction(value) else repr(value)


def call_arguments(text: str, value: Any) -> str:
    """Turns the section "Call arguments" into one of parameters with types."""
    found = section(text, "Call arguments")
    if not found:
        return text
    parameters = inspect.signature(value.call).parameters if hasattr(value, "call") else {}

    def typed(entry: re.Match[str]) -> str:
        first = entry[1].split(", ")[0].lstrip("*")
        annotation = getattr(parameters.get(first), "annotation", Any)
        return f"    {entry[1]} ({type_text(annotation)}): "

    table = f"Other Parameters: Call arguments\n{ENTRY.sub(typed, found)}"
    return text.replace(f"Call arguments:\n{found}", table)


def headings(text: str) -> str:
    """Turns the sections "Masking" and "Example" into paragraphs with a heading."""
    text = paragraph(text + "\n", "Masking")
    text = re.sub(r"^Example:\n", "**Example**\n", text, flags=re.MULTILINE)
    return re.sub(r"^( *)>>> (?:.+\n)+", example, text, flags=re.MULTILINE)


def returned_tensors(text: str) -> str:
    """Turns what the call of a layer returns into a paragraph: a class has no returned type."""
    return paragraph(text, "Returns")


def paragraph(text: str, title: str) -> str:
    found = section(text, title)
    body = f"**{title}**\n\n{inspect.cleandoc(found)}\n\n"
    return text.replace(f"{title}:\n{found}", body) if found else text


def example(match: re.Match[str]) -> str:
    """Turns lines after prompts into code that can be copied, with the results as comments."""
    lines = []
    for line in match[0].rstrip().split("\n"):
        line = line.removeprefix(match[1])
        prompt = line[:4].rstrip() in (">>>", "...")
        lines.append(line[4:] if prompt else f"# {line}")
    return "\n".join(match[1] + line for line in ["```python", *lines, "```"]) + "\n"
