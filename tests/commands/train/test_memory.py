"""The lower bound of the memory of a training."""

import keras

from keras_attn_commands.train import memory


def test_less_memory_than_the_bound_is_a_warning(monkeypatch, capsys):
    model = keras.Sequential([keras.Input((1023,)), keras.layers.Dense(1024)])  # 2 ** 20 weights
    warned = []
    for mebibytes in (28, 27, None):
        size = None if mebibytes is None else mebibytes * 2**20
        monkeypatch.setattr(memory, "_available_memory", lambda size=size: size)
        memory.report_memory(model, 2**20, "a smaller --batch-size", warned.append)
        assert "At least 28 MiB of memory" in capsys.readouterr().out  # 4 * (4 + 3) * 2 ** 20
    assert warned == ["Only 27 MiB of memory are available. Use a smaller --batch-size."]
