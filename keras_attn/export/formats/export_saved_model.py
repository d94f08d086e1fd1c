import inspect
import json
from collections.abc import Sequence
from os import PathLike
from typing import Any

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn.export.checks.check_finite import check_finite
from keras_attn.export.checks.parity_sources import pad
from keras_attn.export.checks.search_comparison import SearchComparison
from keras_attn.export.export_error import ExportError
from keras_attn.export.formats.file_format import describe, describe_card
from keras_attn.export.require import require, require_utf8
from keras_attn.export.trace import source_characters
from keras_attn.export.trace.pause_garbage_collection import pause_garbage_collection
from keras_attn.export.trace.search_function import SearchFunction

METADATA = "assets.extra/keras_attn.json"
"""TensorFlow copies the files in `assets.extra`, and reads none of them."""


def export_saved_model(
    model: Any,
    directory: str | PathLike[str],
    source_tokenizer: Any = None,
    target_tokenizer: Any = None,
    *,
    alignments: Any = None,
    sentences: Sequence[Any] | None = None,
    sample_inputs: Any = None,
    target_prefix: bool = False,
    max_source_characters: int | None = None,
    allow_nonfinite: bool = False,
    card: Any = None,
) -> Any:
    """Writes a `GenerationModel` as a TensorFlow SavedModel, for TensorFlow Serving among others.

    Signature `ids`: inputs `source_ids` int32 `(batch, source_length)`, `max_length` int32 `()`,
    `length_penalty` float32 `()`, and of a search that draws at random `seeds` int32 `(batch,)`, or
    `(1,)` for all alike; outputs `token_ids`, `lengths`, `scores`, `log_probs`, `alignments` on
    request, and `token_log_probs` of a search that returns them.

    Signature `serving_default`: inputs `text` string `(batch,)` and all but the first of `ids`;
    outputs `text` string `(batch, hypotheses)`, as the search orders them, those of `ids`, and
    `truncated` boolean `(batch,)`, whether a text had more than `max_source_characters` characters
    and was cut to these before the tokenizer. A text without tokens has empty hypotheses of score
    0, unless it is the prompt of a language model that begins with a start token. The tokenizers
    are inside; the process that loads the model has to `import tensorflow_text`. Without tokenizers
    `ids` is the only signature.

    All inputs but the first have defaults in the signatures, `max_length` and `length_penalty` the
    model's own values, `seeds` 0, so that gRPC requests to TensorFlow Serving may leave them out.
    Its REST interface and, in Python, the signatures want all inputs, while
    `loaded.translate_ids(source_ids)` and `loaded.translate_texts(text)` know the defaults.

    A model of other inputs than ids, such as an image, has one signature, `serving_default`: its
    inputs are those of the model and all but the first of `ids`; its outputs are those of `ids`
    and, with a `target_tokenizer`, `text`. In Python, `loaded.generate(image)` knows the defaults.

    The directory appears under its name, whole, after it was loaded again and compared with Keras.
    A model of mixed precision keeps it.

    Args:
        model: a `GenerationModel`.
        directory: name of the directory; an existing SavedModel is replaced, any other directory
            with content is refused.
        source_tokenizer, target_tokenizer: optional `SentencePieceTokenizer`s. Leave
            `target_tokenizer` out if both languages share one. A model of other inputs than ids has
            a `target_tokenizer` alone.
        alignments: bool, whether the attention weights are among the outputs. Default `None`: as
            the search was made.
        sentences, sample_inputs: as for `export_onnx`.
        target_prefix: bool, whether the caller may say what each hypothesis begins with: `ids` then
            has an input `prefix_ids` int32 `(batch, prefix_length)`, padded on the right, and
            `serving_default` an input `target_prefix` string `(batch,)`. Either may have one row
            for all, and by default there is nothing in it. Characters that the tokenizer does not
            know are the unknown token, and one of more than 16,384 characters is refused with an
            `InvalidArgumentError`. Default `False`.
        max_source_characters: int of at least 1, limit of characters (code points) of a text.
            Without it a long line of some characters takes SentencePiece quadratic time, which no
            deadline of a server ends. Default: 32 times the limit of tokens of the encoder, which
            is at most taken as 512: 16,384.
        allow_nonfinite: bool, whether weights may be NaN or infinite. The results must still equal
            those of Keras, which NaN never does. Defaults to `False`.
        card: `ModelCard` that is stored with the other metadata of docs/file-format.md in
            `assets.extra/keras_attn.json`. Defaults to `None`.

    Returns:
        The `ParityReport` of the comparison.

    Raises:
        ExportError: the SavedModel disagrees with Keras. No directory is written.
        ImportError: tensorflow_text is missing and there are tokenizers.
        OSError: it cannot be written, for instance to a full disk. No directory is written.
        ValueError: `model` is not a `GenerationModel`, or an argument does not fit it.
    """
    has_texts = source_tokenizer is not None or target_tokenizer is not None
    require("tensorflow", *(["tensorflow_text"] if has_texts else []))
    require_utf8(directory)
    import tensorflow as tf

    function = SearchFunction(
        model,
        source_tokenizer,
        target_tokenizer,
        alignments,
        target_prefix,
        keep_precision=True,
    )
    max_characters = None
    if function.source is not None:
        max_characters = source_characters.max_source_characters(function, max_source_characters)
    elif max_source_characters is not None:
        raise ValueError(
            "Expected max_source_characters only for a model that reads ids. Received: "
            f"max_source_characters={max_source_characters!r} for the inputs "
            f"{list(function.inputs)}."
        )
    check_finite(function.weights, allow_nonfinite)
    comparison = SearchComparison(function, source_tokenizer, sentences, sample_inputs)
    with atomic_replace(directory, is_file=False) as partial, pause_garbage_collection():
        module = _module(function)
        if function.source is None:
            signatures = _add_generate(module, function, target_tokenizer)
        else:
            tokenizers = source_tokenizer, target_tokenizer or source_tokenizer
            signatures = _add_translate(module, function, *tokenizers, max_characters)
        _save(module, partial, signatures)
        # Kept in a variable: its signatures do not keep its weights alive.
        loaded = tf.saved_model.load(str(partial))
        name = "serving_default" if function.source is None else "ids"
        report = comparison.compare(_runner(loaded, name))
        metadata = describe(function, source_tokenizer, target_tokenizer, card)
        metadata |= describe_card(card, report)
        (partial / METADATA).parent.mkdir()
        (partial / METADATA).write_text(json.dumps(metadata, indent=1), encoding="utf-8")
        if source_tokenizer is not None:
            _check_texts(function, module, loaded, max_characters, comparison)
    return report


