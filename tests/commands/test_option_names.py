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
        (
            "or pass --precision int8. The precision is",
            "or pass --precision int8. The precision is",
        ),
        ("Expected a path in", "Expected a path in"),
    ],
)
def test_names_of_arguments_become_those_of_options(message, expected):
    assert name_options(message, export.ARGUMENTS) == expected


@pytest.mark.parametrize("command", [convert, export])
def test_options_of_the_table_exist(command):
    import argparse

    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    names = {each.metavar for each in parser._actions if not each.option_strings}
    names |= set(parser._option_string_actions)
    assert set(command.ARGUMENTS.values()) <= names
