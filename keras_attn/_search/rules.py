"""Rules in a search: inputs, states, and the calls at a step."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from keras import ops, tree

from keras_attn._backend.gather import repeat_rows
from keras_attn._decoders.log_probs import IMPOSSIBLE
from keras_attn._layer.argument_checks import known_values
from keras_attn._search.logits_rule import LogitsRule, RuleInput
from keras_attn._search.rows_or_one import check_rows_or_one
from keras_attn._types import Tensor, TensorDict
from keras_attn_checks.number_types import is_integer

STATES, INPUTS = "rule_states", "rule_inputs"
"""Carry entries: the states by the index of the rule, and the inputs by name."""


def check_rules(rules: Iterable[Any]) -> list[LogitsRule]:
    """Returns rules as a list; raises a `ValueError` for other objects."""
    rules = list(rules)
    wrong = [rule for rule in rules if not isinstance(rule, LogitsRule)]
    if wrong:
        raise ValueError(
            "Expected rules to be a list of LogitsRule. Received: an item of type "
            f"{type(wrong[0]).__name__}. Pass layers, not classes or functions."
        )
    return rules


def rule_inputs(rules: Sequence[LogitsRule]) -> dict[str, RuleInput]:
    """Returns all rule inputs by name. Equal names must be equal inputs."""
    inputs: dict[str, RuleInput] = {}
    for rule in rules:
        for name, each in rule.call_inputs.items():
            if inputs.setdefault(name, each) is not each:
                raise ValueError(
                    "Expected rules whose call_inputs have different names. Received: two inputs "
                    f"{name!r}. Rename one of them, or use the same RuleInput in both."
                )
    return inputs


def read_rule_inputs(
    rules: Sequence[LogitsRule], given: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Returns arrays for rule inputs: scalars, or one row for all batch entries.

    Args:
        rules: List of `LogitsRule`.
        given: Dict from names to numbers, or arrays without a batch axis.

    Raises:
        ValueError: If a name is unknown, or a value has another shape than the input.
    """
    if not isinstance(given, Mapping):
        raise ValueError(
            "Expected rule_inputs to be a dict from names to numbers or arrays. Received: "
            f"rule_inputs of type {type(given).__name__}."
        )
    declared = _declared(rules, given)
    return {name: _read(name, value, declared[name]) for name, value in given.items()}


def _read(name, value, declared):
    """Returns the array of an input: a scalar, or one row."""
    shape = () if declared.shape == "scalar" else tuple(declared.shape)
    try:
        array = np.asarray(value)
        with np.errstate(all="ignore"):  # values that do not fit are errors
            converted = array.astype(declared.dtype)
            is_exact = declared.dtype == "float32" or bool((converted == array).all())
        is_valid = array.dtype != bool and bool(np.isfinite(converted).all()) and is_exact
    except (OverflowError, TypeError, ValueError):
        array = converted = np.zeros(())
        is_valid = False
    fits = len(array.shape) == len(shape) and all(
        size in (None, other) for size, other in zip(shape, array.shape, strict=True)
    )
    if not (is_valid and fits):
        raise ValueError(
            f"Expected rule_inputs[{name!r}] of the shape {shape} with finite {declared.dtype} "
            f"numbers. Received: {value!r}."
        )
    return converted if declared.shape == "scalar" else converted[None]


def start_rules(
    rules: Sequence[LogitsRule],
    given: Mapping[str, Any],
    max_lengths: Tensor,
    width: int | Tensor,
) -> TensorDict:
    """Returns the carry entries that rules need.

    Args:
        rules: List of `LogitsRule`.
        given: Dict from input names to values.
        max_lengths: Int32 tensor of shape `(batch,)`.
        width: Int or scalar int32 tensor, number of hypotheses per batch entry.

    Raises:
        ValueError: If a name is unknown, or a value has another shape than the input.
    """
    declared = _declared(rules, given)
    inputs = {
        name: _value(name, each, given.get(name), max_lengths) for name, each in declared.items()
    }
    batch = ops.shape(max_lengths)[0]
    states = {
        str(index): tree.map_structure(
            lambda leaf: repeat_rows(ops.convert_to_tensor(leaf), width),
            rule.initial_state(batch, {name: inputs[name] for name in rule.call_inputs}),
        )
        for index, rule in enumerate(rules)
    }
    return {STATES: states, INPUTS: inputs}


