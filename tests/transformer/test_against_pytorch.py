"""PyTorch's blocks with the same weights; skipped where PyTorch is not installed."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from keras_attn import TransformerDecoderBlock, TransformerEncoderBlock  # noqa: E402
from tests.contracts import assert_close, numpy, randomize  # noqa: E402
from tests.transformer_oracles import weights_of  # noqa: E402

GENERATOR = np.random.default_rng(0)
INPUTS = GENERATOR.normal(size=(2, 6, 8)).astype("float32")
MEMORY = GENERATOR.normal(size=(2, 5, 8)).astype("float32")
MASK = np.arange(6) < np.array([[4], [6]])
MEMORY_MASK = np.arange(5) < np.array([[5], [2]])
CAUSAL = np.tril(np.ones((6, 6), bool))


def attention(name, weights):
    joined = {
        kind: np.concatenate([weights[f"{part}_{kind}"] for part in ("query", "key", "value")], -1)
        for kind in ("kernel", "bias")
    }
    return {
        f"{name}.in_proj_weight": joined["kernel"].T,
        f"{name}.in_proj_bias": joined["bias"],
        f"{name}.out_proj.weight": weights["output_kernel"].T,
        f"{name}.out_proj.bias": weights["output_bias"],
    }


def norm(name, weights):
    return {f"{name}.weight": weights["gamma"], f"{name}.bias": weights["beta"]}


def dense(name, weights):
    return {f"{name}.weight": weights["kernel"].T, f"{name}.bias": weights["bias"]}


def with_weights_of(block, layer):
    """A layer of PyTorch with the weights of a block."""
    weights = weights_of(block)
    state = {
        **attention("self_attn", weights["self_attention"]),
        **norm("norm1", weights["attention_norm"]),
        **dense("linear1", weights["feed_forward"]["expansion"]),
        **dense("linear2", weights["feed_forward"]["contraction"]),
    }
    last = "norm2"
    if "cross_attention_layer" in weights:
        state |= attention("multihead_attn", weights["cross_attention_layer"])
        state |= norm("norm2", weights["memory_norm"])
        last = "norm3"
    state |= norm(last, weights["feed_forward_norm"])
    layer.load_state_dict({name: torch.tensor(array) for name, array in state.items()})
    return layer


def make(kind, layer, normalize_first, activation, *inputs):
    """A block and PyTorch's layer with its weights; in training, so that it takes no short cut."""
    block = kind(2, 12, normalize_first=normalize_first, activation=activation)
    block(*inputs)
    randomize(block)
    arguments = {"activation": activation, "norm_first": normalize_first, "dropout": 0.0}
    return block, with_weights_of(block, layer(8, 2, 12, batch_first=True, **arguments))


def forbidden(mask):
    return torch.tensor(~mask)


choices = pytest.mark.parametrize("activation", ["relu", "gelu"])
norms = pytest.mark.parametrize("normalize_first", [True, False], ids=["pre-norm", "post-norm"])


@norms
@choices
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_encoder_blocks_are_equal(padded, causal, activation, normalize_first):
    block, layer = make(
        TransformerEncoderBlock,
        torch.nn.TransformerEncoderLayer,
        normalize_first,
        activation,
        INPUTS,
    )
    allowed = MASK if padded else np.full_like(MASK, True)
    if causal:
        allowed = allowed[:, None, :] & CAUSAL
    expected = layer(
        torch.tensor(INPUTS),
        src_mask=forbidden(CAUSAL) if causal else None,
        src_key_padding_mask=forbidden(MASK) if padded else None,
    )
    received = numpy(block(INPUTS, attention_mask=allowed if padded or causal else None))
    assert_close(received, expected.detach().numpy())


@norms
@choices
@pytest.mark.parametrize("padded", [False, True])
def test_decoder_blocks_are_equal(padded, activation, normalize_first):
    block, layer = make(
        TransformerDecoderBlock,
        torch.nn.TransformerDecoderLayer,
        normalize_first,
        activation,
        INPUTS,
        MEMORY,
    )
    expected = layer(
        torch.tensor(INPUTS),
        torch.tensor(MEMORY),
        tgt_mask=forbidden(CAUSAL),
        tgt_key_padding_mask=forbidden(MASK) if padded else None,
        memory_key_padding_mask=forbidden(MEMORY_MASK) if padded else None,
    )
    received = block(
        INPUTS,
        MEMORY,
        MEMORY_MASK if padded else None,
        attention_mask=MASK if padded else None,
    )
    assert_close(numpy(received), expected.detach().numpy())
