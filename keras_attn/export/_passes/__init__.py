"""Passes over converted graphs. Each pass changes an `onnx.ModelProto` in place."""

from keras_attn.export._passes.constant_reshapes import constant_reshapes
from keras_attn.export._passes.emulate_float16 import emulate_float16
from keras_attn.export._passes.fold_recurrent_weights import fold_recurrent_weights
from keras_attn.export._passes.fuse_normalization import fuse_normalization
from keras_attn.export._passes.gather_integers import gather_integers
from keras_attn.export._passes.half_precision import half_precision
from keras_attn.export._passes.hoist_invariants import hoist_invariants
from keras_attn.export._passes.int4_weights import int4_weights
from keras_attn.export._passes.int8_weights import int8_weights, int8_weights_of_rows
from keras_attn.export._passes.lower_constants import lower_constants
from keras_attn.export._passes.make_names_unique import make_names_unique
from keras_attn.export._passes.name_dimensions import name_dimensions
from keras_attn.export._passes.nonnegative_axes import nonnegative_axes
from keras_attn.export._passes.plain_gather import plain_gather
from keras_attn.export._passes.plain_indices import plain_indices
from keras_attn.export._passes.remove_identities import remove_identities
from keras_attn.export._passes.remove_tensordot_reshapes import remove_tensordot_reshapes
from keras_attn.export._passes.remove_top_k_casts import remove_top_k_casts
from keras_attn.export._passes.remove_unused import remove_unused
from keras_attn.export._passes.set_allowzero import set_allowzero
from keras_attn.export._passes.share_initializers import share_initializers
from keras_attn.export._passes.slice_empty_gathers import slice_empty_gathers
from keras_attn.export._passes.top_k_of_no_rows import top_k_of_no_rows

PASSES = (
    make_names_unique,
    share_initializers,
    set_allowzero,
    hoist_invariants,
    remove_identities,
    plain_gather,
    remove_tensordot_reshapes,
    constant_reshapes,
    gather_integers,
    remove_top_k_casts,
    plain_indices,
    slice_empty_gathers,
    fuse_normalization,
    fold_recurrent_weights,
    nonnegative_axes,
    share_initializers,
    remove_unused,
)
"""The passes without further arguments, in the order in which they run. `share_initializers` runs
again for the constants that other passes add. After these passes, `half_precision`, `int8_weights`
or `int4_weights` may run. `lower_constants` is always the last pass, because it moves constants out
of the main graph."""

__all__ = [
    "PASSES",
    "constant_reshapes",
    "emulate_float16",
    "fold_recurrent_weights",
    "fuse_normalization",
    "gather_integers",
    "half_precision",
    "hoist_invariants",
    "int4_weights",
    "int8_weights",
    "int8_weights_of_rows",
    "lower_constants",
    "make_names_unique",
    "name_dimensions",
    "nonnegative_axes",
    "plain_gather",
    "plain_indices",
    "remove_identities",
    "remove_tensordot_reshapes",
    "remove_top_k_casts",
    "remove_unused",
    "set_allowzero",
    "share_initializers",
    "slice_empty_gathers",
    "top_k_of_no_rows",
]
