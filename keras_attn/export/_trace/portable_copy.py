from typing import Any

from keras_attn._backend.private_names import has_dropout_masks
from keras_attn._drop_ins.low_rank_adaptation import LowRankAdaptation
from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn.export._trace.copy_layers import Layers, copy_layers
from keras_attn.export._trace.fold_time import fold_time
from keras_attn.export._trace.fuse_recurrence import fuse_recurrence


def portable_copy(*layers: *Layers, keep_precision: bool = False) -> tuple[*Layers]:
    """Copies layers so that their results do not depend on this machine.

    - `use_cudnn` becomes `False`. On a machine with a GPU, a layer with `use_cudnn="auto"` would be
      traced to an operator that other machines cannot run.
    - Dropout of recurrent layers becomes 0. Keras computes dropout masks for recurrent cells even
      in inference, where the cells ignore the masks. These masks would add the state of the random
      generator to the file.
    - Mixed precision becomes float32, the precision of the weights. (Exporters have their own
      option for a lower precision.) Casts that are operations of a functional model remain.
    - Low-rank updates (LoRA) are merged into the kernels. The merged kernels are variables of the
      copy.

    Args:
        *layers: Keras layers or models. Copies of nested layers are changed too.
        keep_precision: Bool, whether layers keep mixed precision. Defaults to `False`.

    Returns:
        Tuple of copies that share the variables of the originals, see `copy_layers`.
    """
    copies = copy_layers(*layers)
    for layer in flatten_layers(copies):
        if isinstance(layer, LowRankAdaptation) and layer.lora_kernels:
            layer.detach_kernels()
            layer.merge_lora()
        if hasattr(layer, "use_cudnn"):
            layer.use_cudnn = False
        if has_dropout_masks(layer):
            layer.dropout = layer.recurrent_dropout = 0.0
        if not keep_precision and layer.dtype_policy.name.startswith("mixed_"):
            layer.dtype_policy = "float32"
    return copies


def traceable_copy(*layers: *Layers) -> tuple[*Layers]:
    """Copies layers so that all their operations can be converted to ONNX.

    The copies can be traced but not run, because they may contain ONNX operators for LSTM and GRU
    layers, see `fuse_recurrence`.

    Args:
        *layers: Keras layers or models from `portable_copy`.

    Returns:
        Tuple of copies that share the variables of the originals.
    """
    copies = copy_layers(*layers)
    make_traceable(*copies)
    return copies


def make_traceable(*layers: Any) -> None:
    """Changes layers in place so that all their operations can be converted to ONNX.

    The changed layers can be traced but not run, see `traceable_copy`.
    """
    fold_time(*layers)
    fuse_recurrence(*layers)
