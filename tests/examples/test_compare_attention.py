import compare_attention as example
import numpy as np
import pytest

SMALL = len(example.LETTERS)
RIGHT = {
    "copy": lambda ids: ids,
    "reverse": lambda ids: ids[::-1],
    "stretch": lambda ids: [each for id in ids for each in [id] * (1 + id % 2)],
    "find": lambda ids: [id - SMALL for id in ids if id >= example.FIRST + SMALL],
}


@pytest.mark.parametrize("task", RIGHT)
def test_targets_are_right(task):
    sources, targets = example.make_examples(task, 300, np.random.default_rng(1))
    assert sources.shape[1] == example.LONGEST + 1
    lengths = set()
    for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
        (*read, end), (*written, other_end) = ([id for id in ids if id] for ids in (source, target))
        assert end == other_end == example.END
        assert written == RIGHT[task](read)
        assert sum(id >= example.FIRST + SMALL for id in read) == (task == "find")
        lengths.add(len(read))
    assert lengths == set(range(example.SHORTEST, example.LONGEST + 1))
    assert {task for task, _ in example.MECHANISMS.values()} == set(RIGHT)


@pytest.mark.slow
def test_a_mechanism_is_trained_saved_and_drawn(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    from keras_attn.training import RunDirectory

    mechanisms = {name: example.MECHANISMS[name] for name in ("linear", "location")}
    monkeypatch.setattr(example, "MECHANISMS", mechanisms)
    monkeypatch.setattr(example, "STEPS", 5)
    monkeypatch.setattr(example.train, "__defaults__", (1, 1))
    monkeypatch.setattr("sys.argv", ["compare_attention.py", "--out", str(tmp_path)])
    example.main()
    shown = capsys.readouterr().out
    sources, targets = example.make_examples("find", 1000, np.random.default_rng(2))
    model = RunDirectory(tmp_path / "linear").load_model("generation")
    found = model.predict(sources, verbose=0)["token_ids"][:, 0].tolist()
    right = [
        [id for id in row if id] == [id for id in target if id]
        for row, target in zip(found, targets.tolist(), strict=True)
    ]
    assert f"linear              find      {np.mean(right):8.1%} exact\n" in shown
    assert (tmp_path / "alignments.png").read_bytes()[1:4] == b"PNG"
