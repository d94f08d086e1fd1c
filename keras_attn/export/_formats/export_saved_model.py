import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn._masks import END_OF_ROW, padding_mask
from keras_attn._models.generation_model import GenerationModel
from keras_attn._models.vocabulary_side import Side
from keras_attn._search.constraints import NO_TOKEN
from keras_attn._search.top_tokens import TOP_TOKEN_IDS
from keras_attn.export._checks.check_finite import check_finite
from keras_attn.export._checks.parity_report import ParityReport
from keras_attn.export._checks.parity_sources import pad
from keras_attn.export._checks.search_comparison import SearchComparison
from keras_attn.export._export_error import ExportError
from keras_attn.export._formats.file_metadata import check_text_tokenizers, describe, describe_card
from keras_attn.export._options import SavedModelArguments
from keras_attn.export._require import require, require_utf8
from keras_attn.export._trace import source_characters
from keras_attn.export._trace.pause_garbage_collection import pause_garbage_collection
from keras_attn.export._trace.search_function import (
    CONSTRAINT_IDS,
    CONSTRAINTS_IN_ORDER,
    TOKEN_BIAS_IDS,
    TOKEN_BIAS_VALUES,
    SearchFunction,
)
from keras_attn.export._types import Arrays, Run
from keras_attn.text._sentencepiece_tokenizer import SentencePieceTokenizer
from keras_attn_checks.export_options import SavedModelOptions
from keras_attn_checks.message import Argument, Message
from keras_attn_checks.options import list_options
from keras_attn_checks.progress import report_phase

if TYPE_CHECKING:
    import tensorflow as tf
    from tensorflow.types.experimental import PolymorphicFunction

    from keras_attn.text._tensorflow_tokenizer import TensorFlowTokenizer

METADATA = "assets.extra/keras_attn.json"
"""Path of the metadata. TensorFlow copies the files in `assets.extra` but does not read them."""


