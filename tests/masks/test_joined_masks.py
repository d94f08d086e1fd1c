import keras
import numpy as np
import pytest
from keras import tree

from keras_attn import (
    AttentionPooling,
    AttentionRNN,
    AttentionRNNCell,
    BahdanauAttention,
    BeamDecoder,
    CausalLanguageModel,
    CombinedAttention,
    EnsembleDecoder,
    EnsembleEncoder,
    GreedyDecoder,
    IntraDecoderAttention,
    LuongAttention,
    MultiHeadAttention,
    RNNDecoder,
    RNNEncoder,
    SequencePooling,
    SoftAlignment,
    StateBridge,
    TransformerDecoder,
    TransformerDecoderBlock,
    TransformerEncoder,
    TransformerEncoderBlock,
)
from keras_attn import _masks as masks
from keras_attn._layer.attach_mask import AttachMask
from keras_attn.training import ScheduledSampling
from tests.contracts import assert_close, assert_identical, numpy, tensor
from tests.search.table_decoder import TableDecoder
from tests.slow_cases import slow_on_jax


@pytest.mark.parametrize("shape", [(2, 4), (2, 3, 4)])
@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
def test_attention_mask_has_the_rank_of_scores(shape, dtype):
    mask = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    result = numpy(masks.attention_mask(np.zeros((2, 4, 5), "float32"), mask))
    assert result.dtype == bool
    np.testing.assert_array_equal(result, (mask != 0).reshape(2, -1, 4))


def test_without_a_mask_everything_may_be_attended():
    result = numpy(masks.attention_mask(np.zeros((2, 4, 5), "float32")))
    assert result.shape == (2, 1, 4) and result.all()


@pytest.mark.parametrize("shape", [(4,), (1, 2, 3, 4)])
def test_a_mask_of_another_rank_is_refused(shape):
    with pytest.raises(ValueError, match=r"\(batch, source\) or .* Received: attention_mask with"):
        masks.attention_mask(np.zeros((2, 4, 5), "float32"), np.ones(shape, "bool"))


@pytest.mark.parametrize("shape", [(2, 4), (3, 5), (2, 6, 4), (3, 6, 5)])
def test_a_mask_of_another_memory_is_refused(shape):
    with pytest.raises(ValueError, match=r"a sequence of shape \(2, 5, 7\)"):
        masks.attention_mask(np.ones((2, 5, 7), "float32"), np.ones(shape, "bool"))


def test_a_mask_of_one_row_is_for_all():
    mask = np.array([[True, True, False]])
    value = np.ones((4, 3, 2), "float32")
    assert_identical(numpy(masks.attention_mask(value, mask)), np.repeat(mask[:, None], 4, axis=0))


ADDITIVE = np.where([[True, True, False], [True, False, True]], 0.0, -1e9).astype("float32")


X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")


def per_query(mask):
    return np.repeat(mask[:, None], 3, axis=1)


TAKES_MASKS = {
    "attention_mask": [
        lambda mask: BahdanauAttention(3)(X, X, attention_mask=mask),
        lambda mask: BahdanauAttention(3)(X, X, attention_mask=per_query(mask)),
        lambda mask: MultiHeadAttention(2, 3)(X, attention_mask=mask),
        lambda mask: MultiHeadAttention(2, 3)(X, X, attention_mask=per_query(mask)[:, None]),
        lambda mask: MultiHeadAttention(2, 3, flash_attention=True)(X, attention_mask=mask),
        lambda mask: TransformerEncoderBlock(2, 3)(X, attention_mask=mask),
        lambda mask: CombinedAttention({"a": LuongAttention()})(X, {"a": X}, {"a": mask}),
        lambda mask: IntraDecoderAttention(LuongAttention())(X, attention_mask=mask),
    ],
    "value_mask": [
        lambda mask: LuongAttention()(X, X, value_mask=mask),
        lambda mask: MultiHeadAttention(2, 3)(X, X, value_mask=mask),
    ],
    "encoder_mask": [
        lambda mask: TransformerDecoderBlock(2, 3)(X, X, encoder_mask=mask),
        lambda mask: SequencePooling()(X, mask),
        lambda mask: StateBridge(3)(X, mask),
        lambda mask: AttentionRNN(AttentionRNNCell(keras.layers.GRUCell(3), LuongAttention()))(
            X, X, mask
        ),
        lambda mask: GreedyDecoder(TableDecoder(), max_length=2)(X, mask),
    ],
    "first_mask": [lambda mask: SoftAlignment(keras.layers.Dense(2))(X, X, first_mask=mask)],
    "mask": [
        lambda mask: TransformerEncoder(TransformerEncoderBlock(2, 3))(X, mask=mask),
        lambda mask: RNNEncoder(keras.layers.GRUCell(2))(X, mask=mask),
        lambda mask: AttentionPooling(3)(X, mask=mask),
    ],
}


