import keras

from keras_attn.decoders.step_decoder import StepDecoder
from keras_attn.models.functional_model import functional_model


def training_model(encoder, decoder, name="trainer"):
    """The model that learns: source and the beginning of the target to logits, teacher forced.

    Args:
        encoder: layer that turns `source_ids` into the keyword arguments of a decoder.
        decoder: a `StepDecoder`, or a `keras_attn.training.ScheduledSampling` around one.
        name: str.

    Returns:
        Functional model from a dict of `source_ids` int32 `(batch, source)` and `target_ids` int32
        `(batch, target)` (start token first) to float32 logits `(batch, target, vocabulary)`.

    Raises:
        ValueError: the decoder is given first.
    """
    if isinstance(encoder, StepDecoder):
        raise ValueError(
            "Expected an encoder and then a decoder. Received: "
            f"encoder={type(encoder).__name__}, decoder={type(decoder).__name__}."
        )
    source_ids = keras.Input((None,), dtype="int32", name="source_ids")
    target_ids = keras.Input((None,), dtype="int32", name="target_ids")
    logits = decoder(target_ids, **encoder(source_ids))
    inputs = {"source_ids": source_ids, "target_ids": target_ids}
    return functional_model(inputs, logits, name)
