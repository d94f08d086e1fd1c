import os


def default_num_threads(num_workers: int) -> int | None:
    """Returns the number of threads of each worker, or `None` for the default of ONNX Runtime.

    The default of ONNX Runtime is used for one worker in a process that may use all cores. In all
    other cases, the available cores are divided by the number of workers, because ONNX Runtime
    ignores the CPU affinity of the process. Quotas of CPU time are not considered.
    """
    num_cores = all_cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        num_cores = len(os.sched_getaffinity(0))
    if num_workers == 1 and num_cores >= all_cores:
        return None
    return max(1, num_cores // num_workers)
