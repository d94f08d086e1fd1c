"""Every file that a program of ours writes is written whole or not at all."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = (
    "keras_attn",
    "keras_attn_commands",
    "export/keras_attn_runtime",
    "examples",
    "benchmarks",
)
WRITERS = {"write_text", "write_bytes", "savefig", "savez", "savez_compressed", "to_csv"}
ATOMIC = {"atomic_replace", "atomic_files", "working_directory", "TemporaryDirectory"}
INSIDE = {
    "keras_attn/_files/working_directory.py": "flushes a file",
    "keras_attn/_files/path_lock.py": "a file inside of a lock",
    "keras_attn/convert/_from_transformers.py": "a part of RunDirectory.create",
    "keras_attn/export/_formats/export_transformers.py": "called with a temporary path",
    "keras_attn/export/_formats/export_saved_model.py": "called with a temporary path",
    "keras_attn/export/_formats/external_data.py": "called with a temporary path",
    "keras_attn/export/_formats/onnx_file.py": "called with a temporary path",
    "keras_attn/export/_formats/litert_file.py": "called with a temporary path",
    "keras_attn/export/_trace/litert_operators.py": "changes a temporary SavedModel",
    "keras_attn/text/_corpus_report.py": "called with a temporary path",
    "keras_attn/text/_encode_parallel_files.py": "called with a temporary path",
    "export/keras_attn_runtime/_files/atomic_files.py": "the block itself",
    "export/keras_attn_runtime/_commands/forecast.py": "a device or a pipe",
    "export/keras_attn_runtime/_commands/progress.py": "the null device",
    "examples/translate_corpus.py": "renames the file of a partition itself",
    "benchmarks/training_batches.py": "exchanged by two processes, in a temporary directory",
    "benchmarks/train_rnn_keras.py": "exchanged by two processes, in a temporary directory",
    "benchmarks/train_transformer_keras.py": "exchanged by two processes, in a temporary directory",
    "benchmarks/decode_rnn.py": "exchanged by two processes, in a temporary directory",
    "benchmarks/translation_speed.py": "exchanged by two processes, in a temporary directory",
}
"""Files that write without an atomic block around the call, and why."""


def name_of(function):
    return getattr(function, "attr", getattr(function, "id", None))


def is_write(node):
    if not isinstance(node, ast.Call):
        return False
    name = name_of(node.func)
    if name == "write_text" and isinstance(node.func, ast.Name):
        return False  # a function of ours, whose own writes are found where it is defined
    if name == "open":
        modes = [*node.args[1:2], *(each.value for each in node.keywords if each.arg == "mode")]
        modes = [each.value for each in modes if isinstance(each, ast.Constant)]
        return any(isinstance(mode, str) and set(mode) & set("wxa+") for mode in modes)
    return name in WRITERS


def writes(node, is_atomic=False):
    """Yields the lines of calls that write outside of an atomic `with` block."""
    if isinstance(node, ast.With):
        found = {name_of(each.func) for item in node.items for each in ast.walk(item.context_expr)
                 if isinstance(each, ast.Call)}  # fmt: skip
        if "ExitStack" in found:  # enter_context(atomic_replace(path)) in the block
            found |= {name_of(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)}
        is_atomic = is_atomic or bool(found & ATOMIC)
    if is_write(node) and not is_atomic:
        yield node.lineno
    for child in ast.iter_child_nodes(node):
        yield from writes(child, is_atomic)


def test_files_are_written_in_atomic_blocks():
    found = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            lines = list(writes(ast.parse(path.read_text(encoding="utf-8"))))
            if lines:
                found[path.relative_to(ROOT).as_posix()] = lines
    wrong = {path: lines for path, lines in found.items() if path not in INSIDE}
    assert not wrong, "write these files in a block of atomic_replace or atomic_files"
