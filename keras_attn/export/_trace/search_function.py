import copy
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Self

import keras
import numpy as np

from keras_attn._backend.private_names import implicit_mask
from keras_attn._layer.get_vocabulary_size import get_vocabulary_size
from keras_attn._masks import join
from keras_attn._models.generation_model import GenerationModel, check_generation_model
from keras_attn._models.model_inputs import SymbolicInputs, call_encoder, reads_ids
from keras_attn._models.vocabulary_side import Side, source_side
from keras_attn._models.word_starts import word_starts
from keras_attn._search.logits_rule import RuleInput
from keras_attn._search.rules import rule_inputs
from keras_attn._search.search import COUNTS, Search
from keras_attn._search.top_tokens import TOP_TOKEN_IDS, TOP_TOKEN_LOG_PROBS
from keras_attn._types import TensorDict
from keras_attn.export._preconditions import check_dense_numbers, check_stateless
from keras_attn.export._trace.fold_time import fold_time
from keras_attn.export._trace.functional_names import axis_names
from keras_attn.export._trace.portable_copy import portable_copy, traceable_copy
from keras_attn.export._types import Arrays, Dimensions, ExportTokenizer, Run
from keras_attn_checks.message import Argument, Message
from keras_attn_checks.search_options import INPUTS, usual_inputs

if TYPE_CHECKING:
    import tensorflow as tf

SOURCE_IDS = "source_ids"
"""Name of the input of an exported file for a model that reads token ids."""

CONSTRAINT_IDS, CONSTRAINTS_IN_ORDER = "constraint_ids", "constraints_in_order"

TOKEN_BIAS_IDS, TOKEN_BIAS_VALUES = "token_bias_ids", "token_bias_values"

SEARCH_INPUTS = (
    *INPUTS,
    "prefix_ids",
    "seeds",
    CONSTRAINT_IDS,
    CONSTRAINTS_IN_ORDER,
    TOKEN_BIAS_IDS,
    TOKEN_BIAS_VALUES,
)
"""Inputs of a file that belong to the search, not to the encoder, besides run-time settings."""

OUTPUTS = {
    "token_ids": ("batch", "hypotheses", "length"),
    "lengths": ("batch", "hypotheses"),
    "scores": ("batch", "hypotheses"),
    "log_probs": ("batch", "hypotheses"),
    "alignments": ("batch", "hypotheses", "length", "source_length"),
    "token_log_probs": ("batch", "hypotheses", "length"),
    TOP_TOKEN_IDS: ("batch", "hypotheses", "length", "top_tokens"),
    TOP_TOKEN_LOG_PROBS: ("batch", "hypotheses", "length", "top_tokens"),
    "constraints_met": ("batch", "hypotheses", "phrases"),
}
"""The outputs of a search and their axes, in the order of the exported signatures."""


