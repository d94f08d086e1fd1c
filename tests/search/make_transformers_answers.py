"""Writes `transformers_answers.json`: the results of Hugging Face's `generate` for random tables.

    python -m tests.search.make_transformers_answers

It needs torch and transformers (the file names the versions); the tests need only the file. The
language model is a table of logits, so that both sides compute with the same float32 numbers.
"""

import json
import pathlib

import numpy as np

ANSWERS = pathlib.Path(__file__).parent / "transformers_answers.json"
PAD, START, END = 0, 1, 2

# The tables of a setting, and the arguments of `generate`. `max_new_tokens` is `max_length` of our
# searches; padding and the start token are suppressed in each, as they are in ours by default. The
# seeds avoid ties: hypotheses with the same tokens in another order can have the same probability.
SETTINGS = {
    "greedy": ({"seed": 0}, {}),
    "greedy_min_length": ({"seed": 1, "end_logit": 2.0}, {"min_new_tokens": 4}),
    "greedy_repetition_penalty": ({"seed": 2}, {"repetition_penalty": 1.5}),
    "greedy_no_repeat_ngram": ({"seed": 3}, {"no_repeat_ngram_size": 2}),
    "beam": ({"seed": 4}, {"num_beams": 4}),
    "beam_nbest": ({"seed": 5}, {"num_beams": 4, "num_return_sequences": 4}),
    "beam_short": (
        {"seed": 6, "end_logit": 2.0},
        {"num_beams": 3, "num_return_sequences": 3, "length_penalty": 0.6},
    ),
    "beam_long": (
        {"seed": 7},
        {"num_beams": 5, "num_return_sequences": 5, "length_penalty": 2.0, "min_new_tokens": 3},
    ),
    "beam_no_repeat_ngram": (
        {"seed": 8},
        {"num_beams": 4, "num_return_sequences": 4, "no_repeat_ngram_size": 2},
    ),
    "beam_heuristic": (
        {"seed": 11, "end_logit": 1.0},
        {"num_beams": 4, "num_return_sequences": 4, "early_stopping": False},
    ),
    "beam_heuristic_long": (
        {"seed": 12},
        {"num_beams": 4, "early_stopping": False, "length_penalty": 2.0},
    ),
    "beam_never": (
        {"seed": 13, "end_logit": 1.0},
        {"num_beams": 4, "early_stopping": "never", "length_penalty": 1.5},
    ),
    "beam_forced_end": (
        {"seed": 14, "end_logit": -2.0},
        {"num_beams": 4, "num_return_sequences": 4, "forced_eos_token_id": END},
    ),
    "beam_forced_end_without_repetition": (
        {"seed": 15},
        {"num_beams": 3, "forced_eos_token_id": END, "no_repeat_ngram_size": 2},
    ),
    "greedy_forced_end": ({"seed": 16, "end_logit": -2.0}, {"forced_eos_token_id": END}),
    "beam_forced_first": (
        {"seed": 17},
        {"num_beams": 4, "num_return_sequences": 2, "forced_bos_token_id": 5},
    ),
    "beam_suppressed": (
        {"seed": 10, "vocabulary_size": 11},
        {"num_beams": 4, "num_return_sequences": 4, "suppress_tokens": [0, 1, 5, 6]},
    ),
}
BATCH, MAX_LENGTH = 12, 12


def answers_of_transformers(tables, arguments):
    """`[{"token_ids", "score"}]` of each sentence, best hypothesis first; `score` of beams only."""
    import torch
    from transformers import GenerationConfig, GenerationMixin, PretrainedConfig, PreTrainedModel
    from transformers.modeling_outputs import CausalLMOutput

    from tests.search.table_decoder import node_after

    nodes, vocabulary_size = tables.shape[1:]

    class TableModel(PreTrainedModel, GenerationMixin):
        config_class = PretrainedConfig
        main_input_name = "input_ids"
        _supports_cache_class = False

        def __init__(self, config):
            super().__init__(config)
            self.anchor = torch.nn.Parameter(torch.zeros(1))  # a device and a dtype

        def prepare_inputs_for_generation(self, input_ids, rows=None, **kwargs):
            return {"input_ids": input_ids, "rows": rows}

        def forward(self, input_ids, rows, **kwargs):
            found = [
                tables[row, node_after(tokens[1:], nodes, tokens[0])]
                for row, tokens in zip(rows.tolist(), input_ids.tolist(), strict=True)
            ]
            return CausalLMOutput(logits=torch.tensor(np.stack(found))[:, None, :])

    model = TableModel(PretrainedConfig(vocab_size=vocabulary_size, num_hidden_layers=1)).eval()
    is_beam_search = arguments.get("num_beams", 1) > 1
    config = GenerationConfig(
        **{
            "suppress_tokens": [PAD, START],
            "early_stopping": True if is_beam_search else None,
            **arguments,
        },
        max_new_tokens=MAX_LENGTH,
        do_sample=False,
        bos_token_id=START,
        eos_token_id=END,
        pad_token_id=PAD,
        use_cache=False,
        return_dict_in_generate=True,
        output_scores=True,
    )
    results = model.generate(
        torch.full((len(tables), 1), START),
        rows=torch.arange(len(tables)),
        generation_config=config,
    )
    hypotheses = arguments.get("num_return_sequences", 1)
    sequences = results.sequences[:, 1:].reshape(len(tables), hypotheses, -1).tolist()
    scores = getattr(results, "sequences_scores", None)
    answers = []
    for row, sentence in enumerate(sequences):
        answers.append([])
        for column, tokens in enumerate(sentence):
            end = tokens.index(END) + 1 if END in tokens else len(tokens)
            answer = {"token_ids": tokens[:end]}
            if scores is not None:
                answer["score"] = round(float(scores[row * hypotheses + column]), 6)
            answers[-1].append(answer)
    return answers


def main():
    import torch
    import transformers

    from tests.search.table_decoder import random_tables

    settings = {
        name: answers_of_transformers(random_tables(batch=BATCH, **tables), arguments)
        for name, (tables, arguments) in SETTINGS.items()
    }
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    lines = [f'"{name}": {json.dumps(found)}' for name, found in settings.items()]
    ANSWERS.write_text(
        "{\n" + ",\n".join([f'"versions": {json.dumps(versions)}', *lines]) + "\n}\n"
    )
    total = sum(len(each) for found in settings.values() for each in found)
    print(f"{total} hypotheses in {len(settings)} settings, {ANSWERS.stat().st_size} bytes")


if __name__ == "__main__":
    main()
