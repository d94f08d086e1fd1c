"""Wrong values for the arguments of a callable, by the types in its docstring."""

import inspect
import re

NAN, INFINITY = float("nan"), float("inf")

WRONG = {
    "Positive int": [0, -1, 1.5, "2", True, NAN, INFINITY],
    "Int of at least 2": [1, 1.5, "2", True, NAN],
    "Int >= 0": [-1, 1.5, "2", True, NAN],
    "Int": [1.5, "2", True, NAN],
    "Positive float": [0.0, -1.0, "1", NAN, INFINITY],
    "Non-negative float": [-1.0, "1", NAN, INFINITY],
    "Float in [0, 1)": [-0.1, 1.0, "0.1", NAN, INFINITY],
    "Float in [0, 1]": [-0.1, 1.1, "0.1", NAN, INFINITY],
    "Float": ["1", NAN, INFINITY],
    "List of strings": ["a", [1], ["a", "a"]],
}
"""Wrong values by the beginning of the description of an argument."""

TOKEN_ID = [-1, 0.5, "0", True, NAN]


def documented_arguments(function):
    """Dict from the names of the arguments in a docstring to their descriptions."""
    found = re.search(r"\n *Args:\n(.*?)(\n\n|\Z)", inspect.getdoc(function) or "", re.DOTALL)
    arguments = {}
    if found:
        for names, text in re.findall(r"^    ([\w, ]+): (.*(?:\n {8}.*)*)", found[1], re.MULTILINE):
            arguments |= dict.fromkeys(names.split(", "), " ".join(text.split()))
    return arguments


def wrong_values(function, name, description):
    """Values that an argument must refuse."""
    kinds = [kind for kind in WRONG if description.startswith((f"{kind},", f"{kind}.", f"{kind} "))]
    is_id = name.endswith("token_id") and "label" not in description  # labels may be negative
    values = TOKEN_ID if is_id else WRONG[max(kinds, key=len)] if kinds else []
    parameter = inspect.signature(function).parameters.get(name)
    may_be_none = "`None`" in description or (parameter and parameter.default is None)
    return values if may_be_none or not values else [*values, None]


def accepted_values(function, call, known=None):
    """Lists the wrong values that a callable accepts, or refuses with another error.

    Args:
        function: callable with a docstring.
        call: function of the name and the value of one argument, which calls the callable.
        known: container with the names of the arguments to try. Defaults to None: all.

    Returns:
        List of strings.
    """
    wrong = []
    for name, description in documented_arguments(function).items():
        is_tried = known is None or name in known
        for value in wrong_values(function, name, description) if is_tried else ():
            try:
                call(name, value)
                result = "accepted"
            except Exception as error:
                text = str(error)
                if isinstance(error, ValueError | TypeError) and "Expected" in text:
                    continue
                result = f"{type(error).__name__}: {text[:60]!r}"
            wrong.append(f"{name}={value!r} ({description[:30]}): {result}")
    return wrong
