from collections.abc import Callable, Sequence
from typing import Any

import keras


class BleuCallback(keras.callbacks.Callback):
    """Generates translations of a validation set after each epoch and logs their BLEU score.

        BLEU = min(1, exp(1 - r / c)) * (p_1 p_2 p_3 p_4)^(1/4)

    Here c is the total length of the translations, r is the total length of the references, and p_n
    are the n-gram precisions. BLEU was introduced by [Papineni et al.,
    2002](https://aclanthology.org/P02-1040). The callback computes it with sacreBLEU ([Post,
    2018](https://aclanthology.org/W18-6319)) and its default settings: 13a tokenization,
    case-sensitive, on detokenized text. The logged score is between 0 and 100. In the list of
    callbacks, a callback that monitors the score must come after this one.

    Args:
        translate: Function that takes a list of source strings and returns a list with one
            translation for each source.
        sources: List of strings, the source sentences.
        references: List of strings, one correct translation for each source.
        name: String, key in the logs. Defaults to `"val_bleu"`.

    Raises:
        ValueError: If there are no sources, or the number of references or translations differs
            from the number of sources.
        ImportError: If sacreBLEU is not installed.

    Example:

    For a trained model, `translate` is usually `lambda sources: translator.generate(sources,
    source_tokenizer, target_tokenizer)`.

    >>> def translate(sources):
    ...     return ["Two dogs are playing." for _ in sources]
    >>> bleu = BleuCallback(translate, ["Zwei Hunde spielen."], ["Two dogs are playing."])
    >>> logs = {}
    >>> bleu.on_epoch_end(0, logs)
    >>> round(logs["val_bleu"], 1)
    100.0
    """

    def __init__(
        self,
        translate: Callable[[list[str]], Sequence[str]],
        sources: Sequence[str],
        references: Sequence[str],
        name: str = "val_bleu",
    ) -> None:
        super().__init__()
        try:
            import sacrebleu
        except ImportError as error:
            raise ImportError(
                "BleuCallback needs sacrebleu. Install it: `pip install keras-attn[text]`."
            ) from error
        if not sources or len(sources) != len(references):
            raise ValueError(
                "Expected at least one source, and one reference for each source. Received: "
                f"{len(sources)} sources, {len(references)} references. Pass one reference "
                "for each source."
            )
        self.translate = translate
        self.sources = list(sources)
        self.references = list(references)
        self.name = name
        metrics: Any = sacrebleu.metrics
        self._metric = metrics.BLEU(tokenize="13a", lowercase=False)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        translations = list(self.translate(self.sources))
        if len(translations) != len(self.sources):
            raise ValueError(
                f"Expected translate to return {len(self.sources)} translations. "
                f"Received: {len(translations)} translations. Return one for each source."
            )
        score = self._metric.corpus_score(translations, [self.references]).score
        if logs is not None:
            logs[self.name] = score
