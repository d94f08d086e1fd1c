"""Exports every operation of `keras.ops` and layer of `keras.layers`, and compares it with Keras.

    export TF_ENABLE_ONEDNN_OPTS=0
    python -m tests.export.sweep_keras_operations            # writes docs/exported_operations.md
    python -m tests.export.sweep_keras_operations ops.sort   # prints the results of these names

oneDNN is disabled because its operators, which TensorFlow selects by the processor, give other
results for infinities (softmax).

Each case becomes a functional model, which `export_functional_onnx` converts. If the export writes
a file, ONNX Runtime runs it on the sample and at other sets of sizes. Values, dtypes and shapes
must be those of Keras. `sweep_special_values` compares special values. The same model is exported
with Keras' own `model.export(format="onnx")` for comparison.
"""

import argparse
import collections
import contextlib
import dataclasses
import io
import json
import logging
import re
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np

from keras_attn.export import ExportError, export_functional_onnx
from keras_attn.export._trace import conversion
from tests.export import layer_cases
from tests.export.operation_cases import CASES, NOT_IN_A_MODEL, Case

TABLE = Path(__file__).parents[2] / "docs" / "exported_operations.md"
SIZES = ((2, 5), (3, 7))
"""Two sets of sizes of dynamic axes: of the first axis, and of the other axes."""
TOLERANCE = {"float16": 4e-3, "float32": 2e-5, "float64": 2e-5}


class Operation(keras.layers.Layer):
    """A function as a layer."""

    def __init__(self, function, **options):
        super().__init__(**options)
        self.function = function

    def call(self, *tensors):
        return self.function(*tensors)


@dataclass
class Result:
    """Result of a case.

    Attributes:
        status: "exported", "rewritten" if a handler of this project was needed, "refused", "wrong",
            or "not in Keras" if Keras itself cannot make the model.
        message: reason.
        is_fixed: whether Keras cannot trace dynamic sizes, so that the file has fixed ones.
        keras: status of Keras' own export.
    """

    status: str = ""
    message: str = ""
    is_fixed: bool = False
    keras: str = ""


def model_of(case):
    """Returns a functional model of a case."""
    inputs = [
        keras.Input(each.shape[1:], batch_size=each.shape[0], dtype=each.dtype, name=f"in{index}")
        for index, each in enumerate(case.inputs)
    ]
    leaves = keras.tree.flatten(case.function(*inputs) if case.is_joined else called(case, inputs))
    return keras.Model(inputs, {f"out{index:03}": each for index, each in enumerate(leaves)})


def of_fixed_sizes(case):
    """Returns the case without dynamic axes."""
    inputs = [
        dataclasses.replace(
            each,
            shape=tuple(
                SIZES[0][min(axis, 1)] if size is None else size
                for axis, size in enumerate(each.shape)
            ),
        )
        for each in case.inputs
    ]
    return dataclasses.replace(case, inputs=tuple(inputs))


def called(case, inputs):
    """Returns the outputs of a case for the inputs of a functional model."""
    make = getattr(case.function, "make", None)
    if make is None:
        return Operation(case.function)(*inputs)
    keras.utils.set_random_seed(0)
    call = case.function.call or (lambda made, *tensors: made(*tensors))
    return call(make(), *inputs)


def draw(values, sizes, kind, rng):
    """Draws an array for an input.

    Args:
        values: a `Values`.
        sizes: size of the first axis and of the other axes, if they are dynamic.
        kind: "normal", "empty batch" or "empty time".
        rng: NumPy generator.
    """
    shape = [
        size if size is not None else sizes[0] if axis == 0 else sizes[1]
        for axis, size in enumerate(values.shape)
    ]
    if kind == "empty batch" and values.shape[0] is None:
        shape[0] = 0
    if kind == "empty time":
        shape = [
            0 if axis and size is None else have
            for axis, (size, have) in enumerate(zip(values.shape, shape, strict=True))
        ]
    name, dtype = values.draw, np.dtype(values.dtype if values.dtype != "string" else object)
    if name == "string":
        return rng.choice(np.array(["a", "b", "c"], object), shape)
    if name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if name.endswith(" ids"):
        return rng.integers(0, int(name.split()[0]), shape).astype(dtype)
    if name == "distinct":
        return rng.permutation(6)[: np.prod(shape)].reshape(shape).astype(dtype)
    if name == "shift":
        return rng.integers(0, 7, shape).astype(dtype)
    if dtype.kind in "iu":
        return _integers(name, dtype, shape, rng)
    usual = rng.normal(size=shape)
    if name == "positive":
        usual = np.exp(usual)
    elif name == "unit":
        usual = rng.uniform(-0.9, 0.9, shape)
    elif name == "above one":
        usual = 1 + np.exp(usual)
    elif name == "byte":
        usual = rng.integers(0, 256, shape)
    elif name == "nonzero":
        usual = np.sign(usual) * (0.3 + np.abs(usual))
    else:
        usual = usual * 2
    return usual.astype(dtype)


