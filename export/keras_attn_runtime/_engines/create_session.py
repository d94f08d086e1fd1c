"""Creates ONNX Runtime sessions: execution providers and threads."""

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from keras_attn_runtime._calls.options import require_integer
from keras_attn_runtime._errors import ModelFileError, ProviderError, in_one_line
from keras_attn_runtime._files.foreign_files import describe_foreign
from keras_attn_runtime._files.regular_file import require_regular_file

if TYPE_CHECKING:
    import onnxruntime

MOST_THREADS = 1024
"""Maximum number of threads. ONNX Runtime itself has no limit and starts all requested threads."""

_WEIGHTS_FILE = "session.optimized_model_external_initializers_file_name"
_WRITE_WEIGHTS = {
    "session.optimized_model_external_initializers_min_size_in_bytes": "1024",
    "session.save_external_prepacked_constant_initializers": "1",
}

Provider: TypeAlias = tuple[str, Mapping[str, object]]
"""Execution provider name and options."""

Providers: TypeAlias = str | Sequence[str | Provider]


def create_session(
    path: str | PathLike[str],
    providers: Providers | None = None,
    num_threads: int | None = None,
    optimized_path: Path | None = None,
) -> "onnxruntime.InferenceSession":
    """Loads an ONNX file on exactly the requested execution providers.

    If a provider does not start, ONNX Runtime prints a warning and uses the CPU. This function
    raises an error instead, because users notice it sooner than a model that is a hundred times
    slower.

    Args:
        path: string or path, the ONNX file.
        providers: string, or list of strings and `(string, options dict)` pairs, in order of
            preference: "cpu", "cuda" or any ONNX Runtime provider name. Operators that a
            provider does not support run on the CPU. Default: "cpu".
        num_threads: int in [1, 1024], number of threads per operator. Default: all cores.
        optimized_path: path of an ONNX file that this function also writes: the model after the
            optimizations for this machine. The weights are in `optimized_path.name + ".weights"`
            beside it, in the layout for matrix products. Sessions for this file map the weights
            into memory and share them. Default: no such file.

    Returns:
        `onnxruntime.InferenceSession`.

    Raises:
        FileNotFoundError: if the file does not exist (another OSError if it cannot be opened).
        ModelFileError: if the path is not a regular file, or ONNX Runtime cannot load the file.
        ProviderError: if a provider is unknown, not installed or does not start.
        ValueError: if `num_threads` is not an integer in this range.
        ImportError: if ONNX Runtime is not installed, or cannot be loaded.
    """
    if num_threads is not None:
        num_threads = require_integer("num_threads", num_threads, least=1, most=MOST_THREADS)
    require_regular_file(path)
    # A missing file or permission raises the usual OSError here, not an ONNX Runtime error.
    with open(path, "rb"):
        pass
    require_onnxruntime()
    import onnxruntime

    resolved = _resolve("cpu" if providers is None else providers)
    names = [name for name, _ in resolved]
    if "CUDAExecutionProvider" in names and hasattr(onnxruntime, "preload_dlls"):
        # `preload_dlls` prints missing libraries to stdout, which is for translations only.
        with contextlib.redirect_stdout(sys.stderr):
            onnxruntime.preload_dlls()

    options = onnxruntime.SessionOptions()
    # Attention weights at masked positions can be denormal numbers, which CPUs process many times
    # slower. This option flushes them to zero, also in the thread that creates the first session.
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    options.log_severity_level = 4  # errors are not logged, because they are raised
    if num_threads is not None:
        options.intra_op_num_threads = num_threads
    if optimized_path is not None:
        options.optimized_model_filepath = str(optimized_path)
        weights = f"{optimized_path.name}.weights"
        for name, value in {**_WRITE_WEIGHTS, _WEIGHTS_FILE: weights}.items():
            options.add_session_config_entry(name, value)
    try:
        session = onnxruntime.InferenceSession(
            str(path), options, providers=resolved, enable_fallback=0
        )
    except Exception as error:  # ONNX Runtime's exceptions share no base class
        cause = (
            f"ONNX Runtime cannot load {str(path)!r} on {', '.join(names)}: {in_one_line(error)}."
        )
        advice = "".join(f" Check the options {given}." for _, given in resolved if given)
        if _loads_on_cpu(path, options, names):
            raise ProviderError(
                f"{cause} It can load the file on the CPU. Check the driver and libraries, or use "
                f"providers='cpu'.{advice}"
            ) from error
        if "ai.onnx.contrib" in str(error):
            raise ModelFileError(
                f"Expected a file whose inputs are ids. Received: {str(path)!r}, whose inputs are "
                "strings. The file needs onnxruntime-extensions instead of this runtime. Export "
                "the model with `onnx` instead of `onnx-text`, or see the docstring of "
                "`export_onnx_text`."
            ) from error
        foreign = describe_foreign(path)
        if foreign is not None:
            raise ModelFileError(
                f"Expected an ONNX file. Received: {str(path)!r}, {foreign}"
            ) from error
        raise ModelFileError(
            f"{cause} If the file is damaged or incomplete (its weights may be in another "
            f"file), export or copy it again.{advice}"
        ) from error
    missing = [name for name in names if name not in session.get_providers()]
    if missing:
        raise ProviderError(
            f"Expected the session to run on {names}, but {missing} did not start. Received: a "
            f"session on {session.get_providers()}. Check the driver and libraries, or use "
            "providers='cpu'."
        )
    return session