@list_options(SavedModelOptions)
def export_saved_model(
    model: GenerationModel,
    path: str | PathLike[str],
    source_tokenizer: SentencePieceTokenizer | None = None,
    target_tokenizer: SentencePieceTokenizer | None = None,
    **options: Unpack[SavedModelArguments],
) -> ParityReport:
    """Exports a `GenerationModel` to a TensorFlow SavedModel, for instance for TensorFlow Serving.

    Signature `ids`:

    - Input `source_ids`: int32 `(batch, source)`.
    - Input `max_length`: int32 `()`.
    - Input `length_penalty`: float32 `()`.
    - An input for each name in `runtime_settings`, such as `temperature`: int32 or float32 `()`.
    - Input `prefix_ids`: int32 `(batch, prefix)` or `(1, prefix)`. Only with
      `accept_target_prefix=True`.
    - Input `seeds`: int32 `(batch,)`, or `(1,)` to use one seed for all sources. Only for a search
      with random sampling.
    - Input `constraint_ids`: int32 `(batch, phrases, alternatives, tokens)`, or one row for all
      sources, padded with -1. Input `constraints_in_order`: bool `()`. Only with
      `accept_constraints=True`.
    - Inputs `token_bias_ids`: int32, padded with -1, and `token_bias_values`: float32, both
      `(batch, biases)`, or one row for all sources. Only with `accept_token_bias=True`.
    - Outputs: `token_ids`, `lengths`, `scores` and `log_probs`. If requested, also `alignments`,
      `token_log_probs`, `top_token_ids` and `top_token_log_probs`. See `Search`.

    Signature `serving_default`, for a model that reads ids and has tokenizers:

    - Input `text`: string `(batch,)`. It replaces `source_ids`.
    - Input `target_prefix`: string `(batch,)` or `(1,)`. It replaces `prefix_ids`.
    - All other inputs of the signature `ids`.
    - Output `text`: string `(batch, hypotheses)`, best first. If a text has no tokens, its
      hypotheses are empty and have the score 0. (A language model with a start token continues an
      empty prompt instead.)
    - Output `truncated`: boolean `(batch,)`, whether a text was truncated to
      `max_source_characters` before tokenization, or to the number of learned positions after it.
    - All outputs of the signature `ids`.

    A model with other inputs than ids, such as an image, has only the signature `serving_default`.
    This signature has the inputs and outputs of `ids` above, but the inputs of the model replace
    `source_ids`. With a `target_tokenizer`, there is also the output `text`. In Python,
    `loaded.generate(image)` runs the model with the default values of the other inputs.

    Ids `source_ids` that are longer than the learned positions raise an `InvalidArgumentError`.

    The tokenizers are part of the SavedModel. If there are any, a process must `import
    tensorflow_text` before it loads the SavedModel.

    All inputs except the inputs of the model have default values: the settings of
    the search, such as `max_length`, 0 for `seeds`, and empty prefixes. Requests to the gRPC
    interface of TensorFlow Serving may omit inputs with default values. Requests to its REST
    interface, and calls of the signatures in Python, must contain all inputs. In Python,
    `loaded.translate_ids(source_ids)` and `loaded.translate_texts(text)` use the default values.

    The export loads the SavedModel again and compares it with Keras, before it writes the
    directory. A model with mixed precision is exported in mixed precision.

    Args:
        model: `GenerationModel`.
        path: Path of the directory. An existing SavedModel is replaced; any other directory
            with content is refused.
        source_tokenizer: `SentencePieceTokenizer` for the signature `serving_default`. Defaults to
            `None`.
        target_tokenizer: `SentencePieceTokenizer`. If `None`, the source tokenizer is used for
            source and target. A model whose inputs are not ids has only a `target_tokenizer`.
            Defaults to `None`.
        {{options}}

    Returns:
        The `ParityReport` of the comparison with Keras.

    Raises:
        ExportError: If the SavedModel disagrees with Keras. No directory is written.
        ImportError: If there are tokenizers and tensorflow_text is not installed.
        OSError: If the directory cannot be written, for instance on a full disk.
        ValueError: If `model` is not a `GenerationModel`, or an argument does not fit it.

    Example:

    ```python
    export_saved_model(translator, "en-de/1", source_tokenizer, target_tokenizer)

    import tensorflow_text
    loaded = tf.saved_model.load("en-de/1")
    loaded.translate_texts(["two dogs ."])["text"]
    ```
    """
    chosen = SavedModelOptions.of(options)
    has_texts = source_tokenizer is not None or target_tokenizer is not None
    require("tensorflow", *(["tensorflow_text"] if has_texts else []))
    check_text_tokenizers(source_tokenizer, target_tokenizer)
    require_utf8(path)
    import tensorflow as tf

    report_phase("Copying the layers")
    function = SearchFunction(
        model,
        source_tokenizer,
        target_tokenizer,
        chosen.alignments,
        chosen.accept_target_prefix,
        chosen.runtime_settings,
        chosen.accept_constraints,
        chosen.accept_token_bias,
        keep_precision=True,
    )
    source, max_characters = function.source, 0
    if source is not None:
        max_characters = source_characters.max_source_characters(
            source, chosen.max_source_characters
        )
    elif chosen.max_source_characters is not None:
        raise ValueError(
            Message(
                "Expected ",
                Argument("max_source_characters"),
                " only for a model that reads ids. Received: ",
                Argument("max_source_characters", chosen.max_source_characters),
                f" for the inputs {list(function.inputs)}.",
            )
        )
    check_finite(function.weights, chosen.allow_nonfinite)
    comparison = SearchComparison(
        function, source_tokenizer, chosen.parity_sentences, chosen.parity_inputs
    )
    with atomic_replace(path, is_file=False) as partial, pause_garbage_collection():
        report_phase("Tracing")
        module = _module(function)
        if source is None:
            signatures = _add_generate(module, function, target_tokenizer)
        else:
            tokenizers = source_tokenizer, target_tokenizer
            signatures = _add_translate(module, function, source, *tokenizers, max_characters)
        report_phase("Writing the SavedModel")
        _save(module, partial, signatures)
        # The variable `loaded` keeps the weights alive; the signatures do not.
        loaded = tf.saved_model.load(str(partial))
        name = "serving_default" if source is None else "ids"
        report = comparison.compare(_runner(loaded, name), tolerance=chosen.tolerance)
        metadata = describe(
            function, source_tokenizer, target_tokenizer, chosen.model_card, chosen.image_format
        )
        metadata |= describe_card(chosen.model_card, report)
        (partial / METADATA).parent.mkdir()
        (partial / METADATA).write_text(json.dumps(metadata, indent=1), encoding="utf-8")
        if source is not None and source_tokenizer is not None:
            _check_texts(function, source, module, loaded, max_characters, comparison)
    return report


