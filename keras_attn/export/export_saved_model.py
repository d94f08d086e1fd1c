from keras_attn.export.export_error import ExportError
from keras_attn.export.parity_sentences import parity_prefixes, parity_sentences
from keras_attn.export.paused_collection import paused_collection
from keras_attn.export.require import require
from keras_attn.export.search_function import SearchFunction
from keras_attn.export.verify import compare_translations, pad, translated_batches
from keras_attn.export.without_cudnn import without_cudnn
from keras_attn.replace_when_done import replace_when_done
from keras_attn.text.tokenizer import PAD_TOKEN_ID


def export_saved_model(
    model,
    directory,
    source_tokenizer=None,
    target_tokenizer=None,
    *,
    alignments=None,
    sentences=None,
    target_prefix=False,
):
    """Writes a search model as a TensorFlow SavedModel, for TensorFlow Serving among others.

    Signature `ids`: inputs `source_ids` int32 `(batch, source_length)`, `max_length` int32 `()`,
    `length_penalty` float32 `()`; outputs `token_ids`, `lengths`, `scores`, `log_probs`,
    `alignments` on request, and `token_log_probs` of a search that returns them.

    Signature `serving_default`: inputs `text` string `(batch,)`, `max_length`, `length_penalty`;
    outputs `text` string `(batch, hypotheses)`, best first, and those of `ids`. The tokenizers are
    inside; the process that loads the model has to `import tensorflow_text`. Without tokenizers
    `ids` is the only signature.

    `max_length` and `length_penalty` have the model's own values as defaults in the signatures, so
    that gRPC requests to TensorFlow Serving may leave them out. Its REST interface and, in Python,
    the signatures want all inputs, while `loaded.translate_ids(source_ids)` and
    `loaded.translate_texts(text)` know the defaults.

    The directory appears under its name, whole, after it was loaded again and compared with Keras.
    A model of mixed precision keeps it.

    Args:
        model: functional Keras model: `source_ids` -> encoder -> `Search` layer.
        directory: name of the directory; an existing SavedModel is replaced, any other directory
            with content is refused.
        source_tokenizer, target_tokenizer: optional `SentencePieceTokenizer`s. Leave
            `target_tokenizer` out if both languages share one.
        alignments: bool, whether the attention weights are among the outputs. Default `None`: as
            the search was made.
        sentences: as for `export_onnx`.
        target_prefix: bool, whether the caller may say what each hypothesis begins with: `ids` then
            has an input `prefix_ids` int32 `(batch, prefix_length)`, padded on the right, and
            `serving_default` an input `target_prefix` string `(batch,)`. Either may have one row
            for all, and by default there is nothing in it. Characters that the tokenizer does not
            know are the unknown token. Default `False`.

    Returns:
        The `ParityReport` of the comparison.

    Raises:
        ExportError: the SavedModel disagrees with Keras. No directory is written.
        ImportError: tensorflow_text is missing and there are tokenizers.
        ValueError: `model` is not a search model, or an argument does not fit it.
    """
    require("tensorflow", *(["tensorflow_text"] if source_tokenizer is not None else []))
    import tensorflow as tf

    function = SearchFunction(model, source_tokenizer, target_tokenizer, alignments, target_prefix)
    sentences = parity_sentences(function, source_tokenizer, sentences)
    prefixes = parity_prefixes(function, len(sentences))
    with without_cudnn(model), replace_when_done(directory) as partial, paused_collection():
        module = _module(function, source_tokenizer, target_tokenizer or source_tokenizer)
        signatures = {"ids": module.translate_ids}
        if source_tokenizer is not None:
            signatures["serving_default"] = module.translate_texts
        tf.saved_model.save(module, str(partial), signatures=signatures)
        # Kept in a variable: its signatures do not keep its weights alive.
        loaded = tf.saved_model.load(str(partial))
        run = function.runner()
        expected = translated_batches(run, sentences, function.search, prefixes)
        report = compare_translations(expected, _runner(loaded), function.search)
        report.check()
        if source_tokenizer is not None:
            _check_texts(run, module, loaded, sentences[:16], prefixes and prefixes[:16])
    return report


