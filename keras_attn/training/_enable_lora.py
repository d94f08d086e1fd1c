from collections.abc import Sequence
from typing import Literal, TypeAlias

import keras

from keras_attn._attention.multi_head_attention import MultiHeadAttention
from keras_attn._drop_ins.low_rank_adaptation import LowRankAdaptation
from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn._layer.flatten_layers import flatten_layers

AttentionKernel: TypeAlias = Literal["query", "key", "value", "output", "gate"]


def enable_lora(
    model: keras.layers.Layer,
    rank: int = 8,
    lora_alpha: float | None = None,
    attention_kernels: Sequence[AttentionKernel] | None = ("query", "value"),
    feed_forward_kernels: Sequence[Literal["expansion", "contraction"]] | None = None,
) -> list[keras.Variable]:
    """Freezes a model and adds trainable low-rank updates to its kernels (LoRA).

        W = W_0 + (lora_alpha / rank) A B

    LoRA was introduced by [Hu et al., 2021](https://arxiv.org/abs/2106.09685), equation 3. Here W_0
    is the frozen kernel. Only A and B are trained, so optimizer and gradients need little memory. B
    is initialized with zeros, so the outputs of the model do not change at first.

    Call this function before `compile`. Models that share the layers, such as a `TrainingModel` and
    its `GenerationModel`, share the updates, also if they have been called before; only a
    `tf.function` or `jax.jit` of your own must be created again. Saved models contain A and B and
    can be loaded as usual. `keras.models.clone_model` and other copies by configuration have
    updates of the same rank. Keras does not save which weights are frozen, so it builds the
    optimizer of a loaded model for all weights, and warns that it does not load the saved one. Load
    with `keras.saving.load_model(path, compile=False)`, call this function again to freeze the
    other weights, and compile. `keras_attn.training.fit` with a directory also continues with the
    saved optimizer. Exported files contain the merged kernels W. `merge_lora` replaces the kernels
    of the model by the merged kernels.

    Args:
        model: Built Keras model or layer.
        rank: Positive int, rank of the updates. Defaults to `8`.
        lora_alpha: Positive float. The updates are multiplied by `lora_alpha / rank`. Defaults to
            `rank`.
        attention_kernels: List of kernels of each `MultiHeadAttention` layer to adapt: some of
            `"query"`, `"key"`, `"value"`, `"output"` and `"gate"`, or `None` for no kernel.
            Defaults to `("query", "value")`, as in the paper.
        feed_forward_kernels: List of kernels of each `FeedForward` layer to adapt: some of
            `"expansion"` and `"contraction"`. Defaults to `None`: no kernel.

    Returns:
        List of the variables A and B, which are the trainable variables of the model afterwards.

    Raises:
        ValueError: If the model is compiled or not built, an argument is out of range, or there is
            no trainable layer to adapt. Layers with `trainable=False` are not adapted.

    Example:

    >>> import numpy as np
    >>> import keras_attn
    >>> from keras_attn.training import enable_lora
    >>> block = keras_attn.TransformerEncoderBlock(num_heads=2, intermediate_dim=16)
    >>> outputs = block(np.ones((2, 5, 8), "float32"))
    >>> [variable.name for variable in enable_lora(block, rank=2)]
    ['lora_query_a', 'lora_query_b', 'lora_value_a', 'lora_value_b']
    """
    check_positive_integer("rank", rank)
    if getattr(model, "compiled", False):
        raise ValueError(
            "Expected a model that is not compiled, because a compiled model may already have "
            f"optimizer variables for all weights. Received: model {model.name!r}, compiled=True. "
            "Call enable_lora before compile. Load a saved model with compile=False."
        )
    choices = [
        (layer, names)
        for layer in _adaptable_layers(model)
        if (
            names := attention_kernels
            if isinstance(layer, MultiHeadAttention)
            else feed_forward_kernels
        )
    ]
    if not choices:
        keras_layers = [
            layer.name
            for layer in flatten_layers([model])
            if isinstance(layer, keras.layers.MultiHeadAttention)
        ]
        advice = (
            "Set trainable=True for these layers, or train without LoRA."
            if not keras_layers
            else f"The layers {keras_layers} are Keras layers: use keras_attn.MultiHeadAttention, "
            "which has the same arguments, or enable_lora(rank) of their query_dense and "
            "value_dense."
        )
        raise ValueError(
            "Expected a model with trainable keras_attn.MultiHeadAttention or FeedForward layers. "
            f"Received: model {model.name!r}, attention_kernels={attention_kernels!r}, "
            f"feed_forward_kernels={feed_forward_kernels!r}. {advice}"
        )
    for layer, names in choices:
        if not layer.lora_kernels:
            layer.enable_lora(rank, lora_alpha, names)
        elif (layer.lora_rank, layer.lora_kernels) != (rank, tuple(names)):
            raise ValueError(
                "Expected the arguments of the existing low-rank updates of the model, "
                f"rank={layer.lora_rank} and kernels={layer.lora_kernels}. Received: rank={rank}, "
                f"kernels={tuple(names)}. Call merge_lora first to add different updates."
            )
    updates: dict[int, keras.Variable] = {}
    for layer, names in choices:
        for name in names:
            for part in "ab":
                variable = getattr(layer, f"lora_{name}_{part}")
                updates[id(variable)] = variable
    for variable in model.trainable_variables:
        if id(variable) not in updates:
            variable.trainable = False
    return list(updates.values())


def merge_lora(model: keras.layers.Layer) -> None:
    """Adds the low-rank updates of a model to its kernels, and removes the updates.

    The outputs of the model do not change. The merged kernels are trainable; the weights that
    `keras_attn.training.enable_lora` froze remain frozen until you set `model.trainable = True`.

    Args:
        model: Keras model or layer, see `enable_lora`.

    Raises:
        ValueError: If the model has no low-rank updates.

    Example:

    >>> import numpy as np
    >>> import keras_attn
    >>> from keras_attn.training import enable_lora, merge_lora
    >>> block = keras_attn.TransformerEncoderBlock(num_heads=2, intermediate_dim=16)
    >>> outputs = block(np.ones((2, 5, 8), "float32"))
    >>> updates = enable_lora(block, rank=2)
    >>> merge_lora(block)
    >>> len(block.trainable_variables)  # until you set block.trainable = True
    2
    """
    adapted = [layer for layer in _adaptable_layers(model, frozen=True) if layer.lora_kernels]
    if not adapted:
        raise ValueError(
            f"Expected a model with LoRA. Received: model {model.name!r} without low-rank updates. "
            "Call keras_attn.training.enable_lora before the training."
        )
    for layer in adapted:
        layer.merge_lora()


def _adaptable_layers(model: keras.layers.Layer, frozen: bool = False) -> list[LowRankAdaptation]:
    if not model.built:
        raise ValueError(
            f"Expected a built model. Received: {model.name!r}, built=False. Call the model once."
        )
    return [
        layer
        for layer in flatten_layers([model])
        if isinstance(layer, LowRankAdaptation) and (frozen or layer.trainable)
    ]