class SearchFunction:
    """A function that runs a generation model, for the export.

        (source_ids, max_length, length_penalty) -> {token_ids, lengths, scores, log_probs}

    The inputs also include the run-time settings, `prefix_ids` if `accept_target_prefix` is set,
    `seeds` if the search samples, `constraint_ids` and `constraints_in_order` if
    `accept_constraints` is set, and the rule inputs. The outputs also include
    `alignments`, `token_log_probs` and the most probable tokens if the search returns them, and
    `constraints_met` for constraints. A model with other inputs than ids, such as an image, has
    these inputs instead of `source_ids`.

    Args:
        model: `GenerationModel`.
        source_tokenizer: Tokenizer whose vocabulary must fit the model, or `None`.
        target_tokenizer: Tokenizer whose vocabulary must fit the model, or `None`.
        alignments: Bool, whether the attention weights are outputs. `None` means the value of
            `return_alignments` of the search. Defaults to `None`.
        accept_target_prefix: Bool, whether the function has the input `prefix_ids`: tokens with
            which each hypothesis must begin. If the target tokenizer has languages with
            `target_start`, the function always has this input. Defaults to `False`.
        runtime_settings: List of settings of the search that are inputs of the function, see
            `Search.runtime_settings`. `None` means the usual ones. Defaults to `None`.
        accept_constraints: Bool, whether the function has the inputs `constraint_ids` and
            `constraints_in_order`: phrases that each hypothesis must contain. Defaults to `False`.
        accept_token_bias: Bool, whether the function has the inputs `token_bias_ids` and
            `token_bias_values`. Defaults to `False`.
        keep_precision: Bool, whether layers keep mixed precision. If `False`, all layers with mixed
            precision compute in float32. Defaults to `False`.
        fixed_counts: Bool, whether the numbers of beams and hypotheses are not among the usual
            inputs. Defaults to `False`.

    Attributes:
        encoder: Copy of the encoder from `portable_copy`. The copy shares the variables of the
            encoder, and its results do not depend on the machine.
        search: Copy of the search, also from `portable_copy`.
        inputs: Dict from the names of the inputs of the encoder to their symbolic tensors.
        runtime_settings: Dict from the run-time settings to their dtypes.
        rule_inputs: Dict from names to the `RuleInput`s that the rules declare.
        is_stochastic: Bool, whether the search samples at random. If it does, `seeds` is an input.
        word_starts: Boolean array of shape `(V,)`, whether a target token begins a word. `None`
            without constraints, or without a tokenizer.
        source: `Side` of the source. Its special ids come from attributes of the encoder, or from
            the source tokenizer if the encoder lacks these attributes. `None` if the inputs are not
            ids.
        target: `Side` of the target, with the special ids of the search.
        accepts_empty_texts: Bool, whether the model can continue a text without tokens. Only
            language models whose prompts begin with a start token can.
        weights: List of all `keras.Variable`s that the function reads.

    Raises:
        ValueError: If the model is not a `GenerationModel`; a tokenizer has more ids than the
            embedding that reads them; the model reads ids, but there is only a target tokenizer;
            the model does not read ids, but there is a source tokenizer; encoder and source
            tokenizer have different end tokens; the maximum length of the source leaves no token
            besides the special ids; an input has the name of an input or output of the search, or a
            type that a file cannot have; or the length penalty is negative.
    """

    def __init__(
        self,
        model: GenerationModel,
        source_tokenizer: ExportTokenizer | None = None,
        target_tokenizer: ExportTokenizer | None = None,
        alignments: bool | None = None,
        accept_target_prefix: bool = False,
        runtime_settings: Sequence[str] | None = None,
        accept_constraints: bool = False,
        accept_token_bias: bool = False,
        keep_precision: bool = False,
        fixed_counts: bool = False,
    ) -> None:
        for tokenizer in (source_tokenizer, target_tokenizer):
            if tokenizer is not None and not isinstance(getattr(tokenizer, "model", None), bytes):
                raise ValueError(
                    "Expected a SentencePieceTokenizer or HuggingFaceTokenizer, whose vocabulary "
                    f"an export can hold. Received: {tokenizer!r}. To read a file, call "
                    "SentencePieceTokenizer.load(path) or HuggingFaceTokenizer.load(path)."
                )
        check_generation_model(model)
        if runtime_settings is None:
            runtime_settings = _usual_settings(model.search, fixed_counts)
        self.runtime_settings = _runtime_settings(model.search, runtime_settings)
        self.rule_inputs = _rule_inputs(model.search)
        of_search = [*SEARCH_INPUTS, *self.runtime_settings, *self.rule_inputs]
        self.inputs = _inputs(model.source, of_search)
        has_ids = reads_ids(model.source)
        if has_ids and target_tokenizer is not None and source_tokenizer is None:
            raise ValueError(
                "Expected a source_tokenizer in addition to the target_tokenizer. "
                "Received: source_tokenizer=None."
            )
        if not has_ids and source_tokenizer is not None:
            raise ValueError(
                "Expected no source_tokenizer for a model of other inputs than ids. Received: a "
                f"source_tokenizer for the inputs {list(self.inputs)}. Pass the tokenizer of the "
                "outputs as target_tokenizer."
            )
        layers = model.source_encoder, model.search
        check_stateless(*layers)
        self.encoder, self.search = portable_copy(*layers, keep_precision=keep_precision)
        fold_time(self.encoder, self.search)
        if self.search.length_penalty < 0:
            raise ValueError(
                "Expected length_penalty >= 0, because the runtime rejects negative values. "
                f"Received: length_penalty={self.search.length_penalty}"
            )
        self.weights = list(
            {id(weight): weight for weight in self.encoder.weights + self.search.weights}.values()
        )
        if alignments is not None:
            self.search.return_alignments = alignments
        languages = getattr(target_tokenizer or source_tokenizer, "languages", {}).values()
        self.accept_target_prefix = accept_target_prefix or any(
            language.target_start for language in languages
        )
        if accept_constraints and not self.search.accepts_constraints:
            raise ValueError(
                Message(
                    "Expected ",
                    Argument("accept_constraints"),
                    " only for a BeamDecoder without groups of beams. Received: search="
                    f"{type(self.search).__name__}. Use keras_attn.with_search with a BeamDecoder.",
                )
            )
        self.accept_constraints = accept_constraints
        self.accept_token_bias = accept_token_bias
        self.is_stochastic = self.search.is_stochastic
        self.source = None
        if has_ids:
            _vocabulary_size("source", self.encoder, source_tokenizer)
            self.source = source_side(self.encoder, self.search, source_tokenizer)
        search = self.search
        special = search.pad_token_id, search.start_token_id, search.end_token_id
        size = _vocabulary_size("target", search.decoder, target_tokenizer or source_tokenizer)
        self.target = Side(size, *special, add_end=True)  # scored targets end with the end token
        tokenizer = target_tokenizer or source_tokenizer
        self.word_starts = None
        if accept_constraints and tokenizer is not None:
            self.word_starts = word_starts(tokenizer, size)
        source = self.source
        self.accepts_empty_texts = bool(source and source.add_start and not source.add_end)

    def __call__(self, *values: "tf.Tensor | np.ndarray") -> "dict[str, tf.Tensor]":
        """Runs the model.

        Args:
            *values: A tensor for each input in `signature`: the inputs of the encoder, such as
                `source_ids` int32 `(batch, source)`, then `max_length` int32 `()`, `length_penalty`
                float32 `()`, a scalar for each run-time setting, and optionally `prefix_ids` int32
                `(batch, prefix)`, `seeds` int32 `(batch,)`, `constraint_ids` int32 `(batch,
                phrases, alternatives, tokens)` and `constraints_in_order` bool `()`,
                and `token_bias_ids` int32 and `token_bias_values` float32 `(batch, biases)`.

        Returns:
            Dict of tensors with the axes of `OUTPUTS`.
        """
        count = len(self.inputs)
        given = named(self.signature[count:], values[count:])
        settings = {name: given.pop(name) for name in self.runtime_settings}
        given = self.join_rule_inputs(given)
        given |= {"word_starts": self.word_starts} if self.accept_constraints else {}
        results = self.search(**self.encode(*values[:count]), **given, settings=settings)
        return {name: results[name] for name in OUTPUTS if name in results}

    def join_rule_inputs(self, given: "Mapping[str, tf.Tensor | np.ndarray]") -> TensorDict:
        """Returns the search inputs, with those for rules as one dict `rule_inputs`."""
        others = {name: value for name, value in given.items() if name not in self.rule_inputs}
        if not self.rule_inputs:
            return others
        return {**others, "rule_inputs": {name: given[name] for name in self.rule_inputs}}

    def encode(self, *values: "tf.Tensor | np.ndarray") -> TensorDict:
        """Runs the encoder on one tensor per entry of `inputs`; returns the search's arguments."""
        is_single = len(self.inputs) == 1
        inputs = values[0] if is_single else dict(zip(self.inputs, values, strict=True))
        return call_encoder(self.encoder, inputs, training=False)

    def encode_with_mask(self, *values: "tf.Tensor | np.ndarray") -> TensorDict:
        """Runs the encoder like `encode`, with the implicit Keras masks joined to `encoder_mask`.

        Keras passes implicit masks only to `Search.call`, not to the other methods of a search.
        """
        encoded = self.encode(*values)
        implicit = keras.tree.map_structure(implicit_mask, encoded["encoder_outputs"])
        mask = join(
            encoded["encoder_outputs"],
            encoder_mask=encoded.get("encoder_mask"),
            encoder_outputs_mask=implicit,
        )
        return {**encoded, "encoder_mask": mask}

    def traceable(self) -> Self:
        """Returns a copy whose layers can be traced for ONNX, but not run."""
        function = copy.copy(self)
        function.encoder, function.search = traceable_copy(self.encoder, self.search)
        return function

    def runner(self) -> Run:
        """Returns a compiled function from keyword arguments to a dict, both of NumPy arrays."""
        import tensorflow as tf

        compiled = tf.function(self.__call__, input_signature=self.signature, autograph=False)
        compiled = compiled.get_concrete_function()

        def run(**inputs: np.ndarray) -> Arrays:
            outputs = compiled(**{name: tf.constant(value) for name, value in inputs.items()})
            return {name: value.numpy() for name, value in outputs.items()}

        return run

    @property
    def signature(self) -> "list[tf.TensorSpec]":
        """List of `tf.TensorSpec`: the inputs."""
        import tensorflow as tf

        specs = [
            *(tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in self.inputs.items()),
            *(tf.TensorSpec((), dtype, name) for name, dtype in self._scalars.items()),
        ]
        if self.accept_target_prefix:
            specs.append(tf.TensorSpec((None, None), tf.int32, name="prefix_ids"))
        if self.is_stochastic:
            specs.append(tf.TensorSpec((None,), tf.int32, name="seeds"))
        if self.accept_constraints:
            specs.append(tf.TensorSpec((None,) * 4, tf.int32, name=CONSTRAINT_IDS))
            specs.append(tf.TensorSpec((), tf.bool, name=CONSTRAINTS_IN_ORDER))
        if self.accept_token_bias:
            specs.append(tf.TensorSpec((None, None), tf.int32, name=TOKEN_BIAS_IDS))
            specs.append(tf.TensorSpec((None, None), tf.float32, name=TOKEN_BIAS_VALUES))
        for name, each in self.rule_inputs.items():
            shape = () if each.shape == "scalar" else (None, *each.shape)
            specs.append(tf.TensorSpec(shape, each.dtype, name=name))
        return specs

    @property
    def dimensions(self) -> Dimensions:
        """Dictionary from the name of each input and output to the names or sizes of its axes."""
        is_input = "num_hypotheses" in self.runtime_settings
        sizes = {"top_tokens": self.search.return_top_tokens}
        if not is_input:
            sizes["hypotheses"] = self.search.num_hypotheses
        options: Dimensions = dict.fromkeys(self._scalars, ())
        return {
            **{name: axis_names(name, spec.shape) for name, spec in self.inputs.items()},
            SOURCE_IDS: ("batch", "source_length"),
            **options,
            "prefix_ids": ("batch", "prefix_length"),
            "seeds": ("batch",),
            CONSTRAINT_IDS: ("batch", "phrases", "alternatives", "phrase_length"),
            CONSTRAINTS_IN_ORDER: (),
            TOKEN_BIAS_IDS: ("batch", "biases"),
            TOKEN_BIAS_VALUES: ("batch", "biases"),
            **{
                name: () if each.shape == "scalar" else axis_names(name, (None, *each.shape))
                for name, each in self.rule_inputs.items()
            },
            **{
                name: tuple(sizes.get(axis) or axis for axis in axes)
                for name, axes in OUTPUTS.items()
            },
        }

    @property
    def defaults(self) -> "dict[str, float | list[int] | np.ndarray]":
        """Dictionary of the default values of the search inputs: the settings of the search."""
        return {
            **{name: self.search.setting_value(name) for name in self._scalars},
            "seeds": [0],
            **{name: each.default_array for name, each in self.rule_inputs.items()},
        }

    @property
    def _scalars(self):
        """Dictionary from the scalar inputs to their dtypes."""
        return {**INPUTS, **self.runtime_settings}


