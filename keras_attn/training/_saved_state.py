"""Contents of the saved state of a training, and checks before it is restored."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NotRequired, TypedDict

import keras
import numpy as np

from keras_attn._types import TensorDict
from keras_attn.training._fingerprint_differences import (
    differences_in_one_line,
    fingerprint_differences,
)
from keras_attn.training._step_batches import OnMismatch


class EpochBeginState(TypedDict):
    """What callbacks see when an epoch begins."""

    scalars: list[bool | int | float]  # values of scalar variables, such as the learning rate
    callbacks: list[TensorDict]
    random: TensorDict


class SavedFacts(TypedDict):
    """Metadata of a saved state. States from earlier versions may lack `NotRequired` keys."""

    step: int  # since the beginning of the training
    steps_per_epoch: int
    epochs: NotRequired[int]  # total number
    stopped: bool  # by a callback
    history: dict[str, list[float]]  # logs of the finished epochs
    fingerprint: NotRequired[TensorDict]
    callback_keys: NotRequired[list[str]]  # see `state_key`
    callback_names: NotRequired[list[str]]  # class names, only in earlier versions
    callbacks: list[TensorDict]
    data: NotRequired[list[TensorDict]]  # states of the training and validation data
    unsaved_attributes: NotRequired[list[str]]  # names of changed attributes
    trained_layers: NotRequired[list[str]]  # names of what a callback froze or unfroze
    random: NotRequired[TensorDict]  # see `get_random_state`
    metrics: NotRequired[list[np.ndarray] | None]  # variables, within an epoch
    epoch_begin: NotRequired[EpochBeginState | None]  # within an epoch


def check_variables(
    path: Path, variables: Sequence[keras.Variable], arrays: Sequence[np.ndarray]
) -> None:
    """Raises a `ValueError` if the saved arrays do not have the shapes of the variables."""

    def check(name: str, expected: object, received: object) -> None:
        if expected != received:
            raise ValueError(
                f"Expected a checkpoint of this model and optimizer, with {name} {expected}. "
                f"Received: {str(path)!r}, with {name} {received}. Use a different directory, or "
                "delete the file."
            )

    check("the number of variables", len(variables), len(arrays))
    for variable, array in zip(variables, arrays, strict=True):
        name = getattr(variable, "path", variable.name)  # a `tf.Variable` has no path
        check(f"the shape of {name}", tuple(variable.shape), array.shape)


def check_fingerprint(
    path: Path,
    facts: SavedFacts,
    fingerprint: TensorDict,
    steps_per_epoch: int,
    on_mismatch: OnMismatch,
) -> None:
    """Raises an error or warns if the training differs from the saved training."""
    differences = []
    if facts["steps_per_epoch"] != steps_per_epoch:
        saved_steps = facts["steps_per_epoch"]
        differences.append(f"data.steps_per_epoch: saved {saved_steps}, now {steps_per_epoch}")
    saved = facts.get("fingerprint")
    if saved is not None:
        changes = fingerprint_differences(saved, fingerprint)
        differences += [change for change in changes if change not in differences]
    if differences:
        message = (
            "Expected the model, optimizer, loss and data of the saved state. Received: "
            f"{differences_in_one_line(differences)}, in {str(path)!r}. "
        )
        if on_mismatch == "error":
            raise ValueError(
                f"{message}Use a different directory, delete this one to start again, or accept "
                'the change with on_mismatch="warn".'
            )
        warnings.warn(
            f'{message}The training continues because of on_mismatch="warn".', stacklevel=7
        )
    if saved is None:
        warnings.warn(
            f"Expected a saved state with a fingerprint. Received: {str(path)!r} of an earlier "
            "version. Check that model, optimizer, loss and data have not changed.",
            stacklevel=7,
        )


def check_completeness(
    path: Path, facts: SavedFacts, objects: Sequence[object], epochs: int
) -> None:
    """Warns or raises an error if attributes of `objects` or changed layers are not saved."""
    changed = facts.get("trained_layers")
    if changed and facts["step"] < epochs * facts["steps_per_epoch"]:
        raise ValueError(
            "Expected a training without callbacks that compile the model or set layer.trainable. "
            f"Received: {str(path)!r}, saved after changes of {', '.join(changed)}. Call fit once "
            "for each phase, with its own directory."
        )
    classes = {type(user_object).__name__ for user_object in objects}
    attributes = facts.get("unsaved_attributes", ())
    lost = [attribute for attribute in attributes if attribute.split(".")[0] in classes]
    if lost:
        warnings.warn(
            "Expected callbacks, models, layers, metrics and losses whose state is saved. "
            f"Received: changed attributes {', '.join(lost)}, which begin again. Write the methods "
            "get_state() and set_state(state) of a callback, and use variables (`add_weight`) in "
            "the other objects.",
            stacklevel=7,
        )
    if "random" not in facts:
        warnings.warn(
            f"Expected a complete saved state. Received: {str(path)!r} of an earlier version, "
            "without the states of Keras' callbacks, the global random generators and the metrics "
            "of an interrupted epoch. They begin again.",
            stacklevel=7,
        )