def _integers(name, dtype, shape, rng):
    if name == "nonzero":
        drawn = rng.integers(1, 6, shape)
        return (drawn * (1 if dtype.kind == "u" else rng.choice([-1, 1], shape))).astype(dtype)
    low = 0 if name == "natural" or dtype.kind == "u" else -9
    return rng.integers(low, 10, shape).astype(dtype)


def differs(expected, found):
    """Returns the difference of two arrays as a string, or `None` if they are equal."""
    if expected.dtype != found.dtype:
        return f"dtype {found.dtype} instead of {expected.dtype}"
    if expected.shape != found.shape:
        return f"shape {found.shape} instead of {expected.shape}"
    if expected.dtype.kind in "biu":
        wrong = expected != found
    else:
        first, second = expected.astype("float64"), found.astype("float64")
        with np.errstate(all="ignore"):
            tolerance = TOLERANCE[expected.dtype.name] * np.maximum(1, np.abs(first))
            close = (np.abs(first - second) <= tolerance) & np.isfinite(first)
        wrong = ~(close | (first == second) | (np.isnan(first) & np.isnan(second)))
    if not wrong.any():
        return None
    index = tuple(np.argwhere(wrong)[0]) if wrong.ndim else ()
    return f"{found[index]} instead of {expected[index]} ({int(wrong.sum())} of {wrong.size})"


def runner(path):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session


def compare(model, session, arrays, by_position=False):
    """Returns how a file differs from Keras, `None` if it is equal, or "Keras fails"."""
    try:
        expected = {
            name: np.asarray(value) for name, value in model(arrays, training=False).items()
        }
    except Exception:
        return "Keras fails"
    inputs = session.get_inputs()
    if by_position:
        names = {re.sub(r"\D", "", each.name): each.name for each in inputs}
        feeds = {names[str(i)]: a for i, a in enumerate(arrays) if str(i) in names}
        wanted = list(expected)  # sorted by name, as TensorFlow does
    else:
        feeds = {each.name: arrays[int(each.name[2:])] for each in inputs}
        wanted = [each.name for each in session.get_outputs()]
    try:
        found = dict(zip(wanted, session.run(None, feeds), strict=True))
    except Exception as error:
        return f"ONNX Runtime fails: {str(error).splitlines()[0][-150:]}"
    for name, value in expected.items():
        difference = differs(value, found[name])
        if difference:
            return difference
    return None


def check_usual(model, case, session, by_position=False):
    """Returns how a file differs from Keras for usual values at three sets of sizes, or `None`."""
    rng = np.random.default_rng(7)
    for sizes in (*SIZES, (1, 4)):
        arrays = [draw(each, sizes, "normal", rng) for each in case.inputs]
        difference = compare(model, session, arrays, by_position)
        if difference == "Keras fails" and sizes == SIZES[0]:
            return f"Keras fails at sizes {sizes}"
        if difference not in (None, "Keras fails"):
            return f"{difference} at sizes {sizes}"
    return None


@contextlib.contextmanager
def used_handlers():
    """Collects the names of the handlers of this project that are used."""
    used, before = set(), dict(conversion.HANDLERS)

    def recording(name, function):
        def handler(graph, node, *others):
            used.add(name)
            return function(graph, node, *others)

        return handler

    conversion.HANDLERS.update(
        {name: (recording(name, f), args) for name, (f, args) in before.items()}
    )
    try:
        yield used
    finally:
        conversion.HANDLERS.update(before)


def ours(case, folder):
    result, is_fixed = Result(), False
    try:
        model = model_of(case)
    except Exception:
        case, is_fixed = of_fixed_sizes(case), True
        try:
            model = model_of(case)
        except Exception as error:
            return Result("not in Keras", short(error))
    sample = [draw(each, SIZES[0], "normal", np.random.default_rng(1)) for each in case.inputs]
    try:
        model(sample, training=False)
    except Exception as error:
        return Result("not in Keras", short(error))
    path = Path(folder) / "ours.onnx"
    path.unlink(missing_ok=True)
    with used_handlers() as used:
        try:
            export_functional_onnx(model, path, sample, tolerance=tolerance_of(model))
        except (ExportError, ValueError) as error:
            if "disagrees" in str(error):
                result.status = "caught"
            else:
                result.status = "refused"
            result.message = short(error)
            return result
        except Exception as error:
            result.status, result.message = "crashed", f"{type(error).__name__}: {short(error)}"
            return result
    session = runner(path)
    difference = check_usual(model, case, session)
    result.is_fixed = is_fixed
    result.status = "wrong" if difference else "rewritten" if used else "exported"
    result.message = difference or ", ".join(sorted(used))
    return result


