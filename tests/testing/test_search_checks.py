import re

import numpy as np
import pytest

from keras_attn.testing import check_search
from tests.slow_cases import slow_on_jax
from tests.testing import wrong_decoders
from tests.testing.small_decoder import SmallDecoder

ENCODED = {
    "encoder_outputs": np.random.default_rng(1).normal(size=(2, 4, 3)).astype("float32"),
    "encoder_mask": np.arange(4) < np.array([[4], [2]]),
}
WRONG = {
    "ForgetsFaster": "Expected a BeamDecoder with all hypotheses open to find the tokens",
    "BeginsWithAnotherToken": "to find the tokens .* as hypothesis 0 of sentence 0",
    "AllowsFewTokens": r"to find the tokens \[\d, \d, \d, \d\].* Received: \[\d, \d(, 0, 0)?\]",
    "CannotContinue": r"to find the tokens \[3.* Received: \[4",
    "SharesStateOfBeams": "Expected a BeamDecoder with (all|three) .* to (find|return)",
    "CountsPadding": "do not depend on padding of the source",
    "AlignsWithPadding": "Expected alignments of 0 at padding of the source",
}


def test_check_search_accepts_a_decoder_that_keeps_the_contract():
    check_search(SmallDecoder, ENCODED, max_length=3)


@slow_on_jax
@pytest.mark.parametrize("name", WRONG)
def test_check_search_names_what_is_wrong(name):
    with pytest.raises(AssertionError) as error:
        check_search(getattr(wrong_decoders, name), ENCODED)
    assert re.search(WRONG[name], str(error.value), re.DOTALL), str(error.value)


def test_check_search_requires_the_size_of_the_vocabulary():
    with pytest.raises(AssertionError, match=r"logits of 6 tokens. Received: .* 5\)"):
        check_search(SmallDecoder, ENCODED, vocabulary_size=6, max_length=2)
