"""One measurement of the peer in `train_rnn.py`: the same training in PyTorch.

    python benchmarks/train_rnn_pytorch.py SETTINGS

takes and prints what `train_rnn_keras.py` does, and reads the weights that it wrote.
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
