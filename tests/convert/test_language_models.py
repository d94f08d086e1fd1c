"""Converted language models compute the same as those of transformers."""

import json

import numpy as np
import pytest

from keras_attn.convert import ConversionError, from_transformers, verify
from keras_attn.convert._architectures import ARCHITECTURES
from keras_attn.convert._rotary_settings import rope_parameters, rotary_positions
from keras_attn.convert._settings import Settings

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

from tests.convert.against_transformers import (  # noqa: E402
    ATTEMPTS,
    check_key_lists,
    mapped_names,
    randomize,
    save,
)

SIZE = 60
LLAMA_TABLE = ARCHITECTURES["llama"].settings
IDS = {"pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 2}
LLAMA = {
    "vocab_size": SIZE,
    "hidden_size": 16,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    **IDS,
}
GPT2 = {"vocab_size": SIZE, "n_positions": 64, "n_embd": 16, "n_layer": 2, "n_head": 2, **IDS}
OPT = {**LLAMA, "ffn_dim": 20, "word_embed_proj_dim": 16}
del OPT["intermediate_size"], OPT["num_key_value_heads"]
MODELS = {
    "gpt2": ("gpt2", GPT2),
    "gpt2, scaled": (
        "gpt2",
        {**GPT2, "scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True},
    ),
    "opt": ("opt", OPT),
    "opt without biases": ("opt", {**OPT, "enable_bias": False}),
    "llama": ("llama", LLAMA),
    "llama, tied": (
        "llama",
        {**LLAMA, "tie_word_embeddings": True, "num_key_value_heads": None, "attention_bias": True},
    ),
    "llama, theta": (
        "llama",
        {**LLAMA, "rope_parameters": {"rope_theta": 500.0, "rope_type": "default"}},
    ),
    "mistral": ("mistral", {**LLAMA, "sliding_window": 4, "head_dim": 6}),
    "qwen2": ("qwen2", LLAMA),
    "gemma": ("gemma", {**LLAMA, "head_dim": 12}),
}


def make(name, **changed):
    model_type, config = MODELS[name]
    model_class = getattr(transformers, ARCHITECTURES[model_type].model_class)
    config = {**config, **changed, "attn_implementation": "eager"}
    return model_class(model_class.config_class(**config))


@pytest.mark.parametrize("model_type", sorted({name for name, _ in MODELS.values()}))
def test_the_key_lists_are_complete(model_type):
    architecture = ARCHITECTURES[model_type]
    model_class = getattr(transformers, architecture.model_class)
    check_key_lists(model_class.config_class, architecture)


@pytest.mark.parametrize("name", MODELS)
def test_logits_equal_those_of_transformers(tmp_path, name):
    check_logits(make(name), tmp_path)


def check_logits(model, folder):
    save(randomize(model), folder)
    ids = np.random.default_rng(0).integers(3, model.config.vocab_size, (4, 12))
    with torch.no_grad():
        expected = model(torch.tensor(ids)).logits.numpy()
    decoder = from_transformers(folder).model.decoder
    scale = max(1, np.abs(expected).max())
    np.testing.assert_allclose(np.array(decoder(ids)), expected, atol=1e-4 * scale)


@pytest.mark.parametrize(
    ("name", "num_beams"), [("gpt2", 1), ("gpt2", 3), ("mistral", 3), ("gemma", 1)]
)
def test_searches_continue_prompts_of_different_lengths(tmp_path, name, num_beams):
    model = make(name)
    model.generation_config.update(num_beams=num_beams, max_new_tokens=10)
    random = np.random.default_rng(0)
    prompts = [random.integers(3, SIZE, length) for length in random.integers(1, 7, 12)]
    for seed in range(ATTEMPTS):
        expected = continuations(randomize(model, seed), prompts)
        if len({len(row) for row in expected}) >= 3:
            break
    save(model, tmp_path)
    converted = from_transformers(tmp_path)
    rows = np.full((len(prompts), 6), IDS["pad_token_id"], "int32")
    for row, prompt in zip(rows, prompts, strict=True):
        row[: len(prompt)] = prompt
    found = np.array(converted.model(rows)["token_ids"])[:, 0].tolist()
    assert [up_to_the_end(row) for row in found] == expected


def continuations(model, prompts):
    """Continuations of `generate`, for each prompt alone."""
    found = []
    with torch.no_grad():
        for prompt in prompts:
            ids = model.generate(
                torch.tensor(prompt[None]), attention_mask=torch.ones(1, len(prompt))
            )
            found.append(up_to_the_end(ids[0, len(prompt) :].tolist()))
    return found


def up_to_the_end(row):
    end = IDS["eos_token_id"]
    if end in row:
        return row[: row.index(end) + 1]
    return [token for token in row if token != IDS["pad_token_id"]]


LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
ROTARY = {
    "linear": {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_theta": 500.0},
    "llama3": {"rope_parameters": {**LLAMA3, "rope_theta": 100.0}},
    "llama3 of 4.43": {"rope_scaling": LLAMA3, "rope_theta": 100.0},
    "yarn": {
        "rope_scaling": {
            "type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 16,
            "beta_fast": 2,
            "beta_slow": 0.25,
        },
        "rope_theta": 100.0,
    },
    "yarn without its length": {
        "rope_parameters": {"rope_type": "yarn", "factor": 4.0, "truncate": False},
    },
    "yarn, attention_factor": {
        "rope_parameters": {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 32,
            "attention_factor": 1.5,
        },
    },
    "yarn, mscale": {
        "rope_parameters": {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 32,
            "mscale": 0.7,
            "mscale_all_dim": 1.2,
        },
    },
}


@pytest.mark.parametrize("name", ROTARY)
def test_scaled_rotary_positions_are_those_of_transformers(name):
    """The rotated queries are equal, also after `rope_parameters` wrote them back."""
    from transformers.models.llama import modeling_llama

    values = ROTARY[name]
    rotary = rotary_positions(Settings("config.json", {**LLAMA, **values}, LLAMA_TABLE))
    heads = np.random.default_rng(0).normal(size=(1, 2, 20, 8)).astype("float32")
    found = np.array(rotary(heads, start_index=37))
    for written in (values, {"rope_parameters": rope_parameters(rotary)}):
        written = json.loads(json.dumps(written))  # transformers changes the dicts
        config = transformers.LlamaConfig(**{**LLAMA, "head_dim": 8, **written})
        layer = modeling_llama.LlamaRotaryEmbedding(config)
        cosines, sines = layer(torch.zeros(1, 20, 8), torch.arange(37, 57)[None])
        tensor = torch.tensor(heads)
        expected = modeling_llama.apply_rotary_pos_emb(tensor, tensor, cosines, sines)[0].numpy()
        np.testing.assert_allclose(found, expected, atol=2e-5)


def test_scaled_rotary_positions_give_the_logits_of_transformers(tmp_path):
    check_logits(make("llama", rope_parameters={**LLAMA3, "rope_theta": 100.0}), tmp_path)


@pytest.mark.parametrize(
    ("rope", "message"),
    [
        ({"rope_type": "dynamic", "factor": 2.0}, "'dynamic' depend on the length of the text"),
        ({"type": "longrope", "short_factor": [1.0]}, "'longrope' depend on the length"),
        ({"rope_type": "mrope"}, "Other rotary positions"),
        ({"rope_type": "linear"}, "factor"),
        ({"rope_type": "linear", "factor": "2"}, "Expected factor to be a positive number"),
        ({"rope_type": "linear", "factor": 2.0, "mscale": 1.0}, "parameter 'mscale' is unknown"),
        ({"partial_rotary_factor": 0.5}, "Other rotary positions"),
    ],
)
def test_other_rotary_positions_are_refused(rope, message):
    with pytest.raises(ConversionError, match=f"rope_scaling in config.json.*{message}"):
        rotary_positions(Settings("config.json", {"rope_scaling": rope}, LLAMA_TABLE))


def test_a_forced_first_token_is_refused(tmp_path):
    """transformers forces it only if the prompt has one token."""
    save(make("gpt2"), tmp_path, forced_bos_token_id=9)
    with pytest.raises(
        ConversionError, match="forced_bos_token_id in generation_config.json.*null"
    ):
        from_transformers(tmp_path)
    converted = from_transformers(tmp_path, settings={"forced_bos_token_id": None})
    assert converted.model.search.forced_prefix_ids == []
    reason = "forced_bos_token_id = None: mapped, forced_prefix_ids; at your request instead of 9"
    assert reason in converted.report()


@pytest.mark.filterwarnings("ignore:Using the model-agnostic default")
def test_several_end_tokens(tmp_path):
    model = save(make("gpt2"), tmp_path, eos_token_id=[5, 7, 5, 11], pad_token_id=None)
    converted = from_transformers(tmp_path)
    search = converted.model.search
    assert (search.end_token_ids, search.pad_token_id) == ([5, 7, 11], 5)
    assert "eos_token_id = [5, 7, 5, 11]: mapped" in converted.report()
    assert verify(tmp_path, converted.model, 8).equal == 1
    converted = from_transformers(tmp_path, settings={"eos_token_id": 7})
    assert converted.model.search.end_token_id == converted.model.search.pad_token_id == 7
    assert converted.model.search.other_end_token_ids == []
    assert verify(tmp_path, converted.model, 4, settings={"eos_token_id": 7}).equal == 1
    with pytest.raises(ConversionError, match="'n_embd'. Settings of the model"):
        from_transformers(tmp_path, settings={"n_embd": 7})
    assert model.generation_config.eos_token_id == [5, 7, 5, 11]


VARIED = {
    "gpt2": {
        "vocab_size": 50,
        "n_positions": 20,
        "n_embd": 12,
        "n_layer": 1,
        "n_head": 4,
        "n_inner": 9,
        "activation_function": "relu",
        "layer_norm_epsilon": 0.1,
        "scale_attn_weights": False,
        "scale_attn_by_inverse_layer_idx": True,
        "resid_pdrop": 0.4,
        "embd_pdrop": 0.4,
        "attn_pdrop": 0.4,
        "tie_word_embeddings": False,
    },
    "opt": {
        "vocab_size": 50,
        "hidden_size": 12,
        "num_hidden_layers": 1,
        "ffn_dim": 9,
        "max_position_embeddings": 20,
        "num_attention_heads": 2,
        "activation_function": "gelu",
        "enable_bias": False,
        "dropout": 0.4,
        "attention_dropout": 0.4,
        "bos_token_id": 5,
        "tie_word_embeddings": False,
    },
    "llama": {
        "vocab_size": 50,
        "hidden_size": 24,
        "intermediate_size": 9,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 6,
        "hidden_act": "relu",
        "rms_norm_eps": 0.1,
        "rope_parameters": {"rope_theta": 50.0, "rope_type": "default"},
        "attention_bias": True,
        "mlp_bias": True,
        "attention_dropout": 0.4,
        "bos_token_id": 5,
        "tie_word_embeddings": True,
    },
}
LLAMA_TYPES = {
    "mistral": {"sliding_window": 3},
    "qwen2": {},
    "gemma": {"rope_parameters": {"rope_theta": 50.0, "rope_type": "default"}},
}
"""Models with the settings of Llama, and their own values."""
for _name, _own in LLAMA_TYPES.items():
    _mapped = mapped_names(ARCHITECTURES[_name].settings)
    VARIED[_name] = {key: value for key, value in VARIED["llama"].items() if key in _mapped} | _own
VARIED["gemma"]["tie_word_embeddings"] = False
CASES = [(model_type, name) for model_type, names in VARIED.items() for name in names]


@pytest.mark.parametrize("model_type", VARIED)
def test_every_mapped_setting_is_varied(model_type):
    # Releases before 5 write rope_theta, see the next test.
    elsewhere = {"model_type", "architectures", "rope_theta", "rope_scaling"}
    if "rope_theta" in ARCHITECTURES[model_type].settings:  # used by scaled positions
        elsewhere |= {"max_position_embeddings", "original_max_position_embeddings"}
    assert mapped_names(ARCHITECTURES[model_type].settings) - elsewhere == set(VARIED[model_type])


def test_the_rope_theta_of_earlier_releases_is_read(tmp_path):
    model = make("llama, theta")
    check_logits(model, tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    theta = config.pop("rope_parameters")["rope_theta"]
    path.write_text(json.dumps({**config, "rope_theta": theta, "rope_scaling": None}))
    block = from_transformers(tmp_path).model.decoder.stack.blocks[0]
    assert block.rotary.max_wavelength == theta == 500


@pytest.mark.slow
@pytest.mark.parametrize(("model_type", "name"), CASES)
def test_a_varied_setting_gives_equal_logits(tmp_path, model_type, name):
    changed = {name: VARIED[model_type][name]}
    if name == "hidden_size" and model_type == "opt":
        changed["word_embed_proj_dim"] = changed[name]
    check_logits(make(model_type, **changed), tmp_path)
