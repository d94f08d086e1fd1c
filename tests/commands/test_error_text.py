from pathlib import Path

import pytest

from keras_attn_commands import convert, export
from keras_attn_commands.option_names import name_options


@pytest.mark.parametrize(
    "message, expected",
    [
        ("Export it with precision='float32'.", "Export it with --precision float32."),
        (
            "Expected precision to be one of ['a']. Received: precision='b'.",
            "Expected --precision to be one of ['a']. Received: --precision b.",
        ),
        (
            "Expected batch_size to be a positive int. Received: batch_size=0. A file",
            "Expected --batch-size to be a positive int. Received: --batch-size 0. A file",
        ),
        (
            "Received: max_source_characters=40000. For longer texts",
            "Received: --max-source-characters 40000. For longer texts",
        ),
        (
            "Expected sample_inputs, because. Received: sample_inputs=None. Pass a dict",
            "Expected --sample, because. Received: no --sample. Pass a dict",
        ),
        ("Received: path='a, b.onnx', a file.", "Received: OUT='a, b.onnx', a file."),
        ("Received: path='in.txt', line 3", "Received: --sentences in.txt, line 3"),
        ("Received: path='other', a file.", "Received: path='other', a file."),
        (
            "data/batch_size of own.yml or batch_size=.",
            "data/batch_size of own.yml or batch_size=.",
        ),
        (
            "or pass --precision int8. The precision is",
            "or pass --precision int8. The precision is",
        ),
        ("Expected a path in", "Expected a path in"),
    ],
)
def test_names_of_arguments_become_those_of_options(message, expected):
    paths = {"OUT": Path("a, b.onnx"), "--sentences": Path("in.txt"), "RUN": None}
    assert name_options(message, export.ARGUMENTS, paths) == expected


@pytest.mark.parametrize("command", [convert, export])
def test_options_of_the_table_exist(command):
    import argparse

    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    names = {each.metavar for each in parser._actions if not each.option_strings}
    names |= set(parser._option_string_actions)
    assert set(command.ARGUMENTS.values()) <= names
