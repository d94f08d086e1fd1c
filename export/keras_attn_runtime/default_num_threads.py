import os


def default_num_threads(num_workers: int) -> int | None:
    """Returns the threads of a worker, or `None`, ONNX Runtime's choice, if it may use all cores.

    ONNX Runtime does not see that a process may use only some cores. A quota of CPU time is seen by
    neither of the two.
    """
    num_cores = all_cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        num_cores = len(os.sched_getaffinity(0))
    if num_workers == 1 and num_cores >= all_cores:
        return None
    return max(1, num_cores // num_workers)
