from collections.abc import Callable, Sequence
from typing import Any

import keras


class BleuCallback(keras.callbacks.Callback):
    """Translates a validation set after each epoch and logs its BLEU.

    BLEU: Papineni et al. 2002, https://aclanthology.org/P02-1040. Computed by sacreBLEU (Post 2018,
    https://aclanthology.org/W18-6319) with its defaults: 13a tokenization, cased, on detokenized
    text. It stands in the logs, from 0 to 100, so callbacks that monitor it come after this one.

    Args:
        translate: function from a list of source strings to a list of as many translations.
        sources: list of strings.
        references: list of strings, one correct translation per source.
        name: key in the logs. Default `"val_bleu"`.

    Raises:
        ValueError: no sources, or another number of references or translations than of sources.
        ImportError: sacreBLEU is not installed.
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
                "BLEU is computed by sacrebleu. Install it: `pip install keras-attn[text]`."
            ) from error
        if not sources or len(sources) != len(references):
            raise ValueError(
                "Expected at least one source, and one reference for each. "
                f"Received: {len(sources)} sources, {len(references)} references"
            )
        self.translate = translate
        self.sources = list(sources)
        self.references = list(references)
        self.name = name
        metrics: Any = sacrebleu.metrics
        self._metric = metrics.BLEU(tokenize="13a", lowercase=False)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        translations = list(self.translate(self.sources))
        if len(translations) != len(self.sources):
            raise ValueError(
                f"Expected translate to return {len(self.sources)} translations. "
                f"Received: {len(translations)}"
            )
        score = self._metric.corpus_score(translations, [self.references]).score
        if logs is not None:
            logs[self.name] = score
