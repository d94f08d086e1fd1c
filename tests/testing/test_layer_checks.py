import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.testing import check_layer

INPUTS = {
    "inputs": np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32"),
    "mask": np.arange(3) < np.array([[2], [3]]),
}


@keras.saving.register_keras_serializable(package="tests")
class MaskedSum(keras.layers.Layer):
    """W applied to the sum of the positions that are not masked."""

    def __init__(self, units=2, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.supports_masking = True

    def build(self, inputs_shape, mask_shape=None):
        self.kernel = self.add_weight(shape=(inputs_shape[-1], self.units), name="kernel")

    def call(self, inputs, mask=None):
        kept = inputs * ops.cast(mask, inputs.dtype)[:, :, None]
        return ops.matmul(ops.sum(kept, axis=1), self.kernel)

    def compute_mask(self, inputs, previous_mask=None):
        return None

    def get_config(self):
        return {**super().get_config(), "units": self.units}


class ForgetsArgument(MaskedSum):
    def get_config(self):
        config = super().get_config()
        del config["units"]
        return config


class ChangesConfig(MaskedSum):
    def get_config(self):
        config = super().get_config()
        return {**config, "units": self.units + 1}


class CannotBeMadeFromConfig(MaskedSum):
    @classmethod
    def from_config(cls, config):
        return cls(size=config["units"])


class HasArrayInConfig(MaskedSum):
    def get_config(self):
        return {**super().get_config(), "units": np.array(self.units)}


class DrawsConstant(MaskedSum):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.constant = float(keras.random.uniform(()))

    def call(self, inputs, mask=None):
        return super().call(inputs, mask) + self.constant


class NamesAnotherShape(MaskedSum):
    def compute_output_shape(self, inputs_shape, mask_shape=None):
        return (inputs_shape[0], self.units + 1)


class IgnoresMask(MaskedSum):
    def call(self, inputs, mask=None):
        return super().call(inputs, ops.ones_like(mask))


class AlwaysFloat32(MaskedSum):
    def call(self, inputs, mask=None):
        return ops.cast(super().call(inputs, mask), "float32")


class HasUnusedWeight(MaskedSum):
    def build(self, inputs_shape, mask_shape=None):
        super().build(inputs_shape)
        self.other = self.add_weight(shape=(1,), name="other")


class HasNoFiniteGradient(MaskedSum):
    def call(self, inputs, mask=None):
        outputs = super().call(inputs, mask)
        return outputs + ops.sqrt(outputs * 0)


WRONG = {
    ForgetsArgument: "Expected all arguments in `get_config`. Missing: \\['units'\\]",
    ChangesConfig: "make a layer with an equal configuration",
    CannotBeMadeFromConfig: "Expected `from_config` to make a layer from `get_config`",
    HasArrayInConfig: "Expected `get_config` to return values that JSON can store",
    DrawsConstant: "Expected a layer made by `from_config` to compute the same outputs",
    NamesAnotherShape: "Expected symbolic outputs with the shapes of eager outputs",
    IgnoresMask: "Expected outputs that do not depend on inputs where mask is False",
    AlwaysFloat32: 'Expected outputs of dtype float16 with the policy "mixed_float16"',
    HasUnusedWeight: "Expected a gradient for every weight. Received: none for .*other",
    HasNoFiniteGradient: "Expected a finite gradient for every weight",
}


def test_check_layer_accepts_a_layer_that_keeps_the_contract():
    check_layer(MaskedSum, INPUTS, masked={"inputs": "mask"})


@pytest.mark.parametrize("kind", WRONG, ids=lambda kind: kind.__name__)
def test_check_layer_names_what_is_wrong(kind):
    kind = keras.saving.register_keras_serializable(package="tests")(kind)
    with pytest.raises(AssertionError, match=WRONG[kind]):
        check_layer(kind, INPUTS, masked={"inputs": "mask"})


def test_check_layer_accepts_weights_that_are_named_to_have_no_gradient():
    check_layer(HasUnusedWeight, INPUTS, without_gradient=["other"])
