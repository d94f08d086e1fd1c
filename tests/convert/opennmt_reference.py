"""Logits and ids of OpenNMT-tf itself, which `test_opennmt_reference.py` runs as a script.

    PYTHON tests/convert/opennmt_reference.py CASE FOLDER

PYTHON is that of an environment of its own, because OpenNMT-tf 2.32 needs Python 3.8 to 3.11:
`pip install OpenNMT-tf 'tensorflow-cpu==2.13.*' 'numpy<2' 'setuptools<70'`.

FOLDER becomes a folder as OpenNMT-tf writes it, with `results.npz` and `results.json`. The beam
search runs twice: as it is, and with a correction of OpenNMT-tf. In 2.32, a finished hypothesis
that moves to another place of the beam gets the log probability of the hypothesis that was there.
"""

import inspect
import json
import sys
from pathlib import Path

import numpy as np

SOURCE_SIZE, TARGET_SIZE, NUM_SOURCES, LENGTH, MAX_LENGTH = 40, 45, 200, 9, 12
SIZES = {"num_layers": 2, "num_units": 16, "num_heads": 4, "ffn_inner_dim": 24}
CASES = {
    "separate": "",
    "one embedding": "share_embeddings=EmbeddingsSharingLevel.ALL",
    "tied output": "share_embeddings=EmbeddingsSharingLevel.TARGET",
    "shared inputs": "share_embeddings=EmbeddingsSharingLevel.SOURCE_TARGET_INPUT",
    "automatic": "share_embeddings=EmbeddingsSharingLevel.AUTO",
    "post-norm": "share_embeddings=EmbeddingsSharingLevel.ALL, pre_norm=False",
    "without biases": "mha_bias=False, output_layer_bias=False",
    "gelu": "ffn_activation=gelu",
    "swish": "ffn_activation=tf.nn.swish",
    "learned positions": "position_encoder_class=lambda: PositionEmbedder(maximum_position=16)",
}
"""Dict from the name of a case to further arguments of `opennmt.models.Transformer`."""

SHARED = ("one embedding", "shared inputs", "automatic", "post-norm")
DESCRIPTION = """
import tensorflow as tf
from opennmt.layers import PositionEmbedder, gelu
from opennmt.models import EmbeddingsSharingLevel, Transformer

model = lambda: Transformer({})
"""
LOG_PROBS = "cum_log_probs = tf.where(finished, x=cum_log_probs, y=next_cum_log_probs)"


def main(case, folder):
    import tensorflow as tf
    from opennmt.utils import decoding

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    description, names = DESCRIPTION.format(arguments(case)), {}
    (folder / "model_description.py").write_text(description)
    exec(description, names)
    model = names["model"]()
    vocabularies = write_vocabularies(folder, case)
    model.initialize(vocabularies, params={"maximum_decoding_length": MAX_LENGTH})
    optimizer = tf.keras.optimizers.legacy.Adam()
    model.create_variables(optimizer=optimizer)
    random = np.random.default_rng(7)
    for variable in model.trainable_variables:
        value = random.normal(size=variable.shape) * 0.35 + ("gamma" in variable.name)
        variable.assign(value.astype("float32"))
    sources = random.integers(3, SOURCE_SIZE, (NUM_SOURCES, LENGTH))
    lengths = random.integers(1, LENGTH + 1, NUM_SOURCES)
    sources = np.where(np.arange(LENGTH) < lengths[:, None], sources, 0)
    size = model.labels_inputter.vocabulary_size
    targets = random.integers(3, size, (NUM_SOURCES, 6))
    targets[:, 0] = 1
    features = {
        "ids": tf.constant(sources),
        "length": tf.constant(lengths.astype("int32")),
        "tokens": tf.constant(np.full(sources.shape, "")),
    }
    labels = {"ids": tf.constant(targets), "length": tf.fill([NUM_SOURCES], 6)}
    vary_lengths(model, features)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
    tf.train.CheckpointManager(checkpoint, str(folder), 1).save(checkpoint_number=50)
    vocabulary = Path(vocabularies["target_vocabulary"]).read_text().splitlines()
    results = {"greedy": search(model, features, 1, vocabulary)}
    results["beam as it is"] = search(model, features, 4, vocabulary)
    source = inspect.getsource(decoding.dynamic_decode)
    assert LOG_PROBS in source
    exec(source.replace(LOG_PROBS, "cum_log_probs = next_cum_log_probs"), decoding.__dict__)
    results["beam"] = search(model, features, 4, vocabulary)
    logits = model(features, labels=labels, training=False)[0]["logits"].numpy()
    np.savez(folder / "results.npz", sources=sources, targets=targets, logits=logits)
    (folder / "results.json").write_text(json.dumps(results))


def arguments(case):
    pairs = ", ".join(f"{name}={value}" for name, value in SIZES.items())
    return f"{pairs}, {CASES[case]}"


def write_vocabularies(folder, case):
    """Writes the vocabularies. Returns the configuration of the data."""
    names = {"source": "source.vocab", "target": "target.vocab"}
    if case in SHARED:
        names["target"] = names["source"]
    for side, size in (("target", TARGET_SIZE), ("source", SOURCE_SIZE)):
        tokens = ["<blank>", "<s>", "</s>", *(f"w{index}" for index in range(size - 4))]
        (folder / names[side]).write_text("".join(f"{token}\n" for token in tokens))
    return {f"{side}_vocabulary": str(folder / name) for side, name in names.items()}


def vary_lengths(model, features):
    """Changes the bias of the end token so that greedy outputs have many different lengths."""
    bias = model.decoder.output_layer.bias
    if bias is None:
        return
    start, found = bias.numpy(), []
    for added in np.arange(0, 3.5, 0.5):
        bias.assign(start + added * (np.arange(len(start)) == 2))
        model.params["beam_width"] = 1
        lengths = model(features, training=False)[1]["length"].numpy()[:, 0]
        found.append((len(set(lengths.tolist())), -added))
    bias.assign(start - max(found)[1] * (np.arange(len(start)) == 2))


def search(model, features, beam_width, vocabulary):
    """The ids of the best hypotheses without end token, and their log probabilities."""
    model.params["beam_width"] = beam_width
    results = model(features, training=False)[1]
    ids = {token: id_ for id_, token in enumerate([*vocabulary, "<unk>"])}
    tokens, lengths = results["tokens"].numpy()[:, 0], results["length"].numpy()[:, 0]
    return [
        [ids[token.decode()] for token in row[:length]]
        for row, length in zip(tokens, lengths, strict=True)
    ]


if __name__ == "__main__":
    main(*sys.argv[1:])
