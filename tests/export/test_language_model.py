"""A causal language model goes the way of a translator: one file, prompts in, continuations out."""

import keras
import numpy as np
import pytest

from keras_attn import (
    AlibiBias,
    BeamDecoder,
    CausalLanguageModel,
    PromptEncoder,
    RotaryPositions,
    SamplingDecoder,
    TransformerDecoderBlock,
    search_model,
)
from keras_attn.export import ExportError, export_onnx
from tests.contracts import numpy, randomize
from tests.export.small_translator import session

VOCABULARY_SIZE = 12
PROMPT_IDS = np.array(
    [[1, 5, 6, 7, 8], [9, 0, 0, 0, 0], [0, 0, 0, 0, 0], [4, 4, 11, 0, 0]], "int32"
)


def generator(make_search=BeamDecoder, archive_every=None, **arguments):
    model = CausalLanguageModel(
        TransformerDecoderBlock(
            2,
            16,
            cross_attention=False,
            rotary=RotaryPositions(),
            num_key_value_heads=1,
            activation="gelu",
        ),
        keras.layers.ReversibleEmbedding(VOCABULARY_SIZE, 8),
        num_layers=1,
        position_bias=AlibiBias(2),
        archive_every=archive_every,
    )
    model(PROMPT_IDS)
    randomize(model, scale=0.8, seed=1)  # hypotheses of several lengths
    search = make_search(
        model, num_hypotheses=2, max_length=9, relative_max_length=None, **arguments
    )
    return search_model(PromptEncoder(VOCABULARY_SIZE), search, name="generator")


@pytest.mark.parametrize("archive_every", [None, 2])
def test_the_file_continues_prompts_as_keras_does(archive_every, tmp_path):
    model = generator(beam_width=3, min_length=2, archive_every=archive_every)
    report = export_onnx(model, tmp_path / "generator.onnx")
    assert report.best_equal == report.all_equal == 1.0
    opened = session(tmp_path / "generator.onnx")
    names = [output.name for output in opened.get_outputs()]
    lengths = set()
    for prompt_ids in (PROMPT_IDS, PROMPT_IDS[:1], PROMPT_IDS[1:3, :1], np.zeros((0, 3), "int32")):
        inputs = {
            "source_ids": prompt_ids,
            "max_length": np.array(9, "int32"),
            "length_penalty": np.array(1.0, "float32"),
        }
        actual = dict(zip(names, opened.run(names, inputs), strict=True))
        expected = numpy(model(prompt_ids))
        for name in ("token_ids", "lengths"):
            np.testing.assert_array_equal(actual[name], expected[name])
        for name in ("scores", "log_probs"):
            np.testing.assert_allclose(actual[name], expected[name], rtol=1e-5, atol=1e-5)
        lengths |= set(expected["lengths"].flat)
    assert len(lengths) > 2


def test_sampling_is_refused(tmp_path):
    with pytest.raises(ExportError, match="StatelessRandomUniform"):
        export_onnx(generator(SamplingDecoder), tmp_path / "generator.onnx")
    assert not list(tmp_path.iterdir())
