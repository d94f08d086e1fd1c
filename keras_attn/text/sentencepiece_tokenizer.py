"""SentencePiece as a `Tokenizer`."""

import io
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn.text.complete_model import is_complete_model
from keras_attn.text.tokenizer import SpecialTokenIds
from keras_attn.text.training_sentences import LONGEST_LINE, TrainingSentences

if TYPE_CHECKING:
    pass

# The sums of unigram training depend on how the work is divided: a fixed number of threads, not
# the number of cores, makes the same files give the same model on every machine.
_NUM_THREADS = 16
_SEED_LOCK = Lock()


class SentencePieceTokenizer:
    """Subword tokenizer that works on raw text and can be undone exactly.

    Kudo and Richardson, 2018, "SentencePiece" (https://arxiv.org/abs/1808.06226); `"unigram"` is
    Kudo, 2018 (https://arxiv.org/abs/1804.10959), `"bpe"` is Sennrich et al., 2016
    (https://arxiv.org/abs/1508.07909). The same model bytes give the same ids here, in a
    TensorFlow graph (`to_tensorflow`) and in the serving runtime.

    Args:
        model: bytes of a SentencePiece model, as `train` or `spm_train` makes it.
        pad_token_id: int, the id of padding. Default: that of the model, if it has one.
        start_token_id: int, the first input of a decoder, as above.
        end_token_id: int, the end of a sentence, as above.

    Attributes:
        model: the bytes above; two tokenizers with equal `model` share one vocabulary.
        vocabulary_size: int, number of ids.
        pad_token_id, start_token_id, end_token_id, unknown_token_id: ints. A tokenizer made by
            `train` has pad 0, start 1, end 2 and unknown 3.

    Raises:
        ValueError: the bytes are no complete model, the model lacks a special id that is not given,
            or an id is outside of the vocabulary.

    Example:

    ```python
    tokenizer = SentencePieceTokenizer.train(["train.en.gz", "train.de.gz"], 8000, "bpe")
    ids = tokenizer.encode(["A man sleeps."])     # [[24, 75, 4093, 7916]]
    tokenizer.decode(ids)                         # ["A man sleeps."]
    tokenizer.save("shared.spm")
    ```
    """

    def __init__(
        self,
        model: bytes,
        *,
        pad_token_id: int | None = None,
        start_token_id: int | None = None,
        end_token_id: int | None = None,
    ):
        sentencepiece = _import_sentencepiece()
        self.model = bytes(model)
        if not is_complete_model(self.model):
            raise ValueError(
                "Expected the bytes of a whole SentencePiece model; these are something else or "
                f"were cut off. Received: model of {len(self.model)} bytes. Train the tokenizer or "
                "copy its file again."
            )
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=self.model)
        except RuntimeError as error:
            raise ValueError(
                f"SentencePiece cannot read the model. Received: model of {len(self.model)} bytes."
            ) from error
        self.vocabulary_size = self._processor.get_piece_size()
        self.unknown_token_id = self._processor.unk_id()
        self.pad_token_id = self._special_id("pad", pad_token_id, self._processor.pad_id())
        self.start_token_id = self._special_id("start", start_token_id, self._processor.bos_id())
        self.end_token_id = self._special_id("end", end_token_id, self._processor.eos_id())

    def _special_id(self, name, given, own):
        if given is None and own < 0:
            raise ValueError(
                f"Expected a {name}_token_id, because the model has none. Received: "
                f"{name}_token_id=None. Give the id that the model was trained with."
            )
        id_ = own if given is None else given
        if not 0 <= id_ < self.vocabulary_size:
            raise ValueError(
                f"Expected {name}_token_id to be in [0, {self.vocabulary_size}), the vocabulary. "
                f"Received: {name}_token_id={id_}."
            )
        return int(id_)

    @classmethod
    def train(
        cls,
        files: str | PathLike | Sequence[str | PathLike],
        vocabulary_size: int,
        model_type: str = "unigram",
        byte_fallback: bool = False,
        normalizer: str = "nmt_nfkc",
        character_coverage: float = 1.0,
        max_sentences: int = 1_000_000,
        user_defined_symbols: Sequence[str] = (),
    ) -> "SentencePieceTokenizer":
        """Learns a vocabulary from text files. The same files always give the same bytes.

        The files are streamed; at most `max_sentences` lines, sampled evenly, are held in memory.

        Args:
            files: a path or several, plain or `.gz`, one sentence per line. Pass both languages
                for a shared vocabulary.
            vocabulary_size: int, most ids, the four special ones included. A small text may not
                fill them: the attribute `vocabulary_size` tells the number that it did.
            model_type: `"unigram"` (default), `"bpe"` or `"char"`.
            byte_fallback: bool, spells characters outside the vocabulary as bytes (256 further
                ids) instead of one unknown id. Default False.
            normalizer: `"nmt_nfkc"` (default: Unicode NFKC, white space collapsed) or
                `"identity"`, for text whose spaces, tabs and newlines matter: every one of them
                survives `encode` and `decode`.
            character_coverage: float in (0, 1], share of the characters of the text that get an
                id of their own. Default 1: all. Lower it (0.9995) for Chinese, Japanese or noisy
                text, where the rare characters would fill the vocabulary.
            max_sentences: int, lines kept for training. Default 1,000,000.
            user_defined_symbols: string or strings that are always one piece, such as `("<2de>",)`.

        Raises:
            ValueError: no text in the files, invalid UTF-8, an unknown option, or a vocabulary
                size that cannot hold the characters of the text.
        """
        sentencepiece = _import_sentencepiece()
        _check_choice("model_type", model_type, ("unigram", "bpe", "char"))
        _check_choice("normalizer", normalizer, ("nmt_nfkc", "identity"))
        files = [files] if isinstance(files, (str, PathLike)) else list(files)
        is_one = isinstance(user_defined_symbols, str)
        symbols = [user_defined_symbols] if is_one else list(user_defined_symbols)
        whitespace = {}
        if normalizer == "identity":
            whitespace = {
                "add_dummy_prefix": False,
                "remove_extra_whitespaces": False,
                "allow_whitespace_only_pieces": True,
            }
            # Lines hold no newline and the trainer reserves the tab: both need a piece by name.
            symbols += [symbol for symbol in ("\n", "\t") if symbol not in symbols]
        sentences, special = TrainingSentences(files), SpecialTokenIds()
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(sentences),
                model_writer=model,
                vocab_size=vocabulary_size,
                model_type=model_type,
                byte_fallback=byte_fallback,
                normalization_rule_name=normalizer,
                character_coverage=character_coverage,
                input_sentence_size=max_sentences,
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
                f"SentencePiece could not train. Received: vocabulary_size={vocabulary_size}, "
                f"model_type={model_type!r}, files={[str(file) for file in files]}. Its reason: "
                f"{error}"
            ) from error
        sentences.check()
        return cls(model.getvalue())

    @classmethod
    def load(cls, path: str | PathLike, **special_ids: int) -> "SentencePieceTokenizer":
        """Reads a model file, with special ids as in the constructor.

        Raises:
            ValueError: the file is damaged; the error names it.
        """
        try:
            return cls(Path(path).read_bytes(), **special_ids)
        except ValueError as error:
            raise ValueError(f"{error} The file is {str(path)!r}.") from error

    def save(self, path: str | PathLike) -> None:
        """Writes the model file, whole or not at all: a kill or a full disk leaves no half file."""
        with atomic_replace(path) as partial:
            partial.write_bytes(self.model)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns one list of ids per text, without start, end or padding ids."""
        _check_texts(texts)
        return self._processor.encode(list(texts))

    def sample(self, texts: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        """Like `encode`, with pieces drawn at random: subword regularization.

        A model that meets a text in many segmentations learns how its pieces are made up. It needs
        more training for it.

        Args:
            texts: list of strings.
            alpha: float in [0, 1]. For a `"bpe"` model the probability to skip a merge
                (BPE-dropout, Provilkov et al., 2020, https://arxiv.org/abs/1910.13267, who use
                0.1): 0 is `encode`, 1 spells characters. For `"unigram"` the exponent of the
                probability of a segmentation (Kudo, 2018, who uses 0.1 to 0.5): 0 draws all of
                them alike, and larger values favour the best.
            seed: int in [0, 2**32). The same seed gives the same pieces.

        Raises:
            ValueError: the model knows one segmentation only (`"char"`), or alpha is out of range.
        """
        _check_texts(texts)
        if not 0.0 <= alpha <= 1.0:
            raise ValueError(f"Expected alpha to be in [0, 1]. Received: alpha={alpha}")
        # The generator belongs to a thread and takes the seed when the thread first uses it.
        with _SEED_LOCK, ThreadPoolExecutor(1) as new_thread:
            ids = new_thread.submit(self._sample, list(texts), alpha, seed).result()
        if any(ids) or not any(self.encode(texts)):
            return ids
        raise ValueError(
            "Expected a unigram or bpe model. Received: a model with one way to divide a text."
        )

    def _sample(self, texts, alpha, seed):
        _import_sentencepiece().set_random_generator_seed(seed)
        return self._processor.encode(
            texts, enable_sampling=True, alpha=alpha, nbest_size=-1, num_threads=1
        )

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Returns one text per row of ids (lists or an array); special ids vanish, unknown is ⁇.

        Raises:
            ValueError: an id is outside `[0, vocabulary_size)`, or `ids` are those of one text.
        """
        if isinstance(ids, str) or any(not hasattr(row, "__iter__") for row in ids):
            raise ValueError(
                f"Expected rows of ids, one for each text. Received: ids={ids!r}. Write [ids]."
            )
        rows = [[int(token) for token in row] for row in ids]
        for row in rows:
            if row and not 0 <= min(row) <= max(row) < self.vocabulary_size:
                raise ValueError(
                    f"Expected ids from 0 to {self.vocabulary_size - 1}. Received: a row with ids "
                    f"from {min(row)} to {max(row)}. Is it from a model with another vocabulary?"
                )
        return self._processor.decode(rows) if rows else []

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the piece of each id of one row, as pictures and tables show them: `▁house`."""
        return self._processor.id_to_piece([int(token) for token in ids])

    def to_tensorflow(
        self,
        start_token_id: int | None = None,
        end_token_id: int | None = None,
        pad_token_id: int | None = None,
    ):
        """Returns the same tokenizer as a `tf.Module`, for use inside a SavedModel.

        Args:
            start_token_id, end_token_id: ids that `encode` puts around the pieces. Default: none.
            pad_token_id: id that `encode` pads with. Default: that of this tokenizer.
        """
        from keras_attn.text.tensorflow_tokenizer import TensorFlowTokenizer

        pad_token_id = self.pad_token_id if pad_token_id is None else pad_token_id
        return TensorFlowTokenizer(
            self.model, self.unknown_token_id, pad_token_id, start_token_id, end_token_id
        )


def _check_texts(texts):
    if isinstance(texts, (str, bytes)):
        raise ValueError(f"Expected a list of texts. Received: texts={texts[:40]!r}. Write [text].")


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"Expected {name} to be one of {choices}. Received: {name}={value!r}")


def _import_sentencepiece():
    try:
        import sentencepiece
    except ImportError as error:
        raise ImportError(
            "SentencePieceTokenizer needs sentencepiece: `pip install keras-attn[text]`."
        ) from error
    return sentencepiece
