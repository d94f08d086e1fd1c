"""The results of a call that may end before all sentences are translated."""

from keras_attn_runtime.errors import Cancelled, DeadlineExceeded
from keras_attn_runtime.translation import UNFINISHED


def collect_results(sources, search):
    """Returns all results; an error that ends the call early holds those that are finished."""
    read, results = [], []
    try:
        for source in sources:
            read.append(source)
        for result in search(read):
            results.append(result)
    except (Cancelled, DeadlineExceeded) as error:
        finished = [None if result is UNFINISHED else result for result in results]
        error.translations = finished + [None] * (len(read) - len(finished))
        raise
    return results


def yield_finished(results):
    """Yields the results up to the first that is not finished; after those comes an error."""
    is_finished = True
    for result in results:
        is_finished = is_finished and result is not UNFINISHED
        if is_finished:
            yield result
