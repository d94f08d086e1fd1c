"""Every layer that reads masks, with random explicit and implicit ones, against NumPy.

A case is one sentence with random inputs and masks. The masks of a sequence are given as an
explicit mask, as an implicit one or as both, to the layer itself, to the layer in
`TimeDistributed`, and to a functional model in `TimeDistributed` that contains the layer.

`RANDOM_MASK_CASES` is the number of cases of the slow test.
"""

import dataclasses
import math
import os
from collections.abc import Callable

import keras
import numpy as np
import pytest

import keras_attn as ka
from keras_attn._layer.attach_mask import AttachMask
from tests import oracles
from tests import transformer_oracles as transformer
from tests.contracts import assert_close, numpy, randomize
from tests.rnn.numpy_steps import numpy_step, top
from tests.slow_cases import all_slow_but

IS_JAX = keras.backend.backend() == "jax"
RANDOM_MASK_CASES = int(os.environ.get("RANDOM_MASK_CASES", 2_000 if IS_JAX else 10_000))
BATCH, FEATURES = 4, 4
SHAPES = [(5, 5), (2, 7), (3, 5), (1, 4), (4, 1)][: 2 if IS_JAX else None]
"""Target and source lengths. With the first one, all calls have the same shapes. JAX compiles each
operator for each shape."""

NUM_SENTENCES = 2
"""Sentences of a document, the axis over which `TimeDistributed` goes."""

GIVEN = ("explicit", "implicit", "both", "per query", "per query and implicit")


@dataclasses.dataclass
class Subject:
    """A layer and what it must compute for one sentence.

    Args:
        make: function without arguments that returns a new layer.
        expected: function of the layer, a dict of sequences `(time, features)` and a dict of their
            masks; returns what the first output of the layer is.
        sequences: dict from call arguments to the axis in `SHAPES` with their length.
        explicit: dict from call arguments to those of their explicit masks.
        per_query: argument whose explicit mask may be different for each query, or `None`.
        real: argument at whose masked positions the output has no meaning, or `None`.
        call: function of the layer, a dict of sequences and a dict of explicit masks.
    """

    make: Callable
    expected: Callable
    sequences: dict = dataclasses.field(default_factory=lambda: {"query": 0, "value": 1})
    explicit: dict = dataclasses.field(default_factory=lambda: {"value": "attention_mask"})
    per_query: str | None = None
    real: str | None = None
    call: Callable = lambda layer, sequences, explicit: layer(**sequences, **explicit)

    @property
    def can_be_wrapped(self):
        """Whether it maps one sequence to one tensor."""
        return len(self.sequences) == 1 and self.call not in (outputs_of_encoder, decode)


def weights(layer, *names):
    return [numpy(getattr(layer, name)).astype("float64") for name in names]


# Attention of queries to a memory.


def mechanism(make, scores, **kwargs):
    """A mechanism without a state, by its scores."""

    def expected(layer, x, masks):
        found = scores(layer, x["query"], x["value"])
        return oracles.attend(found, x["value"], masks["value"], **kwargs)[0]

    return Subject(make, expected, per_query="value")


def bahdanau_scores(layer, query, key):
    query_kernel, key_kernel, vector = weights(layer, "query_kernel", "key_kernel", "vector")
    gain = bias = None
    if layer.normalize:
        gain, bias = weights(layer, "gain", "bias")
    normalized = {} if gain is None else {"gain": gain, "bias": bias}
    return oracles.bahdanau_scores(query, key, query_kernel, key_kernel, vector[:, 0], **normalized)


def general_scores(layer, query, key):
    return oracles.luong_general_scores(query, key, *weights(layer, "key_kernel"))


def concat_scores(layer, query, key):
    kernel = np.concatenate(weights(layer, "query_kernel", "key_kernel"))
    (vector,) = weights(layer, "vector")
    return oracles.luong_concat_scores(query, key, kernel, vector[:, 0])


def linear_scores(layer, query, key):
    kernel = np.concatenate(weights(layer, "query_kernel", "key_kernel"))[:, 0]
    return oracles.linear_scores(query, key, kernel, *weights(layer, "bias"))[..., 0]


