"""Padding, start and end tokens inside of prompts and sources give the results of transformers."""

import pytest

from keras_attn.convert import from_transformers

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

from tests.convert.against_transformers import save  # noqa: E402

SIZE, PAD, START, END = 40, 1, 2, 3
SIZES = {
    "vocab_size": SIZE,
    "hidden_size": 16,
    "intermediate_size": 20,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "max_position_embeddings": 16,
}
MODELS = {
    "gpt2, padded with the end token": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=SIZE,
            n_positions=16,
            n_embd=16,
            n_layer=1,
            n_head=2,
            bos_token_id=END,
            eos_token_id=END,
            pad_token_id=END,
        )
    ),
    "llama without padding": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**SIZES, bos_token_id=START, eos_token_id=END)
    ),
    "qwen2 with padding": lambda: transformers.Qwen2ForCausalLM(
        transformers.Qwen2Config(
            **SIZES, bos_token_id=None, eos_token_id=END, pad_token_id=PAD, num_key_value_heads=1
        )
    ),
}
BART = {
    "vocab_size": SIZE,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 20,
    "max_position_embeddings": 16,
    "pad_token_id": PAD,
    "eos_token_id": END,
}
TRANSLATORS = {
    "bart": lambda: transformers.BartForConditionalGeneration(
        transformers.BartConfig(**BART, bos_token_id=START, forced_eos_token_id=None)
    ),
    "marian": lambda: transformers.MarianMTModel(
        transformers.MarianConfig(**BART, decoder_start_token_id=PAD, forced_eos_token_id=None)
    ),
}


def with_special_ids(ids, positions=(0, 2, 5)):
    """The ids alone, and with each special id at the first, a middle and the last position."""
    return [ids] + [
        [*ids[:position], special, *ids[position:]]
        for special in (PAD, START, END)
        for position in positions
    ]


def generated(model, rows, first=0):
    """What transformers generates for each row alone if no token is masked."""
    found = []
    with torch.no_grad():
        for row in rows:
            mask = torch.ones(1, len(row))
            ids = model.generate(torch.tensor([row]), attention_mask=mask, pad_token_id=PAD)
            ids = ids[0, len(row) if first is None else first :].tolist()
            found.append(ids[: ids.index(END)] if END in ids else ids)
    return found


def converted(model, folder, **settings):
    options = {"max_length": None, "max_new_tokens": 6, "num_beams": 2, **settings}
    model.generation_config.update(forced_eos_token_id=None, **options)
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1 and weight.requires_grad:
                weight.normal_(0, 0.7)
    save(model.eval(), folder)
    return from_transformers(folder).model


@pytest.mark.parametrize("name", MODELS)
def test_special_ids_inside_of_prompts_are_tokens(tmp_path, name):
    model = MODELS[name]()
    suppressed = [token for token in (PAD, START) if token != model.config.eos_token_id]
    ours = converted(model, tmp_path, suppress_tokens=suppressed)
    prompts = [*with_special_ids([9, 8, 7, 6, 5]), [END], [PAD], [END, END]]
    expected = generated(model, prompts, None)
    assert len(set(map(tuple, expected))) > 5
    assert ours.generate(prompts, batch_size=len(prompts)) == expected
    assert ours.generate(prompts, batch_size=1) == expected


@pytest.mark.parametrize("name", TRANSLATORS)
def test_special_ids_inside_of_sources_are_tokens(tmp_path, name):
    model = TRANSLATORS[name]()
    ours = converted(model, tmp_path, suppress_tokens=[PAD, START])
    sources = [[*row, END] for row in with_special_ids([9, 8, 7, 6, 5])]
    expected = generated(model, sources, 1)
    assert len(set(map(tuple, expected))) > 3
    assert ours.generate(sources, batch_size=len(sources)) == expected
    assert ours.generate(sources, batch_size=1) == expected


def test_prompts_and_continuations_end_at_the_last_position(tmp_path):
    """transformers computes positions that GPT-2 does not have, and fails."""
    model = MODELS["gpt2, padded with the end token"]()
    ours = converted(model, tmp_path, suppress_tokens=[END])
    lengths = [len(ids) for ids in ours.generate([[5] * 10, [5] * 12, [5] * 16])]
    assert lengths == [6, 5, 1]
    with pytest.raises(ValueError, match="at most 16 ids.* Received: a source with 17 ids"):
        ours.generate([[5] * 17])
