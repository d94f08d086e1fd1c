import keras
from keras import ops

from keras_attn._types import Tensor, TensorDict
from keras_attn.search.independent_search import IndependentSearch


@keras.saving.register_keras_serializable(package="keras_attn")
class GreedyDecoder(IndependentSearch):
    """Takes the most probable token at each step; ties go to the lower id.

    Args:
        decoder: a `StepDecoder`.
        **kwargs: arguments of `Search`. The length penalty only changes the reported score.

    Call arguments, returns: see `Search`; `hypotheses` is 1.
    """

    def choose(self, allowed: Tensor, carry: TensorDict) -> tuple[Tensor, Tensor]:
        log_probs, tokens = ops.top_k(allowed, 1)
        return ops.cast(tokens, "int32"), log_probs