def local_expected(layer, x, masks):
    mask = masks["value"]
    length = mask.nonzero()[0][-1] + 1 if mask.any() else 0
    if layer.alignment == "predictive":
        kernel, vector = weights(layer, "position_kernel", "position_vector")
        centers = length * oracles.sigmoid(np.tanh(x["query"] @ kernel) @ vector[:, 0])
    else:
        centers = np.minimum(np.arange(len(x["query"])), max(length - 1, 0))
    distance = np.arange(len(mask)) - centers[:, None]
    scores = general_scores(layer.mechanism, x["query"], x["value"])
    _, found = oracles.attend(scores, x["value"], mask & (abs(distance) <= layer.window))
    if layer.alignment == "predictive":
        found = found * np.exp(-(distance**2) / (2 * (layer.window / 2) ** 2))
    return found @ x["value"]


def monotonic_expected(layer, x, masks):
    scores = general_scores(layer.mechanism, x["query"], x["value"]) + numpy(layer.bias)
    oracle = oracles.monotonic_hard if layer.mode == "hard" else oracles.monotonic
    return oracle(scores, masks["value"]) @ x["value"]


def location_sensitive_expected(layer, x, masks):
    filters, features = None, "coverage_kernel"
    if isinstance(layer, ka.LocationSensitiveAttention):
        (filters,), features = weights(layer, "filter_kernel"), "feature_kernel"
        filters = filters[:, 0]
    kernels = weights(layer, "query_kernel", "key_kernel", features)
    vector, bias = weights(layer, "vector", "bias")
    return oracles.location_sensitive(
        x["query"],
        x["value"],
        x["value"],
        masks["value"],
        kernels,
        vector[:, 0],
        bias,
        filters,
        layer.cumulative,
    )[0]


def multi_head_expected(layer, x, masks):
    return transformer.multi_head_attention(
        x["query"],
        transformer.weights_of(layer),
        layer.num_heads,
        x.get("value"),
        num_groups=layer.num_key_value_heads,
        mask=masks.get("value", masks["query"]),
    )[0]


def multiple_expected(layer, x, masks):
    text, past = layer.attentions
    scores = general_scores(text, x["query"], x["value"])
    contexts = [oracles.attend(scores, x["value"], masks["value"])[0]]
    contexts.append(intra_decoder_expected(past, x, masks))
    return np.concatenate(contexts, axis=-1)


def intra_decoder_expected(layer, x, masks):
    query = x["query"]
    before = np.tril(np.ones((len(query), len(query)), bool), -1)
    scores = general_scores(layer.mechanism, query, query)
    return oracles.attend(scores, query, before & masks["query"])[0]


# Two sentences.


def transformed(layer, x):
    return np.maximum(x @ numpy(layer.transform.kernel) + numpy(layer.transform.bias), 0)


def soft_alignment_expected(layer, x, masks):
    scores = oracles.luong_dot_scores(
        transformed(layer, x["first"]), transformed(layer, x["second"])
    )
    return oracles.attend(scores, x["second"], masks["second"])[0]


def intra_sentence_expected(layer, x, masks):
    words = transformed(layer, x["first"])
    positions = np.arange(len(words))
    distances = positions[:, None] - positions
    far, bias = layer.max_distance, numpy(layer.distance_bias)
    scores = oracles.luong_dot_scores(words, words)
    scores = scores + bias[np.where(abs(distances) > far, 0, distances + far + 1)]
    return oracles.attend(scores, x["first"], masks["first"])[0]


# Transformers.


def block_expected(layer, x, masks):
    own = {"normalize_first": layer.normalize_first, "mask": masks["inputs"]}
    arguments = transformer.weights_of(layer), layer.num_heads
    if not isinstance(layer, ka.TransformerDecoderBlock):
        return transformer.encoder_block(x["inputs"], *arguments, **own)
    memory = x.get("encoder_outputs")
    if memory is not None:
        own["memory_mask"] = masks["encoder_outputs"]
    return transformer.decoder_block(x["inputs"], memory, *arguments, **own)


def encoder_expected(layer, x, masks):
    own = transformer.weights_of(layer)["stack"]
    vectors = x["inputs"]
    for index in range(2):
        vectors = transformer.encoder_block(vectors, own[f"block_{index}"], 2, mask=masks["inputs"])
    return transformer.norm(vectors, own["final_norm"])


