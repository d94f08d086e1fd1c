"""What every layer, every decoder and every search must do, whatever it computes.

Each check takes a function that makes the object, since most need more than one of it.
"""

import inspect
import itertools
import json
import tempfile
from pathlib import Path

import keras
import numpy as np
from keras import ops, tree

from keras_attn._backend.gather import reorder
from tests import oracles
from tests.backend import precision

START, END = 1, 2


def numpy(nested):
    return tree.map_structure(ops.convert_to_numpy, nested)


def randomize(layer, scale=0.5, seed=0):
    """Gives every weight, biases too, random values; returns the layer."""
    generator = np.random.default_rng(seed)
    layer.set_weights([generator.normal(0, scale, w.shape) for w in layer.trainable_weights])
    return layer


def plain(nested):
    """The same with lists for lists of any kind, those of Keras among them."""
    if isinstance(nested, dict):
        return {name: plain(value) for name, value in nested.items()}
    return [plain(each) for each in nested] if isinstance(nested, list | tuple) else nested


def assert_close(received, expected, tolerance=1e-5):
    received, expected = plain(received), plain(expected)
    tree.assert_same_structure(received, expected)
    for one, other in zip(tree.flatten(received), tree.flatten(expected), strict=True):
        one, other = np.asarray(one, "float64"), np.asarray(other, "float64")
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def assert_identical(received, expected):
    for one, other in zip(tree.flatten(received), tree.flatten(expected), strict=True):
        np.testing.assert_array_equal(one, other)


def check_layer(make_layer, inputs, masked=None, mixed_dtype="float16", without_gradient=()):
    """Checks a layer.

    Args:
        make_layer: function without arguments that returns a new layer.
        inputs: dict of its call arguments, nested NumPy arrays.
        masked: dict from the name of an argument to the name of its mask, `(batch, time)`: what
            the argument holds at False must not change anything. Default: there is none.
        mixed_dtype: dtype of its floating outputs under the policy "mixed_float16".
        without_gradient: names of weights that cannot change the outputs.
    """
    layer = make_layer()
    layer(**inputs)
    randomize(layer)
    outputs = numpy(layer(**inputs))
    _check_config(layer, inputs, outputs)
    _check_functional_model(layer, inputs, outputs)
    for name, mask_name in (masked or {}).items():
        noisy = {**inputs, name: _noise_where_masked(inputs[name], inputs[mask_name])}
        assert_identical(numpy(layer(**noisy)), outputs)
    _check_mixed_precision(make_layer, layer.get_weights(), inputs, outputs, mixed_dtype)
    _check_training(make_layer, inputs, without_gradient)


def _check_config(layer, inputs, outputs):
    as_text = _config_text(layer)
    config = layer.get_config()
    assert config["name"] == layer.name
    arguments = inspect.signature(type(layer).__init__).parameters.values()
    own = {each.name for each in arguments if each.kind is each.POSITIONAL_OR_KEYWORD}
    assert own - {"self"} <= set(config)
    for _ in range(2):  # making a layer from a config must not use the config up
        copy = type(layer).from_config(layer.get_config())
    assert _config_text(layer) == _config_text(copy) == as_text
    copy(**inputs)
    copy.set_weights(layer.get_weights())
    assert_close(numpy(copy(**inputs)), outputs, 1e-6)


def _config_text(layer):
    """The config, but for the marks by which Keras knows a shared object: those are addresses."""

    def settings(config):
        if isinstance(config, dict):
            items = config.items()
            return {name: settings(value) for name, value in items if name != "shared_object_id"}
        return [settings(each) for each in config] if isinstance(config, list) else config

    return json.dumps(settings(layer.get_config()), sort_keys=True)


def _check_functional_model(layer, inputs, outputs):
    model = _functional_model(layer, inputs)
    for symbolic, eager in zip(tree.flatten(model.output), tree.flatten(outputs), strict=True):
        assert len(symbolic.shape) == eager.ndim
        for expected, size in zip(symbolic.shape, eager.shape, strict=True):
            assert expected in (None, size), (symbolic.shape, eager.shape)
        assert symbolic.dtype == str(eager.dtype)
    known = layer(**tree.map_structure(_input_of_known_shape, inputs))
    shapes = [symbolic.shape for symbolic in tree.flatten(known)]
    assert shapes == [eager.shape for eager in tree.flatten(outputs)], shapes
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "model.keras")
        model.save(path)
        loaded = keras.models.load_model(path)
    received = numpy(loaded(tree.flatten(inputs)))
    assert_close(tree.flatten(received), tree.flatten(outputs), 1e-6)


def _functional_model(layer, inputs):
    symbolic = tree.map_structure(_symbolic_input, inputs)
    return keras.Model(tree.flatten(symbolic), layer(**symbolic))


