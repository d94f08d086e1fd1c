"""BLEU and chrF by sacreBLEU."""

from typing import Any


def score_translations(translations: list[str], references: list[str]) -> dict[str, Any]:
    """Returns a dict with the scores, their settings and the sentence count."""
    try:
        import sacrebleu
    except ImportError as error:
        raise ImportError(
            "The evaluation needs sacrebleu. Install it: `pip install 'sacrebleu>=2.6,<3'`."
        ) from error
    scores, metrics = {}, sacrebleu.metrics
    for name, metric in (("bleu", metrics.BLEU()), ("chrf", metrics.CHRF())):
        scores[name] = metric.corpus_score(translations, [references]).score
        scores[f"{name}_signature"] = str(metric.get_signature())
    equal = sum(map(str.__eq__, translations, references))
    return {**scores, "equal": equal / len(references), "sentences": len(references)}


def translation_score_text(scores: dict[str, Any]) -> str:
    """Formats the scores from `score_translations`."""
    return (
        f"BLEU {scores['bleu']:.2f}   chrF {scores['chrf']:.2f}   equal to the reference "
        f"{100 * scores['equal']:.2f} % of {scores['sentences']:,} sentences\n"
        f"{scores['bleu_signature']}\n{scores['chrf_signature']}"
    )