@slow_on_jax
@pytest.mark.parametrize(
    ("name", "number"), [(name, i) for name, each in TAKES_MASKS.items() for i in range(len(each))]
)
def test_an_additive_mask_is_refused(name, number):
    call = TAKES_MASKS[name][number]
    call((ADDITIVE == 0).astype("float32"))
    with pytest.raises(ValueError, match=f"{name} .* Received: {name} of dtype float32 with val"):
        call(ADDITIVE)


def test_an_additive_mask_of_integers_is_refused():
    with pytest.raises(ValueError, match="some_mask of dtype int32 with values from -10000 to 0"):
        masks.boolean(np.array([[0, -10000]], "int32"), "some_mask")
    assert numpy(masks.boolean(np.array([[0, 7, 1]]), "some_mask")).tolist() == [
        [False, True, True]
    ]


def test_an_additive_mask_in_a_graph_is_not_looked_at():
    received = []

    def call(mask):
        received.append(masks.boolean(mask, "attention_mask"))
        return received[-1]

    keras.ops.vectorized_map(call, tensor(ADDITIVE))
    assert keras.backend.standardize_dtype(received[0].dtype) == "bool"


def test_join_keeps_what_all_masks_allow():
    generator = np.random.default_rng(0)
    value = np.zeros((3, 5, 2), "float32")
    rows, others = generator.random((2, 3, 5)) < 0.5
    each_query = generator.random((3, 4, 5)) < 0.5
    join = masks.join
    assert join(value) is None and join(value, attention_mask=None, value_mask=None) is None
    received = join(value, attention_mask=rows, value_mask=others)
    assert_identical(numpy(received), rows & others)
    received = join(value, attention_mask=each_query, value_mask=rows, key_mask=others)
    assert_identical(numpy(received), each_query & (rows & others)[:, None])


def test_join_takes_dicts_of_masks():
    value = {"a": np.zeros((1, 2, 2), "float32"), "b": np.zeros((1, 3, 2), "float32")}
    a, b = np.array([[True, False]]), np.array([[True, True, False]])
    received = masks.join(value, encoder_mask={"a": a}, encoder_outputs_mask={"a": None, "b": b})
    assert_identical(numpy(received), {"a": a, "b": b})
    assert masks.join(value, encoder_outputs_mask={"a": None, "b": None}) is None


def test_join_brings_implicit_masks_to_the_axes_of_the_sequence():
    sequence = np.zeros((2, 2, 3), "float32")
    received = masks.join(sequence, mask=np.array([True, False]))
    assert numpy(received).tolist() == [[True, True], [False, False]]
    of_words = np.array([[[True, False], [False, False]], [[True, True], [False, True]]])
    assert numpy(masks.join(sequence, mask=of_words)).tolist() == [[True, False], [True, True]]
    with pytest.raises(ValueError, match=r"Received: mask with shape \(2, 5\)"):
        masks.join(sequence, mask=np.ones((2, 5), bool))


VALUE = np.random.default_rng(1).normal(size=(3, 5, 4)).astype("float32")


EXPLICIT, IMPLICIT = np.random.default_rng(2).random((2, 3, 5)) < 0.7


TOKENS = np.array([[1, 3, 4]] * 3, "int32")


def small_decoder(kind):
    embedding = keras.layers.ReversibleEmbedding(5, 4)
    if kind == "recurrent":
        cell = AttentionRNNCell(keras.layers.GRUCell(4), LuongAttention(), attention_units=4)
        return RNNDecoder(cell, embedding)
    return TransformerDecoder(TransformerDecoderBlock(2, 5), embedding, num_layers=1)


