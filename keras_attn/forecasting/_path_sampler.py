import math
from collections.abc import Sequence
from typing import Any, Self

import keras
import numpy as np
from keras import ops

from keras_attn._backend.no_gradients import no_gradients
from keras_attn._backend.scan import scan, supports_jit
from keras_attn._layer.argument_checks import (
    check_integers,
    check_positive_integer,
    check_seed,
)
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.layer import Layer
from keras_attn._random.uniform_numbers import uniform_numbers
from keras_attn._serialization.former_names import with_new_names
from keras_attn._serialization.shared_layers import deserialize_shared, serialize_shared
from keras_attn._types import Mask, StaticShape, Tensor
from keras_attn.forecasting._autoregressive_forecaster import AutoregressiveForecaster
from keras_attn.forecasting._distribution_head import checked_levels


@keras.saving.register_keras_serializable(package="keras_attn")
class PathSampler(Layer):
    """Forecasts by sampling paths: each step reads the values sampled in the previous step.

        y_t^n ~ head(forecaster(y_{t-1}^n, ...))        (t = 1 .. H, n = 1 .. num_paths)

    A series' paths depend on its seed, but not on other series in the batch. Keras and exported
    files sample the same paths, up to rounding errors. With a `PointHead`, all paths equal the
    forecast.

    Args:
        forecaster: `AutoregressiveForecaster`.
        num_paths: Positive int, number N of paths per series. Defaults to `100`.
        quantile_levels: Increasing floats in (0, 1), levels of the Q quantiles to compute from the
            paths. Defaults to `(0.05, 0.5, 0.95)`.
        return_paths: Bool, whether the results contain the paths. Defaults to `True`.
        return_attention_scores: Bool, whether the results contain attention weights. `True`
            requires a cell with attention. Defaults to `False`.
        seed: Int. If a call has no `seeds`, a generator with this seed creates them. Each call
            continues with the next ones. A loaded or copied layer starts with the first ones again,
            because Keras does not save random generator states in files. Defaults to `None`: a
            random seed.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        past_targets: Float tensor of shape `(batch, past, D)`, in the series' units. NaN marks
            missing values.
        past_covariates: Float tensor of shape `(batch, past, num_past_covariates)`. Defaults to
            `None`.
        future_covariates: Float tensor of shape `(batch, H, num_future_covariates)`. Defaults to
            `None`.
        seeds: Int32 tensor of shape `(batch,)`. Equal seeds result in equal paths. Defaults to
            `None`: random seeds.
        past_mask: Boolean tensor of shape `(batch, past)` or `(batch, past, D)`; `False` marks
            missing values, in addition to NaN. Defaults to `None`.

    Returns:
        Dict of float32 tensors in the series' units:

        - `mean` `(batch, H, D)`, the predicted means, averaged over the paths;
        - `quantiles` `(batch, H, D, Q)`, quantiles of the paths, linearly interpolated;
        - `paths` `(batch, N, H, D)`, if `return_paths=True`;
        - `attention_scores` `(batch, H, past)`, the attention weights, averaged over the paths, if
          `return_attention_scores=True`.

    Raises:
        ValueError: If an argument is out of range, or `seeds` are not integers.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attn import AttentionRNNCell, BahdanauAttention, RNNEncoder
    >>> from keras_attn.forecasting import AutoregressiveForecaster, GaussianHead, PathSampler
    >>> cell = AttentionRNNCell(keras.layers.GRUCell(8), BahdanauAttention(8))
    >>> encoder = RNNEncoder(keras.layers.GRUCell(8))
    >>> forecaster = AutoregressiveForecaster(
    ...     cell, GaussianHead(), encoder=encoder, horizon=3
    ... )
    >>> sampler = PathSampler(forecaster, num_paths=20)
    >>> results = sampler(np.ones((2, 7, 1), "float32"), seeds=np.array([1, 2]))
    >>> {name: tuple(value.shape) for name, value in results.items()}
    {'mean': (2, 3, 1), 'quantiles': (2, 3, 1, 3), 'paths': (2, 20, 3, 1)}
    """

    is_container = True

    def __init__(
        self,
        forecaster: AutoregressiveForecaster,
        *,
        num_paths: int = 100,
        quantile_levels: Sequence[float] = (0.05, 0.5, 0.95),
        return_paths: bool = True,
        return_attention_scores: bool = False,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("autocast", False)  # half precision would round the series' values
        super().__init__(**kwargs)
        if not isinstance(forecaster, AutoregressiveForecaster):
            raise ValueError(
                "Expected forecaster to be an AutoregressiveForecaster. "
                f"Received: forecaster={forecaster!r}."
            )
        check_positive_integer("num_paths", num_paths)
        check_seed(seed)
        if return_attention_scores and forecaster.cell.attention is None:
            raise ValueError(
                "Expected return_attention_scores=False for a cell without attention. Received: "
                f"return_attention_scores={return_attention_scores}."
            )
        self.forecaster = forecaster
        self.num_paths = num_paths
        self.quantile_levels = checked_levels(quantile_levels)
        self.return_paths = return_paths
        self.return_attention_scores = return_attention_scores
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.supports_jit = supports_jit()

    def build(
        self,
        past_targets_shape: StaticShape,
        past_covariates_shape: StaticShape | None = None,
        future_covariates_shape: StaticShape | None = None,
        seeds_shape: StaticShape | None = None,
        past_mask_shape: StaticShape | None = None,
    ) -> None:
        ensure_built(self.forecaster, past_targets_shape)

    def call(
        self,
        past_targets: Tensor,
        past_covariates: Tensor | None = None,
        future_covariates: Tensor | None = None,
        seeds: Tensor | None = None,
        past_mask: Mask | None = None,
    ) -> Any:
        with no_gradients():
            return self._sample(past_targets, past_covariates, future_covariates, seeds, past_mask)

    def _sample(self, past_targets, past_covariates, future_covariates, seeds, past_mask):
        forecaster, paths = self.forecaster, self.num_paths
        memory = forecaster.prepare_memory(
            past_targets, past_covariates, future_covariates, past_mask
        )
        batch, targets = ops.shape(memory["shift"])[0], forecaster.num_targets
        uniforms = self._uniforms(seeds, batch)  # (H, B*N, D, 2)
        first = ops.repeat(forecaster.first_values(memory), paths, axis=0)  # (B*N, D)
        carry = {
            "values": first,
            "mean": ops.zeros_like(first),
            "state": forecaster.initial_state(memory, paths, self.return_attention_scores),
        }

        def step(carry, uniforms):
            parameters, state = forecaster.step(carry["values"], carry["state"], memory)
            values = forecaster.head.sample(parameters, uniforms)  # (B*N, D)
            return {"values": values, "mean": forecaster.head.mean(parameters), "state": state}

        def collect(carry):
            collected = {"values": carry["values"], "mean": carry["mean"]}
            if self.return_attention_scores:
                collected["attention_scores"] = carry["state"]["cell"]["alignments"]
            return collected

        _, collected = scan(step, carry, uniforms, collect)

        def by_series(tensor, features):
            tensor = ops.reshape(tensor, (forecaster.horizon, batch, paths, features))
            return ops.transpose(tensor, (1, 2, 0, 3))  # (B, N, H, features)

        values = by_series(collected["values"], targets)
        results = {
            "mean": ops.mean(by_series(collected["mean"], targets), axis=1),
            "quantiles": path_quantiles(values, self.quantile_levels),
        }
        if self.return_paths:
            results["paths"] = values
        if self.return_attention_scores:
            scores = ops.cast(collected["attention_scores"], "float32")
            scores = by_series(scores, ops.shape(past_targets)[1])
            results["attention_scores"] = ops.mean(scores, axis=1)  # (B, H, S)
        return results

    def _uniforms(self, seeds, batch):
        """Returns random numbers of shape `(H, B * N, D, 2)`.

        ONNX Runtime computes the bitwise operators that they need only on the CPU. Therefore they
        are computed once before the loop, and not in each step.
        """
        if seeds is None:
            seeds = keras.random.randint(
                (batch,), 0, 2**31 - 1, dtype="int32", seed=self.seed_generator
            )
        seeds = ops.convert_to_tensor(seeds)
        check_integers("seeds", seeds)
        horizon, targets = self.forecaster.horizon, self.forecaster.num_targets
        sizes = (horizon, self.num_paths, targets, 2)
        uniforms = uniform_numbers(ops.cast(seeds, "int32"), *sizes)  # (B, H, N, D, 2)
        uniforms = ops.transpose(uniforms, (1, 0, 2, 3, 4))
        return ops.reshape(uniforms, (horizon, -1, targets, 2))

    def compute_mask(self, inputs: Any, previous_mask: Any) -> None:
        return None

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "forecaster": serialize_shared(self.forecaster),
            "num_paths": self.num_paths,
            "quantile_levels": self.quantile_levels,
            "return_paths": self.return_paths,
            "return_attention_scores": self.return_attention_scores,
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        config = with_new_names(config, {"quantiles": "quantile_levels"})
        return cls(**{**config, "forecaster": deserialize_shared(config["forecaster"])})


def path_quantiles(paths: Tensor, quantile_levels: Sequence[float]) -> Any:
    """Computes sampled paths' quantiles at each time step.

    Quantile p is at the position (N + 1) p in the sorted values, linearly interpolated, as in
    `numpy.quantile(..., method="weibull")`. The quantiles 0.05 and 0.95 then enclose 90 % of
    further samples from the same distribution on average, even with few paths.

    Args:
        paths: Float32 tensor of shape `(B, N, H, D)`, with a static N.
        quantile_levels: List of Q floats in [0, 1].

    Returns:
        Float32 tensor of shape `(B, H, D, Q)`.
    """
    number = paths.shape[1]
    weights = np.zeros((number, len(quantile_levels)), "float32")
    for column, level in enumerate(quantile_levels):
        position = min(max(level * (number + 1) - 1, 0), number - 1)
        below = min(math.floor(position), max(number - 2, 0))
        weights[below, column] += 1 - (position - below)
        if number > 1:
            weights[below + 1, column] += position - below
    descending, _ = ops.top_k(ops.transpose(paths, (0, 2, 3, 1)), number)  # (B, H, D, N)
    return ops.matmul(descending, ops.convert_to_tensor(weights[::-1].copy()))