def _save(module, directory, signatures):
    """Writes the SavedModel; a full disk is an `OSError`, as from Python's own files."""
    import tensorflow as tf

    try:
        tf.saved_model.save(module, str(directory), signatures=signatures)
    except tf.errors.OpError as error:
        raise OSError(f"TensorFlow cannot write the SavedModel: {error.message}") from error


def _module(function):
    """A `tf.Module` with the weights of a function and the defaults of its inputs."""
    import tensorflow as tf

    module = tf.Module()
    module.defaults = {
        **{name: tf.constant(value) for name, value in function.defaults.items()},
        "prefix_ids": tf.zeros((1, 0), tf.int32),
        "target_prefix": tf.constant([""]),
    }
    module.weights = [weight.value for weight in function.weights]
    return module


def _add_generate(module, function, target_tokenizer):
    """Adds the function of other inputs than ids to a module, and returns the signatures."""
    pad_token_id = function.target.pad_token_id
    if target_tokenizer is not None:
        module.target_tokenizer = target_tokenizer.to_tensorflow(None, None, pad_token_id)

    def generate(*inputs):
        results = function(*inputs)
        if target_tokenizer is None:
            return results
        return {"text": _decode(module.target_tokenizer, results), **results}

    module.generate = _compiled(generate, function.signature, module.defaults)
    return {"serving_default": module.generate}


def _add_translate(module, function, source_tokenizer, target_tokenizer, max_characters):
    """Adds the functions of ids and of texts to a module, and returns the signatures."""
    import tensorflow as tf

    source, target = function.source, function.target

    def translate_ids(source_ids, *others):
        # Keras' recurrent layers cannot work with S = 0.
        missing = tf.maximum(1 - tf.shape(source_ids)[1], 0)
        source_ids = tf.pad(source_ids, [[0, 0], [0, missing]], constant_values=source.pad_token_id)
        results = function(source_ids, *others)
        if "alignments" in results:  # without the position that was added
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
    module.target_tokenizer = target_tokenizer.to_tensorflow(None, None, target.pad_token_id)
    of_text = {
        "source_ids": tf.TensorSpec((None,), tf.string, name="text"),
        "prefix_ids": tf.TensorSpec((None,), tf.string, name="target_prefix"),
    }

    def translate_texts(text, *others):
        text, truncated = _cut(text, max_characters)
        source_ids = module.source_tokenizer.encode(text)  # (B, S)
        ids = [
            module.target_tokenizer.encode(_short(value)) if value.dtype == tf.string else value
            for value in others
        ]
        results = module.translate_ids(source_ids, *ids)
        if not function.goes_on_from_start_token:
            has_tokens = module.source_tokenizer.has_tokens(text)  # (B,)
            results = _where(has_tokens, results, target.pad_token_id)
        texts = _decode(module.target_tokenizer, results)
        return {"text": texts, "truncated": truncated, **results}

    signature = [of_text.get(spec.name, spec) for spec in function.signature]
    module.translate_texts = _compiled(translate_texts, signature, module.defaults)
    return {**signatures, "serving_default": module.translate_texts}


