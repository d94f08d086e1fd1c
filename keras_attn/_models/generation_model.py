import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_attn._decoders.step_decoder import StepDecoder
from keras_attn._encoders.prompt_input import PromptInput
from keras_attn._layer.get_vocabulary_size import get_vocabulary_size
from keras_attn._models.constraints import Constraints
from keras_attn._models.generate import Sources, generate
from keras_attn._models.model_inputs import (
    SymbolicInputs,
    is_arrays,
    source_inputs,
    symbolic_inputs,
)
from keras_attn._models.model_of_parts import (
    ModelOfParts,
    accepts_cloned_graph,
    check_encoder,
    check_part,
    check_reads_prompts,
    encode,
)
from keras_attn._models.padded_batches import concatenate_padded, padded_array
from keras_attn._models.target_prefixes import TargetPrefix
from keras_attn._search.search import Search
from keras_attn._types import TokenizerLike, Verbosity


@keras.saving.register_keras_serializable(package="keras_attn")
class GenerationModel(ModelOfParts):
    """Generates target sequences with an encoder and a search: the model for inference.

        results = search(**encoder(source))

    This is a functional Keras model. It shares the encoder and decoder weights with the
    `TrainingModel` that trains them. If encoder and decoder share a layer, such as an embedding,
    `keras.saving.load_model`, `keras.models.clone_model` and `keras.models.model_from_json` keep
    the layer shared.

    Args:
        encoder: Layer that returns a dict with decoder arguments: `encoder_outputs` and,
            optionally, `encoder_mask`, `encoder_state` and `query_features`. `None` for a language
            model that continues prompts, such as `CausalLanguageModel`.
        search: `Search`, such as `BeamDecoder(decoder)`.
        inputs: Encoder inputs: a `keras.Input`, such as `keras.Input((224, 224, 3), name="image")`,
            or a dict from names to `keras.Input`s. The inputs in a dict are passed to the encoder
            as keyword arguments. Defaults to the inputs of `encoder` if it is a functional model,
            otherwise to `source_ids`, int32 of shape `(batch, source)`.
        source_start_token_id: Int, start token of the prompts, for a language model only. Use the
            start token from the training data. `generate` and exported files insert it when they
            tokenize a prompt. The model itself does not insert it. Defaults to `None`: prompts have
            no start token.
        name: String, model name. Defaults to `"generation_model"`.

    Call arguments:
        inputs: Tensor, or a dict from input names to tensors. Pad prompts on the right with the
            search's `pad_token_id`. Append -1 to a prompt whose last token is the padding id.
        training: Bool, whether to apply dropout. Keras passes this argument.
        mask: Implicit Keras masks of the inputs. Keras passes this argument.

    Returns:
        The dict that the search returns, see `Search`. `predict` pads the results of all batches to
        the same length: token ids with `pad_token_id`, all other results with 0.

    Attributes:
        encoder: The encoder, or `None`.
        search: The search.
        decoder: The search's decoder.

    Raises:
        ValueError: If an argument has the wrong type, the encoder does not return a dict, or
            `encoder` is `None` and the decoder is not a language model.

    Example:

    >>> import numpy as np
    >>> from keras_attn import BeamDecoder, GenerationModel, rnn_seq2seq
    >>> encoder, decoder = rnn_seq2seq(20, 30, units=8, embedding_dim=8)
    >>> model = GenerationModel(encoder, BeamDecoder(decoder, max_length=5))
    >>> results = model.predict(np.array([[5, 6, 7, 2]]), verbose=0)
    >>> results["lengths"].shape  # (batch, hypotheses)
    (1, 1)
    """

    PARTS = ("encoder", "search")
    SETTINGS = ("source_start_token_id",)

    @accepts_cloned_graph
    def __init__(
        self,
        encoder: keras.layers.Layer | None,
        search: Search,
        *,
        inputs: SymbolicInputs | None = None,
        source_start_token_id: int | None = None,
        name: str = "generation_model",
    ) -> None:
        advice = "Pass a search, such as BeamDecoder(decoder)."
        check_part("search", search, Search, "a Search", advice)
        if encoder is None:
            check_reads_prompts(search.decoder)
            source_encoder = PromptInput(
                get_vocabulary_size(search.decoder),
                search.pad_token_id,
                start_token_id=source_start_token_id,
                name="prompts",
            )
        elif source_start_token_id is not None:
            raise ValueError(
                "Expected source_start_token_id only for a language model, with encoder=None. "
                f"Received: source_start_token_id={source_start_token_id!r}, "
                f"encoder={type(encoder).__name__}. Omit source_start_token_id."
            )
        else:
            source_encoder = encoder
        check_encoder(encoder)
        inputs = source_inputs(encoder, inputs)
        super().__init__(inputs, search(**encode(source_encoder, inputs)), name)
        self.encoder = encoder
        self.source_encoder: keras.layers.Layer = source_encoder
        self.search = search

    @property
    def decoder(self) -> StepDecoder:
        return self.search.decoder

    @property
    def source(self) -> SymbolicInputs:
        """The symbolic inputs: a tensor, or a dict from input names to tensors."""
        return symbolic_inputs(self)

    @property
    def source_start_token_id(self) -> int | None:
        """Int, start token for a language model's prompts, or `None`."""
        encoder = self.source_encoder
        is_own = self.encoder is None and isinstance(encoder, PromptInput)
        return encoder.start_token_id if is_own else None

    @classmethod
    def parts_of_graph(
        cls, inputs: SymbolicInputs, layers: list[keras.layers.Layer]
    ) -> dict[str, object]:
        (search,) = [layer for layer in layers if isinstance(layer, Search)]
        (encoder,) = [layer for layer in layers if layer is not search]
        arguments = {"encoder": encoder, "search": search, "inputs": inputs}
        if isinstance(encoder, PromptInput):
            arguments |= {"encoder": None, "source_start_token_id": encoder.start_token_id}
        return arguments

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Verbosity = "auto",
        steps: int | None = None,
        callbacks: Any = None,
    ) -> dict[str, np.ndarray]:
        """Runs `keras.Model.predict`, and pads the results of all batches to the same length.

        Args:
            x, batch_size, verbose, steps, callbacks: See `keras.Model.predict`.

        Returns:
            Dict of NumPy arrays.
        """
        padding = {"token_ids": self.search.pad_token_id}
        if keras.backend.backend() == "tensorflow" or is_arrays(x):
            results = super().predict(x, batch_size, verbose, steps, callbacks)
            return {
                name: padded_array(value, padding.get(name, 0)) for name, value in results.items()
            }
        # On other backends, Keras cannot concatenate results of different shapes.
        batches = [
            self.predict_on_batch(keras.utils.unpack_x_y_sample_weight(batch)[0])
            for batch in itertools.islice(x, steps)
        ]
        return {
            name: concatenate_padded([batch[name] for batch in batches], padding.get(name, 0))
            for name in batches[0]
        }

    def generate(
        self,
        inputs: Sources,
        source_tokenizer: TokenizerLike | None = None,
        target_tokenizer: TokenizerLike | None = None,
        batch_size: int = 32,
        return_details: bool = False,
        verbose: int = 0,
        source_language: str | None = None,
        target_language: str | None = None,
        target_prefix: TargetPrefix | None = None,
        constraints: Constraints | None = None,
        constraints_in_order: bool = False,
        token_bias: Mapping[str, float] | Mapping[int, float] | None = None,
        rule_inputs: Mapping[str, npt.ArrayLike] | None = None,
        replace_unknown: bool = False,
        stop_texts: str | Sequence[str] | None = None,
        **settings: object,
    ) -> list[Any]:
        """Generates a sequence for each source. By default, texts result in texts, and ids in ids.

        Args:
            inputs: List of texts; list of lists of ids; or int array of ids of shape `(batch,
                source)`, padded on the right. Ids must include the special tokens that the training
                data contained, such as the end token. The padding id may occur before other tokens,
                and at the end of a list of prompt ids, where it is an ordinary token. If the
                encoder inputs are not ids, pass an array, or a dict from input names to arrays.
            source_tokenizer: Text tokenizer, such as `keras_attn.text.SentencePieceTokenizer`.
                It must not add start or end ids, because `generate` adds the start and end ids that
                the encoder expects. Defaults to `None`.
            target_tokenizer: Tokenizer that converts the generated ids to texts. Defaults to
                `source_tokenizer` if the inputs are texts. Otherwise the default is `None`: the
                results are ids.
            batch_size: Positive int, number of sources per batch. Sources of similar lengths are in
                the same batch. The other sources therefore determine a source's batch, and affect
                the samples of a `SamplingDecoder`. Defaults to `32`.
            return_details: Bool, whether to return objects with the same fields as
                `keras_attn_runtime.GenerationResult`: `text`, `token_ids`, `pieces`, `score`,
                `log_prob`, `ended`, `alignments`, `token_log_probs`, `top_tokens`,
                `constraints_met`, `stop_text`, `hypotheses`, `source_pieces` and `truncated`.
                Defaults to `False`.
            verbose: `0` for no output, `1` for a progress bar, `2` for one line. Defaults to `0`.
            source_language: String, language of the texts: a key of `source_tokenizer.languages`.
                Required if the tokenizer has several languages. Defaults to `None`.
            target_language: String, language of the results: a key of `target_tokenizer.languages`.
                Required if the tokenizer has several languages. Defaults to `None`.
            target_prefix: Prefix for every result, as a text or a list of ids; or a list with one
                prefix for each source. The results include the prefix. Defaults to `None`: no
                prefix.
            constraints: List with an item for each source: a list of phrases that its result must
                contain, or `None`. A phrase is a text or a list of ids, or a list of alternatives:
                then one of them is enough. Texts must occur as words. Only for a `BeamDecoder`,
                which describes the search. Defaults to `None`: no phrases.
            constraints_in_order: Bool, whether the phrases must occur in their order. Defaults to
                `False`.
            token_bias: Dict from target ids, or texts that are one token, to values in nats that
                are added to their log probabilities; `-math.inf` forbids a token. Defaults to
                `None`: no biases.
            rule_inputs: Dict from the `call_inputs` that the `rules` of the search declare to
                numbers or arrays without a batch axis, for all sources. The model compiles its
                search once for each combination. Defaults to `None`: the default values.
            replace_unknown: Bool, whether each unknown token in the texts is replaced by the source
                word with the largest attention weight ([Jean et al.,
                2015](https://arxiv.org/abs/1412.2007)), copied from the text. The search returns
                alignments for this call. `token_ids` and `pieces` do not change. Defaults to
                `False`.
            stop_texts: String or list of strings. Each hypothesis is cut before the one that is
                complete first, except in the target prefix. The search itself runs to its end. Its
                argument `stop_sequences` ends it at ids. Defaults to `None`: no stop texts.
            **settings: Arguments of the search to replace in this call, such as `beam_width=2` or
                `temperature=0.7`, see `with_search`. The model compiles its search once for each
                combination of values.

        Returns:
            List with the best hypothesis for each source: a string if there is a target tokenizer,
            otherwise a list of ids without start token, end token and padding. With
            `return_details=True`, a list of objects. The result for a source without tokens is
            empty.

        Raises:
            ValueError: If texts are passed without a tokenizer, a tokenizer has more ids than the
                model, the inputs do not fit the model, a list of ids is longer than the learned
                positions, a language is unknown or missing, a prefix contains padding, has tokens
                after the end token, or is longer than a result can be, a phrase of `constraints` is
                not possible, a stop text is empty, the search has no argument of a name in
                `settings`, or `replace_unknown` is passed for inputs that are not texts, a decoder
                without attention, or a tokenizer without an unknown token.

        Example:

        >>> from keras_attn import GenerationModel, GreedyDecoder, rnn_seq2seq
        >>> encoder, decoder = rnn_seq2seq(20, 30, units=8, embedding_dim=8)
        >>> model = GenerationModel(encoder, GreedyDecoder(decoder, max_length=5))
        >>> len(model.generate([[5, 6, 7, 2], [8, 2]]))
        2
        >>> len(model.generate([[5, 6, 7, 2]], max_length=2)[0]) <= 2
        True
        """
        from keras_attn._models.with_search import kept_with_search  # it imports this module

        if replace_unknown and self.encoder is None:
            raise ValueError(
                "Expected a model with an encoder, because of replace_unknown. Received: a "
                "language model, which has no source to copy words from. Omit replace_unknown."
            )
        if replace_unknown and not self.search.return_alignments:
            settings["return_alignments"] = True
        return generate(
            kept_with_search(self, settings),
            inputs,
            source_tokenizer,
            target_tokenizer,
            batch_size,
            return_details,
            verbose,
            source_language,
            target_language,
            target_prefix,
            constraints,
            constraints_in_order,
            token_bias,
            rule_inputs,
            replace_unknown,
            stop_texts,
        )


def check_generation_model(model: object) -> None:
    """Raises a `ValueError` if a model is not a `GenerationModel`, or overrides `call`."""
    if not isinstance(model, GenerationModel):
        raise ValueError(
            f"Expected a GenerationModel. Received: model={type(model).__name__}. Create one with "
            "keras_attn.GenerationModel(encoder, search). To export other functional models, use "
            "keras_attn.export.export_functional_onnx or export_functional_litert."
        )
    if type(model).call is not GenerationModel.call:
        raise ValueError(
            "Expected a GenerationModel that does not override `call`. Received: "
            f"model={type(model).__name__}, which overrides call. Move the code of `call` to the "
            "encoder or the search."
        )
