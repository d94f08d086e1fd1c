"""Converted encoders compute the same as those of transformers."""

import json

import keras
import numpy as np
import pytest

from keras_attn.convert import ConversionError, from_transformers, verify
from keras_attn.convert._encoder_models import ENCODERS
from keras_attn.training import RunDirectory
from keras_attn_commands.main import main

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

from tests.convert.against_transformers import check_key_lists, mapped_names, save  # noqa: E402
from tests.text.json_tokenizers import LINES, word_piece  # noqa: E402

SIZE, LENGTH = 60, 9
BERT = {
    "vocab_size": SIZE,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 20,
    "max_position_embeddings": 32,
}
DISTILBERT = {
    "vocab_size": SIZE,
    "dim": 16,
    "n_layers": 2,
    "n_heads": 4,
    "hidden_dim": 20,
    "max_position_embeddings": 32,
}
SMALL = {
    "bert": BERT,
    "roberta": {**BERT, "type_vocab_size": 1, "layer_norm_eps": 1e-5},
    "xlm-roberta": {**BERT, "type_vocab_size": 1},
    "camembert": {**BERT, "type_vocab_size": 1, "layer_norm_eps": 1e-5},
    "distilbert": DISTILBERT,
}
HEADS = ["ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "Model"]


def make(model_type, head, seed=0, **changed):
    """A model of transformers with random weights, also of normalizations and biases."""
    model_class = getattr(transformers, ENCODERS[model_type].class_name + head)
    settings = {"num_labels": 3, **SMALL[model_type], **changed}
    model = model_class(model_class.config_class(**settings, attn_implementation="eager"))
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            is_scale = "norm" in name.lower() and name.endswith("weight")
            scale = 0.5 if weight.ndim > 1 else 0.2
            weight.copy_(torch.randn_like(weight) * scale + (1.0 if is_scale else 0.0))
    return model.eval()


def sources(pad, types):
    """Padded ids, and token types if there are several."""
    random = np.random.default_rng(0)
    ids = random.integers(pad + 1, SIZE, (5, LENGTH)).astype("int32")
    lengths = np.array([LENGTH, 3, 1, 6, 8])
    ids[np.arange(LENGTH) >= lengths[:, None]] = pad
    if types <= 1:
        return {"token_ids": ids}
    return {"token_ids": ids, "token_type_ids": random.integers(0, types, ids.shape, "int32")}


def their_outputs(model, inputs):
    ids = inputs["token_ids"]
    tensors = {"input_ids": ids, "attention_mask": ids != model.config.pad_token_id}
    if "token_type_ids" in inputs:
        tensors["token_type_ids"] = inputs["token_type_ids"]
    with torch.no_grad():
        outputs = model(**{name: torch.tensor(each).long() for name, each in tensors.items()})
    if "logits" in outputs:
        return {"logits": outputs.logits.numpy()}
    names = {"last_hidden_state": "encoder_outputs", "pooler_output": "pooled_outputs"}
    return {names[name]: value.numpy() for name, value in outputs.items()}


def our_outputs(model, inputs):
    outputs = model(inputs if len(inputs) > 1 else inputs["token_ids"])
    outputs = outputs if isinstance(outputs, dict) else {"logits": outputs}
    return {name: np.array(value) for name, value in outputs.items()}


def check_outputs(model, converted):
    """Checks the outputs at unmasked positions. Returns the inputs."""
    config = model.config
    inputs = sources(config.pad_token_id, getattr(config, "type_vocab_size", 0))
    expected, found = their_outputs(model, inputs), our_outputs(converted, inputs)
    mask = inputs["token_ids"] != config.pad_token_id
    assert set(found) == set(expected) | ({"encoder_mask"} if "logits" not in expected else set())
    for name, values in expected.items():
        rows = mask if values.ndim == 3 else ...
        scale = max(1, np.abs(values).max())
        np.testing.assert_allclose(found[name][rows], values[rows], atol=1e-4 * scale)
        assert np.ptp(values[rows], axis=0).max() > 0.1, "outputs must differ"
    return inputs


@pytest.mark.parametrize("model_type", SMALL)
def test_the_key_lists_are_complete(model_type):
    architecture = ENCODERS[model_type]
    check_key_lists(
        getattr(transformers, architecture.class_name + "Model").config_class, architecture
    )


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("model_type", SMALL)
def test_outputs_equal_those_of_transformers(tmp_path, model_type, head):
    model = save(make(model_type, head), tmp_path)
    converted = from_transformers(tmp_path)
    check_outputs(model, converted.model)
    assert converted.count("ignored") == 0
    has_classes = "Classification" in head
    assert converted.labels == (("LABEL_0", "LABEL_1", "LABEL_2") if has_classes else ())


@pytest.mark.parametrize(("model_type", "head"), [("bert", "ForMaskedLM"), ("roberta", "Model")])
def test_run_directories_have_the_model(tmp_path, model_type, head, capsys):
    folder = tmp_path / "folder"
    model = save(make(model_type, head), folder)
    assert main(["convert", str(folder), str(tmp_path / "RUN"), "--verify"]) == 0
    assert "for 100.0%" in capsys.readouterr().out
    run = RunDirectory(tmp_path / "RUN")
    assert run.kind == {"ForMaskedLM": "masked_language_model", "Model": "encoder"}[head]
    loaded = run.load_model()
    check_outputs(model, loaded)
    if head == "ForMaskedLM":  # the embedding is stored once
        assert loaded.get_layer("logits").embedding is loaded.get_layer("encoder").embedding


@pytest.mark.parametrize("name", ["gamma and beta", "another prefix"])
def test_weights_under_earlier_names_are_read(tmp_path, name):
    from safetensors.numpy import load_file, save_file

    model = save(make("bert", "Model" if name == "another prefix" else "ForMaskedLM"), tmp_path)
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    if name == "another prefix":
        weights = {f"bert.{key}": value for key, value in weights.items()}
    else:
        for end, other in (("weight", "gamma"), ("bias", "beta")):
            weights = {
                key.replace(f"LayerNorm.{end}", f"LayerNorm.{other}"): value
                for key, value in weights.items()
            }
        config = json.loads((tmp_path / "config.json").read_text())
        config["architectures"] = ["BertForPreTraining"]  # with a head for the next sentence
        (tmp_path / "config.json").write_text(json.dumps(config))
        weights["cls.seq_relationship.weight"] = np.ones((2, 16), "float32")
        weights["bert.pooler.dense.weight"] = np.ones((16, 16), "float32")
    save_file(weights, path)
    check_outputs(model, from_transformers(tmp_path).model)


def test_an_output_matrix_of_its_own_is_used(tmp_path):
    model = save(make("roberta", "ForMaskedLM", tie_word_embeddings=False), tmp_path)
    check_outputs(model, from_transformers(tmp_path).model)


def test_texts_are_read_with_the_tokenizer_of_the_folder(tmp_path):
    import tokenizers

    folder = tmp_path / "bert"
    own = tokenizers.Tokenizer.from_str(word_piece().decode())
    own.add_special_tokens(["[CLS]", "[SEP]"])
    start, end = own.token_to_id("[CLS]"), own.token_to_id("[SEP]")
    model = make("bert", "ForSequenceClassification", vocab_size=own.get_vocab_size())
    model.config.pad_token_id = 1
    model.config.id2label = {0: "bad", 1: "good", 2: "neither"}
    save(model, folder)
    own.save(str(folder / "tokenizer.json"))
    converted = from_transformers(folder)
    encoder, tokenizer = converted.model.get_layer("encoder"), converted.source_tokenizer
    assert (encoder.start_token_id, encoder.end_token_id) == (start, end)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    ids = [[start, *row, end] for row in tokenizer.encode(LINES)]
    assert ids == [theirs(line)["input_ids"] for line in LINES]
    run = converted.save(tmp_path / "RUN")
    assert run.kind == "classification"
    assert run.files["labels"].read_text().split() == ["bad", "good", "neither"]
    assert run.source_tokenizer.encode(LINES) == tokenizer.encode(LINES)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"architectures": ["BertForQuestionAnswering"]}, "one of the classes.*BertForMaskedLM"),
        ({"position_embedding_type": "relative_key"}, "relative positions"),
        ({"id2label": {"1": "one"}}, "name the classes 0, 1, 2"),
        ({"is_decoder": True}, "a decoder without an encoder"),
    ],
)
def test_what_cannot_be_converted_is_refused(tmp_path, changed, message):
    save(make("bert", "ForTokenClassification"), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **changed}))
    with pytest.raises(ConversionError, match=message):
        from_transformers(tmp_path)


