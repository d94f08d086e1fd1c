"""Opens an ONNX file with the options of `keras_attn_runtime`, optionally with profiling."""

import json

import numpy as np
import onnxruntime

DTYPES = {"tensor(int32)": np.int32, "tensor(float)": np.float32}


def open_session(path, threads, profile_prefix=None):
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    if profile_prefix is not None:
        options.enable_profiling = True
        options.profile_file_prefix = profile_prefix
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def call_settings(session):
    """Returns the scalar inputs of a search, such as `beam_width`, with the values in the file."""
    entries = session.get_modelmeta().custom_metadata_map
    search = json.loads(entries["keras_attn.settings"])["search"]
    return {
        each.name: np.array(search[each.name], DTYPES[each.type])
        for each in session.get_inputs()
        if each.name in search
    }