def _save(
    module: "tf.Module", directory: Path, signatures: "Mapping[str, PolymorphicFunction]"
) -> None:
    """Writes the SavedModel. Converts errors of TensorFlow, such as a full disk, to `OSError`."""
    import tensorflow as tf

    try:
        tf.saved_model.save(module, str(directory), signatures=signatures)
    except tf.errors.OpError as error:
        raise OSError(f"TensorFlow cannot write the SavedModel: {error.message}") from error


def _module(function: SearchFunction) -> "tf.Module":
    """Returns a `tf.Module` with the weights of a function and the defaults of its inputs."""
    import tensorflow as tf

    module = tf.Module()
    module.defaults = {
        **{name: tf.constant(value) for name, value in function.defaults.items()},
        "prefix_ids": tf.zeros((1, 0), tf.int32),
        "target_prefix": tf.constant([""]),
        CONSTRAINT_IDS: tf.fill((1, 1, 1, 1), NO_TOKEN),
        CONSTRAINTS_IN_ORDER: tf.constant(False),
        TOKEN_BIAS_IDS: tf.zeros((1, 0), tf.int32),
        TOKEN_BIAS_VALUES: tf.zeros((1, 0), tf.float32),
    }
    module.weights = [weight.value for weight in function.weights]
    return module


def _add_generate(
    module: "tf.Module", function: SearchFunction, target_tokenizer: SentencePieceTokenizer | None
) -> "dict[str, PolymorphicFunction]":
    """Adds the function `generate` to a module, and returns the signatures."""
    pad_token_id = function.target.pad_token_id
    if target_tokenizer is not None:
        module.target_tokenizer = target_tokenizer.to_tensorflow(None, None, pad_token_id)

    def generate(*inputs: "tf.Tensor") -> "dict[str, tf.Tensor]":
        results = function(*inputs)
        if target_tokenizer is None:
            return results
        return {"text": _decode(module.target_tokenizer, results), **results}

    module.generate = _compiled(generate, function.signature, module.defaults)
    return {"serving_default": module.generate}


def _add_translate(
    module: "tf.Module",
    function: SearchFunction,
    source: Side,
    source_tokenizer: SentencePieceTokenizer | None,
    target_tokenizer: SentencePieceTokenizer | None,
    max_characters: int,
) -> "dict[str, PolymorphicFunction]":
    """Adds `translate_ids` and `translate_texts` to a module, and returns the signatures."""
    import tensorflow as tf

    target = function.target

    def translate_ids(source_ids: "tf.Tensor", *others: "tf.Tensor") -> "dict[str, tf.Tensor]":
        # Recurrent layers of Keras fail if S is 0, so one padding position is added.
        missing = tf.maximum(1 - tf.shape(source_ids)[1], 0)
        source_ids = tf.pad(source_ids, [[0, 0], [0, missing]], constant_values=source.pad_token_id)
        source_ids = _within_positions(source_ids, source)
        results = function(source_ids, *others)
        if "alignments" in results:  # remove the position that was added
            weights = results["alignments"]  # (B, N, T, S)
            results["alignments"] = weights[..., : tf.shape(weights)[3] * (1 - missing)]
        return results

    module.translate_ids = _compiled(translate_ids, function.signature, module.defaults)
    signatures = {"ids": module.translate_ids}
    if source_tokenizer is None:
        return signatures
    module.source_tokenizer = source_tokenizer.to_tensorflow(
        source.start_token_id if source.add_start else None,
        source.end_token_id if source.add_end else None,
        source.pad_token_id,
    )
    target_tokenizer = target_tokenizer or source_tokenizer
    module.target_tokenizer = target_tokenizer.to_tensorflow(None, None, target.pad_token_id)
    of_text = {
        "source_ids": tf.TensorSpec((None,), tf.string, name="text"),
        "prefix_ids": tf.TensorSpec((None,), tf.string, name="target_prefix"),
    }

    def translate_texts(text: "tf.Tensor", *others: "tf.Tensor") -> "dict[str, tf.Tensor]":
        text, truncated = _cut(text, max_characters)
        if source.max_length is not None:
            truncated |= module.source_tokenizer.num_tokens(text) > source.max_length
        source_ids = _encode(module, source, text)  # (B, S)
        ids = [
            module.target_tokenizer.encode(_short(value)) if value.dtype == tf.string else value
            for value in others
        ]
        results = module.translate_ids(source_ids, *ids)
        if not function.accepts_empty_texts:
            has_tokens = module.source_tokenizer.num_tokens(text) > 0  # (B,)
            results = _where(has_tokens, results, target.pad_token_id)
        texts = _decode(module.target_tokenizer, results)
        return {"text": texts, "truncated": truncated, **results}

    signature = [of_text.get(spec.name, spec) for spec in function.signature]
    module.translate_texts = _compiled(translate_texts, signature, module.defaults)
    return {**signatures, "serving_default": module.translate_texts}


