"""The Python of the guide that needs folders of encoders and of multilingual models."""

from pathlib import Path

import numpy as np
import pytest
from keras_attn_runtime import Classifier

pytest.importorskip("transformers")
pytest.importorskip("torch")
tokenizers = pytest.importorskip("tokenizers")

from tests.convert import test_languages  # noqa: E402
from tests.convert.against_transformers import save  # noqa: E402
from tests.convert.test_encoders import make  # noqa: E402
from tests.test_documentation import run_blocks  # noqa: E402
from tests.text.json_tokenizers import word_piece  # noqa: E402


def test_the_guide_of_encoders_and_languages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tokenizer = tokenizers.Tokenizer.from_str(word_piece().decode())
    tokenizer.add_special_tokens(["[CLS]", "[SEP]"])
    size = tokenizer.get_vocab_size()
    folder = Path("distilbert-base-uncased-finetuned-sst-2-english")
    head = "ForSequenceClassification"
    save(make("distilbert", head, vocab_size=size, pad_token_id=1), folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    test_languages.write(tmp_path / "nllb-200-distilled-600M", "nllb")
    names = run_blocks("docs/convert.md", {}, 1, 2)
    (result,) = Classifier("classifier.onnx").classify(["A charming film."])
    (logits,) = names["converted"].model.predict(names["ids"], verbose=0)
    probabilities = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(list(result.probabilities.values()), probabilities, atol=1e-5)
    assert tuple(result.probabilities) == names["converted"].labels
    assert names["classifier"].output_shape == (None, 3)
    names = run_blocks("docs/convert.md", {}, last=1)
    assert list(names["converted"].source_tokenizer.languages)[1] == "eng_Latn"
