"""Converted models with other weights are written back for transformers."""

import pytest

transformers = pytest.importorskip("transformers")
pytest.importorskip("torch")

from keras_attn.convert import from_transformers  # noqa: E402
from tests.convert import test_encoders  # noqa: E402
from tests.convert.against_transformers import save  # noqa: E402
from tests.convert.written_models import (  # noqa: E402
    ENCODERS,
    GENERATORS,
    change_weights,
    check_equal_weights,
    compare_generator,
    convert_generator,
    export,
    load,
    model_class_of,
)


@pytest.mark.parametrize("name", GENERATORS)
def test_a_written_generator_computes_the_same(tmp_path, name):
    converted = convert_generator(name, tmp_path / "original")
    change_weights(converted.model)
    report = export(converted, tmp_path / "written")
    loaded = load(tmp_path / "written", model_class_of(report))
    difference, largest, equal = compare_generator(converted, loaded, count=24)
    assert difference < 1e-4 * max(1, largest)
    assert equal == 1
    again = from_transformers(tmp_path / "written")
    check_equal_weights(again.model, converted.model)
    assert again.search == converted.search


@pytest.mark.parametrize("name", ENCODERS)
def test_a_written_encoder_computes_the_same(tmp_path, name):
    save(ENCODERS[name](), tmp_path / "original")
    converted = from_transformers(tmp_path / "original")
    change_weights(converted.model)
    report = export(converted, tmp_path / "written")
    loaded = load(tmp_path / "written", model_class_of(report))
    test_encoders.check_outputs(loaded, converted.model)
    check_equal_weights(from_transformers(tmp_path / "written").model, converted.model)
