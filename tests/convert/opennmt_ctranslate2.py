"""The variables of OpenNMT-tf as a model of CTranslate2, which needs no OpenNMT-tf."""

import ctranslate2
import numpy as np

from tests.convert.opennmt_checkpoints import LAYERS, NUM_HEADS, OUTPUT, SOURCE, SPECIAL, TARGET

ACTIVATIONS = {
    "tf.nn.relu": ctranslate2.specs.common_spec.Activation.RELU,
    "tf.nn.swish": ctranslate2.specs.common_spec.Activation.SWISH,
    "opennmt.layers.gelu": ctranslate2.specs.common_spec.Activation.GELUTanh,
}

NAMES = dict(enumerate([*SPECIAL, "<unk>"]))


def write_ctranslate2(folder, variables, ffn_activation="tf.nn.relu", layers=LAYERS, **_):
    """Writes a model of CTranslate2. Sinusoids from position 1 and scaled embeddings are built in.

    The projections of queries, keys and values of self-attention are one matrix there.
    """
    is_pre_norm = "model/encoder/layer_norm/gamma" in variables
    activation = ACTIVATIONS[ffn_activation]
    spec = ctranslate2.specs.TransformerSpec.from_config(
        layers, NUM_HEADS, pre_norm=is_pre_norm, activation=activation
    )
    table = variables.get(TARGET, variables[SOURCE])
    spec.encoder.embeddings[0].weight = variables[SOURCE]
    spec.decoder.embeddings.weight = table
    kernel = variables.get(f"{OUTPUT}/kernel")
    spec.decoder.projection.weight = table if kernel is None else kernel.T.copy()
    if f"{OUTPUT}/bias" in variables:
        spec.decoder.projection.bias = variables[f"{OUTPUT}/bias"]
    for side, part in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        if is_pre_norm:
            _set_norm(part.layer_norm, variables, f"model/{side}/layer_norm")
        for index, layer in enumerate(part.layer):
            _set_layer(layer, variables, f"model/{side}/layers/{index}", side == "decoder")
    spec.register_source_vocabulary(tokens(len(variables[SOURCE])))
    spec.register_target_vocabulary(tokens(len(table)))
    spec.config.layer_norm_epsilon = 1e-3
    spec.config.add_source_bos = spec.config.add_source_eos = False
    spec.validate()
    folder.mkdir()
    spec.save(str(folder))
    return folder


def tokens(size):
    """Names of the ids. CTranslate2 requires `<unk>`, which has the id 3 here."""
    return [NAMES.get(id_, str(id_)) for id_ in range(size)]


def ctranslate2_ids(folder, sources, beam_width, max_length):
    """The ids of each source without the end token, by greedy (beam_width 1) or beam search."""
    translator = ctranslate2.Translator(str(folder), device="cpu", intra_threads=1)
    results = translator.translate_batch(
        [[NAMES.get(id_, str(id_)) for id_ in source if id_] for source in sources.tolist()],
        beam_size=beam_width,
        length_penalty=0,
        max_decoding_length=max_length,
        min_decoding_length=0,
        max_batch_size=0,
    )
    ids = {token: id_ for id_, token in NAMES.items()}
    return [
        [ids[token] if token in ids else int(token) for token in each.hypotheses[0]]
        for each in results
    ]


def _set_layer(layer, variables, name, is_decoder):
    _set_attention(layer.self_attention, variables, f"{name}/self_attention", 3)
    if is_decoder:
        _set_attention(layer.attention, variables, f"{name}/attention/0", 1)
    _set_norm(layer.ffn.layer_norm, variables, _norm_name(variables, f"{name}/ffn"))
    _set_linear(layer.ffn.linear_0, variables, [f"{name}/ffn/layer/inner"])
    _set_linear(layer.ffn.linear_1, variables, [f"{name}/ffn/layer/outer"])


def _set_attention(attention, variables, name, num_first):
    """Sets the projections. The first `num_first` projections are one matrix."""
    _set_norm(attention.layer_norm, variables, _norm_name(variables, name))
    parts = [f"{name}/layer/linear_{part}" for part in ("queries", "keys", "values")]
    _set_linear(attention.linear[0], variables, parts[:num_first])
    if num_first < len(parts):
        _set_linear(attention.linear[1], variables, parts[num_first:])
    _set_linear(attention.linear[-1], variables, [f"{name}/layer/linear_output"])


def _norm_name(variables, name):
    place = f"{name}/input_layer_norm"
    return place if f"{place}/gamma" in variables else f"{name}/output_layer_norm"


def _set_linear(linear, variables, names):
    linear.weight = np.concatenate([variables[f"{name}/kernel"].T for name in names])
    if f"{names[0]}/bias" in variables:
        linear.bias = np.concatenate([variables[f"{name}/bias"] for name in names])


def _set_norm(norm, variables, name):
    norm.gamma, norm.beta = variables[f"{name}/gamma"], variables[f"{name}/beta"]
