import keras
from keras import ops, tree

from keras_attn import masks
from keras_attn._drop_ins.dropout import Dropout
from keras_attn._layer.argument_checks import (
    check_cell,
    check_compute_dtype,
    check_dropout,
    check_layers,
    check_positive_integer,
)
from keras_attn._layer.build_embedding import build_embedding
from keras_attn._layer.ensure_built import build_activation, ensure_built
from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn._layer.layer import Layer
from keras_attn._serialization.deserialize_shared import deserialize_shared
from keras_attn._serialization.layer_template import (
    LayerTemplate,
    check_template_dtype,
    restore_objects,
    serialize_without_warning,
    with_dtype,
)
from keras_attn._serialization.serialize_shared import serialize_shared
from keras_attn.rnn.recurrent_layer import recurrent_layer


@keras.saving.register_keras_serializable(package="keras_attn")
class RNNEncoder(Layer):
    """Reads a sequence with a stack of recurrent layers.

    With one bidirectional layer it is the encoder of [Bahdanau et al.,
    2015](https://arxiv.org/abs/1409.0473), section 3.2.

    Args:
        cell: the template of all cells, for instance `keras.layers.LSTMCell(256)`; each layer and
            direction gets a new cell like it in the dtype of the encoder, with a seed of its own
            if it has one.
        embedding: layer that turns ids into vectors, for instance `keras.layers.Embedding`. `None`
            for sequences of real-valued features. Default `None`.
        num_layers: int, recurrent layers. Default 1.
        bidirectional: bool, whether each layer reads in both directions; outputs and states of the
            two are concatenated. Default `True`.
        residual: bool, whether a layer's input is added to its output, where the sizes agree.
            Default `False`.
        dropout: float in [0, 1), after the embedding and after each layer. Default 0.
        pad_token_id: int, the id of padding. Default 0.
        seed: int, seed of the dropout. Default `None`.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: ids `(batch, source)`, or features `(batch, source, features)` without an embedding.
        mask: boolean `(batch, source)`, True = real; also the implicit mask of `inputs`, passed by
            Keras or a wrapper. By default all ids but padding, or all features.
        inputs_mask: boolean `(batch, source)`, the implicit mask of `inputs`, passed by Keras if
            `mask` is given. The two are joined.

    Returns:
        Dict that a decoder takes as keyword arguments, `decoder(target_ids,
        **encoder(source_ids))`: `encoder_outputs` `(batch, source, features)`, boolean
        `encoder_mask` `(batch, source)` and `encoder_state`, for each layer a list of `(batch,
        units)`.

    Masking:
        Padding is on the right. The state is that of the last real position; outputs at padding
        have no meaning.

    Raises:
        ValueError: for arguments out of range.

    Example:

    >>> import numpy as np
    >>> encoder = RNNEncoder(keras.layers.LSTMCell(4), embedding=keras.layers.Embedding(10, 3))
    >>> encoded = encoder(np.array([[5, 6, 7, 2], [5, 2, 0, 0]]))
    >>> tuple(encoded["encoder_outputs"].shape), len(encoded["encoder_state"][0])
    ((2, 4, 8), 2)
    """

    def __init__(
        self,
        cell,
        embedding=None,
        num_layers=1,
        bidirectional=True,
        residual=False,
        dropout=0.0,
        pad_token_id=0,
        seed=None,
        **kwargs,
    ):
        kwargs.setdefault("autocast", False)  # ids given as floats would be rounded
        super().__init__(**kwargs)
        self.supports_masking = True
        check_positive_integer("num_layers", num_layers)
        check_dropout("dropout", dropout)
        check_cell(cell)
        check_layers(embedding=embedding)
        check_template_dtype(self, "cell", cell)
        self.cell_template = LayerTemplate(cell)
        self.embedding = embedding
        self.num_layers = num_layers
        self.bidirectional = bidirectional
        self.residual = residual
        self.dropout = dropout
        self.pad_token_id = pad_token_id
        self.seed = seed
        self.recurrent_layers = [self._recurrent_layer(cell, index) for index in range(num_layers)]
        self.dropout_layers = [
            Dropout(dropout, seed=None if seed is None else seed + index, dtype=self.dtype_policy)
            for index in range(num_layers + 1)
        ]

    def _recurrent_layer(self, cell, index):
        seed = cell.get_config().get("seed")

        def direction(number, **kwargs):
            """With one seed, the cells of all layers and directions would drop the same."""
            seeds = {} if seed is None else {"seed": seed + 2 * index + number}
            own = cell
            if seeds or cell.dtype_policy != self.dtype_policy:
                own = self.cell_template.new_layer(dtype=self.dtype_policy, **seeds)
            check_compute_dtype(self, cell=own)
            layer = recurrent_layer(own, return_sequences=True, return_state=True, **kwargs)
            self.cell_template.kept_alive += [own, layer]  # `Bidirectional` copies it
            return layer

        if not self.bidirectional:
            return direction(0)
        backward = None if seed is None else direction(1, go_backwards=True)
        # `Bidirectional` makes its layers of configs, in which functions are names.
        with keras.saving.custom_object_scope(
            restore_objects(serialize_without_warning(cell), cell)
        ):
            return keras.layers.Bidirectional(
                direction(0), backward_layer=backward, dtype=self.dtype_policy
            )

    def build(self, inputs_shape):
        shape = build_embedding(self.embedding, inputs_shape)
        for layer in self.recurrent_layers:
            ensure_built(layer, shape)
            for part in flatten_layers([layer]):
                if isinstance(getattr(part, "units", None), int):  # a cell, or its layer
                    for name in ("activation", "recurrent_activation"):
                        build_activation(getattr(part, name, None), (None, part.units))
            shape = layer.compute_output_shape(shape)[0]

    def call(self, inputs, mask=None, inputs_mask=None):
        features = inputs if self.embedding is None else self.embedding(inputs)
        mask = masks.join(features, mask=mask, inputs_mask=inputs_mask)
        if mask is None and self.embedding is not None and len(inputs.shape) == 2:
            mask = masks.padding_mask(inputs, self.pad_token_id)
        elif mask is None:
            mask = ops.ones(ops.shape(features)[:2], dtype="bool")  # (B, S)
        features = self.dropout_layers[0](ops.cast(features, self.compute_dtype))
        is_empty = features.shape[1] == 0
        if is_empty:  # Keras' recurrent layers need a time step; they skip one that is masked.
            features, mask = (
                ops.pad(each, ((0, 0), (0, 1), *[(0, 0)] * (len(each.shape) - 2)))
                for each in (features, mask)
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

    def compute_mask(self, inputs, previous_mask):
        return None  # the mask is one of the outputs

    def get_config(self):
        return {
            **super().get_config(),
            "cell": self.cell_template.config(),
            "embedding": serialize_shared(self.embedding),
            "num_layers": self.num_layers,
            "bidirectional": self.bidirectional,
            "residual": self.residual,
            "dropout": self.dropout,
            "pad_token_id": self.pad_token_id,
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config):
        cell = with_dtype(config["cell"], config["dtype"])
        parts = {"cell": cell, "embedding": config["embedding"]}
        parts = {name: deserialize_shared(each) for name, each in parts.items()}
        return cls(**{**config, **parts})
