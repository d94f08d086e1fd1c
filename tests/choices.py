"""Finds the values of all choices: arguments of public objects, and options of the commands."""

import argparse
import importlib
import inspect
import re

from tests.test_docstrings import OPTIONAL_PACKAGES, PACKAGES

RUNTIME = "keras_attn_runtime"

_SECTION = re.compile(r"(\S[^:]*):$")
_ENTRY = re.compile(r" {4}(\*{0,2}\w[\w, *]*): (.*)")
_VALUE = re.compile(r'`"([^"`]*)"`')


def public_objects():
    """Yields pairs of a name, such as `keras_attn.text.bleu`, and a public object, each once."""
    seen = set()
    for package in (*PACKAGES, *OPTIONAL_PACKAGES, RUNTIME):
        module = importlib.import_module(package)
        for name in sorted(module.__all__):
            value = getattr(module, name)
            if callable(value) and id(value) not in seen:
                seen.add(id(value))
                yield f"{package}.{name}", value


def argument_choices():
    """Dict from (name of a class, method or function, argument) to the values of the argument.

    An argument has a choice if its docstring names at least two strings, or its annotation is a
    `Literal`.
    """
    return {
        (owner, argument): values
        for name, value in public_objects()
        for owner, function in _documented(name, value)
        for argument, values in _values(function).items()
        if len(values) > 1
    }


def command_choices():
    """Dict from (command, option) to the values of the option."""
    return {names: values for names, (values, _) in _options().items()}


def command_defaults():
    """Dict from (command, option) to the default of the option."""
    return {names: default for names, (_, default) in _options().items()}


def _options():
    found = {}
    for program in ("keras_attn_commands.main", "keras_attn_runtime._commands.main"):
        _add_options(importlib.import_module(program).build_parser(), found)
    return found


def _documented(name, value):
    """Yields pairs of a name and a class or function: the object and its public methods."""
    yield name, value
    for method, function in vars(value).items() if inspect.isclass(value) else ():
        function = getattr(function, "__func__", function)  # of a class method
        if not method.startswith("_") and inspect.isfunction(function):
            yield f"{name}.{method}", function


def _values(function):
    """Dict from arguments to the strings in their docstrings and their annotations."""
    texts, argument, section = {}, None, None
    for line in inspect.cleandoc(function.__doc__ or "").splitlines():
        if match := _SECTION.match(line):
            section = match[1]
        elif section in ("Args", "Call arguments"):
            if match := _ENTRY.match(line):
                argument = match[1]
                texts[argument] = match[2]
            elif argument:
                texts[argument] += f" {line.strip()}"
    found = {argument: _VALUE.findall(text) for argument, text in texts.items()}
    for argument, parameter in _parameters(function).items():
        for values in re.findall(r"Literal\[([^\]]*)\]", str(parameter.annotation)):
            found.setdefault(argument, []).extend(re.findall(r"[\"']([^\"']*)[\"']", values))
    return {argument: tuple(dict.fromkeys(values)) for argument, values in found.items()}


def _parameters(function):
    try:
        return inspect.signature(function).parameters
    except ValueError:  # built in
        return {}


def _add_options(parser, found):
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            if action.metavar != "COMMAND":
                found[parser.prog, action.metavar] = tuple(action.choices), None
            for command in action.choices.values():
                _add_options(command, found)
        elif action.help == argparse.SUPPRESS:
            continue
        elif action.choices:
            option = action.option_strings[-1] if action.option_strings else action.metavar
            found[parser.prog, option] = tuple(map(str, action.choices)), action.default
        elif isinstance(action, argparse.BooleanOptionalAction):
            found[parser.prog, action.option_strings[0]] = tuple(action.option_strings), None
