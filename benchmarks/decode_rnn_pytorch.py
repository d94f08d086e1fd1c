"""PyTorch side of `decode_rnn.py`, which starts this script.

Loads the weights that `decode_rnn.py` wrote. The search equals
`keras_attn.BeamDecoder(stop="collected")`. It is written in PyTorch style: a loop over the steps
collects results in lists and removes finished sentences.
"""

import math

import torch
import translation_side
from torch_seq2seq import TorchSeq2Seq

START, END = 1, 2
NEVER = slice(0, 2)  # ids that no hypothesis contains: padding and the start token


def main():
    settings = translation_side.read_settings()
    torch.set_num_threads(settings["threads"])
    model = TorchSeq2Seq(**settings["sizes"], dropout=0.0, attention=settings["attention"]).eval()
    model.load_weights(settings["weights"])

    def translate(source_ids):
        return search(model, torch.from_numpy(source_ids).long(), settings)

    translation_side.measure(translate, settings, {"torch": torch.__version__})


@torch.inference_mode()
def search(model, source_ids, settings):
    """Returns the best ids, without end token, and their score for each row of `source_ids`."""
    width, penalty = settings["beam_width"], settings["length_penalty"]
    factor, margin = settings["relative_max_length"]
    limits = factor * (source_ids != 0).sum(dim=1) + margin  # (B,)
    limits = limits.clamp(max=settings["max_length"])
    best = [([], -math.inf)] * len(source_ids)
    sentences = torch.arange(len(source_ids))  # indices of the unfinished sentences
    collected = torch.zeros_like(sentences)

    memory, state = model.encode(source_ids)
    state = [part.repeat_interleave(width, dim=0) for part in state]  # (B*K, ...)
    log_probs = torch.full((len(source_ids), width), -math.inf)
    log_probs[:, 0] = 0.0  # at first all beams are equal, so expand only one
    token_ids = torch.full((len(source_ids), width, 1), START)  # (B, K, t)
    step = 0
    while len(sentences):
        step += 1
        state = model.step(model.embedding(token_ids[:, :, -1].flatten()), state, memory)
        logits = state[-1] @ model.embedding.weight.t()  # (B*K, V)
        totals = logits.logsumexp(dim=1, keepdim=True)
        logits[:, NEVER] = -math.inf
        values, tokens = logits.topk(2 * width)  # (B*K, 2K)
        values = (values - totals).view(-1, width, 2 * width) + log_probs.unsqueeze(2)
        values, chosen = values.flatten(1).topk(2 * width)  # (B, 2K), best first
        tokens = tokens.view(len(sentences), -1).gather(1, chosen)
        parents = chosen // (2 * width)

        is_end, at_limit = tokens == END, step >= limits
        ended = (is_end | at_limit.unsqueeze(1))[:, :width]
        for row, place in ended.nonzero().tolist():
            ids = [*token_ids[row, parents[row, place], 1:].tolist(), tokens[row, place].item()]
            ids = ids[:-1] if ids[-1] == END else ids
            score = values[row, place].item() / max(len(ids), 1) ** penalty
            if score > best[sentences[row]][1]:
                best[sentences[row]] = ids, score
        collected = collected + ended.sum(dim=1)

        # Continue with the best open hypotheses of the unfinished sentences.
        log_probs, chosen = values.masked_fill(is_end, -math.inf).topk(width)  # (B, K)
        parents, tokens = parents.gather(1, chosen), tokens.gather(1, chosen)
        rows = torch.arange(len(sentences)).unsqueeze(1)  # (B, 1)
        left = (~at_limit & (collected < width)).nonzero().squeeze(1)
        if len(left) < len(sentences):
            memory = [part[left] for part in memory]
            rows, parents, tokens = rows[left], parents[left], tokens[left]
            log_probs, limits = log_probs[left], limits[left]
            collected, sentences = collected[left], sentences[left]
        state = [part[(rows * width + parents).flatten()] for part in state]
        token_ids = torch.cat([token_ids[rows, parents], tokens.unsqueeze(2)], dim=2)
    return best


if __name__ == "__main__":
    main()
