"""Compares exported operations with Keras at special values, in ONNX and in LiteRT.

    export TF_ENABLE_ONEDNN_OPTS=0
    python -m tests.export.sweep_special_values             # writes docs/special_values.md
    python -m tests.export.sweep_special_values ops.softplus  # prints the results of these names
    python -m tests.export.sweep_special_values --cache results.json  # continues after an interrupt

The cases are those of `sweep_keras_operations`. Each case runs once for each value of `FLOATS` or
`INTEGERS`: about a third of the elements of each input have this value, the others are ordinary.
So reductions and sorts see the value beside others, and functions of two arguments see it in the
first, in the second, and in both. Cases are exported together, because a file with ten operations
is written almost as fast as a file with one. A group that cannot be exported or run is halved.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pickle
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import keras
import numpy as np

from keras_attn.export import ExportError, export_functional_onnx
from keras_attn.export._checks.litert_runner import litert_runner
from keras_attn.export._trace.functional_function import FunctionalFunction
from keras_attn.export._trace.litert_conversion import (
    SIGNATURE,
    convert_to_litert,
    with_batch_size,
)
from tests.export import layer_cases  # noqa: F401, adds cases
from tests.export.operation_cases import CASES
from tests.export.sweep_keras_operations import (
    called,
    differs,
    draw,
    of_fixed_sizes,
    runner,
    short,
    tolerance_of,
    version,
)

PAGE = Path(__file__).parents[2] / "docs" / "special_values.md"
ROWS, STEPS, GROUP = 2, 16, 10
MAX = float(np.finfo("float32").max)
FLOATS = {
    "0": 0.0,
    "-0.0": -0.0,
    "1": 1.0,
    "-1": -1.0,
    "0.5": 0.5,
    "-0.5": -0.5,
    "1.5": 1.5,
    "-1.5": -1.5,
    "2.5": 2.5,
    "-2.5": -2.5,
    "1e-45": 1e-45,
    "1e-38": 1e-38,
    "1e-30": 1e-30,
    "1e-8": 1e-8,
    "-1e-8": -1e-8,
    "1e-4": 1e-4,
    "pi": np.pi,
    "-pi": -np.pi,
    "100 pi": 100 * np.pi,
    "6": 6.0,
    "-6": -6.0,
    "12": 12.0,
    "-12": -12.0,
    "30": 30.0,
    "-30": -30.0,
    "88": 88.0,
    "-88": -88.0,
    "89": 89.0,
    "-89": -89.0,
    "104": 104.0,
    "-104": -104.0,
    "1e5": 1e5,
    "1e8": 1e8,
    "2**24 + 1": 2.0**24 + 1,
    "2**31": 2.0**31,
    "1e19": 1e19,
    "-1e19": -1e19,
    "3e38": 3e38,
    "largest": MAX,
    "smallest": -MAX,
    "inf": np.inf,
    "-inf": -np.inf,
    "NaN": np.nan,
}
INTEGERS = {
    "0": 0,
    "1": 1,
    "-1": -1,
    "2": 2,
    "3": 3,
    "-3": -3,
    "7": 7,
    "-7": -7,
    "31": 31,
    "100": 100,
    "2**24 + 1": 2**24 + 1,
    "half the largest": "max // 2",
    "half the smallest": "min // 2",
    "largest": "max",
    "smallest": "min",
}
MIXED, EMPTY, NO_ROWS, ORDINARY = "several", "an empty axis", "no rows", "ordinary values"


@dataclass
class Probe:
    """A case with its functional model, of which every export is a part.

    Attributes:
        name: name of the operation.
        case: the `Case`.
        model: functional model of the case alone.
        results: dict from the name of a format to a `Finding`.
    """

    name: str
    case: object
    model: object
    results: dict = field(default_factory=dict)


@dataclass
class Finding:
    """Result of a case in a format.

    Attributes:
        status: "exported", "refused", "crashed", "not run" or "wrong".
        message: reason.
        differences: dict from the name of a special value to the first difference.
    """

    status: str
    message: str = ""
    differences: dict = field(default_factory=dict)


def probe(name, case, index):
    """Returns a `Probe`, or `None` if Keras cannot make the model."""
    for each in (case, of_fixed_sizes(case)):
        try:
            inputs = [
                keras.Input(
                    spec.shape[1:],
                    batch_size=spec.shape[0],
                    dtype=spec.dtype,
                    name=f"in{index}_{place}",
                )
                for place, spec in enumerate(each.inputs)
            ]
            leaves = keras.tree.flatten(called(each, inputs))
            outputs = {f"out{index}_{place:02}": leaf for place, leaf in enumerate(leaves)}
            model = keras.Model(inputs, outputs)
            model(arrays_for(each, None), training=False)
        except Exception:  # noqa: S112, Keras fails in many ways
            continue
        return Probe(name, each, model)
    return None


def arrays_for(case, kind):
    """Draws the inputs of a case.

    Args:
        case: a `Case`.
        kind: `None` for ordinary values, name of a special value, `MIXED` or `EMPTY`.

    Returns:
        List of arrays, or `None` if the case has no inputs of this kind.
    """
    rng = np.random.default_rng(5)
    arrays, changed = [], kind is None
    for spec in case.inputs:
        drawn = {EMPTY: "empty time", NO_ROWS: "empty batch"}.get(kind, "normal")
        base = draw(spec, (ROWS, STEPS), drawn, rng)
        if kind in (EMPTY, NO_ROWS):
            changed |= None in (spec.shape[1:] if kind == EMPTY else spec.shape[:1])
        elif kind is not None and case.hard:
            pool = specials(spec, kind)
            if len(pool):
                changed = True
                chosen = rng.random(base.shape) < (0.9 if kind == MIXED else 0.35)
                base = np.where(chosen, rng.choice(pool, base.shape), base).astype(base.dtype)
        arrays.append(base)
    return arrays if changed else None


def specials(spec, kind):
    """Returns the special values of a name that an input may have."""
    if spec.dtype in ("string", "bool") or spec.draw.split()[-1] in ("ids", "distinct", "shift"):
        return np.array([])
    dtype = np.dtype(spec.dtype)
    named = INTEGERS if dtype.kind in "iu" else FLOATS
    values = [named[kind]] if kind in named else list(named.values()) if kind == MIXED else []
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        numbers = [
            eval(each, {"max": info.max, "min": info.min}) if isinstance(each, str) else each
            for each in values
        ]
        low = 0 if spec.draw == "natural" else info.min
        kept = [each for each in numbers if low <= each <= info.max]
        return np.array([each for each in kept if each or spec.draw != "nonzero"], dtype)
    with np.errstate(over="ignore"):
        cast = np.array(values, "float64").astype(dtype)
    return cast[np.isfinite(values) <= np.isfinite(cast)]  # without overflow in float16


def onnx_runner(model, specs, folder):
    """Exports a model to ONNX, and returns a function that runs it."""
    path = Path(folder) / "model.onnx"
    path.unlink(missing_ok=True)
    rng = np.random.default_rng(1)
    sample = [draw(each, (ROWS, STEPS), "normal", rng) for each in specs]
    export_functional_onnx(model, path, sample, tolerance=tolerance_of(model))
    session = runner(path)
    names = [each.name for each in session.get_outputs()]
    used = {each.name for each in session.get_inputs()}

    def run(feed):
        fed = {name: value for name, value in feed.items() if name in used}
        return dict(zip(names, session.run(None, fed), strict=True))

    return run


def litert_file_runner(model, specs, folder):
    """Exports a model to LiteRT, and returns a function that runs it."""
    function = FunctionalFunction(model)
    signature = [
        with_batch_size(spec, ROWS) if spec.shape[0] is None else spec
        for spec in function.signature
    ]
    content = convert_to_litert({SIGNATURE: (function.folded(), signature)}, function.weights)
    run = litert_runner(content)
    return lambda feed: run(**feed)


FORMATS = {"ONNX": onnx_runner, "LiteRT": litert_file_runner}


def check(probes, form, folder):
    """Exports probes in a format, runs the file on all values, and stores the findings."""
    joined = keras.Model(
        [each for probe in probes for each in probe.model.inputs],
        {name: each for probe in probes for name, each in outputs_of(probe).items()},
    )
    specs = [spec for probe in probes for spec in probe.case.inputs]
    try:
        run = FORMATS[form](joined, specs, folder)
    except Exception as error:
        if len(probes) == 1:
            status = "wrong" if "disagrees" in str(error) else "refused"
            if not isinstance(error, (ExportError, ValueError)):
                status = "crashed"
            probes[0].results[form] = Finding(status, short(error))
            return
        halves(probes, form, folder)
        return
    findings = [Finding("exported") for _ in probes]
    kinds, feeds, wanted = [], [], []
    no_rows = [NO_ROWS] if form == "ONNX" else []  # the batch size of a LiteRT file is fixed
    for kind in (None, *sorted({*FLOATS, *INTEGERS}), MIXED, EMPTY, *no_rows):
        feed, expected = {}, []
        for probe in probes:
            arrays, values = expected_of(probe, kind)
            fed = arrays or arrays_for(probe.case, None)
            feed |= dict(zip((each.name for each in probe.model.inputs), fed, strict=True))
            expected.append((arrays, values))
        if any(values for _, values in expected):
            kinds.append(kind or ORDINARY)
            feeds.append(feed)
            wanted.append(expected)
    ran = run_feeds(run, feeds, is_isolated=form == "LiteRT")
    if len(probes) > 1 and any(isinstance(each, str) for each in ran):
        halves(probes, form, folder)
        return
    for kind, found, expected in zip(kinds, ran, wanted, strict=True):
        for probe, finding, (arrays, values) in zip(probes, findings, expected, strict=True):
            if values and isinstance(found, str):
                finding.differences[kind] = found
            elif values:
                compare(finding, kind, arrays, values, found, numpy_function(probe))
    for probe, finding in zip(probes, findings, strict=True):
        if ORDINARY in finding.differences:
            finding.status, finding.message = "wrong", finding.differences[ORDINARY]
        if set(finding.differences) - {MIXED}:
            finding.differences.pop(MIXED, None)
        probe.results[form] = finding


def expected_of(probe, kind):
    """Returns inputs of a kind and the outputs of Keras, or `None` twice."""
    arrays = arrays_for(probe.case, kind)
    if arrays is None:
        return None, None
    try:
        values = probe.model(arrays, training=False)
    except Exception:  # for instance a division by zero
        return None, None
    return arrays, {name: np.asarray(value) for name, value in values.items()}


def run_feeds(run, feeds, is_isolated):
    """Runs a file on all inputs; a failure is a string instead of a dict of outputs.

    Args:
        run: function that runs the file.
        feeds: list of dicts of arrays.
        is_isolated: whether to run in a child process. LiteRT ends the process for some integers.
    """

    def result(feed):
        try:
            return run(feed)
        except Exception as error:
            return f"fails: {short(error)[-90:]}"

    if not is_isolated:
        return [result(feed) for feed in feeds]
    done = []
    while len(done) < len(feeds):
        with tempfile.TemporaryFile() as file:
            child = os.fork()
            if not child:
                for feed in feeds[len(done) :]:
                    pickle.dump(result(feed), file)
                    file.flush()
                os._exit(0)
            os.waitpid(child, 0)
            file.seek(0)
            with contextlib.suppress(EOFError, pickle.UnpicklingError):
                while True:
                    done.append(pickle.load(file))
        if len(done) < len(feeds):
            done.append("the process crashes")
    return done


def halves(probes, form, folder):
    middle = len(probes) // 2
    check(probes[:middle], form, folder)
    check(probes[middle:], form, folder)


def outputs_of(probe):
    return probe.model.output


def numpy_function(probe):
    """Returns the NumPy function of a case that is a function of `keras.ops`, or `None`."""
    name = probe.name.removeprefix("ops.")
    is_plain = probe.case.function is getattr(keras.ops, name, 0)
    return getattr(np, name, None) if is_plain else None


def compare(finding, kind, arrays, expected, found, in_numpy=None):
    """Stores how the results of a file differ from those of Keras.

    Where Keras differs from NumPy, a file may agree with either.
    """
    for name, value in expected.items():
        other = found[name]
        if not value.size and kind == EMPTY and not other.size:
            continue  # LiteRT has other shapes of empty tensors
        difference = differs(value, other)
        if difference and in_numpy and value.shape == other.shape:
            with np.errstate(all="ignore"), contextlib.suppress(TypeError):
                truth = np.asarray(in_numpy(*arrays)).astype(value.dtype)
                is_numpy = np.isclose(other, truth, 2e-5, 0, equal_nan=True)
                difference = differs(np.where(is_numpy, other, value), other)
        if difference and kind not in finding.differences:
            finding.differences[kind] = difference + pair_at(arrays, value, other)


def pair_at(arrays, value, other):
    """Returns the arguments of the first difference of a function of elements."""
    if any(each.shape != value.shape for each in arrays) or value.shape != other.shape:
        return ""
    with np.errstate(all="ignore"):
        wrong = ~(
            np.isclose(value.astype("float64"), other.astype("float64"), rtol=2e-5, equal_nan=True)
        )
    if not wrong.any():
        return ""
    index = tuple(np.argwhere(wrong)[0])
    return " for " + ", ".join(str(each[index]) for each in arrays)


def sweep(names=(), formats=tuple(FORMATS), cache=None, say=print):
    """Returns a dict from each name and format to a list of pairs of a label and a `Finding`."""
    known = json.loads(cache.read_text()) if cache and cache.exists() else {}
    wanted = [name for name in names or CASES]
    index, group = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for form in formats:
            for name in wanted:
                if f"{name} {form}" not in known:
                    for case in CASES[name]:
                        made, index = probe(name, case, index), index + 1
                        if made:
                            group.append(made)
                        else:
                            known.setdefault(f"{name} {form}", [])
                if group and (len(group) >= GROUP or name == wanted[-1]):
                    check(group, form, folder)
                    for each in group:
                        finding = each.results[form]
                        known.setdefault(f"{each.name} {form}", []).append(
                            [each.case.label, dataclasses.asdict(finding)]
                        )
                        say(form, each.name, f"[{each.case.label}]", finding)
                    group = []
                    keras.backend.clear_session()
                    if cache:
                        cache.write_text(json.dumps(known, indent=1))
    return {
        key: [(label, Finding(**finding)) for label, finding in pairs]
        for key, pairs in known.items()
    }


DENORMALS = {"1e-45", "1e-38"}
LISTED_LAST = (MIXED, EMPTY, NO_ROWS)


def cell(pairs, form):
    """Returns the cell of a table: values for which the files of an operation differ from Keras."""
    values, failing = set(), set()
    for _, finding in pairs:
        for value, difference in finding.differences.items():
            is_failure = difference.startswith("fails") or "crashes" in difference
            (failing if is_failure else values).add(value)
    if form == "LiteRT":  # most operators fail: said once in the introduction
        failing.discard(EMPTY)
    parts = []
    for found, before in ((values, ""), (failing, "fails: ")):
        order = [*FLOATS, *(name for name in INTEGERS if name not in FLOATS), *LISTED_LAST]
        named = [name for name in order if name in found - DENORMALS]
        if named:
            parts.append(before + ", ".join(named))
    return "; ".join(parts)


def rows(results):
    """Returns a dict from names to the cells of the table, for operations with a difference."""
    names = sorted({key.split()[0] for key in results})
    cells = {
        name: tuple(cell(results.get(f"{name} {form}", []), form) for form in FORMATS)
        for name in names
    }
    return {name: each for name, each in cells.items() if any(each)}


def refused(results):
    """Returns a dict from names to the cases that LiteRT refuses, and the reasons."""
    found = {}
    for key, pairs in sorted(results.items()):
        name, form = key.split()
        without = [(label, each) for label, each in pairs if each.status != "exported"]
        if form == "LiteRT" and without:
            labels = [label or "usual" for label, _ in without]
            which = "" if len(without) == len(pairs) else f" ({', '.join(labels)})"
            operators = sorted(
                {each for _, f in without for each in re.findall(r"tf\.(\w+)", f.message)}
            )
            found[name] = which + (f": {', '.join(operators)}" if operators else "")
    return found


def document(results):
    """Returns the page with the table."""
    lines = [
        *INTRODUCTION.format(
            values=len(FLOATS) + len(INTEGERS),
            cases=sum(len(pairs) for key, pairs in results.items() if key.endswith("ONNX")),
            versions=", ".join(f"{name} {version(name)}" for name in PACKAGES),
        ).splitlines(),
        "",
        "| Operation | ONNX | LiteRT |",
        "|---|---|---|",
        *(f"| {name} | {onnx} | {litert} |" for name, (onnx, litert) in rows(results).items()),
        "",
        *REFUSED.splitlines(),
        "",
        *(f"- `{name}`{why}" for name, why in refused(results).items()),
    ]
    return "\n".join(lines) + "\n"


PACKAGES = ("keras", "tensorflow", "onnxruntime", "ai-edge-litert")
INTRODUCTION = """\
# Special values in exported files

