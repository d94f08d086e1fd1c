import keras
import numpy as np

from keras_attn._encoders.prompt_input import PromptInput
from tests.contracts import numpy


def test_prompt_input_marks_padding_and_keeps_its_arguments():
    prompts = PromptInput(9, pad_token_id=4)
    encoded = prompts(np.array([[5, 4]]))
    assert numpy(encoded["encoder_mask"]).tolist() == [[True, False]]
    copy = PromptInput.from_config(prompts.get_config())
    assert copy.vocabulary_size == 9 and copy.pad_token_id == 4


def test_prompt_input_loads_from_its_former_name():
    config = keras.saving.serialize_keras_object(PromptInput(9, pad_token_id=4))
    assert config["registered_name"] == "keras_attn>PromptEncoder"
    config |= {"module": "keras_attn._encoders.prompt_encoder", "class_name": "PromptEncoder"}
    copy = keras.saving.deserialize_keras_object(config)
    assert isinstance(copy, PromptInput) and copy.pad_token_id == 4
