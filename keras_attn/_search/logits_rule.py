import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from keras_attn._layer.layer import Layer
from keras_attn._types import Tensor, TensorDict


@dataclasses.dataclass(frozen=True)
class RuleInput:
    """An input of a `LogitsRule`, which each search call can choose.

    Args:
        default: Number or array, the value if a call does not choose another one. Its shape is
            `shape`, with any size for `None`.
        dtype: String, `"float32"` or `"int32"`. Defaults to `"float32"`.
        shape: Tuple that contains ints and `None`, the shape for one batch entry. Or `"scalar"`,
            for a scalar that all batch entries share. Defaults to `"scalar"`.

    Raises:
        ValueError: If the default does not have this shape, or the dtype is another one.

    Example:

    >>> from keras_attn import RuleInput
    >>> RuleInput(0.5).shape
    'scalar'
    """

    default: Any
    dtype: Literal["float32", "int32"] = "float32"
    shape: tuple[int | None, ...] | Literal["scalar"] = "scalar"

    def __post_init__(self) -> None:
        if self.dtype not in ("float32", "int32"):
            raise ValueError(
                "Expected dtype of a RuleInput to be float32 or int32. Received: "
                f"dtype={self.dtype!r}. Convert the values."
            )
        expected = () if self.shape == "scalar" else tuple(self.shape)
        received = np.shape(self.default)
        is_equal = len(received) == len(expected) and all(
            size is None or size == other for size, other in zip(expected, received, strict=True)
        )
        if not is_equal:
            raise ValueError(
                f"Expected default of a RuleInput with the shape {expected}. Received: default "
                f"with the shape {received}. Pass an array without the batch axis."
            )

    @property
    def default_array(self) -> np.ndarray:
        """NumPy array, the default of a batch: `(1, *shape)`, or `()` for a scalar."""
        value = np.asarray(self.default, self.dtype)
        return value if self.shape == "scalar" else value[None]


class LogitsRule(Layer):
    """Base class for rules that change the next tokens' log probabilities.

        log_probs, state = rule(log_probs, token_ids, step, state, inputs)

    A search calls its `rules` at each step, in order, for all open hypotheses. A rule can forbid
    tokens, or make them more or less probable, depending on each hypothesis' previous tokens, on
    its own state, and on call inputs. The scores include the changes, and the probabilities need
    not sum to 1. Rules apply after `repetition_penalty` and token biases, and before the other
    settings, such as `no_repeat_ngram_size`, so a rule cannot make a token possible that the search
    forbids. Prefix tokens ignore rules, but rules are called for them, so a state can count them.

    A rule is a Keras layer: it can have weights, and saved searches and exported files contain it.
    Register your rule with `keras.saving.register_keras_serializable`, and use `keras.ops`.

    Methods and attributes for subclasses:

    - `call`, required;
    - `initial_state`, for a rule with a state;
    - `call_inputs`, a dict from names to `RuleInput`s, for a rule with inputs. Exported files have
      the same inputs;
    - `forbids_tokens`, to set to `False` if the rule never makes tokens impossible. The search then
      need not check for hypotheses that no token can continue. Defaults to `True`.

    Args:
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        log_probs: Float32 tensor of shape `(batch * hypotheses, V)`, log probabilities of the next
            tokens. -1e9 stands for impossible tokens.
        token_ids: Int32 tensor of shape `(batch, hypotheses, columns)`, the previous tokens. Only
            the first `step` columns contain tokens.
        step: Scalar int32 tensor, number of previous tokens.
        state: Nested dict of tensors of shape `(batch * hypotheses, ...)`.
        inputs: Dict from the names in `call_inputs` to tensors of shape `(batch * hypotheses,
            ...)`, or scalars.

    Returns:
        Tuple `(log_probs, state)` with unchanged shapes and dtypes. Values below -1e9 become -1e9.

    Example:

    A rule that makes the end token more probable with each step. Each call chooses how much:

    >>> import keras
    >>> import numpy as np
    >>> from keras import ops
    >>> from keras_attn import BeamDecoder, LogitsRule, RuleInput, rnn_seq2seq
    >>> class Hurry(LogitsRule):
    ...     call_inputs = {"hurry": RuleInput(0.1)}
    ...     forbids_tokens = False
    ...
    ...     def call(self, log_probs, token_ids, step, state, inputs):
    ...         is_end = ops.arange(log_probs.shape[-1]) == 2
    ...         bonus = inputs["hurry"] * ops.cast(step, "float32")
    ...         return log_probs + bonus * ops.cast(is_end, "float32"), state
    >>> encoder, decoder = rnn_seq2seq(20, 30, units=4, embedding_dim=4)
    >>> search = BeamDecoder(decoder, rules=[Hurry()], min_length=1, max_length=20)
    >>> results = search(**encoder(np.array([[5, 6, 7, 2]])), rule_inputs={"hurry": 1e6})
    >>> int(results["lengths"][0, 0])
    1
    """

    call_inputs: Mapping[str, RuleInput] = {}
    forbids_tokens: bool = True

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("autocast", False)  # float16 would round log probabilities
        super().__init__(**kwargs)

    def call(
        self,
        log_probs: Tensor,
        token_ids: Tensor,
        step: Tensor,
        state: TensorDict,
        inputs: TensorDict,
    ) -> tuple[Tensor, TensorDict]:
        raise NotImplementedError(f"{type(self).__name__} must override `call`.")

    def initial_state(self, batch_size: int | Tensor, inputs: TensorDict) -> TensorDict:
        """Returns the state before the first token.

        Args:
            batch_size: Int or scalar int32 tensor.
            inputs: Dict from the names in `call_inputs` to tensors of shape `(batch, ...)`, or
                scalars.

        Returns:
            Nested dict of tensors of shape `(batch, ...)`. The search repeats them for its
            hypotheses, and keeps each hypothesis together with its state.
        """
        return {}
