import json
import math

import pytest

from keras_attn.training import ImageFormat


def test_image_format_survives_json():
    for image_format in (ImageFormat(), ImageFormat("bgr", (0.5, 1, 2), [0, 1, 2], "bicubic")):
        entries = json.loads(json.dumps(image_format.entries()))
        assert ImageFormat.from_entries({**entries, "a later key": 3}) == image_format
    assert entries == {
        "channels": "bgr",
        "scale": [0.5, 1.0, 2.0],
        "offset": [0.0, 1.0, 2.0],
        "resize": "bicubic",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"channels": "hsv"}, "one of .'gray', 'rgb', 'bgr', 'rgba'.. Received: channels='hsv'"),
        ({"resize": "lanczos"}, "one of .'nearest', .* Received: resize='lanczos'"),
        ({"scale": math.nan}, "a finite float, .* Received: scale=nan"),
        ({"offset": (math.inf, 0, 0)}, "sequence of 3 finite floats for channels='rgb'"),
        ({"scale": (1.0, 2.0)}, "sequence of 3 .* Received: scale=.1.0, 2.0."),
        ({"scale": "bright"}, "Received: scale='bright'"),
        ({"offset": None}, "Received: offset=None"),
    ],
)
def test_image_format_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        ImageFormat(**arguments)
