"""One measurement of the peer in `train_rnn.py`: the same training in PyTorch.

    python benchmarks/train_rnn_pytorch.py SETTINGS

takes and prints what `train_rnn_keras.py` does, and reads the weights that it wrote.
"""

import numpy as np
import pytorch_side
import torch
from torch_seq2seq import TorchSeq2Seq


def main():
    settings = pytorch_side.read_settings()
    model = TorchSeq2Seq(
        settings["vocabulary_size"],
        settings["embedding_dim"],
        settings["units"],
        settings["dropout"],
    )
    with np.load(settings["weights"]) as arrays:
        weights = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    model.load_state_dict(weights)
    pytorch_side.measure(model, settings)


if __name__ == "__main__":
    main()
