from typing import Any, Literal, cast

import keras

from keras_attn._backend.workers import explain_lost_workers
from keras_attn._decoders.step_decoder import StepDecoder
from keras_attn._encoders.prompt_input import PromptInput
from keras_attn._layer.get_vocabulary_size import get_vocabulary_size
from keras_attn._models.fused_loss_model import FusedLossModel
from keras_attn._models.model_inputs import (
    SymbolicInputs,
    call_encoder,
    input_tensor,
    is_arrays,
    source_inputs,
)
from keras_attn._models.model_of_parts import (
    accepts_cloned_graph,
    check_encoder,
    check_part,
    check_reads_prompts,
    encode,
)
from keras_attn._search.search import Search
from keras_attn._types import Tensor, Verbosity

TARGET = "target_ids"


@keras.saving.register_keras_serializable(package="keras_attn")
class TrainingModel(FusedLossModel):
    """Predicts the next token at each target position: the model for training.

        logits = decoder(target_ids, **encoder(source))

    This is a functional Keras model with teacher forcing: the decoder reads the target, beginning
    with the start token, and the label of each position is the next target token. To generate
    sequences, create a `GenerationModel` with the same layers. If encoder and decoder share a
    layer, such as an embedding, `keras.saving.load_model`, `keras.models.clone_model` and
    `keras.models.model_from_json` keep the layer shared.

    `keras_attn.training.compile_for_training` uses a fused loss by default. A training step then
    does not store all logits, and the model output has no gradient. See
    `keras_attn.training.SequenceCrossentropy`.

    Args:
        encoder: Layer that returns a dict with decoder arguments: `encoder_outputs` and,
            optionally, `encoder_mask`, `encoder_state` and `query_features`. `None` for a language
            model, such as `CausalLanguageModel`.
        decoder: `StepDecoder`, or a `keras_attn.training.ScheduledSampling` that contains one.
        inputs: Encoder inputs: a `keras.Input`, or a dict from names to `keras.Input`s, see
            `GenerationModel`. Defaults to the inputs of `encoder` if it is a functional model,
            otherwise to `source_ids`, int32 of shape `(batch, source)`. Without an encoder,
            `target_ids` is the only input by default. To train a language model on prompts and
            continuations, pass `keras.Input((None,), dtype="int32", name="source_ids")`.
        name: String, model name. Defaults to `"training_model"`.

    Call arguments:
        inputs: Dict from input names to tensors. It contains the encoder inputs and `target_ids`,
            an int32 tensor of shape `(batch, target)` that begins with the start token. A list
            contains the same tensors without names: first the encoder inputs in the order of
            `inputs`, then `target_ids`. A language model without prompts also accepts the tensor
            `target_ids`.
        training: Bool, whether to apply dropout. Keras passes this argument.
        mask: Implicit Keras masks of the inputs. Keras passes this argument.

    Returns:
        Float32 logits of shape `(batch, target, vocabulary)`: at each position, the logits of the
        next token.

    Attributes:
        encoder: The encoder, or `None`.
        decoder: The decoder.

    Raises:
        ValueError: If an argument has the wrong type, the encoder does not return a dict, or
            `encoder` is `None` and the decoder is not a language model.

    Example:

    >>> import numpy as np
    >>> from keras_attn import TrainingModel, rnn_seq2seq
    >>> model = TrainingModel(*rnn_seq2seq(20, 30, units=8, embedding_dim=8))
    >>> ids = {"source_ids": np.array([[5, 6, 7, 2]]), "target_ids": np.array([[1, 8, 9]])}
    >>> tuple(model(ids).shape)  # (batch, target, vocabulary)
    (1, 3, 30)
    """

    PARTS = ("encoder", "decoder")

    @accepts_cloned_graph
    def __init__(
        self,
        encoder: keras.layers.Layer | None,
        decoder: keras.layers.Layer,
        *,
        inputs: SymbolicInputs | None = None,
        name: str = "training_model",
    ) -> None:
        check_encoder(encoder)
        step_decoder = _step_decoder(decoder)
        if step_decoder is None:
            expected = "a StepDecoder, or a ScheduledSampling that contains one"
            advice = "Pass the decoder itself, not a search."
            check_part("decoder", decoder, StepDecoder, expected, advice)
        if encoder is None:
            check_reads_prompts(step_decoder)
        target_ids = input_tensor(TARGET)
        source, source_encoder, named, encoded = None, None, {}, {}
        if encoder is not None or inputs is not None:
            source = source_inputs(encoder, inputs)
            named = source if isinstance(source, dict) else {source.name: source}
            if TARGET in named:
                raise ValueError(
                    f"Expected inputs of the encoder with names other than {TARGET!r}, the input "
                    f"of the decoder. Received: inputs={list(named)}. Rename the input {TARGET!r}."
                )
            source_encoder = encoder
            if encoder is None:
                source_encoder = PromptInput(get_vocabulary_size(step_decoder), name="prompts")
            encoded = encode(source_encoder, source)
        both = {**named, TARGET: target_ids} if named else target_ids
        super().__init__(both, decoder(target_ids, **encoded), name)
        self.encoder = encoder
        self.decoder = decoder
        self.source_encoder = source_encoder

    @property
    def source(self) -> SymbolicInputs | None:
        """Symbolic encoder inputs: a tensor, a dict of tensors, or `None`."""
        if not isinstance(self.input, dict):
            return None
        source = {name: tensor for name, tensor in self.input.items() if name != TARGET}
        return source if len(source) > 1 else next(iter(source.values()))

    @property
    def output_layer(self) -> keras.layers.Layer | None:
        decoder = cast(StepDecoder, _step_decoder(self.decoder))
        return decoder.output_layer if decoder.can_return_features else None

    @property
    def output_bias(self) -> keras.Variable | None:
        return getattr(self.decoder, "output_bias", None)

    def compute_features(self, inputs: dict[str, Tensor]) -> Tensor:
        encoded = {}
        if self.source_encoder is not None:
            source = {name: value for name, value in inputs.items() if name != TARGET}
            source = source if len(source) > 1 else next(iter(source.values()))
            encoded = call_encoder(self.source_encoder, source)
        return self.decoder(inputs[TARGET], **encoded, return_features=True)

    @classmethod
    def parts_of_graph(
        cls, inputs: SymbolicInputs, layers: list[keras.layers.Layer]
    ) -> dict[str, object]:
        (decoder,) = [layer for layer in layers if _step_decoder(layer) is not None]
        encoder = next((layer for layer in layers if layer is not decoder), None)
        if isinstance(encoder, PromptInput):
            encoder = None
        source = None
        if isinstance(inputs, dict):
            source = {name: tensor for name, tensor in inputs.items() if name != TARGET}
        return {"encoder": encoder, "decoder": decoder, "inputs": source}

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Verbosity = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool | Literal["batch"] | None = None,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Runs `keras.Model.fit` with a different default for `shuffle`.

        Args:
            x, y, batch_size, epochs, verbose, callbacks, validation_split, validation_data: See
                `keras.Model.fit`. `x` may be a list, such as `[source_ids, target_ids]`.
            shuffle: Bool, or `"batch"`. Defaults to `True` for arrays and for a
                `keras.utils.PyDataset` of known length. Defaults to `False` for data that Keras
                cannot shuffle, such as a `tf.data.Dataset`. Keras would warn about `True` for such
                data.
            **kwargs: Further arguments for `keras.Model.fit`.

        Returns:
            A `keras.callbacks.History`.

        Raises:
            RuntimeError: If several workers train the model and one worker fails.
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


def _step_decoder(layer: keras.layers.Layer) -> StepDecoder | None:
    """Returns the `StepDecoder`: `layer`, or its attribute `decoder`; or `None` without one."""
    if isinstance(layer, StepDecoder | Search):
        return None if isinstance(layer, Search) else layer
    inner = getattr(layer, "decoder", None)
    return inner if isinstance(inner, StepDecoder) else None
