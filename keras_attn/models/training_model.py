from typing import Any

import keras

from keras_attn._backend.workers import explain_lost_workers
from keras_attn._layer.get_vocabulary_size import get_vocabulary_size
from keras_attn._types import Tensor
from keras_attn.decoders.step_decoder import StepDecoder
from keras_attn.encoders.prompt_encoder import PromptEncoder
from keras_attn.models.fused_loss_model import FusedLossModel
from keras_attn.models.model_inputs import call_encoder, is_arrays, source_inputs
from keras_attn.models.model_of_parts import (
    accepts_cloned_graph,
    check_encoder,
    check_part,
    check_reads_prompts,
    encode,
)
from keras_attn.search.search import Search

TARGET = "target_ids"


@keras.saving.register_keras_serializable(package="keras_attn")
class TrainingModel(FusedLossModel):
    """Maps sources and the beginnings of targets to logits: the model that is trained.

        logits = decoder(target_ids, **encoder(source))

    A functional Keras model with teacher forcing: the decoder reads the tokens of the target, start
    token first, and the labels are the tokens that follow each of them. Build a `GenerationModel`
    of the same layers to generate with what was trained. `keras.saving.load_model`,
    `keras.models.clone_model` and `keras.models.model_from_json` keep layers shared that encoder
    and decoder share, such as an embedding.

    With a fused loss, the default of `keras_attn.training.compile_for_training`, a training step
    does not compute the logits, see `keras_attn.training.SequenceCrossentropy`: the logits then
    have no gradient.

    Args:
        encoder: layer that returns a dict of the arguments of a decoder: `encoder_outputs` and,
            where it has them, `encoder_mask`, `encoder_state` and `query_features`. `None` for a
            language model, such as `CausalLanguageModel`.
        decoder: a `StepDecoder`, or a `keras_attn.training.ScheduledSampling` around one.
        inputs: what the encoder reads: a `keras.Input`, or a dict of them by their names, see
            `GenerationModel`. Defaults to the inputs of `encoder` if it is a functional model, else
            to `source_ids`, int32 `(batch, source)`. For a language model the default is no
            inputs but `target_ids`; `keras.Input((None,), dtype="int32", name="source_ids")` makes
            a model of prompts and their continuations.
        name: str. Defaults to `"training_model"`.

    Call arguments:
        inputs: dict of the inputs of the encoder by their names and `target_ids`, int32
            `(batch, target)`, start token first. A language model without prompts also takes
            `target_ids` alone.
        training: Bool, whether dropout is active. Keras passes it.
        mask: Implicit masks of the inputs. Keras passes them.

    Returns:
        float32 logits `(batch, target, vocabulary)` of the tokens that follow.

    Attributes:
        encoder: the encoder, or `None`.
        decoder: the decoder.

    Raises:
        ValueError: if a part is of another type, the encoder does not return a dict, `inputs` are
            not inputs, or a decoder that is not a language model has no encoder.

    Example:

    >>> import numpy as np
    >>> from keras_attn import rnn_seq2seq
    >>> model = TrainingModel(*rnn_seq2seq(20, 30, units=8, embedding_dim=8))
    >>> ids = {"source_ids": np.array([[5, 6, 7, 2]]), "target_ids": np.array([[1, 8, 9]])}
    >>> tuple(model(ids).shape)  # (batch, target, vocabulary)
    (1, 3, 30)
    """

    PARTS = ("encoder", "decoder")

    @accepts_cloned_graph
    def __init__(
        self,
        encoder: Any,
        decoder: keras.layers.Layer,
        inputs: Any = None,
        name: str = "training_model",
    ) -> None:
        check_encoder(encoder)
        step_decoder = _step_decoder(decoder)
        if step_decoder is None:
            expected = "a StepDecoder, or a ScheduledSampling around one"
            check_part("decoder", decoder, StepDecoder, expected)
        if encoder is None:
            check_reads_prompts(step_decoder)
        target_ids = keras.Input((None,), dtype="int32", name=TARGET)
        source, source_encoder, named, encoded = None, None, {}, {}
        if encoder is not None or inputs is not None:
            source = source_inputs(encoder, inputs)
            named = source if isinstance(source, dict) else {source.name: source}
            if TARGET in named:
                raise ValueError(
                    f"Expected inputs with other names than {TARGET!r}, which is the input of the "
                    f"decoder. Received: inputs named {list(named)}. Rename that input."
                )
            source_encoder = encoder
            if encoder is None:
                source_encoder = PromptEncoder(get_vocabulary_size(step_decoder), name="prompts")
            encoded = encode(source_encoder, source)
        inputs = {**named, TARGET: target_ids} if named else target_ids
        super().__init__(inputs, decoder(target_ids, **encoded), name)
        self.encoder = encoder
        self.decoder = decoder
        self.source_encoder = source_encoder

    @property
    def source(self) -> Any:
        """The symbolic inputs of the encoder: a tensor, a dict of tensors, or `None` for none."""
        if not isinstance(self.input, dict):
            return None
        source = {name: tensor for name, tensor in self.input.items() if name != TARGET}
        return source if len(source) > 1 else next(iter(source.values()))

    @property
    def output_layer(self) -> Any:
        return getattr(self.decoder, "output_layer", None)

    def compute_features(self, inputs: dict[str, Tensor]) -> Tensor:
        encoded = {}
        if self.source_encoder is not None:
            source = {name: value for name, value in inputs.items() if name != TARGET}
            source = source if len(source) > 1 else next(iter(source.values()))
            encoded = call_encoder(self.source_encoder, source)
        return self.decoder(inputs[TARGET], **encoded, return_features=True)

    @classmethod
    def parts_of_graph(cls, inputs: Any, layers: Any) -> Any:
        (decoder,) = [layer for layer in layers if _step_decoder(layer) is not None]
        encoder = next((layer for layer in layers if layer is not decoder), None)
        if isinstance(encoder, PromptEncoder):
            encoder = None
        if isinstance(inputs, dict):
            inputs = {name: tensor for name, tensor in inputs.items() if name != TARGET}
        else:
            inputs = None
        return {"encoder": encoder, "decoder": decoder, "inputs": inputs}

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Like `keras.Model.fit`; only the default of `shuffle` differs.

        Args:
            x, y, batch_size, epochs, verbose, callbacks, validation_split, validation_data: see
                `keras.Model.fit`.
            shuffle: bool, or `"batch"`. Defaults to `True` for arrays and a `keras.utils.PyDataset`
                of known length, and to `False` for anything that Keras cannot shuffle, such as a
                `tf.data.Dataset`, where `True` causes a warning.
            **kwargs: further arguments of `keras.Model.fit`.

        Returns:
            A `keras.callbacks.History`.

        Raises:
            RuntimeError: one of several workers that train the model was lost.
        """
        if shuffle is None:
            is_sequence = isinstance(x, keras.utils.PyDataset) and x.num_batches is not None
            shuffle = is_arrays(x) or is_sequence
        with explain_lost_workers(self):
            return super().fit(
                x,
                y,
                batch_size,
                epochs,
                verbose,
                callbacks,
                validation_split,
                validation_data,
                shuffle,
                **kwargs,
            )


def _step_decoder(layer):
    """The decoder itself or, of a layer around one that trains it, the one inside, or `None`."""
    inner = None if isinstance(layer, Search) else getattr(layer, "decoder", layer)
    return inner if isinstance(inner, StepDecoder) else None
