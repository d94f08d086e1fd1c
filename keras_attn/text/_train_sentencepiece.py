"""SentencePiece model training."""

import dataclasses
import io
import numbers
import sys
from collections.abc import Sequence
from os import PathLike

from keras_attn.text._tokenizer import SpecialTokenIds, is_unicode
from keras_attn.text._training_sentences import LONGEST_LINE, TrainingSentences
from keras_attn_checks.number_types import is_number

# The sums in unigram training depend on the number of threads. Use a fixed number, so that training
# creates the same model on every machine.
_NUM_THREADS = 16

_LARGEST_SIZE = 2**31 - 1
_SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")


@dataclasses.dataclass(frozen=True)
class TrainingOptions:
    """Options for `SentencePieceTokenizer.train`, which documents them.

    Raises:
        ValueError: If an option is out of range.
    """

    vocabulary_size: int
    model_type: str
    byte_fallback: bool
    normalizer: str
    character_coverage: float
    max_sentences: int
    user_defined_symbols: Sequence[str]

    def __post_init__(self) -> None:
        self._require("model_type", ("unigram", "bpe", "char"))
        self._require("normalizer", ("nmt_nfkc", "identity"))
        self._require("byte_fallback", (True, False))
        self._require_integer("vocabulary_size", 1, _LARGEST_SIZE)
        self._require_integer("max_sentences", 101, 2**63 - 1)
        coverage = self.character_coverage
        # SentencePiece has the same limits.
        if not is_number(coverage) or not 0.98 <= coverage <= 1:
            raise self._error("character_coverage", "a number in [0.98, 1]")
        symbols = self.user_defined_symbols
        if (
            not all(isinstance(text, str) and text and is_unicode(text) for text in symbols)
            or len(set(symbols)) < len(symbols)
            or set(symbols) & set(_SPECIAL_TOKENS)
        ):
            raise self._error(
                "user_defined_symbols", f"different non-empty strings, none of {_SPECIAL_TOKENS}"
            )

    def _require(self, name, choices):
        if getattr(self, name) not in choices:
            raise self._error(name, f"one of {choices}")

    def _require_integer(self, name, least, most):
        value = getattr(self, name)
        is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        if not is_integer or not least <= value <= most:
            raise self._error(name, f"an integer from {least} to {most}")

    def _error(self, name, expected):
        received = f"{name}={getattr(self, name)!r}"
        return ValueError(f"Expected {name} to be {expected}. Received: {received}.")


def train_sentencepiece(files: list[str | PathLike], options: TrainingOptions) -> bytes:
    """Trains a SentencePiece model on text files, see `SentencePieceTokenizer.train`.

    Args:
        files: List of paths of text files, plain or `.gz`.
        options: `TrainingOptions`.

    Returns:
        Bytes, the model.

    Raises:
        ValueError: If the files contain no text or invalid UTF-8, or the vocabulary is too small
            for the characters in the text.
    """
    model = _train(files, options)
    if options.model_type == "char":
        # A character model leaves out the rarest characters if the vocabulary is too small.
        unlimited = dataclasses.replace(options, vocabulary_size=2 * sys.maxunicode)
        if _size(model) == options.vocabulary_size:
            least = _size(_train(files, unlimited))
            if least > options.vocabulary_size:
                raise ValueError(
                    f"Expected vocabulary_size of at least {least}, the number of characters and "
                    "special ids. Received: vocabulary_size="
                    f"{options.vocabulary_size}, model_type='char'. Increase vocabulary_size, or "
                    "decrease character_coverage."
                )
    return model


def _train(files, options):
    import sentencepiece

    symbols, whitespace = list(options.user_defined_symbols), {}
    if options.normalizer == "identity":
        whitespace = {
            "add_dummy_prefix": False,
            "remove_extra_whitespaces": False,
            "allow_whitespace_only_pieces": True,
        }
        # The training text contains no newlines and tabs, so define both as symbols.
        symbols += [symbol for symbol in ("\n", "\t") if symbol not in symbols]
    sentences, special = TrainingSentences(files), SpecialTokenIds()
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            vocab_size=int(options.vocabulary_size),
            model_type=options.model_type,
            byte_fallback=bool(options.byte_fallback),
            normalization_rule_name=options.normalizer,
            character_coverage=float(options.character_coverage),
            input_sentence_size=int(options.max_sentences),
            shuffle_input_sentence=True,
            max_sentence_length=LONGEST_LINE,
            user_defined_symbols=symbols,
            hard_vocab_limit=False,
            pad_id=special.pad,
            bos_id=special.start,
            eos_id=special.end,
            unk_id=special.unknown,
            num_threads=_NUM_THREADS,
            minloglevel=2,
            **whitespace,
        )
    except RuntimeError as error:
        sentences.check()
        raise ValueError(
            "Expected text and options that SentencePiece can train with. Received: "
            f"vocabulary_size={options.vocabulary_size}, model_type={options.model_type!r}, "
            f"files={[str(file) for file in files]}. The error of SentencePiece: {error}"
        ) from error
    sentences.check()
    return model.getvalue()


def _size(model):
    import sentencepiece

    return sentencepiece.SentencePieceProcessor(model_proto=model).get_piece_size()
