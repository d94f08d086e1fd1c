import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Language:
    """Ids that select a language in a multilingual translation model.

        source  = source_tag(target language), source_start, text, end token, source_end
        target  = target_start, translation

    | model | language ids |
    |---|---|
    | M2M100, NLLB, mBART-50 | `source_start=[id], target_start=[id]` |
    | mBART | `source_end=[id]`; the decoder's start token is the target language |
    | Marian with several targets | `source_tag=[id]` |

    Pass a dict of languages to `SentencePieceTokenizer`. An exported file contains the dict, and a
    request selects two languages: `Translator.translate(texts, source_language="eng_Latn",
    target_language="fra_Latn")`.

    Args:
        source_start: List of ids inserted before a text in this language. The source's start token,
            if any, comes before them. Defaults to `()`.
        source_end: List of ids appended to a text in this language, after the end token. Defaults
            to `()`.
        target_start: List of ids at the beginning of a translation into this language. The search
            receives them as the first `prefix_ids`. Defaults to `()`.
        source_tag: List of ids inserted before a source text that is to be translated into this
            language. Defaults to `()`.

    Raises:
        ValueError: If an id is not an integer of at least 0.

    Example:

    >>> from keras_attn.text import Language
    >>> french = Language(source_start=[256057], target_start=[256057])
    >>> french.entries()
    {'source_start': [256057], 'target_start': [256057]}
    """

    source_start: Sequence[int] = ()
    source_end: Sequence[int] = ()
    target_start: Sequence[int] = ()
    source_tag: Sequence[int] = ()

    def __post_init__(self) -> None:
        for name, ids in vars(self).items():
            is_list = isinstance(ids, (list, tuple))
            if not is_list or any(not isinstance(id_, int) or id_ < 0 for id_ in ids):
                raise ValueError(
                    f"Expected {name} to be a list of ids of at least 0. Received: {name}={ids!r}."
                )

    def entries(self) -> dict[str, list[int]]:
        """Returns a dict from argument names to lists, without empty lists."""
        return {name: list(ids) for name, ids in vars(self).items() if ids}
