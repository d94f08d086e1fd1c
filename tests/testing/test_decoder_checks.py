import re

import keras
import numpy as np
import pytest

from keras_attn.testing import check_decoder
from tests.testing import wrong_decoders
from tests.testing.small_decoder import SmallDecoder

GENERATOR = np.random.default_rng(0)
TOKEN_IDS = np.array([[1, 3, 4, 2], [1, 4, 4, 3], [1, 2, 3, 4]], "int32")
ENCODED = {
    "encoder_outputs": GENERATOR.normal(size=(3, 5, 3)).astype("float32"),
    "encoder_mask": np.arange(5) < np.array([[5], [2], [3]]),
}
WRONG = {
    "SeesLaterTokens": "Expected `call` to return logits that do not depend on later tokens",
    "AttendsToPadding": "do not depend on source positions where encoder_mask is False",
    "CountsPadding": "do not depend on padding of the source or the target",
    "UsesPlaceInBatch": "do not depend on its place in the batch",
    "UsesOtherSentences": "do not depend on other sentences in the batch",
    "ReturnsHalfPrecision": "Expected `call` to return float32 logits .* Received: float16",
    "StepsInHalfPrecision": "Expected `step` to return float32 logits .* Received: float16",
    "PutsSourceBeforeBatch": "`prepare_memory` to have a row for each sentence, 3 rows. .*5",
    "ForgetsFaster": "Expected `step` 1 to return the logits of `call`",
    "KeepsStateOnItself": "the decoder to store nothing between calls",
    "ReturnsOtherState": "`step` to return a state with the same structure as its argument",
    "ReturnsStateInHalfPrecision": "dtypes and ranks as its argument .*'float16'",
    "ReturnsThreeResults": "Expected `step` to return a tuple of logits and state",
    "SelectsEverything": "Expected `select` to return the memory of the chosen sentences",
    "SelectsInAnotherOrder": "Expected `select` to return the memory of the chosen sentences",
    "IgnoresBeamWidth": "a row for each beam of each sentence, 9 rows. Received: .*3",
    "MixesBeamsAndSentences": "`step` 0 with 3 beams of each sentence to return",
    "SharesStateOfBeams": "after the state was reordered",
    "SharesRowsOfBeams": "leaves in `shared` of a state .* 3 rows. Received: .*9",
    "AlignsWithPadding": "alignments.* of 0 where encoder_mask is False",
    "AlignsTwice": "alignments.* that sum to 1",
    "ReadsValues": "Expected a `step` that can be traced",
    "LoopsOverKnownLength": "`call` that can be traced with an unknown batch size .*NoneType",
}
if keras.backend.backend() == "torch":
    del WRONG["ReadsValues"]  # PyTorch runs without tracing, so a `step` may read values
if keras.backend.backend() != "tensorflow":
    del WRONG["LoopsOverKnownLength"]  # JAX and PyTorch know all sizes when they run a layer


def test_check_decoder_accepts_a_decoder_with_its_own_call():
    own = {name for name in vars(SmallDecoder) if not name.startswith("_")}
    assert own - {"weights_of_source"} == {"prepare_memory", "initial_state", "step", "call"}
    check_decoder(SmallDecoder, ENCODED, TOKEN_IDS)


@pytest.mark.parametrize("name", WRONG)
def test_check_decoder_names_what_is_wrong(name):
    with pytest.raises(AssertionError) as error:
        check_decoder(getattr(wrong_decoders, name), ENCODED, TOKEN_IDS)
    assert re.search(WRONG[name], str(error.value), re.DOTALL), str(error.value)


def test_check_decoder_accepts_alignments_that_sum_to_less():
    class AlignsLess(SmallDecoder):
        def step(self, token_ids, state, memory):
            logits, state = super().step(token_ids, state, memory)
            if "alignments" in state:
                state["alignments"] = state["alignments"] / 2
            return logits, state

    check_decoder(AlignsLess, ENCODED, TOKEN_IDS, sum_to_one=False)
    with pytest.raises(AssertionError, match="sum to 1"):
        check_decoder(AlignsLess, ENCODED, TOKEN_IDS)


@pytest.mark.parametrize(
    ("encoded", "token_ids"),
    [
        ({**ENCODED, "encoder_mask": np.ones((3, 5), "bool")}, TOKEN_IDS),
        (ENCODED, TOKEN_IDS[:, :2]),
        ({name: value[1:2] for name, value in ENCODED.items()}, TOKEN_IDS[1:2]),
    ],
    ids=["no padding", "two tokens", "one sentence"],
)
def test_check_decoder_refuses_inputs_that_do_not_suffice(encoded, token_ids):
    with pytest.raises(ValueError, match="at least two sentences, three tokens and a masked"):
        check_decoder(SmallDecoder, encoded, token_ids)


@pytest.mark.parametrize("name", ["AttendsToPadding", "CountsPadding"])
def test_equal_lengths_leaves_out_masks_and_padding(name):
    whole = {"encoder_outputs": ENCODED["encoder_outputs"], "encoder_mask": np.ones((3, 5), "bool")}
    check_decoder(getattr(wrong_decoders, name), whole, TOKEN_IDS, equal_lengths=True)
    with pytest.raises(ValueError, match="True everywhere with equal_lengths=True"):
        check_decoder(SmallDecoder, ENCODED, TOKEN_IDS, equal_lengths=True)
    with pytest.raises(ValueError, match="two sentences and three tokens"):
        check_decoder(SmallDecoder, whole, TOKEN_IDS[:, :2], equal_lengths=True)


@pytest.mark.parametrize(
    "name", ["SeesLaterTokens", "UsesPlaceInBatch", "ForgetsFaster", "SharesStateOfBeams"]
)
def test_equal_lengths_keeps_the_other_checks(name):
    whole = {"encoder_outputs": ENCODED["encoder_outputs"], "encoder_mask": np.ones((3, 5), "bool")}
    with pytest.raises(AssertionError, match=f"(?s){WRONG[name]}"):
        check_decoder(getattr(wrong_decoders, name), whole, TOKEN_IDS, equal_lengths=True)
