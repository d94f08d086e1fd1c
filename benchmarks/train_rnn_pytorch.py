"""Measures a training with PyTorch, for `train_rnn.py`.

    python benchmarks/train_rnn_pytorch.py SETTINGS

Loads the weights that `train_rnn_keras.py` wrote. Reads and prints the same JSON as that script.
"""

import training_side_pytorch
from torch_seq2seq import TorchSeq2Seq


def main():
    settings = training_side_pytorch.read_settings()
    model = TorchSeq2Seq(
        settings["vocabulary_size"],
        settings["embedding_dim"],
        settings["units"],
        settings["dropout"],
    )
    model.load_weights(settings["weights"])
    training_side_pytorch.measure(model, settings)


if __name__ == "__main__":
    main()
