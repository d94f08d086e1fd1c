import json

import compare_attention as example
import numpy as np
import pytest
from keras import ops

import keras_attn

SMALL = len(example.LETTERS)
RIGHT = {
    "copy": lambda ids: ids,
    "reverse": lambda ids: ids[::-1],
    "stretch": lambda ids: [each for id in ids for each in [id] * (1 + id % 2)],
    "find": lambda ids: [id - SMALL for id in ids if id >= example.FIRST + SMALL],
    "unique": lambda ids: sorted(set(ids), key=ids.index),
    "interleave": lambda ids: [
        each
        for pair in zip(ids[: len(ids) // 2], ids[len(ids) // 2 + 1 :], strict=True)
        for each in pair
    ],
}


@pytest.mark.parametrize("task", RIGHT)
def test_targets_are_right(task):
    sources, targets = example.make_examples(task, 300, np.random.default_rng(1))
    assert sources.shape[1] == example.LONGEST
    for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
        (*read, end), (*written, other_end) = ([id for id in ids if id] for ids in (source, target))
        assert end == other_end == example.END
        assert written == RIGHT[task](read)
        assert (read.count(example.SEPARATOR) == 1) == (task == "interleave")
    assert {task for task, _, _ in example.MECHANISMS.values()} == set(RIGHT)


def test_two_sources_are_two_memories():
    encoder = example.TwoSources(
        keras_attn.RNNEncoder(
            example.keras.layers.GRUCell(3), example.keras.layers.Embedding(example.SIZE, 4)
        )
    )
    encoded = encoder(np.array([[5, 6, 3, 7, 8, 2], [9, 3, 4, 2, 0, 0]]))
    masks = {name: ops.convert_to_numpy(mask) for name, mask in encoded["encoder_mask"].items()}
    assert masks["first"].astype(int).tolist() == [[1, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]]
    assert masks["second"].astype(int).tolist() == [[0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 0, 0]]
    assert encoded["encoder_outputs"].keys() == masks.keys()


def test_rows_of_other_mechanisms_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(
        example, "compare", lambda name, args, out: {"model": name, "of": args.seed}
    )
    monkeypatch.setattr(example, "draw", lambda names, out: None)

    def models_after(*arguments):
        monkeypatch.setattr(
            "sys.argv", ["compare_attention.py", "--out", str(tmp_path), *arguments]
        )
        example.main()
        rows = json.loads((tmp_path / "results.json").read_text())["rows"]
        return [row["model"] for row in rows]

    assert models_after("--only", "additive", "hardmax") == ["additive", "hardmax"]
    assert models_after("--only", "additive", "dot") == ["hardmax", "additive", "dot"]
    assert models_after("--only", "dot", "--seed", "2") == ["dot"]  # what is not like it goes
