import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import keras

from keras_attn._backend.private_names import BuildHook, remat_mode
from keras_attn._layer.argument_checks import accepts_numpy_numbers
from keras_attn._layer.low_rank_settings import LORA, enable_low_rank_updates, low_rank_settings
from keras_attn._layer.rematerialization import is_rematerialized, release_parts, rematerialized
from keras_attn_checks.options import LayerArguments

OTHER_WAYS = {
    "dropout": "Only MultiHeadAttention and the Transformer blocks have dropout. For other layers, "
    "put keras.layers.Dropout after the layer.",
    "go_backwards": "The layer runs in one direction; for an encoder in both directions, use "
    "RNNEncoder(bidirectional=True) or keras.layers.Bidirectional with a Keras layer.",
    "return_sequences": "AttentionRNN always returns the outputs of all steps.",
    "score_mode": 'Use LuongAttention("dot") or LuongAttention("concat", units=...).',
    "use_scale": "Use LuongAttention(..., scale=True) or BahdanauAttention(..., normalize=True).",
}
"""Advice for Keras layer arguments that layers in this package do not have."""


class Layer(BuildHook, keras.layers.Layer):
    """Base class for layers in this package.

    The class fixes two defects in Keras: in `stateless_call`, `training` has no effect in
    sublayers, and `keras.RematScope` fails for calls with keyword arguments. The configuration
    contains the low-rank updates (LoRA) of the layer and its sublayers, so that copies have them
    too. The class also raises errors with advice for arguments and calls that Keras layers support,
    but layers in this package do not.

    Args:
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Raises:
        ValueError: If an argument is unknown, or the dtype policy is a quantized policy.
    """

    is_container = False
    """Bool. If `True`, a `keras.RematScope` applies to each sublayer. If `False`, it applies to the
    layer as a whole.
    """

    if TYPE_CHECKING:
        # Keras derives the argument names of `build` from `call`, so each layer has a different
        # signature.
        def build(self, *args: Any, **kwargs: Any) -> None: ...

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            setattr(cls, "__init__", accepts_numpy_numbers(cls.__init__))  # noqa: B010

    def __init__(self, **kwargs: Any) -> None:
        low_rank_updates = kwargs.pop(LORA, {})  # of a configuration, see `get_config`
        unknown = sorted(set(kwargs) - set(LayerArguments.__annotations__) - {"input_dim"})
        if unknown:
            names = [*self._argument_names(), *sorted(LayerArguments.__annotations__)]
            received = ", ".join(f"{name}={kwargs[name]!r}" for name in unknown)
            advice = [hint for name in unknown if (hint := self._advice_for(name))]
            advice = " ".join(advice) or "Use one of these."
            raise ValueError(
                f"Expected arguments of {type(self).__name__}: "
                f"{', '.join(names)}. Received: {received}. {advice}"
            )
        super().__init__(**kwargs)
        self._low_rank_updates = low_rank_updates
        if self.dtype_policy.quantization_mode is not None:
            raise ValueError(
                "Expected a dtype policy without quantization. Received: "
                f"dtype={self.dtype_policy.name!r} for {type(self).__name__}. Quantize the model "
                'when it is exported: export_onnx(..., precision="int8").'
            )

    def after_build(self) -> None:
        settings, self._low_rank_updates = self._low_rank_updates, {}
        enable_low_rank_updates(self, settings)

    def get_config(self) -> dict[str, Any]:
        config, settings = super().get_config(), low_rank_settings(self)
        # Before `build`, the layer has the updates of its configuration only.
        settings = settings or dict(self._low_rank_updates)
        return {**config, LORA: settings} if settings else config

    def _advice_for(self, name: str) -> str | None:
        """Returns advice for an unknown argument, or `None`."""
        return OTHER_WAYS.get(name)

    def _argument_names(self):
        """Returns the argument names for the class and its base classes up to `Layer`."""
        names = {}
        for cls in type(self).__mro__:
            if cls is Layer:
                break
            if "__init__" in vars(cls):
                names |= dict.fromkeys(inspect.signature(cls.__init__).parameters)
        return [name for name in names if name not in ("self", "kwargs")]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], list | tuple):
            names = [name for name in self.call_signature_parameters if name != "training"]
            raise ValueError(
                f"Expected tensors as separate arguments of {type(self).__name__}: "
                f"{', '.join(names)}. Received: {names[0]}={type(args[0]).__name__} of "
                f"{len(args[0])}. Pass each tensor as an argument, in this order or by name. Only "
                "Keras layers accept a list [query, value, key]."
            )
        scope = remat_mode(self)
        if scope is not None and scope.mode != "activations":
            release_parts(self, all_parts=False)
        return super().__call__(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)  # only torch defines this method
        except AttributeError:
            pass
        message = f"{type(self).__name__!r} object has no attribute {name!r}."
        if not name.startswith("_") and not self.__dict__.get("built", True):
            message += (
                " Expected a layer that is built, because `build` creates the weights. Received: "
                "built=False. First call the layer, or its method `build` with the input shapes."
            )
        raise AttributeError(message)

    def stateless_call(
        self,
        trainable_variables: Sequence[Any],
        non_trainable_variables: Sequence[Any],
        *args: Any,
        return_losses: bool = False,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Calls the layer without side effects, see `keras.layers.Layer.stateless_call`.

        This method replaces Keras' method, which calls `call` directly, so that `training`
        has no effect in sublayers.

        Args:
            trainable_variables: Sequence with the values of all trainable variables.
            non_trainable_variables: Sequence with the values of all non-trainable variables.
            *args: Positional call arguments.
            return_losses: Bool, whether to also return the losses. Defaults to `False`.
            **kwargs: Keyword call arguments.

        Returns:
            Tuple of the outputs, the new values of the non-trainable variables and, if
            `return_losses=True`, the losses.

        Raises:
            ValueError: If the layer is not built, or the number of values is wrong.
        """
        variables = [*self.trainable_variables, *self.non_trainable_variables]
        values = [*trainable_variables, *non_trainable_variables]
        sizes = len(trainable_variables), len(non_trainable_variables)
        expected = len(self.trainable_variables), len(self.non_trainable_variables)
        if not self.built or sizes != expected:
            raise ValueError(
                "Expected a layer that is built, and values of all its variables: "
                f"{expected[0]} trainable and {expected[1]} non-trainable. Received: "
                f"built={self.built}, {sizes[0]} trainable and {sizes[1]} non-trainable."
            )
        mapping = list(zip(variables, values, strict=True))
        with keras.StatelessScope(state_mapping=mapping, collect_losses=return_losses) as scope:
            outputs = self(*args, **kwargs)
            losses = self.losses if return_losses else None
        new_values = [scope.get_current_value(weight) for weight in self.non_trainable_variables]
        return (outputs, new_values, losses) if return_losses else (outputs, new_values)

    def rematerialized_call(
        self, layer_call: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Callable[..., Any]:
        """Wraps `call` for a layer that was created in a `keras.RematScope`."""
        scope = remat_mode(self)
        if scope is not None and scope.mode == "activations":
            has_activation = callable(vars(self).get("activation"))
            return super().rematerialized_call(layer_call) if has_activation else layer_call
        if self.is_container or not is_rematerialized(self, args, kwargs):
            return layer_call
        release_parts(self, all_parts=True)
        return rematerialized(self, layer_call)

    def rematerialized(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls a method, which the backward pass recomputes if the layer has a `keras.RematScope`.

        Args:
            method: Bound layer method.
            *args: Positional arguments for the method.
            **kwargs: Keyword arguments for the method.

        Returns:
            The method's result.
        """
        scope = remat_mode(self)
        if scope is None or scope.mode in (None, "activations"):
            return method(*args, **kwargs)
        # The mode "larger_than" is not supported here: only the output size of `call` is known in
        # advance.
        whole = scope.mode == "full" or self.name in scope.layer_names
        release_parts(self, all_parts=whole)
        return (rematerialized(self, method) if whole else method)(*args, **kwargs)

    def quantize(self, mode: Any = None, type_check: bool = True, config: Any = None) -> NoReturn:
        raise NotImplementedError(
            f"Expected a layer that Keras can quantize. Received: {type(self).__name__}, "
            f"mode={mode!r}. Quantize the model when it is exported: export_onnx(..., "
            'precision="int8").'
        )