def _input_of_known_shape(array):
    return keras.Input(batch_shape=array.shape, dtype=str(array.dtype))


def _symbolic_input(array):
    """All axes are free but the features of floating point values."""
    free = array.ndim - (array.dtype.kind == "f")
    return keras.Input((None,) * (free - 1) + array.shape[free:], dtype=str(array.dtype))


def _check_mixed_precision(make_layer, weights, inputs, outputs, mixed_dtype):
    with precision("mixed_float16"):
        layer = make_layer()
        layer(**inputs)
    layer.set_weights(weights)
    for half, full in zip(tree.flatten(numpy(layer(**inputs))), tree.flatten(outputs), strict=True):
        if full.dtype.kind == "f":
            assert str(half.dtype) == mixed_dtype
            np.testing.assert_allclose(half.astype("float32"), full, rtol=0.02, atol=0.02)
    assert all(weight.dtype == "float32" for weight in layer.weights)


def _check_training(make_layer, inputs, without_gradient):
    """One step of `fit` in the graph, with a gradient for every weight."""
    layer = make_layer()
    model = _functional_model(layer, inputs)
    if not layer.trainable_weights:
        return
    randomize(layer)
    floats = [each for each in tree.flatten(model.output) if "float" in each.dtype]
    model = keras.Model(model.input, floats)
    model.compile(keras.optimizers.SGD(1.0), loss=["mse"] * len(floats))
    inputs = tree.flatten(inputs)
    outputs = tree.flatten(numpy(model(inputs)))
    targets = [np.random.normal(size=each.shape) for each in outputs]
    before = {weight.path: numpy(weight) for weight in layer.trainable_weights}
    history = model.fit(inputs, targets, batch_size=len(targets[0]), verbose=0)
    assert np.isfinite(history.history["loss"][0])
    for weight in layer.trainable_weights:
        assert np.all(np.isfinite(numpy(weight))), weight.path
        if weight.name not in without_gradient:
            assert np.any(numpy(weight) != before[weight.path]), f"{weight.path} got no gradient"


def _noise_where_masked(array, mask):
    noise = np.random.normal(size=array.shape).astype(array.dtype) * 100
    return np.where(mask[:, :, None], array, noise)


def check_decoder(make_decoder, encoded, token_ids, sum_to_one=True):
    """Checks that a decoder keeps its contract.

    Args:
        make_decoder: function without arguments that returns a new `StepDecoder`.
        encoded: dict of NumPy arrays as from an encoder; some positions of its `encoder_mask` are
            False.
        token_ids: int32 `(B, T)`, T > 2, start token first, no padding.
        sum_to_one: bool, whether the alignments of a step do; else they sum to less.
    """
    decoder = make_decoder()
    decoder(token_ids, **encoded)
    randomize(decoder)
    logits = numpy(decoder(token_ids, **encoded))
    assert logits.dtype == "float32" and logits.shape[:2] == token_ids.shape
    _check_steps(decoder, encoded, token_ids, logits)
    _check_beams(decoder, encoded, token_ids, sum_to_one)
    _check_reordering(decoder, encoded, token_ids)

    mask = encoded["encoder_mask"]
    assert not mask.all() and token_ids.shape[1] > 2
    noise = _noise_where_masked(encoded["encoder_outputs"], mask)
    assert_identical(numpy(decoder(token_ids, **{**encoded, "encoder_outputs": noise})), logits)

    order = np.roll(np.arange(len(token_ids)), 1)
    reordered = tree.map_structure(lambda leaf: leaf[order], encoded)
    assert_close(numpy(decoder(token_ids[order], **reordered)), logits[order])

    wider = pad_source(encoded, 3)
    longer = np.pad(token_ids, [(0, 0), (0, 2)])
    assert_close(numpy(decoder(longer, **wider))[:, : token_ids.shape[1]], logits)

    # The future must not be seen: other tokens from the third position on change nothing before it.
    other = np.where(np.arange(token_ids.shape[1]) >= 2, token_ids[::-1, ::-1], token_ids)
    assert_close(numpy(decoder(other, **encoded))[:, :2], logits[:, :2])


