import pytest

from tests.export.small_translator import SOURCE, TARGET
from tests.runtime.fake_model import train_tokenizer


@pytest.fixture(scope="module")
def tokenizers():
    """Tokenizers of the small translator."""
    from keras_attn.text import SentencePieceTokenizer

    return [
        SentencePieceTokenizer(train_tokenizer(sentences=sentences))
        for sentences in (SOURCE, TARGET)
    ]