def apply_rules(
    rules: Sequence[LogitsRule],
    carry: TensorDict,
    log_probs: Tensor,
    token_ids: Tensor,
    width: int | Tensor,
) -> tuple[Tensor, TensorDict]:
    """Calls all rules in order.

    Args:
        rules: List of `LogitsRule`.
        carry: Carry of the search.
        log_probs: Float32 tensor of shape `(batch * hypotheses, V)`.
        token_ids: Int32 tensor of shape `(batch, hypotheses, columns)`.
        width: Int or scalar int32 tensor, number of hypotheses per batch entry.

    Returns:
        Tuple of the new log probabilities and the new states.
    """
    states = {}
    for index, rule in enumerate(rules):
        inputs = {name: carry[INPUTS][name] for name in rule.call_inputs}
        inputs = {
            name: repeat_rows(value, width) if len(value.shape) else value
            for name, value in inputs.items()
        }
        state = carry[STATES][str(index)]
        result = rule(log_probs, token_ids, carry["step"], state, inputs)
        log_probs, states[str(index)] = _checked(rule, result, (log_probs, state))
    return ops.maximum(log_probs, IMPOSSIBLE), states


def _checked(rule, result, previous):
    """Returns a rule's result with the static shapes that it had before."""
    try:
        tree.assert_same_structure(result, previous)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Expected {type(rule).__name__}.call to return a tuple of log_probs and a state with "
            "the structure of initial_state. Received: a result with another structure. Return "
            "(log_probs, state)."
        ) from error
    return tree.map_structure(_like, result, previous)


def _like(new, old):
    """Returns a tensor with another tensor's dtype and, if it is known, static shape."""
    new, shape = ops.cast(new, old.dtype), tuple(old.shape)
    is_known = None not in shape and all(is_integer(size) for size in shape)
    return ops.reshape(new, shape) if is_known and tuple(new.shape) != shape else new


def _declared(rules, names):
    """Returns all rule inputs; raises a `ValueError` for other names."""
    declared = rule_inputs(rules)
    unknown = sorted(set(names) - set(declared))
    if unknown:
        raise ValueError(
            f"Expected rule_inputs out of {list(declared)}, the inputs of the rules. Received: "
            f"{unknown}. Add a rule with this input to the rules of the search."
        )
    return declared


def _value(name, declared, given, max_lengths):
    """Returns the value of an input: a scalar, or `(batch, *shape)`."""
    value = ops.convert_to_tensor(declared.default_array if given is None else given)
    known = known_values(value)
    if known is not None and not np.isfinite(known).all():
        raise ValueError(
            f"Expected finite numbers for the rule input {name!r}. Received: a value with NaN or "
            "infinity. Use -1e9 for impossible tokens."
        )
    value = ops.cast(value, declared.dtype)
    if declared.shape == "scalar":
        if len(value.shape):
            raise ValueError(
                f"Expected a scalar for the rule input {name!r}. Received: a value with the shape "
                f"{tuple(value.shape)}. Pass one number for all batch entries."
            )
        return value
    axes = tuple(str(size) for size in declared.shape)
    shape = tuple(value.shape)
    sizes = zip(declared.shape, shape[1:], strict=False)
    if len(shape) != 1 + len(axes) or any(
        size is not None and other is not None and size != other for size, other in sizes
    ):
        raise ValueError(
            f"Expected the rule input {name!r} with the shape (batch, {', '.join(axes)}). "
            f"Received: a value with the shape {shape}. Pass an array with a batch axis."
        )
    check_rows_or_one(name, axes, value, max_lengths)
    rows = ops.cast(ops.reshape(ops.zeros_like(max_lengths), (-1, *[1] * len(axes))), value.dtype)
    return value + rows
