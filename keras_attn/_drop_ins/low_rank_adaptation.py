import math
from typing import Any, cast

import keras
import numpy as np
from keras import ops

from keras_attn._backend.private_names import remove_weight, unlocked
from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn._serialization.clone_initializer import clone_initializer
from keras_attn._types import InitializerLike, Tensor

SETTINGS = "lora"


class LowRankAdaptation:
    """Base class of layers with kernels that can be adapted by LoRA.

    A subclass returns its kernels from `lora_targets`, and calls `adapted_kernel` in its `call`.

    Attributes:
        lora_rank: Int, rank of the updates, or `None` without LoRA.
        lora_alpha: Float. Updates are multiplied by `lora_alpha / lora_rank`. `None` without LoRA.
        lora_kernels: Tuple of strings, names of the adapted kernels.
    """

    lora_rank: int | None = None
    lora_alpha: float | None = None
    lora_kernels: tuple[str, ...] = ()

    def lora_targets(self) -> dict[str, tuple[keras.layers.Layer, keras.Variable]]:
        """Returns the layer and the variable of each kernel that can be adapted, by name."""
        raise NotImplementedError

    def enable_lora(
        self,
        rank: int,
        lora_alpha: float | None = None,
        kernels: Any = None,
        a_initializer: InitializerLike = "he_uniform",
        b_initializer: InitializerLike = "zeros",
    ) -> None:
        """Freezes kernels and adds trainable low-rank updates (LoRA).

            W = W_0 + (lora_alpha / rank) A B

        LoRA was introduced by [Hu et al., 2021](https://arxiv.org/abs/2106.09685), equation 3. The
        arguments have the same meaning as in `keras.layers.Dense.enable_lora`. Unlike in Keras,
        saved files contain A and B, and loading such a file enables LoRA in the loaded layer.
        Biases and other kernels remain trainable. To train only the updates of a model, call
        `keras_attn.training.enable_lora`.

        Args:
            rank: Positive int, number of columns of A and rows of B, at most the smaller dimension
                of each kernel.
            lora_alpha: Positive float. The update is multiplied by `lora_alpha / rank`. Defaults to
                `rank`.
            kernels: List of strings, names of the kernels to adapt. Defaults to `None`: all.
            a_initializer: Initializer of A `(input_dim, rank)`. Defaults to `"he_uniform"`.
            b_initializer: Initializer of B `(rank, output_dim)`. Defaults to `"zeros"`: the outputs
                of the layer do not change.

        Raises:
            ValueError: If an argument is out of range; if the layer is not built; or if the layer
                is frozen or quantized, has a `kernel_constraint`, or already has LoRA.
        """
        layer: Any = self
        name = f"{type(self).__name__} {layer.name!r}"
        if not layer.built:
            raise ValueError(
                f"Expected a layer that is built. Received: {name}, built=False. Call the layer "
                "once before enable_lora."
            )
        targets = self.lora_targets()
        kernels = tuple(targets) if kernels is None else tuple(kernels)
        unknown = sorted(set(kernels) - set(targets))
        if unknown or not kernels:
            raise ValueError(
                f"Expected kernels to be some of {tuple(targets)}. Received: kernels={kernels!r} "
                f"for {name}."
            )
        check_positive_integer("rank", rank)
        lora_alpha = float(rank if lora_alpha is None else lora_alpha)
        if not (lora_alpha > 0 and math.isfinite(lora_alpha)):
            raise ValueError(
                f"Expected lora_alpha to be a positive number. Received: lora_alpha={lora_alpha}."
            )
        self._check_kernels(name, rank, [targets[key] for key in kernels])
        with unlocked(layer):
            for key in kernels:
                kernel = targets[key][1]
                for part, shape, initializer in (
                    ("a", (kernel.shape[0], rank), a_initializer),
                    ("b", (rank, kernel.shape[1]), b_initializer),
                ):
                    initializer = clone_initializer(keras.initializers.get(initializer), key)
                    variable = layer.add_weight(
                        name=f"lora_{key}_{part}",
                        shape=shape,
                        initializer=initializer,
                        regularizer=getattr(layer, "kernel_regularizer", None),
                        # Use float32 as in Keras, because updates are small. The product A B is
                        # computed in float32 too, so that a merged kernel has the same values as
                        # kernel plus update.
                        dtype="float32",
                        autocast=False,
                    )
                    setattr(self, f"lora_{key}_{part}", variable)
                kernel.trainable = False
            self.lora_rank, self.lora_alpha = rank, lora_alpha
            self.lora_kernels = kernels

    def _check_kernels(self, name, rank, targets):
        if self.lora_kernels:
            raise ValueError(
                f"Expected a layer without LoRA. Received: {name} with lora_rank={self.lora_rank}. "
                "Call merge_lora first to add other updates."
            )
        for layer, kernel in targets:
            if layer.dtype_policy.quantization_mode is not None:
                raise ValueError(
                    "Expected kernels that are not quantized. Received: "
                    f"dtype={layer.dtype_policy.name!r} for {name}. Enable LoRA in the float "
                    'model, and quantize it when it is exported: export_onnx(..., precision="int8")'
                    "."
                )
            if not (layer.trainable and getattr(self, "trainable", True)):
                raise ValueError(
                    f"Expected a trainable layer. Received: {name}, trainable=False. Set "
                    "trainable=True; enable_lora freezes the kernels itself."
                )
            if getattr(layer, "kernel_constraint", None) is not None:
                raise ValueError(
                    "Expected kernel_constraint=None, because a constraint applies to the sum of "
                    f"kernel and update. Received: kernel_constraint for {name}."
                )
            if rank > min(kernel.shape):
                raise ValueError(
                    f"Expected rank to be at most {min(kernel.shape)}, the smaller dimension of "
                    f"the kernel {kernel.path!r}. Received: rank={rank}."
                )

    def adapted_kernel(self, name: str, kernel: Any) -> Tensor:
        """Returns the kernel `(input_dim, output_dim)`, plus its update if LoRA adapts it."""
        if name not in self.lora_kernels:
            return kernel
        kernel = ops.convert_to_tensor(kernel)
        return kernel + ops.cast(self._update(name), kernel.dtype)

    def _update(self, name):
        a, b = (getattr(self, f"lora_{name}_{part}") for part in "ab")
        return (self.lora_alpha or 0.0) / (self.lora_rank or 1) * ops.matmul(a, b)

    def merge_lora(self) -> None:
        """Adds the updates to the kernels, makes the kernels trainable, and removes the updates."""
        for name, (_, kernel) in self.lora_targets().items():
            if name in self.lora_kernels:
                kernel.assign(kernel + ops.cast(self._update(name), kernel.dtype))
                kernel.trainable = True
                for part in "ab":
                    remove_weight(cast(Any, self), f"lora_{name}_{part}")
        self.lora_kernels, self.lora_rank, self.lora_alpha = (), None, None

    def detach_kernels(self) -> None:
        """Replaces the adapted kernels of a copied layer by new variables."""
        for name, (layer, kernel) in self.lora_targets().items():
            if name in self.lora_kernels:
                attribute = next(key for key, value in vars(layer).items() if value is kernel)
                # On TensorFlow, a variable that is created from `kernel.value` shares the memory of
                # `kernel`.
                value = ops.convert_to_numpy(kernel)
                new_kernel = keras.Variable(value, dtype=kernel.dtype, name=kernel.name)
                remove_weight(layer, attribute, new_kernel)

    def save_own_variables(self, store: Any) -> None:
        parent: Any = super()
        parent.save_own_variables(store)
        if self.lora_kernels:
            names = list(self.lora_targets())
            indices = [names.index(name) for name in self.lora_kernels]
            store[SETTINGS] = np.array([self.lora_rank, self.lora_alpha, *indices], "float32")

    def load_own_variables(self, store: Any) -> None:
        parent: Any = super()
        values = {name: store[name] for name in store.keys() if name != SETTINGS}  # noqa: SIM118
        if SETTINGS in store.keys():  # noqa: SIM118
            rank, alpha, *indices = np.asarray(store[SETTINGS]).tolist()
            names = list(self.lora_targets())
            kernels = tuple(names[int(index)] for index in indices)
            if not self.lora_kernels:
                self.enable_lora(int(rank), alpha, kernels)
            if (self.lora_rank, self.lora_kernels) != (int(rank), kernels):
                raise ValueError(
                    f"Expected LoRA of rank {self.lora_rank} for the kernels {self.lora_kernels}. "
                    f"Received: a file with rank {int(rank)} for {kernels}. Load the file into a "
                    "model without LoRA."
                )
            self.lora_alpha = alpha
        elif self.lora_kernels:
            # The file has no updates. Set B to zero, so that the updates are zero. Keep A, because
            # B has no gradient if A is zero.
            for name in self.lora_kernels:
                a, b = (getattr(self, f"lora_{name}_{part}") for part in "ab")
                values[str(len(values))] = ops.convert_to_numpy(a)
                values[str(len(values))] = np.zeros(b.shape, "float32")
        parent.load_own_variables(values)
