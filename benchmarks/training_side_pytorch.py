"""Code shared by the PyTorch sides of the training benchmarks, like `training_side_keras`."""

import json
import sys
import time

import numpy as np
import torch
from machine import use_cores


def read_settings():
    """Returns the settings of this process and configures its threads and random seed."""
    settings = json.loads(sys.argv[-1])
    use_cores(settings["threads"])
    torch.set_num_threads(settings["threads"])
    torch.manual_seed(settings["seed"])
    return settings


def measure(model, settings):
    """Prints the losses of three steps or the speed after a warm-up, as JSON."""
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
    print(json.dumps({"rate": tokens / seconds, "versions": {"torch": torch.__version__}}))


def make_train_step(model, settings):
    """Returns a function that trains on one batch and returns its loss."""
    model.train()
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.Adam(
        weights, settings["learning_rate"], eps=settings["epsilon"], fused=True
    )
    # PyTorch distributes the smoothed probability over all classes, including the label. The loss
    # of keras_attn distributes it over the wrong classes. A slightly larger value gives the same
    # loss.
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
    """Returns the source ids, target ids and labels of each batch."""
    names = ("source_ids", "target_ids", "labels")
    with np.load(path) as arrays:
        return [
            tuple(torch.from_numpy(arrays[f"{name}_{step}"]).long() for name in names)
            for step in range(len(arrays.files) // len(names))
        ]
