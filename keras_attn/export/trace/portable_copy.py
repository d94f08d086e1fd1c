from typing import Any

from keras_attn._backend.private_names import has_dropout_masks
from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn.export.trace.copy_layers import copy_layers
from keras_attn.export.trace.fold_time import fold_time
from keras_attn.export.trace.fuse_recurrence import fuse_recurrence


def portable_copy(*layers: Any, keep_precision: Any = False) -> Any:
    """Copies layers so that what they compute does not depend on this machine.

    - `use_cudnn="auto"` is decided when a layer is traced. On a machine with a GPU it would put an
      operator into the file that other machines cannot run.
    - Recurrent layers of Keras compute the dropout masks of their cells in inference too, where the
      cells ignore them. The state of the random generator would become a part of the file.
    - A model of mixed precision has its weights in float32. Lower precision in a file is a choice
      of the export. A cast that is an operation of a functional model stays.

    Args:
        *layers: Keras layers or models; all layers inside of them are changed.
        keep_precision: bool, whether layers of mixed precision keep it. Defaults to `False`.

    Returns:
        List of copies, which share the variables of the originals, see `copy_layers`.
    """
    copies = copy_layers(*layers)
    for layer in flatten_layers(copies):
        if hasattr(layer, "use_cudnn"):
            layer.use_cudnn = False
        if has_dropout_masks(layer):
            layer.dropout = layer.recurrent_dropout = 0.0
        if not keep_precision and layer.dtype_policy.name.startswith("mixed_"):
            layer.dtype_policy = "float32"
    return copies


def traceable_copy(*layers: Any) -> Any:
    """Copies layers so that all that they compute can be converted to ONNX.

    The copies can be traced, not run, see `fuse_recurrence`.

    Args:
        *layers: Keras layers or models, as from `portable_copy`.

    Returns:
        List of copies, which share the variables of the originals.
    """
    copies = copy_layers(*layers)
    make_traceable(*copies)
    return copies


def make_traceable(*layers: Any) -> None:
    """Does to layers in place what `traceable_copy` does to copies."""
    fold_time(*layers)
    fuse_recurrence(*layers)
