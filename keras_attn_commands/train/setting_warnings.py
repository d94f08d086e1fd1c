"""Warnings of training programs about their settings and data."""

from collections.abc import Sequence

from keras_attn_commands.train.settings import Warn

_SHOWN_LINES = 5
"""Number of line numbers in a warning."""


def warn_of_warmup(warmup_steps: int, steps: int, warn: Warn) -> None:
    """Warns if the learning rate rises in more than half of a training.

    Args:
        warmup_steps: Int, number of steps in which the rate rises.
        steps: Int, number of all steps.
        warn: Function that shows the text of a warning.
    """
    if warmup_steps > max(1, steps / 2):
        warn(
            f"The warm-up of {warmup_steps:,} steps is more than half of the training of "
            f"{steps:,} steps. Use --warmup-steps {max(1, steps // 10)} or more --epochs."
        )


def warn_of_vocabulary(size: int, expected_size: int, warn: Warn) -> None:
    """Warns if a tokenizer is smaller than the setting, because the text has too few pieces.

    Args:
        size: Int, number of tokens of the tokenizer.
        expected_size: Int, the setting.
        warn: Function that shows the text of a warning.
    """
    if size < expected_size:
        warn(
            f"The text has only {size:,} different pieces: the vocabulary is smaller than "
            f"--vocabulary-size {expected_size}."
        )


def warn_of_examples(
    split: str,
    count: int,
    blank: int,
    repeated: int,
    examples: str,
    warn: Warn,
    blank_lines: Sequence[int] = (),
    origin: str = "",
) -> None:
    """Warns about blank examples, and about test examples that are also training data.

    Args:
        split: String, such as `"test"`.
        count: Int, how many examples are left.
        blank: Int, how many were left out because a part is blank.
        repeated: Int, how many are also in the training data.
        examples: String, their plural name.
        warn: Function that shows a warning.
        blank_lines: Numbers of the first lines with a blank part. Defaults to `()`: unknown.
        origin: String, the files with these lines. Defaults to `""`.
    """
    if blank:
        text = f"{blank:,} {examples} of {split} have a blank part and are left out"
        where = f": {_lines(blank_lines, blank)} of {origin}" if blank_lines else ""
        warn(f"{text}{where}.")
    if repeated > count / 100:
        warn(
            f"{repeated:,} of {count:,} {examples} of {split} are also in the training data: "
            f"scores on them do not show how the model treats new {examples}."
        )


def _lines(numbers: Sequence[int], count: int) -> str:
    """Returns a text such as "lines 3, 17 and 5 more".

    Args:
        numbers: Line numbers.
        count: Int, how many lines there are, perhaps more than `numbers`.
    """
    shown = [str(number) for number in numbers[:_SHOWN_LINES]]
    if count > len(shown):
        return f"lines {', '.join(shown)} and {count - len(shown):,} more"
    *first, last = shown
    return f"lines {', '.join(first)} and {last}" if first else f"line {last}"
