import keras
import numpy as np
import pytest

from keras_attn.export import (
    ExportError,
    export_functional_onnx,
    export_onnx,
    export_onnx_steps,
    export_onnx_text,
    export_saved_model,
)
from keras_attn.export._checks.check_finite import check_finite
from tests.export.small_translator import make_translator


@pytest.mark.parametrize(
    "export", [export_onnx, export_onnx_steps, export_onnx_text, export_saved_model]
)
def test_nonfinite_weights_are_named_by_every_export(tmp_path, tokenizers, export):
    model = make_translator(vocabulary_sizes=[each.vocabulary_size for each in tokenizers])
    weight = model.weights[3]
    values = weight.numpy()
    values.flat[:2] = np.nan, np.inf
    weight.assign(values)
    with pytest.raises(ExportError, match=rf"{weight.path} \(2 of {values.size} values\)"):
        export(model, tmp_path / "model", *tokenizers)
    assert not (tmp_path / "model").exists()


def test_nonfinite_weights_are_exported_on_request(tmp_path):
    inputs = keras.Input((None,), dtype="int32", name="ids")
    model = keras.Model(inputs, keras.layers.Embedding(5, 4, name="table")(inputs))
    table = np.ones((5, 4), "float32")
    table[0] = -np.inf
    model.set_weights([table])
    sample, path = np.array([[0, 1, 2]]), tmp_path / "model.onnx"
    with pytest.raises(ExportError, match=r"table/embeddings \(4 of 20 values\)"):
        export_functional_onnx(model, path, sample)
    assert not path.exists()
    export_functional_onnx(model, path, sample, allow_nonfinite=True)
    assert path.exists()


def test_nonfinite_weights_are_named_up_to_a_number():
    weights = [keras.Variable(np.full(2, np.nan, "float32"), name=f"w{n}") for n in range(10)]
    weights += [keras.Variable(np.ones(2, "float32")), keras.Variable([1], dtype="int32")]
    with pytest.raises(ExportError, match="w7 .* and 2 others") as error:
        check_finite(weights)
    assert "w8" not in str(error.value)
    check_finite(weights[10:])


def test_a_tokenizer_with_fewer_ids_than_the_model_is_warned_of(tokenizers):
    from keras_attn.export._trace.search_function import SearchFunction

    sizes = [each.vocabulary_size for each in tokenizers]
    with pytest.warns(UserWarning, match=f"tokenizer has {sizes[1]} ids, but the model has 60"):
        SearchFunction(make_translator(vocabulary_sizes=(sizes[0], 60)), *tokenizers)
