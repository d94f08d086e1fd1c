"""Runs of the example, and what is in the files that they write."""

import json

import numpy as np
import pytest

from tests.examples.scripts import EXAMPLES, python

SCRIPT = EXAMPLES / "compare_sentences.py"
NUMBERS = "one two three four five six seven eight nine ten".split()
ZAHLEN = "eins zwei drei vier fünf sechs sieben acht neun zehn".split()


def run(folder, *arguments):
    """Its report, and the sentences and weights on the page."""
    python(folder, SCRIPT, "--out", folder, *arguments)
    _, _, data = (folder / "attention.html").read_text().partition('id="examples">')
    examples = json.loads(data.partition("</script>")[0])
    return json.loads((folder / "results.json").read_text()), examples


@pytest.mark.slow
def test_learns_which_words_mean_the_same(tmp_path):
    report, examples = run(tmp_path)
    assert report["accuracy"] > 0.98 and report["pairs"] == 1000  # chance is 0.5
    assert 0 <= report["largest_onnx_difference"] <= 1e-5
    assert (tmp_path / "attention.png").read_bytes().startswith(b"\x89PNG")
    assert len(examples) == 8
    for example in examples:
        ((_, weights),) = example["weights"]
        assert example["source"][0] == example["target"][0] == "(none)"
        assert np.shape(weights) == (len(example["target"]), len(example["source"]))
        np.testing.assert_allclose(np.sum(weights, axis=1), 1, atol=1e-2)


@pytest.mark.slow
def test_reads_sentences_and_their_translations(tmp_path):
    generator = np.random.default_rng(0)
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    out.mkdir()
    for split, number in (("train", 600), ("test", 250)):
        rows = np.array([generator.permutation(10)[:3] for _ in range(number)])
        for ending, words in (("en", NUMBERS), ("de", ZAHLEN)):
            lines = [" ".join(words[i] for i in row) + "\n" for row in rows]
            (data / f"{split}.{ending}").write_text("".join(lines), encoding="utf-8")
    report, examples = run(out, "--data", data, "--epochs", "1", "--max-distance", "2")
    assert report["pairs"] == 2 * 250
    for example in examples:
        numbers = [NUMBERS.index(word) for word in example["target"][1:]]
        assert example["source"] == ["(none)", *(ZAHLEN[number] for number in numbers)]
