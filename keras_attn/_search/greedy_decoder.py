from collections.abc import Mapping
from typing import Any, Unpack

import keras
from keras import ops

from keras_attn._backend.top_k import top_k
from keras_attn._decoders.step_decoder import StepDecoder
from keras_attn._layer.fill_docstring import fill_docstring
from keras_attn._search.independent_search import IndependentSearch
from keras_attn._search.search import Search
from keras_attn._types import Tensor, TensorDict
from keras_attn_checks.options import list_options
from keras_attn_checks.search_options import SearchArguments, SearchOptions


@keras.saving.register_keras_serializable(package="keras_attn")
@fill_docstring(Search)
class GreedyDecoder(IndependentSearch):
    """Greedy search: selects the most probable token at each step.

        y_t = argmax_v p(v | y_1, ..., y_{t-1}, source)

    If several tokens are equally probable, the lowest id is selected.

    Args:
        decoder: `StepDecoder`.
        {{arguments}}

    Call arguments:
        {{call_arguments}}

    Returns:
        {{returns}}

        The results contain one hypothesis per batch entry. The length penalty only affects the
        `scores`.

    Raises:
        ValueError: If an argument is out of range.

    Example:

    >>> import numpy as np
    >>> from keras_attn import GreedyDecoder, rnn_seq2seq
    >>> encoder, decoder = rnn_seq2seq(20, 30, units=4, embedding_dim=4)
    >>> results = GreedyDecoder(decoder, max_length=3)(**encoder(np.array([[5, 6, 7, 2]])))
    >>> tuple(results["lengths"].shape)
    (1, 1)
    """

    @list_options(SearchOptions)
    def __init__(self, decoder: StepDecoder, **options: Unpack[SearchArguments]) -> None:
        super().__init__(decoder, **options)

    def choose(
        self, allowed: Tensor, carry: TensorDict, settings: Mapping[str, Any]
    ) -> tuple[Tensor, Tensor]:
        log_probs, tokens = top_k(allowed, 1)
        return ops.cast(tokens, "int32"), log_probs
