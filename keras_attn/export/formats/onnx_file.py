import hashlib
import tempfile
from pathlib import Path

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn.export.checks.onnx_model_check import check_model, open_session
from keras_attn.export.formats.external_data import (
    LIMIT,
    MODEL,
    variables_size,
    weights_size,
    write_weights,
)
from keras_attn.export.passes import (
    PASSES,
    emulate_float16,
    half_precision,
    int4_weights,
    int8_weights,
    int8_weights_of_rows,
    lower_constants,
    name_dimensions,
)
from keras_attn.export.passes.graph import copy_of
from keras_attn.export.require import require_utf8
from keras_attn.export.trace.conversion import OPSET, convert
from keras_attn.export.trace.pause_garbage_collection import pause_garbage_collection

PRECISIONS = {
    "float32": (),
    "float16": (half_precision, emulate_float16),
    "int8": (int8_weights,),
    "int8-rows": (int8_weights_of_rows,),
    "int4": (int4_weights,),
}
"""The pass that gives a file its precision, and one behind it that shows on a CPU what it costs."""

FIRST_BYTES = b"\x08"
"""What an ONNX file begins with, the tag of its `ir_version`: other files are the user's."""


def write_onnx(
    path,
    function,
    signature,
    weights,
    dimensions,
    metadata,
    verify,
    precision="float32",
    verify_precision=None,
    external_data=False,
    passes=PASSES,
):
    """Converts a function to an ONNX file that exists only if it passed every check.

    Args:
        path: name of the file, or of the directory.
        function, signature, weights: see `convert`.
        dimensions: names of the dynamic dimensions, see `name_dimensions`.
        metadata: dictionary of strings for the file's metadata.
        verify: callable that is given the runner of an ONNX Runtime session (named arrays ->
            dictionary of arrays), raises `ExportError` if it disagrees with Keras, and returns a
            report.
        precision: a key of `PRECISIONS`.
        verify_precision: callable that is given the report and two runners, of the float32 model
            and of one of lower precision, and raises `ExportError` if they are too far from each
            other. It is called for what becomes the file, and then for its emulation, if any.
        external_data: bool, whether to write a directory, see `write_weights`. More than 2 GB of
            weights are always written so.
        passes: the passes that need nothing but the model.

    Returns:
        Tuple of what `verify` returned and the `onnx.ModelProto` that was written.

    Raises:
        ExportError: the model cannot be converted, breaks a rule of the export, or disagrees.
        ValueError: the path is not valid UTF-8.
    """
    from onnx import helper

    require_utf8(path)
    is_file = not external_data and variables_size(weights) <= LIMIT
    # Around the whole conversion, so that a wrong path is refused before it.
    with (
        atomic_replace(path, is_file, FIRST_BYTES) as partial,
        tempfile.TemporaryDirectory(prefix=".partial-", dir=partial.parent) as others,
        pause_garbage_collection(),
    ):
        model = convert(function, signature, weights)
        for change in passes:
            change(model)
        name_dimensions(model, dimensions)
        del model.opset_import[:]
        model.opset_import.append(helper.make_opsetid("", OPSET))
        helper.set_model_props(model, metadata)
        forms = [model]
        for change in PRECISIONS[precision]:
            forms.append(copy_of(forms[-1]))
            change(forms[-1])
        written = forms[:2][-1]

        def opened(form):
            place = partial if form is written else Path(tempfile.mkdtemp(dir=others)) / "model"
            return _write(form, place, not is_file)

        run = opened(model)
        report = verify(run)
        for form in forms[1:]:
            verify_precision(report, run, opened(form))
        return report, written


def _write(model, path, external_data):
    """Writes a model, checks it, and returns the runner of a session of it."""
    lower_constants(model)
    if external_data or weights_size(model) > LIMIT:
        path.mkdir()
        write_weights(model, path)
        path = path / MODEL
    _save(model, path)
    check_model(model, path)
    return open_session(path)


def _save(model, path):
    """Writes the file, with a checksum of all before it, which the runtime verifies."""
    import onnx

    content = model.SerializeToString()
    digest = hashlib.sha256(content).hexdigest()
    entry = onnx.StringStringEntryProto(key="keras_attn.file_checksum", value=digest)
    with open(path, "wb") as file:
        file.write(content)
        # Two protobuf messages in a row are one: this adds the entry to the metadata.
        file.write(onnx.ModelProto(metadata_props=[entry]).SerializeToString())