`tests/export/sweep_special_values.py` generates this page. It exports {cases} small models of the
functions of `keras.ops` and the layers of `keras.layers` to ONNX and to LiteRT, and runs each file
on {values} special values: zeros, halves, multiples of pi, small and large numbers, infinities,
NaN, and small and extreme integers. Each value is tried beside ordinary values, and in each
argument of a function of two arguments. The truth is Keras on TensorFlow, or NumPy where Keras
differs from it. Versions: {versions}.

The table lists the values for which a result differs. At all other values, and for all operations
that are not listed, the error is below 2e-5: absolute for results up to 1, and relative above.
*fails* means that the runtime raises an error, or ends the process. *several* means that only a
combination of special values differs.

Reasons:

- *NaN*: maxima, minima, sorts, top-k, pooling and comparisons of ONNX Runtime and LiteRT ignore or
  move NaN. LiteRT computes exp(NaN) = 0. A model whose weights or compared outputs are NaN is not
  exported.
- *3e38, largest, smallest*: LiteRT's square root and logarithm of these values are wrong, and sums
  of products overflow in another order.
- *1e8 and above* in sine and cosine: LiteRT's results for large angles are inaccurate, and those
  for 2**31 are not even between -1 and 1.
- *Casts* of a float that the integer type cannot store are undefined in C++, in which all runtimes
  are written. `ops.saturate_cast` clips first.
