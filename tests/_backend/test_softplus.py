import numpy as np
import pytest

from keras_attn._backend.scan import loops_for_litert
from keras_attn._backend.softplus import softplus
from tests.backend import requires_tensorflow
from tests.contracts import numpy

X = np.array([-200, -90, -17, -3, 0, 0.5, 17, 88, 90, 300, 1e30], "float32")
EXPECTED = np.logaddexp(X.astype("float64"), 0.0)


def test_softplus_does_not_overflow():
    np.testing.assert_allclose(numpy(softplus(X)), EXPECTED, rtol=1e-6, atol=1e-7)
    with loops_for_litert():
        np.testing.assert_allclose(numpy(softplus(X)), EXPECTED, rtol=1e-6, atol=1e-7)


@requires_tensorflow("the conversion starts from a TensorFlow graph")
def test_softplus_does_not_overflow_in_litert():
    import tensorflow as tf

    from keras_attn.export.trace.litert_conversion import SIGNATURE, convert_to_litert

    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    specs = [tf.TensorSpec(X.shape, "float32", name="x")]
    content = convert_to_litert({SIGNATURE: (lambda x: {"y": softplus(x)}, specs)}, [])
    run = interpreter.Interpreter(model_content=content).get_signature_runner(SIGNATURE)
    np.testing.assert_allclose(run(x=X)["y"], EXPECTED, rtol=1e-6, atol=1e-7)
