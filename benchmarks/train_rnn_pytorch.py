"""One measurement of the peer in `train_rnn.py`: the same training in PyTorch.

    python benchmarks/train_rnn_pytorch.py SETTINGS

takes and prints what `train_rnn_keras.py` does, and reads the weights that it wrote.
"""

import json
import os
import sys
import time

import numpy as np
import torch
from torch_seq2seq import TorchSeq2Seq


def main():
    settings = json.loads(sys.argv[1])
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: settings["threads"]])
    torch.set_num_threads(settings["threads"])
    torch.manual_seed(settings["seed"])
    model = TorchSeq2Seq(
        settings["vocabulary_size"],
        settings["embedding_dim"],
        settings["units"],
        settings["dropout"],
    )
    with np.load(settings["weights"]) as arrays:
        weights = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    model.load_state_dict(weights)
    train_step = make_train_step(model, settings)
    batches = read_batches(settings["batches"])
    if settings["measure"] == "losses":
        print(json.dumps({"losses": [float(train_step(*batch)) for batch in batches[:3]]}))
        return

    for batch in batches[: settings["warmup_steps"]]:
        train_step(*batch)
    timed = batches[settings["warmup_steps"] :]
    started = time.perf_counter()
    for batch in timed:
        train_step(*batch)
    seconds = time.perf_counter() - started
    tokens = sum(int((labels != 0).sum()) for _, _, labels in timed)
    versions = {"torch": torch.__version__, "numpy": np.__version__}
    print(json.dumps({"rate": tokens / seconds, "versions": versions}))


def make_train_step(model, settings):
    """The function that trains on one batch and returns its loss."""
    model.train()
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.Adam(
        weights, settings["learning_rate"], eps=settings["epsilon"], fused=True
    )
    # PyTorch leaves the label its share of the smoothed mass, our loss gives it to the others: the
    # same loss with a little more smoothing.
    smoothing = settings["label_smoothing"]
    smoothing *= settings["vocabulary_size"] / (settings["vocabulary_size"] - 1)

    def train_step(source_ids, target_ids, labels):
        logits = model(source_ids, target_ids)  # (B, T, V)
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=0, label_smoothing=smoothing
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, settings["global_clipnorm"])
        optimizer.step()
        return loss.detach()

    return train_step


def read_batches(path):
    """Source ids, target ids and labels of each batch."""
    names = ("source_ids", "target_ids", "labels")
    with np.load(path) as arrays:
        return [
            tuple(torch.from_numpy(arrays[f"{name}_{step}"]).long() for name in names)
            for step in range(len(arrays.files) // len(names))
        ]


if __name__ == "__main__":
    main()