def transformer_decoder_expected(layer, x, masks):
    own = transformer.weights_of(layer)["stack"]
    vectors = numpy(layer.embedding.embeddings)[TOKEN_IDS]
    for index in range(2):
        vectors = transformer.decoder_block(
            vectors,
            x["encoder_outputs"],
            own[f"block_{index}"],
            2,
            memory_mask=masks["encoder_outputs"],
        )
    vectors = transformer.norm(vectors, own["final_norm"])
    return vectors @ numpy(layer.embedding.embeddings).T


# Recurrent layers, and means.


def mean(x, mask):
    return x[mask].mean(axis=0) if mask.any() else np.zeros(x.shape[1])


def bridge_expected(layer, x, masks):
    (dense,) = layer.dense_layers
    pooled = mean(x["encoder_outputs"], masks["encoder_outputs"])
    return np.tanh(pooled @ numpy(dense.kernel) + numpy(dense.bias))


def rnn_encoder_expected(layer, x, masks):
    step = numpy_step(layer.recurrent_layers[0].cell)
    outputs, state = [], [np.zeros(3)]
    for vector in x["inputs"][masks["inputs"]]:
        output, state = step(vector, state)
        outputs.append(output)
    return np.array(outputs).reshape(-1, 3)


def run_cell(cell, inputs, memory, mask, state):
    """Outputs `(T, D)` of an `AttentionRNNCell` with additive attention."""

    def attend(query):
        scores = bahdanau_scores(cell.attention, query[None], memory)
        context, found = oracles.attend(scores, memory, mask)
        return context[0], found[0]

    arguments = memory.shape[1], cell.query_from, cell.input_feeding
    outputs, *_ = oracles.attention_rnn(
        inputs, state, numpy_step(cell.cell), top, attend, *arguments
    )
    return outputs.reshape(-1, 3 + memory.shape[1])  # also if there are no inputs


def attention_rnn_expected(layer, x, masks):
    inputs = x["inputs"][masks["inputs"]]  # a masked step changes nothing
    memory, mask = x["encoder_outputs"], masks["encoder_outputs"]
    return run_cell(layer.cell, inputs, memory, mask, [np.zeros(3)])


def rnn_decoder_expected(layer, x, masks):
    memory, mask = x["encoder_outputs"], masks["encoder_outputs"]
    state = bridge_expected(layer.state_bridge, x, masks)
    inputs = numpy(layer.embedding.embeddings)[TOKEN_IDS]
    outputs = run_cell(layer.cell, inputs, memory, mask, [state])
    return outputs @ numpy(layer.head.kernel) + numpy(layer.head.bias)


TOKEN_IDS = np.array([1, 3, 2], "int32")
VOCABULARY_SIZE = 5
ENCODED = {"sequences": {"encoder_outputs": 1}, "explicit": {"encoder_outputs": "encoder_mask"}}
INPUTS = {"sequences": {"inputs": 0}, "explicit": {"inputs": "attention_mask"}}
QUERY = {"sequences": {"query": 0}, "explicit": {"query": "attention_mask"}}
PAIR = {
    "sequences": {"first": 0, "second": 1},
    "explicit": {"first": "first_mask", "second": "second_mask"},
}
INPUTS_AND_MEMORY = {
    "sequences": {"inputs": 0, "encoder_outputs": 1},
    "explicit": {"inputs": "attention_mask", "encoder_outputs": "encoder_mask"},
}
MASK_OF_INPUTS = {"sequences": {"inputs": 0}, "explicit": {"inputs": "mask"}}


def decode(layer, sequences, explicit):
    batch = keras.ops.shape(sequences["encoder_outputs"])[0]
    token_ids = keras.ops.tile(TOKEN_IDS[None], (batch, 1))
    return layer(token_ids, **sequences, **explicit)


def of_text(layer, sequences, explicit):
    """`CombinedAttention` with a dict of memories, of which one has a mask."""
    value = {"text": sequences["value"]}
    explicit = {name: {"text": mask} for name, mask in explicit.items()}
    return layer(sequences["query"], value, **explicit)


def outputs_of_encoder(layer, sequences, explicit):
    return layer(**sequences, **explicit)["encoder_outputs"]


