"""`Translator.generate`, for files whose inputs are not ids."""

import numpy as np
import onnx
import pytest
from keras_attn_runtime import InputError, ModelFileError, Translator
from onnx import TensorProto, helper

from tests.runtime.fake_model import IMAGE, metadata, write_image_model


@pytest.fixture(scope="module")
def captions(tokenizer_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("captions") / "captions.onnx"
    return Translator(write_image_model(path, tokenizer_model), num_threads=1)


def images(*heights):
    return [10 + np.arange(2 * height).reshape(height, 2) for height in heights]


def ids(results):
    return [each.token_ids for each in results]


def test_generate_takes_an_array_or_a_list_of_arrays(captions):
    rows = images(3, 1, 3, 2, 1)
    expected = [each.ravel().tolist() for each in rows]
    for batch_size in (1, 2, 32):
        assert ids(captions.generate({"image": rows}, batch_size=batch_size)) == expected
    batch = np.stack([rows[0], rows[2] + 1]).astype("uint8")
    found = captions.generate({"image": batch}, num_hypotheses=2)
    assert ids(found) == [expected[0], [each + 1 for each in expected[2]]]
    assert found[0].text and found[0].source_pieces is None and not found[0].truncated
    assert found[0].alignments.shape == (6, 6) and len(found[0].hypotheses) == 2
    assert captions.generate({"image": []}) == []
    assert ids(captions.generate({"image": rows}, max_length=0)) == [[]] * 5


def test_generate_takes_prefixes_as_ids_or_text(captions):
    rows = images(1, 1)
    assert ids(captions.generate({"image": rows}, target_prefix=[20])) == [[20, 10, 11]] * 2
    each = captions.generate({"image": rows}, target_prefix=[[20], [21]])
    assert ids(each) == [[20, 10, 11], [21, 10, 11]]
    of_text = captions.generate({"image": rows}, target_prefix=["a", "the"])
    assert [each.text.split()[0][:1] for each in of_text] == ["a", "t"]


@pytest.mark.parametrize(
    "arrays, error, message",
    [
        ([[1.0]], ValueError, "a dict of arrays by the names of the inputs, .'image'"),
        ({"images": []}, ValueError, "the inputs .'image'.. Received: .'images'"),
        ({"image": 3}, ValueError, "an array, or a list of arrays. Received: type=int"),
        ({"image": np.zeros((2, 4))}, InputError, r"shape \(height, 2\).* shape=\(4,\)"),
        ({"image": np.zeros((1, 4, 3))}, InputError, r"Sentence 0.* shape=\(4, 3\)"),
        ({"image": [np.zeros((1, 2)), "a"]}, InputError, "Sentence 1.*float32.*dtype=<U1"),
        ({"image": [[[1, 2], [3]]]}, InputError, "expected numbers for 'image'"),
        ({"image": np.zeros((1, 1, 2), complex)}, InputError, "dtype=complex128"),
    ],
)
def test_generate_refuses_other_arrays(captions, arrays, error, message):
    with pytest.raises(error, match=message):
        captions.generate(arrays)


def test_generate_checks_rows_and_ids_of_several_inputs(tokenizer_model, tmp_path):
    """With an image and ids, the source vocabulary limits the ids."""
    inputs = {"image": IMAGE, "question": {"kind": "ids", "dtype": "int32", "shape": ["batch", 2]}}
    source = {"vocabulary_size": 64, "pad_token_id": 0}
    path = write_image_model(tmp_path / "m.onnx", tokenizer_model, inputs={"image": IMAGE})
    model = onnx.load(path)
    model.graph.input.append(
        helper.make_tensor_value_info("question", TensorProto.INT32, ["batch", 2])
    )
    properties = metadata(tokenizer_model, ["prefix_ids"], inputs=inputs, source=source)
    helper.set_model_props(model, properties)
    onnx.save(model, path)
    translator = Translator(path, num_threads=1)
    image = np.ones((2, 1, 2))
    found = translator.generate({"image": image * 9, "question": np.array([[1, 2], [3, 63]])})
    assert ids(found) == [[9, 9]] * 2
    with pytest.raises(
        ValueError, match="same number of rows for each input. Received: .*'question': 1"
    ):
        translator.generate({"image": image, "question": [[1, 2]]})
    with pytest.raises(InputError, match=r"Sentence 1.*ids in \[0, 64\).* from 3 to 64"):
        translator.generate({"image": image, "question": [[1, 2], [3, 64]]})
    with pytest.raises(InputError, match="expected int32 for 'question'.*float64"):
        translator.generate({"image": image, "question": [[1, 2], [3, 6.5]]})


def test_methods_for_text_and_for_arrays_name_each_other(captions, translator):
    with pytest.raises(ModelFileError, match="inputs=.'image'.. Give arrays to `generate`"):
        captions(["some text"])
    with pytest.raises(ModelFileError, match="Give arrays to `generate`"):
        captions.translate_ids([[5]])
    with pytest.raises(ModelFileError, match="Give texts to `translate`, or ids"):
        translator.generate({"source_ids": [[5]]})


def test_generate_iterable_is_lazy_and_yields_results_before_an_error(captions):
    rows = images(1, 2)
    several = iter([{"image": rows[0]}, {"image": rows[1]}, {"image": rows[0] * np.nan}, None])
    found = captions.generate_iterable(several, [20], window=1, batch_size=1)
    assert next(found).token_ids == [20, 10, 11]
    assert next(found).token_ids == [20, 10, 11, 12, 13]
    with pytest.raises(InputError, match="expected finite numbers for 'image'. Received: nan"):
        next(found)
    assert next(several) is None


@pytest.mark.parametrize(
    "row, message",
    [
        ([[1.0, 2.0]], "a dict with arrays for the inputs .'image'.. Received: list"),
        ({"picture": [[1.0, 2.0]]}, "a dict .* the inputs .'image'.. Received: .'picture'"),
        ({"image": np.ones((0, 2))}, "pixels for 'image'. Received: shape=.0, 2."),
        ({"image": [[np.inf, 2.0]]}, "finite numbers for 'image'. Received: inf"),
        ({"image": np.ones((3, 4))}, "shape .height, 2. for 'image'. Received: shape=.3, 4."),
    ],
)
def test_generate_iterable_refuses_other_rows(captions, row, message):
    with pytest.raises(InputError, match=f"Sentence 0 .*: expected {message}"):
        list(captions.generate_iterable([row]))