def _encode(module: "tf.Module", source: Side, text: "tf.Tensor") -> "tf.Tensor":
    """Returns the source ids `(batch, source)` of strings `(batch,)`."""
    end_of_row = END_OF_ROW if source.masks_only_trailing_padding and not source.add_end else None
    return module.source_tokenizer.encode(text, source.max_length, end_of_row)


def _within_positions(source_ids: "tf.Tensor", source: Side) -> "tf.Tensor":
    """Returns the ids unchanged; raises an error if a row is longer than the learned positions."""
    import tensorflow as tf

    if source.max_row_length is None:
        return source_ids
    lengths = tf.reduce_sum(
        tf.cast(padding_mask(source_ids, source.pad_token_id), tf.int32), axis=1
    )  # (B,)
    are_short = tf.reduce_all(lengths <= source.max_row_length)
    message = f"Expected source_ids with at most {source.max_row_length} ids in each row."
    with tf.control_dependencies([tf.debugging.Assert(are_short, [message])]):
        return tf.identity(source_ids)


def _cut(text: "tf.Tensor", max_characters: int) -> "tuple[tf.Tensor, tf.Tensor]":
    """Truncates strings `(batch,)`; also returns whether each was too long, boolean `(batch,)`."""
    import tensorflow as tf

    # A valid character has at most 4 bytes. TensorFlow does not count invalid bytes as characters,
    # so the number of bytes is limited too.
    truncated = _are_long(text, max_characters)
    text = tf.strings.substr(text, 0, max_characters, unit="UTF8_CHAR")
    return tf.strings.substr(text, 0, 4 * max_characters), truncated


def _are_long(text: "tf.Tensor", max_characters: int) -> "tf.Tensor":
    import tensorflow as tf

    num_characters = tf.strings.length(text, unit="UTF8_CHAR")
    return (num_characters > max_characters) | (tf.strings.length(text) > 4 * max_characters)


def _short(prefixes: "tf.Tensor") -> "tf.Tensor":
    """Returns the strings `(batch,)` unchanged; raises an error if one is too long."""
    import tensorflow as tf

    most = source_characters.MAX_PREFIX_CHARACTERS
    message = f"Expected each target_prefix to have at most {most} characters."
    is_short = tf.logical_not(_are_long(prefixes, most))
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(is_short), [message])]):
        return tf.identity(prefixes)


def _where(
    has_tokens: "tf.Tensor", results: "Mapping[str, tf.Tensor]", pad_token_id: int
) -> "dict[str, tf.Tensor]":
    """Replaces the results of texts without tokens by empty hypotheses with the score 0."""
    import tensorflow as tf

    def chosen(name: str, value: "tf.Tensor") -> "tf.Tensor":
        is_ids = name in ("token_ids", TOP_TOKEN_IDS)
        nothing = tf.cast(pad_token_id if is_ids else 0, value.dtype)
        return tf.where(tf.reshape(has_tokens, (-1, *[1] * (value.shape.rank - 1))), value, nothing)

    return {name: chosen(name, value) for name, value in results.items()}