def tolerance_of(model):
    half = any(
        "16" in keras.backend.standardize_dtype(each.dtype)
        for each in (*model.inputs, *model.outputs)
    )
    return TOLERANCE["float16"] if half else TOLERANCE["float32"]


def short(error):
    return re.sub(r"\x1b\[\d*m|\s+", " ", str(error)).strip()[:260]


def theirs(case, folder):
    """Returns the status of Keras' own export: right for usual values, wrong, or failing."""
    sample = [draw(each, SIZES[0], "normal", np.random.default_rng(1)) for each in case.inputs]
    try:
        model = model_of(case)
        model(sample, training=False)  # Keras exports only models that were called
    except Exception:
        return ""
    path = Path(folder) / "keras.onnx"
    path.unlink(missing_ok=True)
    logger = logging.getLogger("tf2onnx")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.export(str(path), format="onnx", verbose=False)
        difference = check_usual(model, case, runner(path), by_position=True)
        return f"wrong: {difference}" if difference else "right"
    except Exception as error:
        return f"fails: {short(error)[:80]}"
    finally:
        logger.setLevel(level)


def joined(cases):
    """Returns one case that combines several, each with its own inputs."""

    def function(*tensors):
        results, first = [], 0
        for case in cases:
            last = first + len(case.inputs)
            results.append(called(case, tensors[first:last]))
            first = last
        return results

    inputs = tuple(each for case in cases for each in case.inputs)
    return Case(function, inputs, hard=all(case.hard for case in cases), is_joined=True)


def sweep(names=(), say=print):
    """Exports the cases of the named operations, by default of all operations.

    Returns:
        Dictionary from each name to its list of pairs of a case and its `Result`.
    """
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names or CASES:
            cases = CASES[name]
            result = ours(joined(cases), folder) if len(cases) > 1 else None
            # Testing all cases at once is faster. If anything differs, test each case separately.
            is_done = result and result.status in ("exported", "rewritten")
            if is_done and not result.is_fixed:
                results[name] = [(case, dataclasses.replace(result)) for case in cases]
            else:
                results[name] = [(case, ours(case, folder)) for case in cases]
            for case, each in results[name]:
                say(name, f"[{case.label}]", each.status, each.message, each.is_fixed)
    return results


def add_keras(results, cache):
    """Adds the results of Keras' own export to the results of a sweep.

    Args:
        results: dict returned by `sweep`.
        cache: `Path` of a JSON file of earlier results, which do not depend on this project.
    """
    known = json.loads(cache.read_text()) if cache.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        for name, each in results.items():
            cases = [case for case, _ in each]
            if name not in known:
                all_right = len(cases) > 1 and theirs(joined(cases), folder) == "right"
                known[name] = {
                    case.label: "right" if all_right else theirs(case, folder) for case in cases
                }
                cache.write_text(json.dumps(known, indent=1))
                print(name, known[name], flush=True)
            for case, result in each:
                result.keras = known[name].get(case.label, "")


REASONS = (
    (r"Unsupported ops: Counter\(\{(.*?)\}\)", r"no conversion of \1"),
    (r"Received: a model with \[(.*?)\]", r"needs \1"),
    (r"Could not find an implementation for (\w+)", r"ONNX Runtime has no \1 of this dtype"),
    (r"Type 'tensor\((\w+)\)' of input parameter \(.*?\) of operator \((\w+)\)", r"no \2 of \1"),
    (r"Failed to convert node \S*?(\w+)'? \(fct=", r"no conversion of \1"),
    (r"Tensorflow op \[\S+: (\w+)\] is not supported", r"no conversion of \1"),
    (r"onnx.checker refuses the converted model", "the converted model is not valid"),
    (r"tf2onnx could not convert the model: (.*)", r"\1"),
)
"""Patterns of error messages, and their text in the table."""


def reason(message):
    for pattern, text in REASONS:
        found = re.search(pattern, message)
        if found:
            short_text = found.expand(text).replace("ai.onnx:", "").replace("'", "")
            return re.sub(r": \d+", "", short_text)[:90]
    return message[:90]