def attention_rnn(**kwargs):
    def make():
        cell = ka.AttentionRNNCell(keras.layers.GRUCell(3), ka.BahdanauAttention(3), **kwargs)
        return ka.AttentionRNN(cell)

    return Subject(
        make,
        attention_rnn_expected,
        **{
            **INPUTS_AND_MEMORY,
            "explicit": {"inputs": "mask", "encoder_outputs": "encoder_mask"},
            "real": "inputs",
        },
    )


def rnn_decoder():
    cell = ka.AttentionRNNCell(keras.layers.GRUCell(3), ka.BahdanauAttention(3))
    embedding = keras.layers.Embedding(VOCABULARY_SIZE, 2)
    return ka.RNNDecoder(cell, embedding, head=keras.layers.Dense(VOCABULARY_SIZE))


def transformer_decoder():
    embedding = keras.layers.ReversibleEmbedding(VOCABULARY_SIZE, FEATURES)
    return ka.TransformerDecoder(ka.TransformerDecoderBlock(2, 5), embedding, num_layers=2)


SUBJECTS = {
    "bahdanau": mechanism(lambda: ka.BahdanauAttention(3), bahdanau_scores),
    "bahdanau normalized": mechanism(
        lambda: ka.BahdanauAttention(3, normalize=True, chunk_size=2), bahdanau_scores
    ),
    "bahdanau sparsemax": mechanism(
        lambda: ka.BahdanauAttention(3, probability_fn="sparsemax"),
        bahdanau_scores,
        probabilities=oracles.sparsemax,
    ),
    "luong dot": mechanism(
        lambda: ka.LuongAttention("dot"), lambda layer, q, k: oracles.luong_dot_scores(q, k)
    ),
    "luong general": mechanism(lambda: ka.LuongAttention("general"), general_scores),
    "luong concat": mechanism(lambda: ka.LuongAttention("concat", units=3), concat_scores),
    "scaled dot product": mechanism(
        ka.ScaledDotProductAttention, lambda layer, q, k: oracles.scaled_dot_scores(q, k)
    ),
    "cosine": mechanism(
        ka.CosineAttention,
        lambda layer, q, k: oracles.cosine_scores(q, k, *weights(layer, "sharpness")),
    ),
    "linear": mechanism(ka.LinearScoreAttention, linear_scores),
    "location": mechanism(
        lambda: ka.LocationAttention(9),
        lambda layer, q, k: oracles.location_scores(q, k, *weights(layer, "kernel")),
    ),
    "local predictive": Subject(
        lambda: ka.LocalAttention(ka.LuongAttention("general"), window=2), local_expected
    ),
    "local monotonic": Subject(
        lambda: ka.LocalAttention(ka.LuongAttention("general"), window=1, alignment="monotonic"),
        local_expected,
    ),
    "location-sensitive": Subject(
        lambda: ka.LocationSensitiveAttention(3, filters=2, kernel_size=3),
        location_sensitive_expected,
    ),
    "coverage": Subject(lambda: ka.CoverageAttention(3), location_sensitive_expected),
    "monotonic recursive": Subject(
        lambda: ka.MonotonicAttention(ka.LuongAttention("general"), "recursive"),
        monotonic_expected,
    ),
    "monotonic hard": Subject(
        lambda: ka.MonotonicAttention(ka.LuongAttention("general"), "hard"), monotonic_expected
    ),
    "heads": Subject(
        lambda: ka.MultiHeadAttention(2, 3, num_key_value_heads=1),
        multi_head_expected,
        per_query="value",
    ),
    "heads, blockwise": Subject(
        lambda: ka.MultiHeadAttention(2, 3, flash_attention=True), multi_head_expected
    ),
    "heads, self-attention": Subject(
        lambda: ka.MultiHeadAttention(2, 3), multi_head_expected, per_query="query", **QUERY
    ),
    "intra-decoder": Subject(
        lambda: ka.IntraDecoderAttention(ka.LuongAttention("general")),
        intra_decoder_expected,
        per_query="query",
        **QUERY,
    ),
    "multiple": Subject(
        lambda: ka.CombinedAttention(
            {
                "text": ka.LuongAttention("general"),
                "past": ka.IntraDecoderAttention(ka.LuongAttention("general")),
            }
        ),
        multiple_expected,
        call=of_text,
        per_query="value",
    ),
    "soft alignment": Subject(
        lambda: ka.SoftAlignment(keras.layers.Dense(3, "relu")), soft_alignment_expected, **PAIR
    ),
    "intra-sentence": Subject(
        lambda: ka.IntraSentenceAttention(keras.layers.Dense(3, "relu"), max_distance=1),
        intra_sentence_expected,
        **PAIR,
    ),
    "encoder block": Subject(
        lambda: ka.TransformerEncoderBlock(2, 5), block_expected, per_query="inputs", **INPUTS
    ),
    "encoder block, post-norm, rms, blockwise": Subject(
        lambda: ka.TransformerEncoderBlock(
            2, 5, normalize_first=False, normalization="rms", flash_attention=True
        ),
        block_expected,
        **INPUTS,
    ),
    "decoder block": Subject(
        lambda: ka.TransformerDecoderBlock(2, 5),
        block_expected,
        per_query="inputs",
        **INPUTS_AND_MEMORY,
    ),
    "decoder block, post-norm": Subject(
        lambda: ka.TransformerDecoderBlock(2, 5, normalize_first=False),
        block_expected,
        per_query="encoder_outputs",
        **INPUTS_AND_MEMORY,
    ),
    "decoder block of a language model": Subject(
        lambda: ka.TransformerDecoderBlock(2, 5, cross_attention=False), block_expected, **INPUTS
    ),
    "encoder": Subject(
        lambda: ka.TransformerEncoder(ka.TransformerEncoderBlock(2, 5), num_layers=2),
        encoder_expected,
        call=outputs_of_encoder,
        **MASK_OF_INPUTS,
    ),
    "recurrent encoder": Subject(
        lambda: ka.RNNEncoder(keras.layers.GRUCell(3), bidirectional=False),
        rnn_encoder_expected,
        real="inputs",
        call=outputs_of_encoder,
        **MASK_OF_INPUTS,
    ),
    "pooling": Subject(
        ka.SequencePooling,
        lambda layer, x, masks: mean(x["encoder_outputs"], masks["encoder_outputs"]),
        **ENCODED,
    ),
    "state bridge": Subject(lambda: ka.StateBridge(3), bridge_expected, **ENCODED),
    "attention RNN": attention_rnn(),
    "attention RNN, query before the cell": attention_rnn(query_from="previous_state"),
    "attention RNN, all steps at once": attention_rnn(input_feeding=False),
    "recurrent decoder": Subject(rnn_decoder, rnn_decoder_expected, call=decode, **ENCODED),
    "Transformer decoder": Subject(
        transformer_decoder, transformer_decoder_expected, call=decode, **ENCODED
    ),
}