def _compiled(
    function: "Callable[..., Mapping[str, tf.Tensor]]",
    signature: "Sequence[tf.TensorSpec]",
    defaults: "Mapping[str, tf.Tensor]",
) -> "PolymorphicFunction":
    """Returns a `tf.function` with the inputs of a signature and their default values."""
    import tensorflow as tf

    def compiled(*inputs: "tf.Tensor") -> "Mapping[str, tf.Tensor]":
        return function(*map(_checked, signature, inputs))

    parameters = [
        inspect.Parameter(
            spec.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=defaults.get(spec.name, inspect.Parameter.empty),
        )
        for spec in signature
    ]
    setattr(compiled, "__signature__", inspect.Signature(parameters))  # noqa: B010
    return tf.function(compiled, input_signature=signature, autograph=False)


def _checked(spec: "tf.TensorSpec", value: "tf.Tensor") -> "tf.Tensor":
    """Returns an input unchanged; the graph raises an error if `length_penalty` is not finite."""
    import tensorflow as tf

    if spec.name != "length_penalty":
        return value
    message = "Expected length_penalty to be a finite number. Received: length_penalty="
    with tf.control_dependencies([tf.debugging.Assert(tf.math.is_finite(value), [message, value])]):
        return tf.identity(value)


def _decode(
    tokenizer: "TensorFlowTokenizer", results: "Mapping[str, tf.Tensor | np.ndarray]"
) -> "tf.Tensor":
    """Detokenizes the results of a search to texts `(batch, hypotheses)`."""
    # The lengths are needed, because the end id and the padding id may be ids of normal pieces.
    return tokenizer.decode(results["token_ids"], results["lengths"])


def _runner(loaded: "tf.Module", name: str) -> Run:
    import tensorflow as tf

    signature = loaded.signatures[name]

    def run(**inputs: np.ndarray) -> Arrays:
        outputs = signature(**{name: tf.constant(value) for name, value in inputs.items()})
        return {name: value.numpy() for name, value in outputs.items() if name != "text"}

    return run


def _check_texts(
    function: SearchFunction,
    source: Side,
    module: "tf.Module",
    loaded: "tf.Module",
    max_characters: int,
    comparison: SearchComparison,
) -> None:
    """Compares the texts of the loaded SavedModel with texts from Keras and the tokenizers."""
    import tensorflow as tf

    target = function.target
    prefixes = comparison.prefixes
    texts = module.source_tokenizer.decode(comparison.sources.batch(slice(16))["source_ids"])
    others = module.translate_ids.input_signature[1:]
    ids = {spec.name: module.defaults[spec.name] for spec in others}
    ids["max_length"] = np.array(comparison.usual_steps(len(texts)), "int32")
    strings = dict(ids)
    if prefixes is not None:
        del strings["prefix_ids"]
        prefixes = pad(prefixes[:16], target.pad_token_id)
        strings["target_prefix"] = module.target_tokenizer.decode(prefixes)
        ids["prefix_ids"] = module.target_tokenizer.encode(strings["target_prefix"])
    read, _ = _cut(texts, max_characters)
    source_ids = _encode(module, source, read)
    expected = _decode(module.target_tokenizer, comparison.keras(source_ids=source_ids, **ids))
    if not function.accepts_empty_texts:
        has_tokens = module.source_tokenizer.num_tokens(read) > 0  # (B,)
        expected = tf.where(has_tokens[:, None], expected, "")
    actual = loaded.signatures["serving_default"](text=texts, **strings)["text"]
    if expected.shape != actual.shape or not bool(tf.reduce_all(expected == actual)):
        raise ExportError(
            "The SavedModel disagrees with Keras: expected equal texts. "
            f"Received: {actual.numpy().tolist()} instead of {expected.numpy().tolist()}."
        )
