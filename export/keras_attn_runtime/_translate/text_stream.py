"""The texts of a search whose steps run one by one."""

from keras_attn_runtime._array_types import Array
from keras_attn_runtime._calls.options import Options
from keras_attn_runtime._file_format import Settings
from keras_attn_runtime._inputs.source import Source
from keras_attn_runtime._models.outputs import check_partial
from keras_attn_runtime._text.tokenizer import Tokenizer
from keras_attn_runtime._translate.stops import (
    find_stop,
    finished_text,
    num_begun_tokens,
    num_stop_tokens,
)
from keras_attn_runtime._translate.whole_prefixes import require_whole_prefix


class TextStream:
    """Converts the best hypothesis after each step to text.

    Args:
        source: `Source`.
        options: `Options`.
        settings: `Settings` in the file.
        tokenizer: `Tokenizer`, the target tokenizer.

    Attributes:
        is_stopped: bool, whether the last text ends before a stop text.
    """

    def __init__(
        self, source: Source, options: Options, settings: Settings, tokenizer: Tokenizer
    ) -> None:
        self.is_stopped = False
        self._source, self._options, self._settings = source, options, settings
        self._tokenizer = tokenizer
        self._prefix = [*settings.forced_prefix_ids, *source.prefix]
        self._start = len(tokenizer.decode(self._prefix)) if options.stops else 0
        self._token_ids: list[int] = []

    def text(self, partial: Array) -> str:
        """Returns the text after a step, without what may begin a stop text or stop sequence.

        Args:
            partial: int32 array `(1, steps)`, the ids that a `SteppedSearch` returns.
        """
        token_ids = self._without_control(partial)
        num_given, sequences = len(self._prefix), self._settings.stop_sequences
        self._token_ids = _without_end(token_ids, num_stop_tokens(token_ids[num_given:], sequences))
        num_begun = num_begun_tokens(self._token_ids[num_given:], sequences)
        text = self._before_stop(_without_end(self._token_ids, num_begun))
        return text if self.is_stopped else finished_text(text, self._options.stops, self._start)

    def last_text(self) -> str:
        """Returns the text after the last step.

        Raises:
            InputError: if a limit in the file has cut the target prefix.
        """
        if self._source.prefix:
            ends = self._settings.end_token_ids
            limit = self._options.max_length
            require_whole_prefix(0, self._token_ids, self._prefix, ends, limit)
        return self._before_stop(self._token_ids)

    def _before_stop(self, token_ids: list[int]) -> str:
        text = self._tokenizer.decode(token_ids)
        stop = find_stop(text, self._options.stops, self._start)
        self.is_stopped = stop is not None
        return text if stop is None else text[: stop.begin]

    def _without_control(self, partial: Array) -> list[int]:
        check_partial(partial, 1, self._settings)
        control = (self._settings.target.pad_token_id, *self._settings.end_token_ids)
        return [token_id for token_id in partial[0].tolist() if token_id not in control]


def _without_end(token_ids: list[int], count: int) -> list[int]:
    return token_ids[: len(token_ids) - count]