def test_a_different_model_is_refused(tmp_path):
    save(make("distilbert", "ForTokenClassification"), tmp_path)
    model = from_transformers(tmp_path).model
    assert verify(tmp_path, model).equal == 1
    kernel = model.get_layer("encoder").stack.blocks[0].self_attention.value_kernel
    kernel.assign(kernel + 0.5)
    with pytest.raises(ConversionError, match="same outputs as the original"):
        verify(tmp_path, model)


VARIED = {
    "bert": {
        "hidden_size": 12,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 9,
        "hidden_act": "relu",
        "hidden_dropout_prob": 0.4,
        "attention_probs_dropout_prob": 0.4,
        "max_position_embeddings": 11,
        "type_vocab_size": 3,
        "layer_norm_eps": 0.1,
        "pad_token_id": 3,
        "classifier_dropout": 0.4,
        "tie_word_embeddings": False,
    },
    "distilbert": {
        "dim": 12,
        "n_layers": 1,
        "n_heads": 2,
        "hidden_dim": 9,
        "activation": "relu",
        "dropout": 0.4,
        "attention_dropout": 0.4,
        "seq_classif_dropout": 0.4,
        "max_position_embeddings": 11,
        "pad_token_id": 3,
        "tie_word_embeddings": False,
    },
}
ELSEWHERE = {"model_type", "architectures", "vocab_size", "id2label"}


