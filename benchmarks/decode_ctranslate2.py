"""CTranslate2 side of `decode.py`, which starts this script with a file of settings.

Builds the Transformer from the weights that `decode.py` wrote, in the layout of CTranslate2:
the projections of queries, keys and values of self-attention are one matrix, with a row for each
output.
"""

import json
import os
import time
from importlib import metadata
from pathlib import Path

import numpy as np
from translation_side import read_settings

SPECIAL = {0: "<pad>", 1: "<s>", 2: "</s>", 3: "<unk>"}


def main():
    settings = read_settings()
    # CTranslate2 reads these variables when it is imported.
    os.environ["CT2_USE_MKL"] = str(int(settings.get("mkl", 1)))
    if settings["measure"] == "convert":
        convert(settings["weights"], settings["model"])
        return
    print(json.dumps(measure(settings)))


def convert(weights, directory):
    """Writes a CTranslate2 model from a `.npz` file of weights and the file of its sizes."""
    import ctranslate2

    values = dict(np.load(weights))
    sizes = json.loads(Path(weights).with_suffix(".json").read_text())
    spec = ctranslate2.specs.TransformerSpec.from_config(
        sizes["num_layers"], sizes["num_heads"], pre_norm=True
    )
    for side, part in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        embedding = part.embeddings[0] if side == "encoder" else part.embeddings
        embedding.weight = values[f"{side}/embedding"]
        part.position_encodings.encodings = values["positions"]
        set_norm(part.layer_norm, values, f"{side}/stack/final_norm")
        for index, layer in enumerate(part.layer):
            set_block(layer, values, f"{side}/stack/block_{index}")
    spec.decoder.projection.weight = values["decoder/embedding"]
    for register, side in (
        (spec.register_source_vocabulary, "encoder"),
        (spec.register_target_vocabulary, "decoder"),
    ):
        register([token(index) for index in range(len(values[f"{side}/embedding"]))])
    spec.config.layer_norm_epsilon = sizes["layer_norm_epsilon"]
    spec.validate()
    Path(directory).mkdir()
    spec.save(str(directory))


def set_block(layer, values, name):
    self_attention = layer.self_attention
    set_norm(self_attention.layer_norm, values, f"{name}/attention_norm")
    set_linear(self_attention.linear[0], values, f"{name}/self_attention", "query key value")
    set_linear(self_attention.linear[1], values, f"{name}/self_attention", "output")
    if f"{name}/cross_attention_layer/query_kernel" in values:
        attention = layer.attention
        set_norm(attention.layer_norm, values, f"{name}/memory_norm")
        for linear, parts in zip(attention.linear, ("query", "key value", "output"), strict=True):
            set_linear(linear, values, f"{name}/cross_attention_layer", parts)
    set_norm(layer.ffn.layer_norm, values, f"{name}/feed_forward_norm")
    for linear, part in ((layer.ffn.linear_0, "expansion"), (layer.ffn.linear_1, "contraction")):
        linear.weight = values[f"{name}/feed_forward/{part}/kernel"].T.copy()
        linear.bias = values[f"{name}/feed_forward/{part}/bias"]


def set_linear(linear, values, name, parts):
    """Sets a linear layer to the concatenation of the projections `parts`."""
    parts = parts.split()
    linear.weight = np.concatenate([values[f"{name}/{part}_kernel"].T for part in parts])
    linear.bias = np.concatenate([values[f"{name}/{part}_bias"] for part in parts])


def set_norm(norm, values, name):
    norm.gamma, norm.beta = values[f"{name}/gamma"], values[f"{name}/beta"]


def token(index):
    return SPECIAL.get(index, str(index))


def token_id(text):
    return int(text) if text.isdecimal() else next(i for i, t in SPECIAL.items() if t == text)


def measure(settings):
    """Returns the seconds and the hypotheses of each batch size."""
    import ctranslate2

    translator = ctranslate2.Translator(
        settings["model"],
        device="cpu",
        compute_type=settings["precision"],
        inter_threads=settings["workers"],
        intra_threads=settings["threads"] // settings["workers"],
    )

    def translate(batches, lengths):
        started = []
        for batch, length in zip(batches, lengths, strict=True):
            started += translator.translate_batch(
                batch,
                beam_size=settings["beam_width"],
                length_penalty=settings["length_penalty"],
                max_decoding_length=length or settings["max_length"],
                min_decoding_length=length or 1,
                return_scores=True,
                asynchronous=True,
            )
        results = [result.result() for result in started]
        return [(result.hypotheses[0], result.scores[0]) for result in results]

    rows = {}
    for size, batches in settings["batches"].items():
        lengths = settings["lengths"].get(size) or [None] * len(batches)
        # CTranslate2 reads and returns strings. Their conversion to and from ids is not timed.
        batches = [[[token(index) for index in each] for each in batch] for batch in batches]
        translate(batches[:2], lengths[:2])
        begin = time.perf_counter()
        results = translate(batches, lengths)
        seconds = time.perf_counter() - begin
        hypotheses = [([token_id(text) for text in texts], score) for texts, score in results]
        rows[size] = {"seconds": seconds, "hypotheses": hypotheses}
    return {"rows": rows, "versions": {"ctranslate2": metadata.version("ctranslate2")}}


if __name__ == "__main__":
    main()