def named(
    signature: "Sequence[tf.TensorSpec]", values: "Sequence[tf.Tensor | np.ndarray]"
) -> "dict[str, tf.Tensor | np.ndarray]":
    """Returns a dictionary from the names in a list of `tf.TensorSpec` to the given values."""
    return {spec.name: value for spec, value in zip(signature, values, strict=True)}


def _rule_inputs(search: Search) -> dict[str, RuleInput]:
    """Returns the rule inputs, whose names must differ from all others."""
    inputs = rule_inputs(search.rules)
    taken = [
        name for name in inputs if name in (*SEARCH_INPUTS, *search.runtime_settings, *OUTPUTS)
    ]
    if taken:
        raise ValueError(
            "Expected rules whose call_inputs have other names than the inputs and outputs of the "
            f"search. Received: {taken}. Rename them."
        )
    return inputs


def _usual_settings(search: Search, fixed_counts: bool) -> list[str]:
    """Returns the settings that are inputs of a file if the caller selects none."""
    names = usual_inputs(type(search))
    if fixed_counts or not search.decoder.can_exceed_max_length:
        names = [name for name in names if name not in COUNTS]
    return [name for name in names if name in search.runtime_settings]


def _runtime_settings(search: Search, names: Iterable[str]) -> dict[str, str]:
    """Returns a dictionary from the chosen settings to their dtypes."""
    allowed, chosen = search.runtime_settings, list(names)
    wrong = [name for name in chosen if name not in allowed]
    if wrong:
        raise ValueError(
            Message(
                "Expected ",
                Argument("runtime_settings"),
                f" out of {list(allowed)} for this {type(search).__name__}. Received: {wrong}. "
                "A call can only choose `no_repeat_ngram_size`, `coverage_penalty` and "
                "`diversity_strength` if the search has them, `num_hypotheses` if `beam_width` is "
                "above 1, and `beam_width` if there are also no groups.",
            )
        )
    return {name: dtype for name, dtype in allowed.items() if name in chosen}


