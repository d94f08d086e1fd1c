"""Checks of `keras-attn convert` before it imports Keras."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from keras_attn_checks.checkpoint_folder import folder_problem, is_opennmt_checkpoint
from keras_attn_checks.installed import require_originals
from keras_attn_checks.model_types import checkpoint_type_problem
from keras_attn_checks.output_path import check_output_path
from keras_attn_checks.path_kind import CONFIG
from keras_attn_checks.separate_paths import require_separate_paths
from keras_attn_commands.existing_paths import require_file


def check_conversion(arguments: argparse.Namespace, opennmt_options: Sequence[str]) -> bool:
    """Checks the paths and the options of the command.

    Args:
        arguments: Arguments of the command.
        opennmt_options: Names of the arguments that apply only to checkpoints of OpenNMT-tf.

    Returns:
        Bool, whether the folder is a checkpoint of OpenNMT-tf.

    Raises:
        OSError: If a path does not exist or must not be replaced.
        ValueError: If the folder is not a checkpoint, if its model cannot be converted, or if an
            option does not apply to it.
        ImportError: If a library that an option needs is not installed.
    """
    folder = arguments.folder
    is_opennmt = not (folder / CONFIG).is_file() and is_opennmt_checkpoint(folder)
    values = {f"--{name.replace('_', '-')}": getattr(arguments, name) for name in opennmt_options}
    given = {option: value for option, value in values.items() if value is not None}
    if is_opennmt:
        if arguments.verify:
            raise ValueError(
                "Expected a checkpoint of transformers with --verify. Received: "
                f"{str(folder)!r}, a checkpoint of OpenNMT-tf. Omit --verify."
            )
        if arguments.setting:
            raise ValueError(
                "Expected a checkpoint of transformers with --setting. Received: "
                f"{str(folder)!r}, a checkpoint of OpenNMT-tf. Change the file of --config."
            )
        if arguments.parse_special_tokens:
            raise ValueError(
                "Expected a checkpoint of transformers with --parse-special-tokens. Received: "
                f"{str(folder)!r}, a checkpoint of OpenNMT-tf. Omit --parse-special-tokens."
            )
        for option, value in given.items():
            if option != "--model-type" or value.endswith(".py"):
                require_file(option, Path(value))
    else:
        problem = folder_problem(folder)
        if problem is not None:
            raise ValueError(problem)
    if given and not is_opennmt:
        option = next(iter(given))
        raise ValueError(
            f"Expected a checkpoint of OpenNMT-tf with {option}. Received: {str(folder)!r}, "
            f"which has no TensorFlow checkpoint. Omit {option}, or check the path."
        )
    if arguments.verify:
        require_originals()
    inputs = {"FOLDER": folder if folder.is_dir() else folder.with_name(f"{folder.name}.index")}
    inputs |= {option: Path(value) for option, value in given.items()}
    require_separate_paths({"RUN": arguments.out}, inputs)
    check_output_path(arguments.out, is_file=False)
    problem = None if is_opennmt else checkpoint_type_problem(folder)
    if problem is not None:
        raise ValueError(problem)
    return is_opennmt