def _loads_on_cpu(
    path: str | PathLike[str], options: "onnxruntime.SessionOptions", names: list[str]
) -> bool:
    """Returns whether the CPU can load a file that other providers could not load."""
    import onnxruntime

    if names == ["CPUExecutionProvider"]:
        return False
    try:
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception:  # ONNX Runtime's exceptions share no base class
        return False
    return True


def require_onnxruntime() -> None:
    """Imports ONNX Runtime for the first time; raises ImportError if it is missing."""
    # On import, ONNX Runtime 1.30 and newer read this variable. If it is not set, ONNX Runtime
    # writes an id and an event database into the user's home directory.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        if error.name != "onnxruntime":
            raise  # onnxruntime is installed, but one of its dependencies is missing
        missing = error
    else:
        if hasattr(onnxruntime, "InferenceSession"):
            return
        missing = None  # uninstalling the CPU or GPU package leaves a partial folder of the other
    raise ImportError(
        "ONNX Runtime is not installed, or incomplete. In a checkout: `pip install "
        "'./export[cpu]'`, or `'./export[gpu]'` for NVIDIA GPUs (one of the two, never both)."
    ) from missing


def default_num_threads(num_workers: int) -> int | None:
    """Returns the number of threads per worker, or `None` for ONNX Runtime's default.

    The default is used for one worker in a process that may use all cores. In all other cases, the
    available cores are divided by the number of workers, because ONNX Runtime ignores the process's
    CPU affinity. CPU time quotas are not considered.
    """
    num_cores = all_cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        num_cores = len(os.sched_getaffinity(0))
    if num_workers == 1 and num_cores >= all_cores:
        return None
    return max(1, num_cores // num_workers)


def read_providers(providers: Providers) -> list[tuple[str, dict[str, object]]]:
    """Returns lower-case provider names, such as "cpu", with their options.

    Raises:
        ProviderError: if `providers` is neither a string nor a list of strings and pairs.
    """
    try:
        pairs: list[tuple[str, dict[str, object]]] = [
            (item, {}) if isinstance(item, str) else (item[0], dict(item[1]))
            for item in ([providers] if isinstance(providers, str) else providers)
        ]
        return [(name.lower().removesuffix("executionprovider"), given) for name, given in pairs]
    except (TypeError, ValueError, IndexError, KeyError, AttributeError) as error:
        raise ProviderError(
            "Expected providers to be a name or a list of names and (name, options) pairs. "
            f"Received: {providers=}."
        ) from error


def _resolve(providers: Providers) -> list[Provider]:
    """Returns `(name, options)` pairs with full names; raises an error for unknown providers."""
    import onnxruntime

    pairs = read_providers(providers)
    names = [name for name, _ in pairs]
    available = {
        name.lower().removesuffix("executionprovider"): name
        for name in onnxruntime.get_available_providers()
    }
    unavailable = [name for name in names if name not in available]
    if unavailable or not names:
        hint = " Install './export[gpu]' of a checkout for CUDA." if "cuda" in unavailable else ""
        raise ProviderError(
            f"Expected providers of the installed onnxruntime, {sorted(available)}. "
            f"Received: {providers=}.{hint}"
        )
    for name, (_, options) in zip(names, pairs, strict=True):
        if name == "cpu" and options:
            # ONNX Runtime would ignore the options. The user may have forgotten to pass "cuda".
            raise ProviderError(
                f"Expected no options for the CPU. Received: {options}. Remove the options, or "
                "pass the provider that they belong to."
            )
    return [(available[name], options) for name, (_, options) in zip(names, pairs, strict=True)]