def _inputs(source: SymbolicInputs, of_search: list[str]) -> dict[str, keras.KerasTensor]:
    """Returns a dictionary from the names in the file to the symbolic inputs of a model."""
    if reads_ids(source):
        return {SOURCE_IDS: keras.KerasTensor((None, None), "int32")}
    inputs = source if isinstance(source, dict) else {source.name: source}
    check_dense_numbers(inputs)
    taken = [name for name in inputs if name in (*of_search, *OUTPUTS)]
    if taken:
        raise ValueError(
            "Expected inputs with other names than those of the search, "
            f"{[*of_search, *OUTPUTS]}. Received: {taken}. Create each with keras.Input(..., "
            "name=...) of another name."
        )
    fixed = {name: spec.shape for name, spec in inputs.items() if spec.shape[0] is not None}
    if fixed:
        raise ValueError(
            f"Expected inputs of any batch size. Received: {fixed}. Create each with "
            "keras.Input(shape, name=...), with a shape without the batch axis."
        )
    return inputs


def _vocabulary_size(
    side: str, layer: keras.layers.Layer, tokenizer: ExportTokenizer | None
) -> int:
    size = get_vocabulary_size(layer)
    if size is None:
        raise ValueError(
            f"Expected the {side} side to read ids through an `embedding` with `input_dim`, or to "
            f"have a `vocabulary_size`. Received: {type(layer).__name__} with "
            f"embedding={getattr(layer, 'embedding', None)}."
        )
    if tokenizer is not None and tokenizer.vocabulary_size > size:
        raise ValueError(
            f"Expected a {side} tokenizer of at most {size} ids, as many as the embedding has. "
            f"Received: a tokenizer with vocabulary_size={tokenizer.vocabulary_size}. "
            "Pass the tokenizer that the model was trained with."
        )
    if tokenizer is not None and tokenizer.vocabulary_size < size:
        warnings.warn(
            f"The {side} tokenizer has {tokenizer.vocabulary_size} ids, but the model has {size}. "
            "Ids that the tokenizer lacks have no text. Check that the model was trained with this "
            "tokenizer.",
            stacklevel=4,
        )
    return size
