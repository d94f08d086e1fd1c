from collections.abc import Iterable
from typing import Literal

import keras

LAYOUTS: dict[str, dict[str, tuple[str | None, ...]]] = {
    # `make_layout_map` replaces "MODEL" by the name of the mesh axis. The path of a weight must not
    # match more than one pattern.
    "embedding": {
        r"(.*/)?[^/]*embedding[^/]*/embeddings": ("MODEL", None),  # (vocabulary, features)
        r"(.*/)?[^/]*embedding[^/]*/reverse_embeddings": (None, "MODEL"),
    },
    "attention": {
        r"(.*/)?[^/]*attention[^/]*/(query|key|value)_kernel": (None, "MODEL"),
        r"(.*/)?[^/]*attention[^/]*/(query|key|value)_bias": ("MODEL",),
        r"(.*/)?[^/]*attention[^/]*/output_kernel": ("MODEL", None),
    },
    "feed_forward": {
        r"(.*/)?feed_forward/expansion/kernel": (None, "MODEL"),
        r"(.*/)?feed_forward/expansion/bias": ("MODEL",),
        r"(.*/)?feed_forward/contraction/kernel": ("MODEL", None),
    },
    "recurrent": {
        r"(.*/)?[^/]*cell[^/]*/(recurrent_)?kernel": (None, "MODEL"),  # (features, gates * units)
    },
}


def make_layout_map(
    device_mesh: keras.distribution.DeviceMesh,
    parts: Iterable[Literal["embedding", "attention", "feed_forward", "recurrent"]] | None = None,
    axis: str = "model",
) -> keras.distribution.LayoutMap:
    """Returns the weight layouts for `keras.distribution.ModelParallel` on JAX.

    The weights of Transformers and recurrent layers are divided among the devices on one mesh axis,
    as in [Shoeybi et al., 2019](https://arxiv.org/abs/1909.08053): attention kernels by heads,
    feed-forward kernels by hidden features, recurrent kernels by units, and embeddings by ids. The
    optimizer moments are divided like their weights. Each device has a copy of all other weights.
    JAX adds the communication between the devices. The results of training and searches equal the
    results on a single device.

    Set the distribution before you create the model. The layouts select layers by name, so keep the
    default names of cells and attention layers, or use names that contain the default names.

    Args:
        device_mesh: `keras.distribution.DeviceMesh` with the axis `axis`, for example with the axis
            names `("batch", "model")` and the shape `(1, 4)`.
        parts: Iterable of strings from `"embedding"`, `"attention"`, `"feed_forward"` and
            `"recurrent"`, the weights to divide. The number of devices must divide the size of each
            divided axis: the vocabulary size, heads times head size, hidden features, and gates
            times units. If the number of devices does not divide the vocabulary size, leave out
            `"embedding"`. Defaults to `None`: all parts.
        axis: String, the axis of the mesh. Defaults to `"model"`.

    Returns:
        `keras.distribution.LayoutMap`. You can add layouts for further weights.

    Raises:
        ValueError: If a part or the axis is unknown, or the backend is not JAX. On TensorFlow, use
            `place_parts`.

    Example:

    ```python
    devices = keras.distribution.list_devices()
    mesh = keras.distribution.DeviceMesh((1, len(devices)), ("batch", "model"), devices)
    distribution = keras.distribution.ModelParallel(layout_map=make_layout_map(mesh))
    keras.distribution.set_distribution(distribution)
    trainer = keras_attn.TrainingModel(*keras_attn.transformer_base(8000, 8000))
    ```
    """
    if keras.backend.backend() != "jax":
        raise ValueError(
            "Expected the JAX backend. Received: keras.backend.backend()="
            f"{keras.backend.backend()!r}. On TensorFlow use place_parts."
        )
    selected = list(LAYOUTS) if parts is None else list(parts)
    unknown = sorted(set(selected) - set(LAYOUTS))
    if unknown:
        raise ValueError(f"Expected parts out of {list(LAYOUTS)}. Received: parts with {unknown}")
    if axis not in device_mesh.axis_names:
        raise ValueError(
            f"Expected an axis out of {list(device_mesh.axis_names)}. Received: axis={axis!r}"
        )
    layouts = keras.distribution.LayoutMap(device_mesh)
    for part in dict.fromkeys(selected):
        for pattern, layout in LAYOUTS[part].items():
            layouts[pattern] = tuple(axis if name == "MODEL" else name for name in layout)
    return layouts
