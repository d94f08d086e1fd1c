from typing import Any, Self

import keras
from keras import ops, tree

from keras_attn import _masks as masks
from keras_attn._drop_ins.dropout import Dropout
from keras_attn._layer.argument_checks import (
    check_cell,
    check_compute_dtype,
    check_dropout,
    check_layers,
    check_optional_token_ids,
    check_positive_integer,
    check_seed,
    check_token_ids,
)
from keras_attn._layer.build_embedding import build_embedding
from keras_attn._layer.ensure_built import build_activation, ensure_built
from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn._layer.layer import Layer
from keras_attn._rnn.recurrent_layer import recurrent_layer
from keras_attn._serialization.layer_template import (
    LayerTemplate,
    check_template_dtype,
    restore_objects,
    serialize_without_warning,
    with_dtype,
)
from keras_attn._serialization.shared_layers import deserialize_shared, serialize_shared
from keras_attn._types import Mask, StaticShape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class RNNEncoder(Layer):
    """Encodes a sequence with a stack of recurrent layers.

        x_t = embedding(ids_t)
        f_t = cell(x_t, f_{t-1})
        b_t = cell'(x_t, b_{t+1})
        h_t = [f_t ; b_t]

    Here f_t and b_t are the forward and backward states, and [ ; ] is the concatenation. With one
    bidirectional layer, this is the encoder of [Bahdanau et al.,
    2015](https://arxiv.org/abs/1409.0473), section 3.2. With `bidirectional=False`, h_t = f_t.

    Args:
        cell: Keras cell, the template for all cells, for example `keras.layers.LSTMCell(256)`. Each
            layer and direction uses a new cell with the same configuration and the encoder's dtype.
            If the cell has a seed, the new cells get different seeds.
        embedding: Layer that maps ids to vectors, for example `keras.layers.Embedding`. Defaults to
            `None`: the inputs are vectors.
        num_layers: Positive int, number of recurrent layers. Defaults to `1`.
        bidirectional: Bool, whether each layer runs in both directions, whose outputs and states
            are concatenated. Defaults to `True`.
        residual: Bool, whether each layer adds its input to its output. If their sizes differ,
            nothing is added. Defaults to `False`.
        dropout: Float in [0, 1), dropout rate after the embedding and after each layer. Defaults to
            `0.0`.
        pad_token_id: Int, id for padding on the right of sources. Before another token, it is an
            ordinary token. Defaults to `0`.
        start_token_id: Int, start token for sources, or `None` for no start token.
            `GenerationModel.generate` and exported files insert it before a text's tokens. The
            encoder itself does not insert it. Defaults to `None`.
        end_token_id: Int, end token for sources, or `None` for no end token.
            `GenerationModel.generate` and exported files append it to a text's tokens. Defaults to
            `2`.
        seed: Int, dropout seed. Defaults to `None`: a random seed.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Int tensor of ids of shape `(batch, source)`. Without an embedding, vectors of shape
            `(batch, source, features)`.
        mask: Boolean tensor of shape `(batch, source)`; `False` marks padding. Keras and its
            wrappers pass the implicit mask of `inputs`. Defaults to `None`: ids equal to
            `pad_token_id` at the end of a row, and negative ids, are padding; vectors are not
            padded.
        inputs_mask: Boolean tensor of shape `(batch, source)`, the implicit mask of `inputs`. Keras
            passes this argument if you pass `mask`. The encoder combines `mask` and `inputs_mask`.

    Returns:
        Dict with the keyword arguments of a decoder, as in `decoder(target_ids,
        **encoder(source_ids))`: `encoder_outputs` `(batch, source, features)`, the boolean
        `encoder_mask` `(batch, source)`, and `encoder_state`. `encoder_state` contains one item per
        layer: a list of the layer's states, each `(batch, units)`, or `(batch, 2 * units)` if
        bidirectional.

    Masking:
        Padding must be on the right. The final state is the state at the last unmasked position.
        Outputs at masked positions are undefined.

    Raises:
        ValueError: If an argument is out of range, `cell` or `embedding` has the wrong type, or
            `inputs` has the wrong rank.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attn import RNNEncoder
    >>> encoder = RNNEncoder(keras.layers.LSTMCell(4), embedding=keras.layers.Embedding(10, 3))
    >>> encoded = encoder(np.array([[5, 6, 7, 2], [5, 2, 0, 0]]))
    >>> tuple(encoded["encoder_outputs"].shape), len(encoded["encoder_state"][0])
    ((2, 4, 8), 2)
    """

    def __init__(
        self,
        cell: keras.layers.Layer,
        embedding: keras.layers.Layer | None = None,
        *,
        num_layers: int = 1,
        bidirectional: bool = True,
        residual: bool = False,
        dropout: float = 0.0,
        pad_token_id: int = 0,
        start_token_id: int | None = None,
        end_token_id: int = 2,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("autocast", False)  # half precision would round large ids
        super().__init__(**kwargs)
        self.supports_masking = True
        check_positive_integer("num_layers", num_layers)
        check_dropout("dropout", dropout)
        check_cell(cell)
        check_layers(embedding=embedding)
        check_template_dtype(self, "cell", cell)
        check_seed(seed)
        check_token_ids(pad_token_id=pad_token_id)
        check_optional_token_ids(start_token_id=start_token_id, end_token_id=end_token_id)
        self.cell_template = LayerTemplate(cell)
        self.embedding = embedding
        self.num_layers = num_layers
        self.bidirectional = bidirectional
        self.residual = residual
        self.dropout = dropout
        self.pad_token_id = pad_token_id
        self.start_token_id = start_token_id
        self.end_token_id = end_token_id
        self.seed = seed
        self.recurrent_layers = [self._recurrent_layer(cell, index) for index in range(num_layers)]
        self.dropout_layers = [
            Dropout(dropout, seed=None if seed is None else seed + index, dtype=self.dtype_policy)
            for index in range(num_layers + 1)
        ]

    def _recurrent_layer(self, cell, index):
        seed = cell.get_config().get("seed")

        def direction(number, **kwargs):
            """Creates the layer for one direction. The two directions get different seeds."""
            seeds = {} if seed is None else {"seed": seed + 2 * index + number}
            new_cell = cell
            if seeds or cell.dtype_policy != self.dtype_policy:
                new_cell = self.cell_template.new_layer(dtype=self.dtype_policy, **seeds)
            check_compute_dtype(self, cell=new_cell)
            layer = recurrent_layer(new_cell, return_sequences=True, return_state=True, **kwargs)
            # `Bidirectional` copies the layer, and would free the original (see `LayerTemplate`).
            self.cell_template.kept_alive += [new_cell, layer]
            return layer

        if not self.bidirectional:
            return direction(0)
        backward = None if seed is None else direction(1, go_backwards=True)
        # `Bidirectional` creates its layers from configurations, which contain only function names.
        # The scope maps these names to the functions.
        with keras.saving.custom_object_scope(
            restore_objects(serialize_without_warning(cell), cell)
        ):
            return keras.layers.Bidirectional(
                direction(0), backward_layer=backward, dtype=self.dtype_policy
            )

    def build(self, inputs_shape: StaticShape) -> None:
        shape = build_embedding(self.embedding, inputs_shape)
        for layer in self.recurrent_layers:
            ensure_built(layer, shape)
            for part in flatten_layers([layer]):
                if isinstance(getattr(part, "units", None), int):  # a cell, or a layer with a cell
                    for name in ("activation", "recurrent_activation"):
                        build_activation(getattr(part, name, None), (None, part.units))
            shape = layer.compute_output_shape(shape)[0]

    def call(
        self, inputs: Tensor, mask: Mask | None = None, inputs_mask: Mask | None = None
    ) -> dict[str, Any]:
        are_ids = self.embedding is not None and len(inputs.shape) == 2
        embeddable = masks.embeddable_ids(inputs) if are_ids else inputs
        features = embeddable if self.embedding is None else self.embedding(embeddable)
        mask = masks.join(features, mask=mask, inputs_mask=inputs_mask)
        if mask is None and are_ids:
            mask = masks.padding_mask(inputs, self.pad_token_id)
        elif mask is None:
            mask = ops.ones(ops.shape(features)[:2], dtype="bool")  # (B, S)
        features = self.dropout_layers[0](ops.cast(features, self.compute_dtype))
        is_empty = features.shape[1] == 0
        if is_empty:  # Keras' recurrent layers need at least one time step.
            features, mask = (
                ops.pad(tensor, ((0, 0), (0, 1), *[(0, 0)] * (len(tensor.shape) - 2)))
                for tensor in (features, mask)
            )
        encoder_state = []
        for layer, dropout in zip(self.recurrent_layers, self.dropout_layers[1:], strict=True):
            outputs, *state = layer(features, mask=mask)
            outputs = ops.cast(outputs, self.compute_dtype)
            if self.bidirectional:
                half = len(state) // 2
                state = tree.map_structure(
                    lambda *pair: ops.concatenate(pair, axis=-1),  # (B, 2 * units)
                    state[:half],
                    state[half:],
                )
            if self.residual and outputs.shape[-1] == features.shape[-1]:
                outputs = outputs + features
            features = dropout(outputs)
            encoder_state.append(state)
        if is_empty:
            features, mask = features[:, :0], mask[:, :0]
        return {
            "encoder_outputs": features,
            "encoder_mask": mask,
            "encoder_state": encoder_state,
        }

    @property
    def masks_only_trailing_padding(self) -> bool:
        """Bool, whether only the padding at the end of a row is masked.

        `False` if the embedding creates an implicit mask, which masks the padding id everywhere.
        """
        return not getattr(self.embedding, "supports_masking", False)

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return None  # the mask is one of the outputs

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "cell": self.cell_template.config(),
            "embedding": serialize_shared(self.embedding),
            "num_layers": self.num_layers,
            "bidirectional": self.bidirectional,
            "residual": self.residual,
            "dropout": self.dropout,
            "pad_token_id": self.pad_token_id,
            "start_token_id": self.start_token_id,
            "end_token_id": self.end_token_id,
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        cell = with_dtype(config["cell"], config["dtype"])
        parts = {"cell": cell, "embedding": config["embedding"]}
        parts = {name: deserialize_shared(part) for name, part in parts.items()}
        return cls(**{**config, **parts})