def row(name, results):
    """Returns a row of the table: name, result of our export, and of Keras' own."""
    groups = collections.defaultdict(list)
    for case, result in results:
        kind = "exported" if result.status == "rewritten" else result.status
        why = reason(result.message) if kind not in ("exported", "not in Keras") else ""
        groups[kind, why].append(case.label or "usual")
    done = [result for _, result in results if result.status in ("exported", "rewritten")]
    parts = []
    if done:
        parts.append("rewritten" if any(r.status == "rewritten" for r in done) else "exported")
    for (kind, why), labels in groups.items():
        if kind in ("exported", "not in Keras"):
            continue
        which = "" if len(labels) == len(results) else f" ({', '.join(labels)})"
        parts.append(f"{kind}{which}: {why}")
    if any(result.is_fixed for _, result in results):
        parts.append("dynamic sizes refused: Keras cannot trace them")
    theirs = collections.Counter(
        "right" if result.keras.startswith("right") else result.keras.split(":")[0]
        for _, result in results
        if result.keras
    )
    shown = ", ".join(
        kind if len(theirs) == 1 else f"{kind} {count}" for kind, count in theirs.items()
    )
    return name, "; ".join(parts) or "not in Keras", shown


def missing(results):
    """Returns the cases that only Keras' own export handles correctly."""
    return [
        (name, case.label, result.message)
        for name, each in results.items()
        for case, result in each
        if result.keras.startswith("right") and result.status not in ("exported", "rewritten")
    ]


def document(results):
    """Returns the page with the table."""
    rows = [row(name, results[name]) for name in sorted(results)]
    kinds = collections.Counter(re.split(r"[;:(]", each[1])[0].strip() for each in rows)
    cases = [result for each in results.values() for _, result in each]
    right = sum(result.keras.startswith("right") for result in cases)
    ours = sum(result.status in ("exported", "rewritten") for result in cases)
    known = sum(result.status != "not in Keras" for result in cases)
    lines = [
        *INTRODUCTION.format(
            operations=sum(each[0].startswith("ops.") for each in rows),
            layers=sum(each[0].startswith("layers.") for each in rows),
            cases=known,
            ours=ours,
            theirs=right,
            kinds=", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())),
            versions=", ".join(f"{name} {version(name)}" for name in PACKAGES),
        ).splitlines(),
        "",
        "| Operation | This export | Keras' own |",
        "|---|---|---|",
        *("| " + " | ".join(cell.replace("|", "/") for cell in each) + " |" for each in rows),
        "",
        "## Not part of an exported model",
        "",
        *(f"- `{name}`: {why}." for name, why in sorted(NOT_IN_A_MODEL.items())),
        *(
            f"- `layers.{alias}`: alias of `layers.{name}`."
            for alias, name in sorted(layer_cases.ALIASES.items())
        ),
    ]
    return "\n".join(lines) + "\n"


PACKAGES = ("keras", "tensorflow", "tf2onnx", "onnxruntime")

INTRODUCTION = """\
# Keras operations in exported files

This page lists how `export_functional_onnx` handles each function of `keras.ops` and each layer of
`keras.layers`. `tests/export/sweep_keras_operations.py` generates it. The script exports {cases}
small models of {operations} functions and {layers} layers, runs each file in ONNX Runtime with
three sets of sizes, and compares values, dtypes and shapes with Keras. {ours} models are exported
and equal to Keras; for the others, the export raises an error and writes no file. Keras' own
`model.export(format="onnx")` exports {theirs} correctly. By name: {kinds}. Versions: {versions}.

- *exported*: tf2onnx converts it. *rewritten*: this project converts at least one of its TensorFlow
  operators.
- *refused (...)*: the export raises an error for these dtypes or arguments, for the given reason;
  the others work. *caught*: the converted file was wrong, and the comparison with Keras detected
  it.
- *Keras' own*: in the same comparison, the file of `model.export` is *right*, is *wrong* (without
  an error), or the export *fails*. The numbers count the models of a row.

The results differ at some special values, such as NaN, infinities and empty axes, which
[special values](special_values.md) lists for ONNX and LiteRT."""


def version(package):
    from importlib import metadata

    return metadata.version(package)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="names such as ops.sort; by default all")
    parser.add_argument("--rows", type=Path, help="JSON file to write the rows of the table to")
    parser.add_argument("--cache", type=Path, help="JSON file of the results of Keras' own export")
    options = parser.parse_args()
    results = sweep(options.names, lambda *values: print(*values, flush=True))
    if options.rows:
        rows = [row(name, each) for name, each in results.items()]
        options.rows.write_text(json.dumps(rows), encoding="utf-8")
    if options.rows or (options.names and not options.cache):
        return
    with tempfile.TemporaryDirectory() as folder:
        add_keras(results, options.cache or Path(folder) / "keras.json")
    for each in missing(results):
        print("Keras' own export is right:", *each)
    if not options.names:
        TABLE.write_text(document(results), encoding="utf-8")


if __name__ == "__main__":
    main()
