"""Pages of the command lines, made from their parsers."""

import argparse
from collections.abc import Iterator

from keras_attn_runtime._commands.main import build_parser as build_runtime_parser

from keras_attn_commands.main import build_parser


def pages() -> dict[str, tuple[str, str]]:
    """Returns the summary and the Markdown text of each command."""
    found = {}
    for parser in (build_parser(), build_runtime_parser()):
        for name, summary, command in commands(parser):
            found[name] = (summary, page(name, command))
    return found


def commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Yields name, summary and parser of each command that has no further commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {each.dest: each.help or "" for each in action._choices_actions}
            for name, command in action.choices.items():
                inner = list(commands(command))
                if inner:
                    yield from inner
                else:
                    yield command.prog, sentence(helps.get(name, "")), command


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


def page(name: str, parser: argparse.ArgumentParser) -> str:
    parts = [f"# {name}", "", parser.description or "", ""]
    usage = parser.format_usage().removeprefix("usage: ").rstrip()
    parts += ["```text", usage, "```", ""]
    for group in parser._action_groups:
        actions = [each for each in group._group_actions if each.help is not argparse.SUPPRESS]
        if not actions:
            continue
        parts += [f"## {(group.title or 'Options').capitalize()}", "", "| | |", "|---|---|"]
        for action in actions:
            names = ", ".join(f"`{each}`" for each in action.option_strings)
            value = parser._get_formatter()._format_args(action, action.dest)
            argument = f" `{value}`" if action.nargs != 0 and value else ""
            text = (action.help or "") % vars_of(action, parser)
            cells = (f"{names}{argument}".strip(), " ".join(text.split()))
            parts.append("| " + " | ".join(each.replace("|", "\\|") for each in cells) + " |")
        parts.append("")
    if parser.epilog:
        parts += [parser.epilog, ""]
    return "\n".join(parts)


def vars_of(action: argparse.Action, parser: argparse.ArgumentParser) -> dict[str, object]:
    return {**vars(action), "prog": parser.prog}
