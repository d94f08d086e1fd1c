from typing import Any

import keras
from keras import ops, tree

from keras_attn._drop_ins.dropout import Dropout
from keras_attn._layer.argument_checks import (
    check_compute_dtype,
    check_dropout,
    check_same_batch,
    check_second_input,
)
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._serialization.serialize_shared import serialize_shared
from keras_attn._types import Masks, StaticShape, Tensor, TensorDict
from keras_attn.attention.coverage_loss import coverage_loss
from keras_attn.decoders.token_decoder import TokenDecoder
from keras_attn.masks import join, padding_mask
from keras_attn.rnn.attention_rnn import AttentionRNN
from keras_attn.rnn.cell_states import state_sizes
from keras_attn.rnn.state_bridge import StateBridge


@keras.saving.register_keras_serializable(package="keras_attn")
class RNNDecoder(TokenDecoder):
    """A recurrent decoder, with or without attention.

        x_t = embedding(y_{t-1})
        o_t = cell(x_t)                         (see `AttentionRNNCell`)
        p(y_t | y_<t, source) = softmax(head(o_t))

    Args:
        cell: an `AttentionRNNCell`; or a Keras cell or list of cells, which makes the plain decoder
            of [Sutskever et al., 2014](https://arxiv.org/abs/1409.3215), without attention.
        embedding, head: see `TokenDecoder`.
        bridge: `"dense"`, `"copy"` or `"zero"`, how the first state is made, see `StateBridge`.
            Default `"dense"`.
        dropout: float in [0, 1), on the embedded inputs and on the outputs before the head. Default
            0.
        seed: int, seed of the dropout. Default `None`.
        coverage_loss: float, weight of a loss against attending to the same positions again, which
            is added in training, see `keras_attn.attention.coverage_loss`. Default 0.
        pad_token_id: int, the id of padding, whose steps are no part of that loss. Default 0.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments: see `StepDecoder.call`; `return_attention_scores` asks for the weights too, and
        `query_features` `(B, F)` are part of each query where the cell's `query` names them: an
        encoder passes them on as one of its outputs.

    Returns:
        float32 logits `(B, T, V)`, or a tuple of it and the weights `(B, T, S)`.

    Masking:
        Padding of the source gets weight 0. Target padding on the right cannot influence the
        positions before it.

    Raises:
        ValueError: for arguments out of range, or if the output cannot be tied to the embedding.
    """

    def __init__(
        self,
        cell: Any,
        embedding: Any,
        head: Any = None,
        bridge: str = "dense",
        dropout: float = 0.0,
        seed: int | None = None,
        coverage_loss: float = 0.0,
        pad_token_id: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(embedding, head, **kwargs)
        check_dropout("dropout", dropout)
        check_compute_dtype(self, cell=cell)
        self.rnn = AttentionRNN(cell, dtype=self.dtype_policy)
        self.cell = self.rnn.cell
        if coverage_loss < 0 or (coverage_loss and self.cell.attention is None):
            raise ValueError(
                "coverage_loss must not be negative, and needs a cell with attention. "
                f"Received: coverage_loss={coverage_loss}."
            )
        self.coverage_loss = coverage_loss
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
            token_ids = ops.cast(token_ids, "int32")  # half precision, as Keras casts, has few ids
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
    ) -> Any:
        if encoder_state is None:
            check_second_input(self, "encoder_outputs", encoder_outputs)
        check_same_batch(self, token_ids=token_ids, encoder_outputs=encoder_outputs)
        encoder_mask = join(
            encoder_outputs, encoder_mask=encoder_mask, encoder_outputs_mask=encoder_outputs_mask
        )
        memory = self.prepare_memory(encoder_outputs, encoder_mask, encoder_state, query_features)
        inputs = self.input_dropout(self.embedding(token_ids))  # (B, T, E)
        adds_loss = training and self.coverage_loss > 0
        outputs, weights, _ = self.rnn.run(
            inputs,
            memory.get("attention"),
            memory["cell"],
            return_attention_scores=return_attention_scores or adds_loss,
            training=training,
        )
        if adds_loss:
            mask = ops.ones_like(weights[:, :, 0], dtype="bool")  # (B, T)
            if len(token_ids.shape) == 2:  # ids, not vectors
                mask = padding_mask(token_ids, self.pad_token_id)
            self.add_loss(self.coverage_loss * coverage_loss(weights, mask))
        logits = self.project(self.output_dropout(outputs), training)  # (B, T, V)
        return (logits, weights) if return_attention_scores else logits

    @property
    def can_exceed_max_length(self) -> bool:
        return super().can_exceed_max_length and (
            self.cell.attention is None or self.cell.attention.can_exceed_max_length
        )

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
        beam_width: int = 1,
        alignments: bool = False,
        max_length: int | None = None,
    ) -> TensorDict:
        def for_each_beam(leaf):
            return leaf if beam_width == 1 else ops.repeat(leaf, beam_width, axis=0)

        if (
            alignments
            and self.cell.attention is not None
            and not self.cell.attention.attends_to_source
        ):
            raise ValueError(
                "Alignments are weights over the source. Received: alignments of a decoder with "
                f"{type(self.cell.attention).__name__}, whose weights are over its own past. Make "
                "attention to the source the first of a CombinedAttention."
            )
        cell_state = tree.map_structure(for_each_beam, memory["cell"])
        rows = ops.shape(tree.flatten(cell_state)[0])[0]
        return self.cell.get_initial_state(
            rows, cell_state, memory.get("attention"), alignments, max_length
        )

    def step(
        self, token_ids: Tensor, state: TensorDict, memory: TensorDict
    ) -> tuple[Tensor, TensorDict]:
        outputs, state = self.cell(self.embedding(token_ids), state, memory.get("attention"))
        return self.project(outputs), state

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "cell": serialize_shared(self.cell),
            "bridge": self.bridge,
            "dropout": self.dropout,
            "seed": self.seed,
            "coverage_loss": self.coverage_loss,
            "pad_token_id": self.pad_token_id,
        }