@pytest.mark.parametrize(
    "name", all_slow_but(*SUBJECTS, cases=SUBJECTS, on_jax=list(SUBJECTS)[::3])
)
def test_random_masks_give_what_numpy_computes(name):
    subject = SUBJECTS[name]
    check_cases(subject, 8, ["per query and implicit" if subject.per_query else "both"])


@pytest.mark.slow
@pytest.mark.parametrize("name", SUBJECTS)
def test_many_random_masks_give_what_numpy_computes(name):
    check_cases(SUBJECTS[name], math.ceil(RANDOM_MASK_CASES / len(SUBJECTS)))


def check_cases(subject, num_cases, all_given=GIVEN):
    """Checks at least so many sentences, in all ways in which masks can be given."""
    generator = np.random.default_rng(0)
    layer = subject.make()
    arrays = random_arrays(subject, generator, SHAPES[0])
    subject.call(layer, arrays, {})
    randomize(layer)
    in_model = functional_model(subject, layer)
    checked = round_number = 0
    while checked < num_cases:
        shape = SHAPES[round_number % len(SHAPES)]
        round_number += 1
        for given in all_given:
            if subject.per_query or not given.startswith("per query"):
                checked += check_call(subject, layer, generator, shape, given)
        if subject.can_be_wrapped:
            checked += check_wrapped(subject, layer, generator, shape)
        if in_model is not None:
            checked += check_model(subject, layer, in_model, generator, shape)


