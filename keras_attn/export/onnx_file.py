import hashlib

from keras_attn.export.conversion import OPSET, convert
from keras_attn.export.export_error import ExportError
from keras_attn.export.onnx_gate import check_model, open_session
from keras_attn.export.passes import PASSES, name_dimensions
from keras_attn.replace_when_done import replace_when_done


def write_onnx(path, function, signature, weights, dimensions, metadata, verify):
    """Converts a function to an ONNX file that exists only if it passed every check.

    Args:
        path: name of the file.
        function, signature, weights: see `convert`.
        dimensions: names of the dynamic dimensions, see `name_dimensions`.
        metadata: dictionary of strings for the file's metadata.
        verify: callable that is given the runner of an ONNX Runtime session (named arrays ->
            dictionary of arrays), raises `ExportError` if it disagrees with Keras, and returns a
            report.

    Returns:
        What `verify` returned.

    Raises:
        ExportError: the model cannot be converted, breaks a rule of the export, or disagrees.
    """
    from onnx import helper

    # Around the whole work, so that a wrong path is refused before it.
    with replace_when_done(path) as partial:
        model = convert(function, signature, weights)
        for change in PASSES:
            change(model)
        name_dimensions(model, dimensions)
        del model.opset_import[:]
        model.opset_import.append(helper.make_opsetid("", OPSET))
        helper.set_model_props(model, metadata)
        check_model(model)
        partial.write_bytes(_serialize(model))
        return verify(open_session(partial))


def _serialize(model):
    """The bytes of the file, with a checksum of all before it, which the runtime verifies."""
    import onnx

    try:
        content = model.SerializeToString()
    except Exception as error:  # protobuf's error has moved between its releases
        raise ExportError(
            "The model could not be written as one ONNX file, whose limit is 2 GB. "
            f"Received: {error}."
        ) from error
    digest = hashlib.sha256(content).hexdigest()
    entry = onnx.StringStringEntryProto(key="keras_attn.file_checksum", value=digest)
    # Two protobuf messages in a row are one: this adds the entry to the metadata.
    return content + onnx.ModelProto(metadata_props=[entry]).SerializeToString()