def _cut(text, max_characters):
    """The first characters of each string `(batch,)`, and whether there are more, `(batch,)`."""
    import tensorflow as tf

    # Valid characters have at most 4 bytes; bytes of none count as no characters.
    truncated = _are_long(text, max_characters)
    text = tf.strings.substr(text, 0, max_characters, unit="UTF8_CHAR")
    return tf.strings.substr(text, 0, 4 * max_characters), truncated


def _are_long(text, max_characters):
    import tensorflow as tf

    num_characters = tf.strings.length(text, unit="UTF8_CHAR")
    return (num_characters > max_characters) | (tf.strings.length(text) > 4 * max_characters)


def _short(prefixes):
    """The strings `(batch,)`; an error if one is too long, which must not be cut."""
    import tensorflow as tf

    most = source_characters.MAX_PREFIX_CHARACTERS
    message = f"Expected each target_prefix to have at most {most} characters."
    is_short = tf.logical_not(_are_long(prefixes, most))
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(is_short), [message])]):
        return tf.identity(prefixes)


def _where(has_tokens, results, pad_token_id):
    """Results that are empty, with score 0, where there was nothing to translate, `(batch,)`."""
    import tensorflow as tf

    def chosen(name, value):
        nothing = tf.cast(pad_token_id if name == "token_ids" else 0, value.dtype)
        return tf.where(tf.reshape(has_tokens, (-1, *[1] * (value.shape.rank - 1))), value, nothing)

    return {name: chosen(name, value) for name, value in results.items()}


def _compiled(function, signature, defaults):
    """A `tf.function` of these inputs, of which all but the first have defaults."""
    import tensorflow as tf

    def compiled(*inputs):
        return function(*inputs)

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


def _decode(tokenizer, results):
    """The texts `(batch, hypotheses)` of what a search returns."""
    # The ids that end and pad a hypothesis may be those of pieces.
    return tokenizer.decode(results["token_ids"], results["lengths"])


def _runner(loaded, name):
    import tensorflow as tf

    signature = loaded.signatures[name]

    def run(**inputs):
        outputs = signature(**{name: tf.constant(value) for name, value in inputs.items()})
        return {name: value.numpy() for name, value in outputs.items() if name != "text"}

    return run


def _check_texts(function, module, loaded, max_characters, comparison):
    """Compares the loaded string signature with the tokenizers around the model."""
    import tensorflow as tf

    target = function.target
    prefixes = comparison.prefixes
    texts = module.source_tokenizer.decode(comparison.sources.batch(slice(16))["source_ids"])
    others = module.translate_ids.input_signature[1:]
    ids = {spec.name: module.defaults[spec.name] for spec in others}
    strings = dict(ids)
    if prefixes is not None:
        del strings["prefix_ids"]
        prefixes = pad(prefixes[:16], target.pad_token_id)
        strings["target_prefix"] = module.target_tokenizer.decode(prefixes)
        ids["prefix_ids"] = module.target_tokenizer.encode(strings["target_prefix"])
    read, _ = _cut(texts, max_characters)
    source_ids = module.source_tokenizer.encode(read)
    expected = _decode(module.target_tokenizer, comparison.keras(source_ids=source_ids, **ids))
    if not function.goes_on_from_start_token:
        expected = tf.where(module.source_tokenizer.has_tokens(read)[:, None], expected, "")
    actual = loaded.signatures["serving_default"](text=texts, **strings)["text"]
    if expected.shape != actual.shape or not bool(tf.reduce_all(expected == actual)):
        raise ExportError(
            "The SavedModel disagrees with Keras: expected equal texts. "
            f"Received: {actual.numpy().tolist()} instead of {expected.numpy().tolist()}."
        )