- *Integers*: ONNX Runtime computes sums and products in float64, exact up to 2**53, and saturates
  where Keras wraps around.
- *An empty axis, no rows*: the mean of no elements is 0 instead of NaN, and `Reshape` of ONNX
  Runtime fails. In LiteRT, most operators fail for an empty axis, and some end the process, so this
  is not listed: do not pass empty inputs.
- Dividing an integer by 0 gives 0 in ONNX and fails in LiteRT. Keras raises an error.
- *Denormal numbers*, below 1.2e-38, are flushed to 0 by some operators of each runtime, and the
  sign of a zero may differ; both are not listed.

These operators are rewritten, because the converters or runtimes compute them wrongly at special
values: in ONNX `FloorMod`, `Log1p`, `Expm1`, `Select`, `SparseSoftmaxCrossEntropyWithLogits` and
others (`_trace/operators/`), in LiteRT `Softplus`, `Log1p`, `Expm1`, `Rsqrt`, `FloorDiv`,
`FloorMod`, comparisons of bytes, and infinite constants (`_trace/litert_operators.py`)."""

REFUSED = """\
## Operations that LiteRT refuses

The export raises an error that names the TensorFlow operators. In parentheses: the cases, if others
of the operation are exported."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="names such as ops.sort; by default all")
    parser.add_argument("--format", choices=list(FORMATS), help="by default both")
    parser.add_argument("--cache", type=Path, help="JSON file of the results so far")
    parser.add_argument("--page", type=Path, default=PAGE, help="file to write the page to")
    options = parser.parse_args()
    formats = (options.format,) if options.format else tuple(FORMATS)
    say = lambda *values: print(*values, flush=True)  # noqa: E731
    results = sweep(options.names, formats, options.cache, say)
    if not options.names and not options.format:
        options.page.write_text(document(results), encoding="utf-8")


if __name__ == "__main__":
    main()
