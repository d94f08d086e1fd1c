"""Checkpoints of small random Transformers, under the names of OpenNMT-tf 2."""

import numpy as np

NUM_HEADS = 4
LAYERS = (2, 2)
SOURCE_SIZE, TARGET_SIZE = 40, 45
SPECIAL = ["<blank>", "<s>", "</s>"]
SOURCE = "model/examples_inputter/features_inputter/embedding"
TARGET = "model/examples_inputter/labels_inputter/embedding"
OUTPUT = "model/decoder/output_layer"
DESCRIPTION = "import opennmt\nmodel = lambda: opennmt.models.Transformer({})\n"


def opennmt_variables(
    seed=0,
    sizes=(SOURCE_SIZE, TARGET_SIZE),
    features=16,
    hidden=24,
    layers=LAYERS,
    share="NONE",
    pre_norm=True,
    mha_bias=True,
    output_layer_bias=True,
    num_positions=None,
    end_bias=1.5,
    end_scale=1.0,
    **_,
):
    """Random variables by name. Every bias and every normalization is random.

    Args:
        sizes: numbers of rows of the embeddings.
        layers: numbers of layers of encoder and decoder.
        share, pre_norm, mha_bias, output_layer_bias: arguments of OpenNMT-tf.
        num_positions: number of learned positions, if there are any.
        end_bias: added to the bias of the end token, so that outputs differ in length.
        end_scale: factor of the embedding of the end token, for the same purpose.
    """
    shapes = {SOURCE: (sizes[0], features)}
    if share in ("NONE", "TARGET"):
        shapes[TARGET] = (sizes[1], features)
    if share in ("NONE", "SOURCE_TARGET_INPUT"):
        shapes[f"{OUTPUT}/kernel"] = (features, sizes[1])
    if output_layer_bias:
        shapes[f"{OUTPUT}/bias"] = (sizes[1],)
    place, norms = "input_layer_norm" if pre_norm else "output_layer_norm", []
    for side, count in zip(("encoder", "decoder"), layers, strict=True):
        norms += [f"model/{side}/layer_norm"] if pre_norm else []
        if num_positions:
            name = f"model/{side}/position_encoder/position_embedding"
            shapes[name] = (num_positions + 1, features)
        for index in range(count):
            layer = f"model/{side}/layers/{index}"
            attentions = ["self_attention"] + ["attention/0"] * (side == "decoder")
            norms += [f"{layer}/{part}/{place}" for part in (*attentions, "ffn")]
            for attention in attentions:
                for part in ("queries", "keys", "values", "output"):
                    name = f"{layer}/{attention}/layer/linear_{part}"
                    shapes[f"{name}/kernel"] = (features, features)
                    if mha_bias:
                        shapes[f"{name}/bias"] = (features,)
            for part, inputs, outputs in (("inner", features, hidden), ("outer", hidden, features)):
                shapes[f"{layer}/ffn/layer/{part}/kernel"] = (inputs, outputs)
                shapes[f"{layer}/ffn/layer/{part}/bias"] = (outputs,)
    for norm in norms:
        shapes |= {f"{norm}/gamma": (features,), f"{norm}/beta": (features,)}
    random = np.random.default_rng(seed)
    variables = {name: random.normal(size=shape) * 0.35 for name, shape in shapes.items()}
    for name in variables:
        if name.endswith("gamma"):
            variables[name] += 1
    variables[TARGET if TARGET in variables else SOURCE][2] *= end_scale
    if output_layer_bias:
        variables[f"{OUTPUT}/bias"][2] += end_bias
    return {name: value.astype("float32") for name, value in variables.items()}


def arguments_text(layers=LAYERS, features=16, hidden=24, share="NONE", **options):
    """The arguments of `opennmt.models.Transformer` as Python code."""
    pairs = {
        "num_layers": layers[0] if layers[0] == layers[1] else layers,
        "num_units": features,
        "num_heads": NUM_HEADS,
        "ffn_inner_dim": hidden,
        "share_embeddings": f"opennmt.models.EmbeddingsSharingLevel.{share}",
    }
    code = {"share_embeddings", "ffn_activation", "position_encoder_class"}
    names = ("pre_norm", "mha_bias", "output_layer_bias", *code)
    pairs |= {name: value for name, value in options.items() if name in names}
    return ", ".join(
        f"{name}={value if name in code else repr(value)}" for name, value in pairs.items()
    )


def write_opennmt(folder, variables, arguments="", step=100, description=True):
    """Writes a checkpoint and, by default, a model description. Returns the folder."""
    import tensorflow as tf

    folder.mkdir(exist_ok=True, parents=True)
    tree = {}
    for name, value in variables.items():
        *owners, last = name.split("/")[1:]
        level = tree
        for owner in owners:
            level = level.setdefault(owner, {})
        level[last] = tf.Variable(value)
    optimizer = tf.train.Checkpoint(iter=tf.Variable(step), learning_rate=tf.Variable(0.1))
    checkpoint = tf.train.Checkpoint(model=_trackable(tree), optimizer=optimizer)
    manager = tf.train.CheckpointManager(checkpoint, str(folder), max_to_keep=3)
    manager.save(checkpoint_number=step)
    if description:
        (folder / "model_description.py").write_text(DESCRIPTION.format(arguments))
    return folder


def _trackable(tree):
    import tensorflow as tf

    if not isinstance(tree, dict):
        return tree
    return tf.train.Checkpoint(**{name: _trackable(each) for name, each in tree.items()})


def write_vocabulary(path, size, prefix="w"):
    """Writes a vocabulary for an embedding of `size` rows. Returns its path."""
    words = [f"{prefix}{index}" for index in range(size - 1 - len(SPECIAL))]
    path.write_text("".join(f"{token}\n" for token in (*SPECIAL, *words)), encoding="utf-8")
    return path


def random_source_ids(count, size=SOURCE_SIZE, length=9, seed=1):
    """Padded sources without special tokens, as OpenNMT-tf reads them by default."""
    random = np.random.default_rng(seed)
    ids = random.integers(3, size, (count, length)).astype("int32")
    lengths = random.integers(1, length + 1, count)
    return np.where(np.arange(length) < lengths[:, None], ids, 0)
