"""Searches with stop sequences, of one sentence, in NumPy. See also `_search_oracles`."""

from keras_attn.testing._search_oracles import length_divisor

ENDS, NEVER = (2,), (0, 1)


def num_end_tokens(tokens, sequences, num_given=0):
    """How many of the last tokens are an end token or a sequence after the prefix."""
    own = tokens[num_given:]
    matches = [len(each) for each in sequences if own[-len(each) :] == tuple(each)]
    return max([*matches, int(own[-1:] in [(end,) for end in ENDS])])


def hypothesis(tokens, log_prob, sequences, form="average", length_penalty=1.0, num_given=0):
    number = num_end_tokens(tokens, sequences, num_given)
    length = len(tokens) - number
    counted = len(tokens) if form == "average_with_end" else length
    plain = "average" if form == "average_with_end" else form
    return tokens, length, log_prob / length_divisor(counted, length_penalty, plain), log_prob


def continuations(log_probs_after, tokens, sequences, min_length=0, given=()):
    """The possible next tokens, as pairs of the longer tokens and a log probability."""
    log_probs = log_probs_after(tokens)
    if len(tokens) < len(given):
        token = given[len(tokens)]
        return [((*tokens, token), log_probs[token])]
    found = []
    for token in range(len(log_probs)):
        longer = (*tokens, token)
        number = num_end_tokens(longer, sequences, len(given))
        if token not in NEVER and not (number and len(longer) - number < min_length):
            found.append((longer, log_probs[token]))
    return found


def greedy_search(log_probs_after, limit, sequences, min_length=0, given=()):
    tokens, total = (), 0.0
    while len(tokens) < limit and not num_end_tokens(tokens, sequences, len(given)):
        found = continuations(log_probs_after, tokens, sequences, min_length, given)
        tokens, value = max(found, key=lambda pair: pair[1])
        total += value
    return hypothesis(tokens, total, sequences, num_given=len(given))


def open_and_best_end(found, sequences, num_given):
    """The continuations without those that end, except for the most probable one."""
    ends = [pair for pair in found if num_end_tokens(pair[0], sequences, num_given)]
    best = max(ends, key=lambda pair: pair[1], default=None)
    return [pair for pair in found if pair not in ends or pair == best]


def beam_search(
    log_probs_after, limit, sequences, beam_width, num_hypotheses, form, min_length=0, given=()
):
    """Returns the best hypotheses of a beam search that collects `beam_width` of them."""
    beams, pool, num_given = [((), 0.0)], [], len(given)
    for length in range(1, limit + 1):
        candidates = []
        for tokens, total in beams:
            found = continuations(log_probs_after, tokens, sequences, min_length, given)
            for longer, value in open_and_best_end(found, sequences, num_given):
                candidates.append((longer, total + value))
        candidates = sorted(candidates, key=lambda pair: -pair[1])[: 2 * beam_width]
        ends = [num_end_tokens(tokens, sequences, num_given) > 0 for tokens, _ in candidates]
        for (tokens, total), is_end in list(zip(candidates, ends, strict=True))[:beam_width]:
            if is_end or length == limit:
                pool.append(hypothesis(tokens, total, sequences, form, num_given=num_given))
        beams = [pair for pair, is_end in zip(candidates, ends, strict=True) if not is_end]
        beams = beams[:beam_width]
        if len(pool) >= beam_width or not beams:
            break
    return sorted(pool, key=lambda each: -each[2])[:num_hypotheses]


def every_hypothesis(log_probs_after, limit, sequences, form, length_penalty):
    """All hypotheses with the most probable end after each prefix, best first."""
    left, finished = [((), 0.0)], []
    while left:
        tokens, total = left.pop()
        if len(tokens) == limit or num_end_tokens(tokens, sequences):
            finished.append(hypothesis(tokens, total, sequences, form, length_penalty))
            continue
        found = continuations(log_probs_after, tokens, sequences)
        left += [
            (longer, total + value) for longer, value in open_and_best_end(found, sequences, 0)
        ]
    return sorted(finished, key=lambda each: -each[2])
