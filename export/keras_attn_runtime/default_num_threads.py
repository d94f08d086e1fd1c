import os


def default_num_threads(num_workers: int) -> int | None:
    """Returns the number of threads of each worker, or `None` for the default of ONNX Runtime.

    The default is right for one worker that may use all cores. ONNX Runtime ignores the CPU
    affinity of the process, so this function counts the available cores. Quotas of CPU time are
    ignored by both.
    """
    num_cores = all_cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        num_cores = len(os.sched_getaffinity(0))
    if num_workers == 1 and num_cores >= all_cores:
        return None
    return max(1, num_cores // num_workers)