def _module(function, source_tokenizer, target_tokenizer):
    """A `tf.Module` with the functions of both signatures, which holds all that they need."""
    import tensorflow as tf

    search = function.search
    max_length = tf.constant(function.defaults["max_length"], tf.int32)
    length_penalty = tf.constant(function.defaults["length_penalty"], tf.float32)
    no_ids, no_text = tf.zeros((1, 0), tf.int32), tf.constant([""])
    module = tf.Module()
    module.defaults = [max_length, length_penalty]
    module.weights = [weight.value for weight in function.weights]

    # Two functions: an argument that is no input would hand its default on to another one.
    def of_ids(source_ids, max_length=max_length, length_penalty=length_penalty):
        return function(source_ids, max_length, length_penalty)

    def of_ids_and_prefix(
        source_ids, max_length=max_length, length_penalty=length_penalty, prefix_ids=no_ids
    ):
        return function(source_ids, max_length, length_penalty, prefix_ids)

    module.translate_ids = tf.function(
        of_ids_and_prefix if function.target_prefix else of_ids,
        input_signature=function.signature,
        autograph=False,
    )
    if source_tokenizer is None:
        return module
    module.source_tokenizer = source_tokenizer.to_tensorflow(
        search.start_token_id if function.source_start else None,
        search.end_token_id if function.source_end else None,
        search.pad_token_id,
    )
    module.target_tokenizer = target_tokenizer.to_tensorflow(None, None, search.pad_token_id)

    def of_texts(text, max_length=max_length, length_penalty=length_penalty):
        return translate(text, max_length, length_penalty)

    def of_texts_and_prefix(
        text, max_length=max_length, length_penalty=length_penalty, target_prefix=no_text
    ):
        prefix_ids = module.target_tokenizer.encode(target_prefix)  # (B, P)
        return translate(text, max_length, length_penalty, prefix_ids)

    def translate(text, *arguments):
        source_ids = module.source_tokenizer.encode(text)  # (B, S)
        # No texts give S = 0, with which Keras' recurrent layers cannot work.
        missing = tf.maximum(1 - tf.shape(source_ids)[1], 0)
        source_ids = tf.pad(source_ids, [[0, 0], [0, missing]], constant_values=search.pad_token_id)
        results = module.translate_ids(source_ids, *arguments)
        return {"text": _decode(module.target_tokenizer, results), **results}

    _, *limits = function.signature[:3]
    text = tf.TensorSpec((None,), tf.string, name="text")
    prefix = tf.TensorSpec((None,), tf.string, name="target_prefix")
    module.translate_texts = tf.function(
        of_texts_and_prefix if function.target_prefix else of_texts,
        input_signature=[text, *limits, *([prefix] if function.target_prefix else [])],
        autograph=False,
    )
    return module


def _decode(tokenizer, results):
    """The texts `(batch, hypotheses)` of what a search returns."""
    import tensorflow as tf

    # The ids that end and pad a hypothesis may be those of pieces.
    is_text = tf.sequence_mask(results["lengths"], tf.shape(results["token_ids"])[2])  # (B, N, T)
    return tokenizer.decode(tf.where(is_text, results["token_ids"], PAD_TOKEN_ID))


def _runner(loaded):
    import tensorflow as tf

    signature = loaded.signatures["ids"]

    def run(**inputs):
        outputs = signature(**{name: tf.constant(value) for name, value in inputs.items()})
        return {name: value.numpy() for name, value in outputs.items()}

    return run


def _check_texts(run, module, loaded, sentences, prefixes):
    """Compares the loaded string signature with the tokenizers around the model."""
    import tensorflow as tf

    texts = module.source_tokenizer.decode(pad(sentences))
    limits = dict(zip(("max_length", "length_penalty"), module.defaults, strict=True))
    ids, strings = {}, {}
    if prefixes is not None:
        strings["target_prefix"] = module.target_tokenizer.decode(pad(prefixes))
        ids["prefix_ids"] = module.target_tokenizer.encode(strings["target_prefix"])
    results = run(source_ids=module.source_tokenizer.encode(texts), **limits, **ids)
    expected = _decode(module.target_tokenizer, results)
    actual = loaded.signatures["serving_default"](text=texts, **limits, **strings)["text"]
    if expected.shape != actual.shape or not bool(tf.reduce_all(expected == actual)):
        raise ExportError(
            "The SavedModel disagrees with Keras: expected equal texts. "
            f"Received: {actual.numpy().tolist()} instead of {expected.numpy().tolist()}."
        )
