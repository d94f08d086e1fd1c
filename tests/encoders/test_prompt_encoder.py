import numpy as np

from keras_attn._encoders.prompt_encoder import PromptEncoder
from tests.contracts import numpy


def test_prompt_encoder_marks_padding_and_keeps_its_arguments():
    encoder = PromptEncoder(9, pad_token_id=4)
    encoded = encoder(np.array([[5, 4]]))
    assert numpy(encoded["encoder_mask"]).tolist() == [[True, False]]
    copy = PromptEncoder.from_config(encoder.get_config())
    assert copy.vocabulary_size == 9 and copy.pad_token_id == 4
