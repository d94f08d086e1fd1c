import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from keras_attn._layer.argument_checks import check_number
from keras_attn._types import TensorDict
from keras_attn_checks.evenly_spaced import evenly_spaced


class BleuCallback(keras.callbacks.Callback):
    """Generates translations of a validation set after each epoch and logs BLEU and chrF.

        BLEU = min(1, exp(1 - r / c)) * (p_1 p_2 p_3 p_4)^(1/4)

    Here c is the total length of the translations, r is the total length of the references, and p_n
    are the n-gram precisions. BLEU was introduced by [Papineni et al.,
    2002](https://aclanthology.org/P02-1040); chrF is the F-score of character n-grams ([Popović,
    2015](https://aclanthology.org/W15-3049)). The callback computes them with sacreBLEU ([Post,
    2018](https://aclanthology.org/W18-6319)) and its default settings. For BLEU, these are 13a
    tokenization, case-sensitive, on detokenized text. The scores are between 0 and 100. In the
    list of callbacks, a callback that monitors a score must come after this one.

    Args:
        translate: Function that takes a list of source strings and returns a list with one
            translation for each source.
        sources: List of strings, the source sentences.
        references: List of strings, one correct translation for each source.
        name: String, key of BLEU in the logs. The key of chrF is the same with `chrf` in place of
            `bleu`; if the name does not contain `bleu`, chrF is not logged. Defaults to
            `"val_bleu"`.
        time_share: Float in (0, 1], maximum share of the time of the training for the evaluation.
            An epoch is not evaluated, and logs nothing, if this would exceed the share. The last
            epoch is always evaluated. Defaults to `1.0`: every epoch is evaluated.
        num_samples: Int >= 0, number of translations that are printed with source and reference
            after each evaluation. They are evenly distributed over the sources. Defaults to `0`.
        write: Function that takes a printed line. Defaults to `print`.

    Attributes:
        signatures: List of two strings, sacreBLEU's signatures of BLEU and chrF after the first
            evaluation. They describe the settings, so that scores can be compared.

    Raises:
        ValueError: If there are no sources, or the number of references or translations differs
            from the number of sources.
        ImportError: If sacreBLEU is not installed.

    Example:

    For a trained model, `translate` is usually `lambda sources: translator.generate(sources,
    source_tokenizer, target_tokenizer)`.

    >>> from keras_attn.training import BleuCallback
    >>> def translate(sources):
    ...     return ["Two dogs are playing." for _ in sources]
    >>> bleu = BleuCallback(translate, ["Zwei Hunde spielen."], ["Two dogs are playing."])
    >>> logs = {}
    >>> bleu.on_epoch_end(0, logs)
    >>> round(logs["val_bleu"], 1), round(logs["val_chrf"], 1)
    (100.0, 100.0)
    """

    def __init__(
        self,
        translate: Callable[[list[str]], Sequence[str]],
        sources: Sequence[str],
        references: Sequence[str],
        name: str = "val_bleu",
        *,
        time_share: float = 1.0,
        num_samples: int = 0,
        write: Callable[[str], object] = print,
    ) -> None:
        super().__init__()
        try:
            import sacrebleu
        except ImportError as error:
            raise ImportError(
                "BleuCallback needs sacrebleu. Install it: `pip install '.[text]'` in a checkout."
            ) from error
        if not sources or len(sources) != len(references):
            raise ValueError(
                "Expected at least one source, and one reference for each source. Received: "
                f"{len(sources)} sources, {len(references)} references. Pass one reference "
                "for each source."
            )
        check_number(
            "time_share", time_share, lambda share: 0 < share <= 1, "in (0, 1]", "Use 0.1."
        )
        self.translate = translate
        self.sources = list(sources)
        self.references = list(references)
        self.name = name
        self.time_share = time_share
        self.num_samples = num_samples
        self.write = write
        self.signatures: list[str] = []
        metrics: Any = sacrebleu.metrics
        self._metrics = {name: metrics.BLEU(tokenize="13a", lowercase=False)}
        if "bleu" in name:
            self._metrics[name.replace("bleu", "chrf")] = metrics.CHRF()
        self._spent = self._evaluated = self._last = 0.0
        self._began = time.monotonic()

    def on_train_begin(self, logs: Mapping[str, float] | None = None) -> None:
        self._began = time.monotonic()

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        now = time.monotonic()
        self._spent, self._began = self._spent + now - self._began, now
        is_last = epoch + 1 == (self.params or {}).get("epochs")
        if not is_last and self._evaluated + self._last > self.time_share * self._spent:
            return
        translations = list(self.translate(self.sources))
        if len(translations) != len(self.sources):
            raise ValueError(
                f"Expected translate to return {len(self.sources)} translations. "
                f"Received: {len(translations)} translations. Return one for each source."
            )
        for name, metric in self._metrics.items():
            score = metric.corpus_score(translations, [self.references]).score
            if logs is not None:
                logs[name] = score
        self.signatures = [str(metric.get_signature()) for metric in self._metrics.values()]
        self._last = time.monotonic() - now
        self._evaluated += self._last
        self._show(translations)

    def _show(self, translations: list[str]) -> None:
        for row in evenly_spaced(self.num_samples, len(self.sources)):
            source, reference = self.sources[row], self.references[row]
            self.write(f"  {source} -> {translations[row]}   (reference: {reference})")

    def get_state(self) -> TensorDict:
        """Returns the times of training and evaluation, which `fit` saves."""
        spent = self._spent + time.monotonic() - self._began
        return {"spent": spent, "evaluated": self._evaluated, "last": self._last}

    def set_state(self, state: TensorDict) -> None:
        """Restores a state that `get_state` returned."""
        self._spent, self._evaluated, self._last = (
            float(state[name]) for name in ("spent", "evaluated", "last")
        )
        self._began = time.monotonic()