def _check_reordering(decoder, encoded, token_ids):
    """After a search has gone on with other beams, each has behind it what its parent had."""
    batch, beam_width = len(token_ids), 3
    repeated = tree.map_structure(lambda leaf: np.repeat(leaf, beam_width, axis=0), encoded)
    generator = np.random.default_rng(0)
    memory = decoder.prepare_memory(**encoded)
    state = decoder.initial_state(memory, beam_width, max_length=3)
    before = np.full((batch * beam_width, 0), START, "int32")
    tokens = np.full(batch * beam_width, START, "int32")
    for _ in range(3):
        before = np.concatenate([before, tokens[:, None]], axis=1)
        logits, state = decoder.step(tokens, state, memory)
        assert_close(numpy(logits), numpy(decoder(before, **repeated))[:, -1])
        parents = generator.integers(0, beam_width, (batch, beam_width))
        rows = (parents + np.arange(batch)[:, None] * beam_width).reshape(-1).astype("int32")
        state, before = decoder.archive(reorder(state, rows)), before[rows]
        tokens = generator.choice(token_ids[:, 1:].reshape(-1), batch * beam_width)


def check_rows(state, batch, beam_width):
    """The leaves of a state have a row for each beam, those that are shared for each sentence."""
    own = {name: leaf for name, leaf in state.items() if name != "shared"}
    assert {leaf.shape[0] for leaf in tree.flatten(own)} == {batch * beam_width}
    shared = tree.flatten(state.get("shared", {}))
    assert all(leaf.shape[0] == batch for leaf in shared if len(leaf.shape))


def pad_source(encoded, columns):
    """Adds source positions that are masked, and hold noise."""
    outputs, mask = encoded["encoder_outputs"], encoded["encoder_mask"]
    outputs = np.pad(outputs, [(0, 0), (0, columns), (0, 0)])
    mask = np.pad(mask, [(0, 0), (0, columns)])
    return {
        **encoded,
        "encoder_outputs": _noise_where_masked(outputs, mask),
        "encoder_mask": mask,
    }


def _check_steps(decoder, encoded, token_ids, logits):
    """A step gives what teacher forcing gives, for all sentences and for some of them."""
    batch, time = token_ids.shape
    memory = decoder.prepare_memory(**encoded)
    assert all(leaf.shape[0] == batch for leaf in tree.flatten(memory))
    rows = np.array([batch - 1, 0], "int32")
    some = decoder.select(memory, rows)
    state, some_state = (decoder.initial_state(each, max_length=time) for each in (memory, some))
    for t, tokens in enumerate(token_ids.T):
        step_logits, new_state = decoder.step(tokens, state, memory)
        assert numpy(step_logits).dtype == "float32"
        assert_close(numpy(step_logits), logits[:, t])
        tree.assert_same_structure(new_state, state)
        state = new_state
        some_logits, some_state = decoder.step(tokens[rows], some_state, some)
        assert_close(numpy(some_logits), logits[rows, t])


def _check_beams(decoder, encoded, token_ids, sum_to_one):
    """Beams of one memory give what sentences of their own give, and leave their alignments."""
    beam_width = 3
    batch, time = token_ids.shape
    beams = np.stack([np.roll(token_ids, k, axis=1) for k in range(beam_width)], axis=1)
    beams[:, :, 0] = START
    beams = beams.reshape(batch * beam_width, time)
    repeated = tree.map_structure(lambda leaf: np.repeat(leaf, beam_width, axis=0), encoded)
    logits = numpy(decoder(beams, **repeated))
    memory = decoder.prepare_memory(**encoded)
    state = decoder.initial_state(memory, beam_width, alignments=True, max_length=time)
    check_rows(state, batch, beam_width)
    for t, tokens in enumerate(beams.T):
        step_logits, state = decoder.step(tokens, state, memory)
        assert_close(numpy(step_logits), logits[:, t])
        if "alignments" in state:
            weights = numpy(state["alignments"])
            sums, is_real = weights.sum(axis=1), repeated["encoder_mask"].any(axis=1)
            assert_close(sums if sum_to_one else np.ceil(sums), is_real)
            assert not weights[~repeated["encoder_mask"]].any()