def random_arrays(subject, generator, shape, batch=BATCH):
    return {
        name: generator.normal(size=(batch, shape[axis], FEATURES)).astype("float32")
        for name, axis in subject.sequences.items()
    }


def random_mask(generator, shape):
    """Masks of all densities; a few rows are all padding."""
    return generator.random(shape) < generator.choice([0.0, 0.3, 0.7, 1.0], (shape[0], 1))


def attach_mask(x, mask):
    """A tensor with an implicit mask."""
    return AttachMask()(x, mask=mask)


def check_call(subject, layer, generator, shape, given):
    """The layer itself, called with explicit masks, implicit ones or both."""
    arrays = random_arrays(subject, generator, shape)
    masks = {name: np.ones(array.shape[:2], bool) for name, array in arrays.items()}
    sequences, explicit = dict(arrays), {}
    if given != "implicit":
        for name, argument in subject.explicit.items():
            explicit[argument] = random_mask(generator, arrays[name].shape[:2])
            if given.startswith("per query") and name == subject.per_query:
                target, source = next(iter(arrays.values())).shape[1], arrays[name].shape[1]
                mask = generator.random((BATCH, target, source)) < 0.6
                explicit[argument] = mask & explicit[argument][:, None]
            masks[name] = explicit[argument]
    # What a call argument for the implicit mask is given replaces it, as in Keras.
    replaced = [name for name, argument in subject.explicit.items() if argument == f"{name}_mask"]
    if given in ("implicit", "both", "per query and implicit"):
        for name in arrays:
            if not (explicit and name in replaced):
                mask = random_mask(generator, arrays[name].shape[:2])
                sequences[name] = attach_mask(arrays[name], mask)
                masks[name] = masks[name] & (mask[:, None] if masks[name].ndim == 3 else mask)
    received = subject.call(layer, sequences, explicit)
    return compare(subject, layer, received, arrays, masks)


def check_wrapped(subject, layer, generator, shape):
    """The layer in `TimeDistributed`, which passes the implicit mask of documents."""
    (name,) = subject.sequences
    flat = random_arrays(subject, generator, shape, BATCH * NUM_SENTENCES)
    masks = {name: random_mask(generator, flat[name].shape[:2])}
    received = keras.layers.TimeDistributed(layer)(
        attach_mask(as_documents(flat[name]), as_documents(masks[name]))
    )
    return compare(subject, layer, of_sentences(received), flat, masks)


def functional_model(subject, layer):
    """`TimeDistributed` around a model, in which explicit masks are made of the inputs."""
    if subject.call is decode:  # no sequence of vectors is its first input
        return None
    words = keras.Input((None, FEATURES))
    masks = {argument: words[:, :, 0] > 0 for argument in subject.explicit.values()}
    outputs = subject.call(layer, {name: words for name in subject.sequences}, masks)
    model = keras.Model(words, outputs[0] if isinstance(outputs, tuple) else outputs)
    return keras.layers.TimeDistributed(model)


def check_model(subject, layer, in_model, generator, shape):
    size = (BATCH * NUM_SENTENCES, shape[1], FEATURES)
    words = generator.normal(size=size).astype("float32")
    mask = random_mask(generator, words.shape[:2])
    received = in_model(attach_mask(as_documents(words), as_documents(mask)))
    arrays = {name: words for name in subject.sequences}
    masks = {}
    for name in subject.sequences:
        explicit = words[:, :, 0] > 0 if name in subject.explicit else True
        replaced = subject.explicit.get(name) == f"{name}_mask"
        masks[name] = explicit if replaced else explicit & mask
    return compare(subject, layer, of_sentences(received), arrays, masks)


def as_documents(array):
    return array.reshape(-1, NUM_SENTENCES, *array.shape[1:])


def of_sentences(received):
    received = numpy(received)
    return received.reshape(-1, *received.shape[2:])


def compare(subject, layer, received, arrays, masks):
    received = numpy(received[0] if isinstance(received, tuple) else received)
    for b in range(len(received)):
        own = {name: array[b].astype("float64") for name, array in arrays.items()}
        own_masks = {name: mask[b] for name, mask in masks.items()}
        found = received[b] if subject.real is None else received[b][own_masks[subject.real]]
        assert_close(found, subject.expected(layer, own, own_masks), 1e-4)
    return len(received)
