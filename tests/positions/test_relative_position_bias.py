import numpy as np
import pytest

from keras_attn._positions.relative_position_bias import (
    RelativePositionBias,
    relative_position_buckets,
)
from keras_attn.testing import check_layer
from tests import position_oracles
from tests.backend import requires_tensorflow
from tests.contracts import numpy, randomize
from tests.positions.bias_checks import (
    KEY_POSITIONS,
    QUERY_POSITIONS,
    check_batches,
    check_compiled,
    check_export,
)

# (num_buckets, max_distance, bidirectional): T5's, and others with edges that are whole numbers.
SETTINGS = [
    (32, 128, True),
    (32, 128, False),
    (8, 20, True),
    (9, 50, False),
    (2, 2, False),
    (4, 2, True),
    (64, 1000, True),
    (16, 4096, False),
]


def built(num_buckets=32, max_distance=128, bidirectional=True):
    layer = RelativePositionBias(
        3, num_buckets, max_distance=max_distance, bidirectional=bidirectional
    )
    layer(QUERY_POSITIONS, KEY_POSITIONS)
    return randomize(layer)


@pytest.mark.parametrize("settings", SETTINGS)
def test_buckets_equal_exact_logarithms(settings):
    max_distance = settings[1]
    distances = range(-max_distance, max_distance + 1)
    expected = [position_oracles.t5_bucket(distance, *settings) for distance in distances]
    assert relative_position_buckets(*settings).tolist() == expected
    assert set(expected) <= set(range(settings[0]))


def test_buckets_of_t5_by_hand():
    past = relative_position_buckets(32, 128, True)[128::-1]
    assert past[:8].tolist() == list(range(8))
    # 16 buckets in a direction, 8 of them growing: the sizes double every two buckets.
    edges = [distance for distance in range(1, 129) if past[distance] != past[distance - 1]]
    assert edges == [*range(1, 9), 12, 16, 23, 32, 46, 64, 91]
    assert past[128] == 15


@pytest.mark.parametrize("settings", SETTINGS)
def test_all_distances_and_beyond(settings):
    """The layer looks up the bucket of each distance, both signs, past `max_distance` too."""
    layer = built(*settings)
    table = np.arange(settings[0], dtype="float32")[:, None].repeat(3, 1)
    layer.set_weights([table])
    last = min(settings[1], 200) + 50
    far = [[0, *range(-last, last + 1), -100 * settings[1], 100 * settings[1]]]
    received = numpy(layer(np.array([[0]], "int32"), np.array(far, "int32")))
    expected = [position_oracles.t5_bucket(distance, *settings) for distance in far[0]]
    assert received[0, 1, 0].tolist() == expected


@pytest.mark.parametrize("settings", SETTINGS[:4])
def test_equals_the_equation(settings):
    layer = built(*settings)
    (table,) = layer.get_weights()
    check_batches(
        layer, lambda queries, keys: position_oracles.t5_bias(table, queries, keys, *settings[1:])
    )


@pytest.mark.parametrize("bidirectional", [True, False])
def test_is_a_good_layer(bidirectional):
    def make_layer():
        return RelativePositionBias(
            3, 8, max_distance=20, bidirectional=bidirectional, embeddings_initializer="zeros"
        )

    check_layer(make_layer, {"query_positions": QUERY_POSITIONS, "key_positions": KEY_POSITIONS})


def test_compiled():
    check_compiled(built())


@requires_tensorflow("the export starts from a TensorFlow graph")
def test_export(tmp_path):
    assert len(check_export(built(), tmp_path / "model.onnx")) <= 9


@pytest.mark.parametrize("name", ["num_heads", "num_buckets", "max_distance"])
def test_what_is_no_positive_integer_is_refused(name):
    with pytest.raises(ValueError, match=f"positive integer. Received: {name}=0"):
        RelativePositionBias(**{"num_heads": 2, name: 0})


@pytest.mark.parametrize(("num_buckets", "bidirectional"), [(1, False), (2, True), (7, True)])
def test_too_few_buckets_are_refused(num_buckets, bidirectional):
    with pytest.raises(ValueError, match=f"Received: num_buckets={num_buckets}, bidirectional="):
        RelativePositionBias(2, num_buckets, bidirectional=bidirectional)


@pytest.mark.parametrize(("max_distance", "bidirectional"), [(8, True), (16, False)])
def test_a_max_distance_without_room_to_grow_is_refused(max_distance, bidirectional):
    with pytest.raises(ValueError, match=f"Received: max_distance={max_distance}, num_buckets=32"):
        RelativePositionBias(2, 32, max_distance=max_distance, bidirectional=bidirectional)


def test_positions_of_another_rank_are_refused():
    with pytest.raises(ValueError, match=r"Received: query_positions with shape \(3,\)"):
        RelativePositionBias(2)(QUERY_POSITIONS[0], KEY_POSITIONS)