CONSUMERS = {
    "recurrent decoder": lambda: (small_decoder("recurrent"), (TOKENS,)),
    "Transformer decoder": lambda: (small_decoder("Transformer"), (TOKENS,)),
    "ensemble": lambda: (
        EnsembleDecoder([small_decoder("recurrent"), small_decoder("Transformer")]),
        (TOKENS,),
    ),
    "scheduled sampling": lambda: (ScheduledSampling(small_decoder("recurrent"), 0.5), (TOKENS,)),
    "search": lambda: (GreedyDecoder(small_decoder("Transformer"), max_length=4), ()),
    "beam search of an ensemble": lambda: (
        BeamDecoder(
            EnsembleDecoder([small_decoder("recurrent"), small_decoder("Transformer")]),
            max_length=4,
            beam_width=2,
        ),
        (),
    ),
}


@pytest.mark.parametrize("name", CONSUMERS)
def test_the_explicit_and_the_implicit_mask_of_a_memory_are_joined(name):
    layer, arguments = CONSUMERS[name]()
    expected = numpy(layer(*arguments, VALUE, encoder_mask=EXPLICIT & IMPLICIT))
    value = AttachMask()(VALUE, mask=IMPLICIT)
    assert_close(numpy(layer(*arguments, value, encoder_mask=EXPLICIT)), expected)
    implicit = AttachMask()(VALUE, mask=EXPLICIT & IMPLICIT)
    assert_close(numpy(layer(*arguments, implicit)), expected)
    inputs = keras.Input(VALUE.shape[1:])
    explicit, implicit = (keras.Input((5,), dtype="bool") for _ in range(2))
    others = [keras.Input(each.shape[1:], dtype="int32") for each in arguments]
    outputs = layer(*others, AttachMask()(inputs, mask=implicit), encoder_mask=explicit)
    model = keras.Model([*others, inputs, explicit, implicit], outputs)
    assert_close(numpy(model([*arguments, VALUE, EXPLICIT, IMPLICIT])), expected)
    different = numpy(layer(*arguments, VALUE, encoder_mask=EXPLICIT))
    assert not all(map(np.allclose, tree.flatten(different), tree.flatten(expected)))


def test_the_masks_of_a_prompt_are_joined():
    block = TransformerDecoderBlock(2, 5, cross_attention=False)
    model = CausalLanguageModel(block, keras.layers.ReversibleEmbedding(5, 4), num_layers=1)
    prompt = np.array([[3, 4, 2, 1]])
    short, shorter = np.arange(4) < [[3]], np.arange(4) < [[2]]
    expected = numpy(model(TOKENS[:1], prompt, shorter))
    received = model(TOKENS[:1], prompt, short, encoder_outputs_mask=shorter)
    assert_close(numpy(received), expected)


@pytest.mark.parametrize("make", ["transformer", "recurrent", "ensemble"])
def test_an_encoder_joins_the_masks_of_its_inputs(make):
    encoder = {
        "transformer": lambda: TransformerEncoder(TransformerEncoderBlock(2, 5), num_layers=2),
        "recurrent": lambda: RNNEncoder(keras.layers.GRUCell(2)),
        "ensemble": lambda: EnsembleEncoder([RNNEncoder(keras.layers.GRUCell(2))]),
    }[make]()
    expected = numpy(encoder(VALUE, mask=EXPLICIT & IMPLICIT))
    masked = AttachMask()(VALUE, mask=IMPLICIT)
    if make != "ensemble":
        assert_close(numpy(encoder(masked, mask=EXPLICIT)), expected)
    assert_close(numpy(encoder(AttachMask()(VALUE, mask=EXPLICIT & IMPLICIT))), expected)


def test_no_block_of_a_decoder_reads_a_mask_of_the_targets():
    """A step knows nothing of padding; teacher forcing computes the same."""
    block = TransformerDecoderBlock(2, 5)
    embedding, head = keras.layers.Dense(4), keras.layers.Dense(5)
    decoder = TransformerDecoder(block, embedding, head=head, num_layers=2)
    targets = AttachMask()(VALUE, mask=np.array([[True, False, True, False, True]] * 3))
    assert_close(numpy(decoder(targets, VALUE)), numpy(decoder(VALUE, VALUE)))
