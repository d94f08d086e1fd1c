"""Log probabilities of the next token for the searches in `keras_attn.testing._search_oracles`."""

from collections.abc import Sequence

import numpy as np

from keras_attn.testing._search_oracles import LogProbsAfter, Tokens, log_softmax


def without_repetition(
    logits_after: LogProbsAfter,
    repetition_penalty: float = 1.0,
    no_repeat_ngram_size: int = 0,
    suppressed_sequences: Sequence[Tokens] = (),
) -> LogProbsAfter:
    """Returns a function `log_probs_after` with the rules about previous tokens.

    The repetition penalty is from Keskar et al., 2019, and the n-gram blocking from Paulus et al.,
    2018. Tokens that would repeat an n-gram or complete a suppressed sequence get a log
    probability of minus infinity.
    """

    size = no_repeat_ngram_size

    def ngrams(tokens: Tokens) -> list[Tokens]:
        return [tokens[i : i + size] for i in range(len(tokens) - size + 1)]

    def log_probs_after(prefix: Tokens) -> np.ndarray:
        logits = np.array(logits_after(prefix), "float64")
        for token in set(prefix):
            factor = repetition_penalty
            logits[token] *= 1 / factor if logits[token] > 0 else factor
        log_probs = log_softmax(logits)
        for token in range(len(logits)):
            if size and (*prefix, token)[-size:] in ngrams(prefix):
                log_probs[token] = -np.inf
            if any((*prefix, token)[-len(each) :] == tuple(each) for each in suppressed_sequences):
                log_probs[token] = -np.inf
        return log_probs

    return log_probs_after


def with_prefix(log_probs_after: LogProbsAfter, forced: Sequence[int]) -> LogProbsAfter:
    """Returns a function `log_probs_after` in which all sequences begin with `forced`."""

    def only_forced(prefix: Tokens) -> np.ndarray:
        log_probs = np.array(log_probs_after(prefix))
        if len(prefix) < len(forced):
            log_probs[np.arange(len(log_probs)) != forced[len(prefix)]] = -np.inf
        return log_probs

    return only_forced
