"""CTranslate2 side of `decode.py`, which starts this script with a file of settings.

The model was written by `keras_attn.export.export_ctranslate2` without tokenizers. Its tokens are
the ids as decimal numbers, except the special tokens. CTranslate2 adds the end token of the source.
"""

import json
import os
import time
from importlib import metadata

from translation_side import read_settings

SPECIAL = {0: "<pad>", 1: "<s>", 2: "</s>"}
END = 2


def main():
    settings = read_settings()
    # CTranslate2 reads these variables when it is imported.
    os.environ["CT2_USE_MKL"] = str(int(settings.get("mkl", 1)))
    print(json.dumps(measure(settings)))


def token(index):
    return SPECIAL.get(index, str(index))


def token_id(text):
    return int(text) if text.isdecimal() else next(i for i, t in SPECIAL.items() if t == text)


def measure(settings):
    """Returns the seconds and the hypotheses of each batch size."""
    import ctranslate2

    translator = ctranslate2.Translator(
        settings["model"],
        device="cpu",
        compute_type=settings["precision"],
        inter_threads=settings["workers"],
        intra_threads=settings["threads"] // settings["workers"],
    )

    def translate(batches, lengths):
        started = []
        for batch, length in zip(batches, lengths, strict=True):
            started += translator.translate_batch(
                batch,
                beam_size=settings["beam_width"],
                length_penalty=settings["length_penalty"],
                max_decoding_length=length or settings["max_length"],
                min_decoding_length=length or 1,
                return_scores=True,
                asynchronous=True,
            )
        results = [result.result() for result in started]
        return [(result.hypotheses[0], result.scores[0]) for result in results]

    rows = {}
    for size, batches in settings["batches"].items():
        lengths = settings["lengths"].get(size) or [None] * len(batches)
        # CTranslate2 reads and returns strings. Their conversion to and from ids is not timed.
        batches = [
            [[token(index) for index in each if index != END] for each in batch]
            for batch in batches
        ]
        translate(batches[:2], lengths[:2])
        begin = time.perf_counter()
        results = translate(batches, lengths)
        seconds = time.perf_counter() - begin
        hypotheses = [([token_id(text) for text in texts], score) for texts, score in results]
        rows[size] = {"seconds": seconds, "hypotheses": hypotheses}
    return {"rows": rows, "versions": {"ctranslate2": metadata.version("ctranslate2")}}


if __name__ == "__main__":
    main()