def check_search(make_decoder, encoded, vocabulary_size=5, limit=4):
    """Checks that the searches find the best hypotheses of a decoder, and say how good they are.

    Args:
        make_decoder: function without arguments that returns a new `StepDecoder` of this
            `vocabulary_size`.
        encoded: dict of NumPy arrays as from an encoder.
        vocabulary_size: int, small: all sequences are enumerated.
        limit: int, tokens of the longest.
    """
    from keras_attn import BeamDecoder, GreedyDecoder

    decoder = make_decoder()
    decoder(np.ones((len(encoded["encoder_mask"]), 1), "int32"), **encoded)
    randomize(decoder, scale=1.0)
    tables = _teacher_forced(decoder, encoded, vocabulary_size, limit)
    widest = (vocabulary_size - 3) ** (limit - 1) * (vocabulary_size - 2)

    def expected(search, **arguments):
        return [search(table.__getitem__, limit, **arguments) for table in tables]

    exact = BeamDecoder(
        decoder, beam_width=widest, num_hypotheses=3, stop="exact", max_length=limit
    )
    every = expected(oracles.every_hypothesis)
    assert_found(numpy(exact(**encoded)), [hypotheses[:3] for hypotheses in every])

    greedy = [
        [oracles.hypothesis(*found, length_penalty=0.7)]
        for found in expected(oracles.greedy_search)
    ]
    arguments = {"max_length": limit, "length_penalty": 0.7}
    assert_found(numpy(GreedyDecoder(decoder, **arguments)(**encoded)), greedy)
    assert_found(numpy(BeamDecoder(decoder, beam_width=1, **arguments)(**encoded)), greedy)

    memory = decoder.prepare_memory(**encoded)
    state = decoder.initial_state(memory, alignments=True, max_length=limit)
    has_alignments = "alignments" in state
    arguments = {"beam_width": 3, "num_hypotheses": 2}
    beam = BeamDecoder(decoder, **arguments, max_length=limit, return_alignments=has_alignments)
    results = numpy(beam(**encoded))
    assert_found(results, expected(oracles.beam_search, **arguments))
    if has_alignments:
        _check_alignments(decoder, encoded, results)
    check_padding_and_batch(beam, encoded)


def check_padding_and_batch(search, encoded):
    """What a search finds for a sentence depends on no padding and on no other sentence."""
    results = numpy(search(**encoded))
    columns = 3
    padded = numpy(search(**pad_source(encoded, columns)))
    if "alignments" in padded:
        assert not padded["alignments"][..., -columns:].any()
        padded["alignments"] = padded["alignments"][..., :-columns]
    assert_close(padded, results)
    for row in range(len(encoded["encoder_mask"])):
        alone = tree.map_structure(lambda leaf: leaf[row : row + 1], encoded)  # noqa: B023
        alone = numpy(search(**alone))
        time = alone["token_ids"].shape[2]
        for name, values in results.items():
            same = values[row : row + 1]
            if name in ("token_ids", "alignments"):
                assert not same[:, :, time:].any()  # the others may need more steps
                same = same[:, :, :time]
            assert_close(alone[name], same)


def _teacher_forced(decoder, encoded, vocabulary_size, limit):
    """For each sentence, the log probabilities (V,) after every prefix shorter than `limit`."""
    inner = range(END + 1, vocabulary_size)
    sequences = list(itertools.product(inner, repeat=limit - 1))
    token_ids = np.array([(START, *sequence) for sequence in sequences], "int32")
    tables = []
    for row in range(len(encoded["encoder_mask"])):
        copies = np.full(len(sequences), row)
        own = tree.map_structure(lambda leaf: leaf[copies], encoded)  # noqa: B023
        log_probs = oracles.log_softmax(numpy(decoder(token_ids, **own)))
        tables.append(
            {
                sequence[:length]: following[length]
                for sequence, following in zip(sequences, log_probs, strict=True)
                for length in range(limit)
            }
        )
    return tables


def assert_found(results, expected, tolerance=1e-4):
    """The results of a search are the expected hypotheses, for each sentence a list, best first.

    Hypotheses that are missing in the list must be marked as such in the results.
    """
    assert len(expected) == len(results["token_ids"])
    assert max(map(len, expected)) <= results["token_ids"].shape[1]
    for row, hypotheses in enumerate(expected):
        for rank in range(results["token_ids"].shape[1]):
            found = {name: values[row, rank] for name, values in results.items()}
            if rank >= len(hypotheses):
                assert found["scores"] == found["log_probs"] == np.float32(-1e9)
                assert found["lengths"] == 0 and not found["token_ids"].any()
                continue
            tokens, length, score, log_prob = hypotheses[rank]
            assert tuple(found["token_ids"][: len(tokens)]) == tokens, (row, rank)
            assert not found["token_ids"][len(tokens) :].any()
            assert found["lengths"] == length
            assert_close(found["scores"], score, tolerance)
            assert_close(found["log_probs"], log_prob, tolerance)


def _check_alignments(decoder, encoded, results):
    """Alignments are those of the hypothesis itself, gone through token by token."""
    alignments = results["alignments"]
    for rank in range(alignments.shape[1]):
        token_ids = results["token_ids"][:, rank]
        memory = decoder.prepare_memory(**encoded)
        steps = token_ids.shape[1]
        state = decoder.initial_state(memory, alignments=True, max_length=steps)
        last = np.full(len(token_ids), START, "int32")
        for t in range(steps):
            _, state = decoder.step(last, state, memory)
            last = token_ids[:, t]
            real = (last != 0)[:, None]
            assert_close(alignments[:, rank, t], np.where(real, numpy(state["alignments"]), 0))
