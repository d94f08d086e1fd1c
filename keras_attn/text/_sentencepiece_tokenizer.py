"""SentencePiece tokenizer."""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn.text._added_tokens import AddedToken, AddedTokenSplitter, clean_up_spaces
from keras_attn.text._complete_model import is_complete_model
from keras_attn.text._language import Language
from keras_attn.text._subword_sampling import sample_segmentations
from keras_attn.text._tokenizer import check_texts, rows_of_ids
from keras_attn.text._train_sentencepiece import TrainingOptions, train_sentencepiece
from keras_attn_checks.number_types import is_integer, is_number

if TYPE_CHECKING:
    from keras_attn.text._tensorflow_tokenizer import TensorFlowTokenizer

SPACE = "\u2581"
"""Character that SentencePiece writes for a space."""


class SentencePieceTokenizer:
    """Subword tokenizer for raw text with lossless detokenization.

    SentencePiece was introduced by [Kudo and Richardson, 2018](https://arxiv.org/abs/1808.06226),
    the model type `"unigram"` by [Kudo, 2018](https://arxiv.org/abs/1804.10959), and `"bpe"` by
    [Sennrich et al., 2016](https://arxiv.org/abs/1508.07909). With the same model bytes, this
    class, a TensorFlow graph (`to_tensorflow`) and `keras_attn_runtime` compute the same ids.

    Args:
        model: Bytes, a SentencePiece model created by `train` or `spm_train`.
        pad_token_id: Int, padding id. Required if the model defines none. Defaults to `None`: the
            model's padding id.
        start_token_id: Int, a decoder's first input. Required if the model defines none. Defaults
            to `None`: the model's start id.
        end_token_id: Int, id at the end of a sentence. Required if the model defines none. Defaults
            to `None`: the model's end id.
        vocabulary_size: Positive int, number of ids. `encode` replaces higher ids by the unknown
            id. Defaults to `None`: the number of pieces in the model.
        languages: Dict from language names to `Language`s, for a model that translates from or into
            several languages. `encode` and `decode` ignore them; exported files contain them.
            Defaults to `None`: no languages.
        added_tokens: List of `AddedToken`s, strings that `encode` always replaces by one id. The
            model must contain a piece with each id. Defaults to `()`: no added tokens.
        space_token_id: Int, id that `encode` inserts between white space and an added token after
            it, as the Pegasus, NLLB and mBART-50 tokenizers in transformers 5 do. Defaults to
            `None`: no id.
        parse_special_tokens: Bool, whether special tokens typed in a text, such as `"</s>"`, become
            their ids. By default they are ordinary characters. Pass `True` only for texts that you
            wrote yourself, such as chat template prompts. Special tokens are those in
            `added_tokens`; without any, the start, end, padding and unknown token. Defaults to
            `False`.
        clean_up_spaces: Bool, whether `decode` removes spaces before punctuation and English
            contractions, as `clean_up_tokenization_spaces` in transformers does. Defaults to
            `False`.

    Attributes:
        model: Bytes, the model. Tokenizers with equal bytes have the same vocabulary.
        vocabulary_size: Int, number of ids.
        languages: Dict from language names to `Language`s.
        has_extra_pieces: Bool, whether the model contains more pieces than `vocabulary_size`.
        pad_token_id: Int; 0 for a model created by `train`.
        start_token_id: Int; 1 for a model created by `train`.
        end_token_id: Int; 2 for a model created by `train`.
        unknown_token_id: Int; 3 for a model created by `train`.

    Raises:
        ValueError: If the bytes are not a complete model, a required special id is missing, or an
            id is outside the vocabulary.
        ImportError: If `sentencepiece` is not installed.

    Example:

    ```python
    tokenizer = SentencePieceTokenizer.train(["train.en.gz", "train.de.gz"], 8000, "bpe")
    ids = tokenizer.encode(["A man sleeps."])     # [[24, 75, 4093, 7916]]
    tokenizer.decode(ids)                         # ["A man sleeps."]
    tokenizer.save("shared.spm")
    ```
    """

    format = "sentencepiece"
    """Format name in run directories and exported files."""

    suffix = ".spm"
    """Suffix of files written by `save`."""

    has_unknown_token = True
    """Bool, whether an id stands for characters that the vocabulary lacks."""

    def __init__(
        self,
        model: bytes,
        *,
        pad_token_id: int | None = None,
        start_token_id: int | None = None,
        end_token_id: int | None = None,
        vocabulary_size: int | None = None,
        languages: Mapping[str, Language] | None = None,
        added_tokens: Sequence[AddedToken] = (),
        space_token_id: int | None = None,
        parse_special_tokens: bool = False,
        clean_up_spaces: bool = False,
    ) -> None:
        sentencepiece = _import_sentencepiece()
        self.model = bytes(model)
        if not is_complete_model(self.model):
            raise ValueError(
                "Expected the bytes of a complete SentencePiece model. Received: a truncated or "
                f"different file of {len(self.model)} bytes. Train the tokenizer or copy its file "
                "again."
            )
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=self.model)
        except RuntimeError as error:
            raise ValueError(
                f"Expected a SentencePiece model. Received: {len(self.model)} bytes that "
                "SentencePiece cannot read. Train the tokenizer or copy its file again."
            ) from error
        num_pieces = self._processor.get_piece_size()
        self.vocabulary_size = num_pieces if vocabulary_size is None else int(vocabulary_size)
        if not 1 <= self.vocabulary_size <= num_pieces:
            raise ValueError(
                f"Expected vocabulary_size in [1, {num_pieces}], the number of pieces of the "
                f"model. Received: vocabulary_size={vocabulary_size}. Omit it to use all pieces."
            )
        self.has_extra_pieces = self.vocabulary_size < num_pieces
        self.unknown_token_id = self._processor.unk_id()
        self.pad_token_id = self._special_id("pad", pad_token_id, self._processor.pad_id())
        self.start_token_id = self._special_id("start", start_token_id, self._processor.bos_id())
        self.languages = dict(languages or {})
        self.end_token_id = self._special_id("end", end_token_id, self._processor.eos_id())
        self.parse_special_tokens, self.clean_up_spaces = parse_special_tokens, clean_up_spaces
        self.added_tokens, self.space_token_id = self._parsed_tokens(added_tokens), space_token_id
        self._splitter = AddedTokenSplitter(
            self.added_tokens, space_token_id, self._ends_with_space
        )

    def _parsed_tokens(self, tokens):
        """Returns the tokens that `encode` replaces by their ids."""
        if not self.parse_special_tokens:
            return tuple(token for token in tokens if not token.special)
        if not any(token.special for token in tokens):
            ids = (self.pad_token_id, self.start_token_id, self.end_token_id, self.unknown_token_id)
            pieces = {id_: self._processor.id_to_piece(id_) for id_ in ids}
            special = (AddedToken(piece, id_, special=True) for id_, piece in pieces.items())
            return (*special, *tokens)
        return tuple(tokens)

    @property
    def _special_pieces(self):
        """The padding, start and end id, if SentencePiece would decode one of them as text."""
        processor: Any = self._processor
        ids = (self.pad_token_id, self.start_token_id, self.end_token_id)
        return None if all(map(processor.is_control, ids)) else ids

    def _special_id(self, name, given, model_id):
        if given is None and model_id < 0:
            raise ValueError(
                f"Expected a {name}_token_id, because the model has none. Received: "
                f"{name}_token_id=None. Pass the id that the training data use."
            )
        id_ = model_id if given is None else given
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
        """Trains a vocabulary on text files. The result is deterministic.

        The files are streamed. At most `max_sentences` lines, a uniform sample, are in memory.

        Args:
            files: Path or list of paths of text files, plain or `.gz`, with one sentence per line.
                Pass files in both languages for a shared vocabulary.
            vocabulary_size: Positive int, maximum number of ids, including the four special ids.
                With a small text, the vocabulary can be smaller, see the attribute
                `vocabulary_size`.
            model_type: String, `"unigram"`, `"bpe"` or `"char"`. Defaults to `"unigram"`.
            byte_fallback: Bool, whether characters outside the vocabulary are encoded as bytes
                (256 additional ids) instead of the unknown id. Defaults to `False`.
            normalizer: String. `"nmt_nfkc"` applies Unicode NFKC and collapses white space.
                `"identity"` preserves all spaces, tabs and newlines in `encode` and `decode`.
                Defaults to `"nmt_nfkc"`.
            character_coverage: Float in [0.98, 1], fraction of characters in the text that the
                vocabulary covers. Use a lower value such as 0.9995 for Chinese, Japanese or noisy
                text, because rare characters would otherwise fill the vocabulary. Defaults to
                `1.0`.
            max_sentences: Int > 100, maximum number of training lines. Defaults to `1_000_000`.
            user_defined_symbols: String or list of different strings, such as `("<2de>",)`. Each
                string is always encoded as one piece. Defaults to `()`.

        Returns:
            A `SentencePieceTokenizer`.

        Raises:
            ValueError: If the files contain no text or invalid UTF-8, an option is out of range, or
                `vocabulary_size` is too small for the characters in the text.
        """
        files = [files] if isinstance(files, (str, PathLike)) else list(files)
        is_one = isinstance(user_defined_symbols, str)
        options = TrainingOptions(
            vocabulary_size=vocabulary_size,
            model_type=model_type,
            byte_fallback=byte_fallback,
            normalizer=normalizer,
            character_coverage=character_coverage,
            max_sentences=max_sentences,
            user_defined_symbols=([user_defined_symbols] if is_one else list(user_defined_symbols)),
        )
        _import_sentencepiece()  # an error that says how to install it
        return cls(train_sentencepiece(files, options))

    @classmethod
    def load(cls, path: str | PathLike, **arguments: Any) -> "SentencePieceTokenizer":
        """Reads a model file.

        Args:
            path: File path.
            **arguments: Further constructor arguments, such as `pad_token_id`.

        Returns:
            A `SentencePieceTokenizer`.

        Raises:
            ValueError: If the file is damaged.
        """
        try:
            return cls(Path(path).read_bytes(), **arguments)
        except ValueError as error:
            raise ValueError(f"{error} The file is {str(path)!r}.") from error

    def save(self, path: str | PathLike) -> None:
        """Writes the model file atomically.

        Args:
            path: File path.
        """
        with atomic_replace(path) as partial:
            partial.write_bytes(self.model)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns one list of ids per text, without start, end and padding ids.

        Args:
            texts: List of strings.

        Raises:
            ValueError: If an element is not a string, or contains a lone surrogate.
        """
        check_texts(texts)
        return self._known(self._with_added_tokens(texts, self._processor.encode))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Returns the positions in one text that each id of `encode` represents.

        Args:
            text: String.

        Returns:
            List with a pair for each id: the first position in the text before normalization, and
            the position after the last. A span can be empty.
        """
        check_texts([text])
        spans = []
        for part, start in self._splitter.split_with_starts(text):
            if isinstance(part, int):
                spans.append((start, start))
                continue
            pieces = self._processor.encode(part, out_type="immutable_proto").pieces
            spans += [(start + piece.begin, start + piece.end) for piece in pieces]
        return spans

    def _ends_with_space(self, text):
        # SentencePiece removes spaces at both ends of a text.
        return self._processor.normalize(f"a{text}a")[-2:-1] in (" ", SPACE)

    def _with_added_tokens(self, texts, encode):
        return self._splitter.encode(texts, encode) if self.added_tokens else encode(list(texts))

    def sample(self, texts: Sequence[str], alpha: float, seed: int) -> list[list[int]]:
        """Encodes texts with random segmentations (subword regularization).

        A model trained on many segmentations of the same text learns how pieces are composed, but
        needs longer training.

        If pieces of the model have ids of at least `vocabulary_size`, a `"unigram"` model samples
        segmentations into vocabulary pieces. Where the random segmentation still contains an
        unknown id and the one from `encode` does not, as after a skipped merge whose parts the
        vocabulary lacks, the pieces from `encode` are used up to the next common boundary.

        Args:
            texts: List of strings.
            alpha: Float in [0, 1]. For a `"bpe"` model, the probability of skipping a merge
                (BPE-dropout, [Provilkov et al., 2020](https://arxiv.org/abs/1910.13267); the paper
                uses 0.1). An alpha of 0 gives the same result as `encode`, and 1 splits the text
                into characters. For a `"unigram"` model, the exponent of a segmentation's
                probability ([Kudo, 2018](https://arxiv.org/abs/1804.10959); the paper uses 0.1 to
                0.5). An alpha of 0 samples all segmentations uniformly, and larger values prefer
                the best segmentation.
            seed: Int in [0, 2**32). Calls with the same seed return the same segmentations.

        Returns:
            One list of ids per text, without start, end and padding ids.

        Raises:
            ValueError: If the model type is `"char"`, which has only one segmentation, or `alpha`
                or `seed` is out of range.
        """
        check_texts(texts)
        if not is_number(alpha) or not 0.0 <= alpha <= 1.0:
            raise ValueError(f"Expected alpha to be in [0, 1]. Received: alpha={alpha!r}.")
        if not is_integer(seed) or not 0 <= seed < 2**32:
            raise ValueError(
                f"Expected seed to be an integer in [0, 2**32). Received: seed={seed!r}."
            )
        ids = self._known(
            self._with_added_tokens(
                texts,
                lambda parts: sample_segmentations(
                    self._processor, parts, float(alpha), int(seed), self.vocabulary_size
                ),
            )
        )
        if any(ids) or not any(self.encode(texts)):
            return ids
        raise ValueError(
            "Expected a unigram or bpe model. Received: a model with a single segmentation per "
            "text."
        )

    def _known(self, rows):
        """Replaces ids outside the vocabulary by the unknown id."""
        if not self.has_extra_pieces:
            return rows
        size, unknown = self.vocabulary_size, self.unknown_token_id
        return [[id_ if id_ < size else unknown for id_ in row] for row in rows]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Returns one text per row of ids. Special ids are removed, and unknown ids become `⁇`.

        Control pieces are removed everywhere. A padding, start or end id can also be an ordinary
        piece or the unknown piece. These are removed only from rows that end with the end id and
        any number of padding ids.

        Args:
            ids: List of lists of ids, or an int array with shape `(batch, length)`.

        Returns:
            List of strings.

        Raises:
            ValueError: If an id is not an integer in `[0, vocabulary_size)`, or `ids` is one row.
        """
        rows = rows_of_ids(ids, self.vocabulary_size)
        if self._special_pieces:
            rows = [_without_special_ids(row, *self._special_pieces) for row in rows]
        texts = self._processor.decode(rows) if rows else []
        return [clean_up_spaces(text) for text in texts] if self.clean_up_spaces else texts

    def decode_with_mark(self, ids: Sequence[int], mark: str) -> str:
        """Returns the text for one row of ids, with `mark` in place of each unknown id.

        Args:
            ids: List of ids.
            mark: String that is not a piece.
        """
        (row,) = rows_of_ids([ids], self.vocabulary_size)
        if self._special_pieces:
            row = _without_special_ids(row, *self._special_pieces)
        unknown, find = self.unknown_token_id, self._processor.id_to_piece
        # SentencePiece decodes a piece that is not in the vocabulary as it is.
        text = self._processor.decode_pieces([mark if id_ == unknown else find(id_) for id_ in row])
        return clean_up_spaces(text) if self.clean_up_spaces else text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns each id's piece, such as `▁house`, for one row of ids."""
        return self._processor.id_to_piece(rows_of_ids([ids], self.vocabulary_size)[0])

    def to_tensorflow(
        self,
        start_token_id: int | None = None,
        end_token_id: int | None = None,
        pad_token_id: int | None = None,
    ) -> "TensorFlowTokenizer":
        """Returns the tokenizer as a `tf.Module`, for use inside a SavedModel.

        Args:
            start_token_id: Int, id that `encode` inserts before the pieces. Defaults to `None`: no
                id.
            end_token_id: Int, id that `encode` appends to the pieces. Defaults to `None`: no id.
            pad_token_id: Int, padding id. Defaults to `None`: this tokenizer's `pad_token_id`.

        Returns:
            A `keras_attn.text._tensorflow_tokenizer.TensorFlowTokenizer`.

        Raises:
            ValueError: If the tokenizer uses `added_tokens`, `parse_special_tokens` or
                `clean_up_spaces`, which the graph does not support.
        """
        require_graph_tokenizer(self)
        from keras_attn.text._tensorflow_tokenizer import TensorFlowTokenizer

        pad_token_id = self.pad_token_id if pad_token_id is None else pad_token_id
        return TensorFlowTokenizer(
            self.model,
            self.unknown_token_id,
            pad_token_id,
            start_token_id,
            end_token_id,
            vocabulary_size=self.vocabulary_size if self.has_extra_pieces else None,
            special_pieces=self._special_pieces,
        )


