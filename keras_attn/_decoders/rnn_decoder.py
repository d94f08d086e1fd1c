from typing import Any

import keras
from keras import ops, tree

from keras_attn._attention.attention_losses import coverage_loss, doubly_stochastic_loss
from keras_attn._backend.gather import repeat_rows
from keras_attn._decoders.token_decoder import TokenDecoder
from keras_attn._drop_ins.dropout import Dropout
from keras_attn._layer.argument_checks import (
    check_compute_dtype,
    check_dropout,
    check_nonnegative_number,
    check_same_batch,
    check_second_input,
    check_seed,
    check_token_ids,
)
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._masks import join, padding_mask
from keras_attn._rnn.attention_rnn import AttentionRNN
from keras_attn._rnn.cell_states import state_sizes
from keras_attn._rnn.state_bridge import StateBridge
from keras_attn._serialization.shared_layers import serialize_shared
from keras_attn._types import Masks, StaticShape, Tensor, TensorDict


@keras.saving.register_keras_serializable(package="keras_attn")
class RNNDecoder(TokenDecoder):
    """Recurrent decoder, with or without attention.

        x_t = embedding(y_{t-1})
        o_t = cell(x_t)                         (see `AttentionRNNCell`)
        p(y_t | y_<t, source) = softmax(head(o_t))

    With an `AttentionRNNCell` and `BahdanauAttention`, this is the decoder of [Bahdanau et al.,
    2015](https://arxiv.org/abs/1409.0473). With a Keras cell or a list of cells, the decoder has no
    attention, as in [Sutskever et al., 2014](https://arxiv.org/abs/1409.3215).

    Args:
        cell: `AttentionRNNCell`, Keras cell, or list of Keras cells.
        embedding: Layer that maps ids `(batch, target)` to vectors.
        head: Layer that maps outputs to logits. Defaults to `None`: the embedding is also the
            output layer ([Press and Wolf, 2017](https://arxiv.org/abs/1608.05859)), and must be a
            `keras.layers.ReversibleEmbedding`.
        bridge: String, `"dense"`, `"copy"` or `"zero"`, method that computes the initial state, see
            `StateBridge`. Defaults to `"dense"`.
        dropout: Float in [0, 1), dropout rate for the embedded inputs and for the outputs before
            the head. Defaults to `0.0`.
        seed: Int, seed of the dropout. Defaults to `None`: a random seed.
        coverage_loss: Non-negative float, weight of an additional training loss that penalizes
            repeated attention to the same positions ([See et al.,
            2017](https://arxiv.org/abs/1704.04368), equation 12). Defaults to `0.0`.
        doubly_stochastic_loss: Non-negative float, weight of an additional training loss. It
            penalizes source positions whose attention weights, summed over all steps, differ from 1
            ([Xu et al., 2015](https://arxiv.org/abs/1502.03044), equation 14). Defaults to `0.0`.
        pad_token_id: Int, id of padding. Both additional losses ignore steps with this id. Defaults
            to `0`.
        use_output_bias: Bool, whether a trainable bias is added to the logits. `True` requires
            `head=None`. Defaults to `False`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        token_ids: Int32 tensor of shape `(batch, target)`, the target tokens, beginning with the
            start token.
        encoder_outputs: Tensor of shape `(batch, source, features)`.
        encoder_mask: Boolean tensor of shape `(batch, source)`; `True` marks positions that may be
            attended to. The decoder combines `encoder_mask` and `encoder_outputs_mask`. Defaults to
            `None`.
        encoder_state: Nested lists or dicts of tensors of shape `(batch, units)`, the encoder's
            final state. Defaults to `None`.
        return_attention_scores: Bool, whether to also return the attention weights. Defaults to
            `False`.
        query_features: Tensor of shape `(batch, features)`. Required if the `AttentionRNNCell` was
            created with a `query_from` that contains `"features"`. Usually, the encoder returns
            this tensor as one of its outputs. Defaults to `None`.
        training: Bool, whether dropout is active. Defaults to `False`.
        encoder_outputs_mask: Boolean tensor of shape `(batch, source)`, the implicit mask of
            `encoder_outputs`. Keras passes this argument.
        return_features: Bool, whether to return the output layer's inputs, `(batch, target,
            features)`, instead of the logits. Defaults to `False`.

    Returns:
        Float32 logits of shape `(batch, target, vocabulary)`: at each position, the logits of the
        next token. If `return_attention_scores=True`, a tuple of the logits and the weights
        `(batch, target, source)`.

    Masking:
        Masked source positions get a weight of exactly 0. Padding on the right of the target does
        not affect previous positions.

    Raises:
        ValueError: If an argument is out of range, `encoder_outputs` is missing, or `head` is
            `None` and the embedding cannot be the output layer.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attn import AttentionRNNCell, BahdanauAttention, RNNDecoder
    >>> cell = AttentionRNNCell(keras.layers.GRUCell(8), BahdanauAttention(6), attention_units=4)
    >>> decoder = RNNDecoder(cell, keras.layers.ReversibleEmbedding(9, 4))
    >>> encoder_outputs = np.ones((2, 7, 5), "float32")
    >>> tuple(decoder(np.array([[1, 5, 6], [1, 7, 8]]), encoder_outputs).shape)
    (2, 3, 9)
    """

    def __init__(
        self,
        cell: Any,
        embedding: Any,
        *,
        head: Any = None,
        bridge: str = "dense",
        dropout: float = 0.0,
        seed: int | None = None,
        coverage_loss: float = 0.0,
        doubly_stochastic_loss: float = 0.0,
        pad_token_id: int = 0,
        use_output_bias: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(embedding, head, use_output_bias=use_output_bias, **kwargs)
        check_dropout("dropout", dropout)
        check_compute_dtype(self, cell=cell)
        self.rnn = AttentionRNN(cell, dtype=self.dtype_policy)
        self.cell = self.rnn.cell
        losses = {
            "coverage_loss": coverage_loss,
            "doubly_stochastic_loss": doubly_stochastic_loss,
        }
        check_seed(seed)
        check_token_ids(pad_token_id=pad_token_id)
        check_nonnegative_number(**losses)
        for name, weight in losses.items():
            if weight and self.cell.attention is None:
                raise ValueError(
                    f"Expected {name} to be 0 if the cell has no attention. Received: "
                    f"{name}={weight}. Pass 0, or an AttentionRNNCell with attention."
                )
        self.coverage_loss = coverage_loss
        self.doubly_stochastic_loss = doubly_stochastic_loss
        self.pad_token_id = pad_token_id
        self.bridge = bridge
        self.dropout = dropout
        self.seed = seed
        self.state_bridge = StateBridge(
            state_sizes(self.cell.cell), bridge, dtype=self.dtype_policy
        )
        self.input_dropout = Dropout(dropout, seed=seed, dtype=self.dtype_policy)
        output_seed = None if seed is None else seed + 1
        self.output_dropout = Dropout(dropout, seed=output_seed, dtype=self.dtype_policy)

    def __call__(self, token_ids: Tensor, *args: Any, **kwargs: Any) -> Any:
        if len(getattr(token_ids, "shape", ())) == 2:
            # Keras would cast float ids to half precision, which rounds large ids.
            token_ids = ops.cast(token_ids, "int32")
        return super().__call__(token_ids, *args, **kwargs)

    def build(
        self,
        token_ids_shape: StaticShape,
        encoder_outputs_shape: StaticShape | None = None,
        encoder_mask_shape: StaticShape | None = None,
        encoder_state_shape: StaticShape | None = None,
        query_features_shape: StaticShape | None = None,
    ) -> None:
        if encoder_state_shape is None:
            check_second_input(self, "encoder_outputs", encoder_outputs_shape)
        ensure_built(self.embedding, token_ids_shape)
        embedded_shape = self.embedding.compute_output_shape(token_ids_shape)
        ensure_built(self.rnn, embedded_shape, encoder_outputs_shape, query_features_shape)
        shapes = self.primary_source(encoder_outputs_shape), self.primary_source(encoder_mask_shape)
        ensure_built(self.state_bridge, *shapes, encoder_state_shape)
        output_shape = (*embedded_shape[:-1], self.cell.output_size)
        self.build_head(output_shape, embedded_shape[-1])

    def call(
        self,
        token_ids: Tensor,
        encoder_outputs: Any = None,
        encoder_mask: Masks | None = None,
        encoder_state: Any = None,
        return_attention_scores: bool = False,
        query_features: Any = None,
        training: bool = False,
        encoder_outputs_mask: Masks | None = None,
        return_features: bool = False,
    ) -> Any:
        if encoder_state is None:
            check_second_input(self, "encoder_outputs", encoder_outputs)
        check_same_batch(self, token_ids=token_ids, encoder_outputs=encoder_outputs)
        encoder_mask = join(
            encoder_outputs, encoder_mask=encoder_mask, encoder_outputs_mask=encoder_outputs_mask
        )
        memory = self.prepare_memory(encoder_outputs, encoder_mask, encoder_state, query_features)
        inputs = self.input_dropout(self.embedding(token_ids))  # (B, T, E)
        adds_loss = training and (self.coverage_loss > 0 or self.doubly_stochastic_loss > 0)
        outputs, weights, _ = self.rnn.run(
            inputs,
            memory.get("attention"),
            memory["cell"],
            return_attention_scores=return_attention_scores or adds_loss,
            training=training,
        )
        if adds_loss:
            mask = ops.ones_like(weights[:, :, 0], dtype="bool")  # (B, T)
            if len(token_ids.shape) == 2:  # ids instead of vectors
                mask = padding_mask(token_ids, self.pad_token_id)
            if self.coverage_loss > 0:
                self.add_loss(self.coverage_loss * coverage_loss(weights, mask))
            if self.doubly_stochastic_loss > 0:
                source_mask = self.primary_source(encoder_mask)
                loss = doubly_stochastic_loss(weights, mask, source_mask)
                self.add_loss(self.doubly_stochastic_loss * loss)
        vectors = self.output_dropout(outputs)
        logits = vectors if return_features else self.project(vectors)  # (B, T, V)
        return (logits, weights) if return_attention_scores else logits

    @property
    def can_exceed_max_length(self) -> bool:
        return super().can_exceed_max_length and (
            self.cell.attention is None or self.cell.attention.can_exceed_max_length
        )

    can_widen = True  # the state does not grow

    def primary_source(self, values: Any) -> Any:
        return values if self.cell.attention is None else self.cell.attention.primary_source(values)

    def prepare_memory(
        self,
        encoder_outputs: Any,
        encoder_mask: Masks | None = None,
        encoder_state: Any = None,
        query_features: Any = None,
    ) -> TensorDict:
        source = self.primary_source(encoder_outputs), self.primary_source(encoder_mask)
        memory = {"cell": self.state_bridge(*source, encoder_state)}
        if self.cell.attention is not None:
            memory["attention"] = self.cell.prepare_memory(
                encoder_outputs, encoder_mask, query_features
            )
        return memory

    def initial_state(
        self,
        memory: TensorDict,
        beam_width: int | Tensor = 1,
        alignments: bool = False,
        max_length: int | None = None,
    ) -> TensorDict:
        if (
            alignments
            and self.cell.attention is not None
            and not self.cell.attention.attends_to_source
        ):
            raise ValueError(
                "Expected attention to the source for alignments=True. Received: a decoder with "
                f"{type(self.cell.attention).__name__}, which attends to previous steps. Use a "
                "CombinedAttention, and pass a layer that attends to the source as its first layer."
            )
        cell_state = tree.map_structure(lambda leaf: repeat_rows(leaf, beam_width), memory["cell"])
        rows = ops.shape(tree.flatten(cell_state)[0])[0]
        return self.cell.get_initial_state(
            rows, cell_state, memory.get("attention"), alignments, max_length
        )

    def advance(
        self, vectors: Tensor, state: TensorDict, memory: TensorDict
    ) -> tuple[Tensor, TensorDict]:
        return self.cell(vectors, state, memory.get("attention"))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "cell": serialize_shared(self.cell),
            "bridge": self.bridge,
            "dropout": self.dropout,
            "seed": self.seed,
            "coverage_loss": self.coverage_loss,
            "doubly_stochastic_loss": self.doubly_stochastic_loss,
            "pad_token_id": self.pad_token_id,
        }