@pytest.mark.parametrize("model_type", VARIED)
def test_every_mapped_setting_is_varied(model_type):
    assert mapped_names(ENCODERS[model_type].settings) - ELSEWHERE == set(VARIED[model_type])
    assert mapped_names(ENCODERS["roberta"].settings) - ELSEWHERE == set(VARIED["bert"])


CASES = [
    (model_type, name) for model_type in SMALL for name in VARIED.get(model_type, VARIED["bert"])
]


@pytest.mark.slow
@pytest.mark.parametrize(("model_type", "name"), CASES)
def test_a_varied_setting_gives_equal_outputs(tmp_path, model_type, name):
    changed = {name: VARIED.get(model_type, VARIED["bert"])[name]}
    if name == "max_position_embeddings" and ENCODERS[model_type].has_position_offset:
        changed[name] += 2
    head = "ForSequenceClassification" if "classif" in name else "ForMaskedLM"
    model = save(make(model_type, head, **changed), tmp_path)
    check_outputs(model, from_transformers(tmp_path).model)


@pytest.mark.parametrize("head", ["ForMaskedLM", "ForTokenClassification", "Model"])
@pytest.mark.parametrize("model_type", ["bert", "distilbert"])
@pytest.mark.slow
def test_exported_files_have_the_outputs_of_transformers(tmp_path, model_type, head):
    from keras_attn.export import export_functional_onnx
    from tests.export.small_translator import session

    model = save(make(model_type, head), tmp_path)
    converted = from_transformers(tmp_path).model
    inputs = check_outputs(model, converted)
    path = tmp_path / "model.onnx"
    sample = inputs if len(inputs) > 1 else inputs["token_ids"]
    assert export_functional_onnx(converted, path, sample, tolerance=1e-4).largest_difference < 1e-4
    file = session(path)
    names = [each.name for each in file.get_outputs()]
    found = dict(zip(names, file.run(None, inputs), strict=True))
    mask = inputs["token_ids"] != model.config.pad_token_id
    for name, values in their_outputs(model, inputs).items():
        rows = mask if values.ndim == 3 else ...
        np.testing.assert_allclose(found[name][rows], values[rows], atol=1e-3)


def test_an_encoder_is_fine_tuned(tmp_path):
    """The encoder of a masked language model becomes that of a classifier with new weights."""
    from keras_attn import sequence_classifier

    save(make("bert", "ForMaskedLM"), tmp_path)
    encoder = from_transformers(tmp_path).model.get_layer("encoder")
    classifier = sequence_classifier(encoder, num_classes=2, pooling="first", dropout=0.0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    classifier.compile(optimizer=keras.optimizers.Adam(0.02), loss=loss)
    ids = np.random.default_rng(0).integers(4, SIZE, (8, 5)).astype("int32")
    history = classifier.fit(ids, ids[:, 1] % 2, epochs=20, verbose=0).history["loss"]
    assert history[-1] < history[0] / 2
