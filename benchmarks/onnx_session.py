"""Opens an ONNX file with the options of `keras_attn_runtime`, optionally with profiling."""

import onnxruntime


def open_session(path, threads, profile_prefix=None):
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    if profile_prefix is not None:
        options.enable_profiling = True
        options.profile_file_prefix = profile_prefix
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