def _without_special_ids(row: list[int], pad: int, start: int, end: int) -> list[int]:
    """Removes special ids from a row that ends with the end id and any number of padding ids."""
    length = len(row)
    while length and row[length - 1] == pad:
        length -= 1
    if end != pad:
        length -= 1
    is_whole = 0 <= length < len(row) and row[length] == end
    if not is_whole:
        return row
    return row[1 if length and row[0] == start else 0 : length]


def require_graph_tokenizer(tokenizer: Any) -> None:
    """Checks that operators in a graph can replace a tokenizer.

    Args:
        tokenizer: `SentencePieceTokenizer`.

    Raises:
        ValueError: If the tokenizer uses options that SentencePiece itself lacks.
    """
    names = ("parse_special_tokens", "added_tokens", "clean_up_spaces")
    given = [name for name in names if getattr(tokenizer, name, None)]
    if given:
        raise ValueError(
            "Expected a tokenizer without added_tokens, parse_special_tokens and clean_up_spaces, "
            "because SentencePiece inside a graph does not have them. Received: a tokenizer with "
            f"{', '.join(given)}. Export with `export_onnx`, and use keras-attn-runtime."
        )


def _import_sentencepiece():
    try:
        import sentencepiece
    except ImportError as error:
        raise ImportError(
            "Expected sentencepiece for SentencePieceTokenizer: `pip install '.[text]'` in a "
            "checkout."
        ) from error
    return sentencepiece
