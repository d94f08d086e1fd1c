from collections.abc import Callable, Sequence
from typing import Any, Self

import keras
from keras import ops, tree

from keras_attn._drop_ins.dropout import Dropout
from keras_attn._layer.argument_checks import (
    check_compute_dtype,
    check_dropout,
    check_layers,
    check_nonnegative_integer,
    check_positive_integer,
    check_second_input,
    check_seed,
    check_sequence_shape,
)
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.layer import Layer
from keras_attn._masks import join
from keras_attn._rnn.attention_rnn import AttentionRNN
from keras_attn._rnn.cell_states import state_sizes
from keras_attn._rnn.state_bridge import StateBridge
from keras_attn._serialization.shared_layers import deserialize_shared, serialize_shared
from keras_attn._types import Mask, StaticShape, Tensor, TensorDict
from keras_attn.forecasting._distribution_head import DistributionHead
from keras_attn.forecasting._series_scale import (
    Scaling,
    checked_covariate_scaling,
    checked_scaling,
    scale_covariates,
    series_scale,
)
from keras_attn_checks.number_types import is_integer, is_number


@keras.saving.register_keras_serializable(package="keras_attn")
class AutoregressiveForecaster(Layer):
    """Predicts distributions of future time series values, step by step.

        z_t = (y_t - shift) / scale                        (one shift and scale for each series)
        memory = encoder([z_t ; observed_t ; past covariates_t])
        i_t = [z_{t-1} ; observed_{t-1} ; position_t ; lags_t ; future covariates_t]
        o_t = cell(i_t)                                    (see `AttentionRNNCell`)
        p(y_t | y_<t) = head([o_t ; i_t])

    Here observed_t is 1 for an observed value and 0 for a missing value, and position_t is the
    number of the step, 1 to `horizon`, divided by `horizon`. An encoder reads the past window. A
    recurrent cell, usually with attention to the encoded past, then predicts `horizon` steps; each
    step reads the previous value, as in DeepAR ([Salinas et al.,
    2017](https://arxiv.org/abs/1704.04110)). Calling this layer uses teacher forcing: each step
    reads the true previous value. To forecast, create a `PathSampler` with this layer, in which
    each step reads a sampled value.

    The layer has the same methods as a `StepDecoder`, with values instead of token ids.
    `prepare_memory` runs once for each series. `initial_state` creates all tensors that change in
    each step. `step` reads one value per target and returns the parameters for the next value.

    NaN marks missing values, in the past and in the future. In place of a missing value, the
    network reads 0, with observed_t = 0. A series' scale is computed from its observed past values.
    Constant series and series without any observed value are valid.

    Args:
        cell: `AttentionRNNCell`, Keras cell, or list of Keras cells.
        head: `DistributionHead`, such as `GaussianHead()`. Its `num_targets` is the number D of
            target variables.
        encoder: Layer that maps vectors `(batch, past, features)` to a dict with `encoder_outputs`
            and, optionally, `encoder_mask` and `encoder_state`, such as `RNNEncoder`.
        horizon: Positive int, number H of steps to predict.
        num_past_covariates: Int, number of covariates known in the past. Defaults to `0`.
        num_future_covariates: Int, number of covariates known in the future, such as calendar
            features. Pass their past values as past covariates. Defaults to `0`.
        lags: List of ints >= `horizon`. For each lag, a step also reads the value from `lag` steps
            earlier, for example the value in the previous season. The past window must contain at
            least as many steps as the largest lag. Defaults to `()`.
        scaling: String or tuple. `"std"`: shift and scale are the mean and the standard deviation
            in the past window. `"mean_abs"`: the scale is the mean absolute value in the past
            window, and the shift is 0. `"none"`: values are not scaled. A tuple of two lists with D
            numbers contains fixed shifts and scales, for windows from a single series, for example
            the mean and the standard deviation in the training data. Defaults to `"std"`.
        past_covariate_scaling: Tuple of two lists of numbers, shift and scale for each past
            covariate: the network reads `(covariate - shift) / scale`. Choose them so that scaled
            values are between about -1 and 1. Defaults to `None`: covariates are not scaled.
        future_covariate_scaling: The same for the future covariates. Defaults to `None`.
        bridge: String, `"dense"`, `"copy"` or `"zero"`, method that computes the cell's initial
            state, see `StateBridge`. Defaults to `"dense"`.
        dropout: Float in [0, 1), dropout rate for cell outputs. Defaults to `0.0`.
        sampling_probability: Probability that, during training, a time step reads a sampled value
            instead of the true value ([Bengio et al., 2015](https://arxiv.org/abs/1506.03099), in
            the parallel form by [Duckworth et al., 2019](https://arxiv.org/abs/1906.04331)). A
            float in [0, 1], or a function of the number of previous training steps, see
            `keras_attn.training.ScheduledSampling`. Defaults to `0.0`.
        seed: Int, seed for dropout and scheduled sampling. Defaults to `None`: a random seed.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        past_targets: Float tensor of shape `(batch, past, D)`, in the series' units.
        future_targets: Float tensor of shape `(batch, H, D)`, the true values.
        past_covariates: Float tensor of shape `(batch, past, num_past_covariates)`, without NaN.
            Defaults to `None`.
        future_covariates: Float tensor of shape `(batch, H, num_future_covariates)`, without NaN.
            Defaults to `None`.
        past_mask: Boolean tensor of shape `(batch, past)` or `(batch, past, D)`; `False` marks
            missing values, in addition to NaN. Defaults to `None`.
        return_attention_scores: Bool, whether to also return the attention weights. Defaults to
            `False`.
        training: Bool, whether dropout and scheduled sampling are active. Defaults to `False`.

    Returns:
        Float32 head parameters `(batch, H, D, parameters)`, for a `ForecastLoss`.
        If `return_attention_scores=True`, a tuple of the parameters and the weights `(batch, H,
        past)`.

    Masking:
        Time steps without any observed target get an attention weight of exactly 0.

    Raises:
        ValueError: If an argument is out of range, or an input does not have the expected shape.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attn import AttentionRNNCell, BahdanauAttention, RNNEncoder
    >>> from keras_attn.forecasting import AutoregressiveForecaster, GaussianHead
    >>> cell = AttentionRNNCell(keras.layers.GRUCell(8), BahdanauAttention(8))
    >>> encoder = RNNEncoder(keras.layers.GRUCell(8))
    >>> forecaster = AutoregressiveForecaster(
    ...     cell, GaussianHead(), encoder=encoder, horizon=3
    ... )
    >>> past, future = np.ones((2, 7, 1), "float32"), np.ones((2, 3, 1), "float32")
    >>> tuple(forecaster(past, future).shape)  # mean, deviation, shift and scale of each value
    (2, 3, 1, 4)
    """

    is_container = True

    def __init__(
        self,
        cell: Any,
        head: DistributionHead,
        *,
        encoder: keras.layers.Layer,
        horizon: int,
        num_past_covariates: int = 0,
        num_future_covariates: int = 0,
        lags: Sequence[int] = (),
        scaling: Scaling = "std",
        past_covariate_scaling: Sequence[Sequence[float]] | None = None,
        future_covariate_scaling: Sequence[Sequence[float]] | None = None,
        bridge: str = "dense",
        dropout: float = 0.0,
        sampling_probability: float | Callable[..., Any] = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("autocast", False)  # half precision would round the series' values
        super().__init__(**kwargs)
        if not isinstance(head, DistributionHead):
            raise ValueError(
                "Expected head to be a DistributionHead, such as GaussianHead(). "
                f"Received: head={head!r}."
            )
        check_layers(encoder=encoder)
        check_compute_dtype(self, cell=cell, head=head, encoder=encoder)
        check_positive_integer("horizon", horizon)
        check_dropout("dropout", dropout)
        check_seed(seed)
        counts = {
            "num_past_covariates": num_past_covariates,
            "num_future_covariates": num_future_covariates,
        }
        check_nonnegative_integer(**counts)
        self.lags = [*lags]
        if any(not is_integer(lag) or lag < horizon for lag in self.lags):
            raise ValueError(
                f"Expected lags to be integers of at least horizon={horizon}, because values after "
                f"the past window are not known. Received: lags={lags!r}."
            )
        is_share = is_number(sampling_probability) and 0 <= sampling_probability <= 1
        if not is_share and not callable(sampling_probability):
            raise ValueError(
                "Expected sampling_probability to be in [0, 1], or a function of the step. "
                f"Received: sampling_probability={sampling_probability!r}."
            )
        self.rnn = AttentionRNN(cell, dtype=self.dtype_policy)
        self.cell = self.rnn.cell
        self.head = head
        self.encoder = encoder
        self.horizon = horizon
        self.num_past_covariates = num_past_covariates
        self.num_future_covariates = num_future_covariates
        self.scaling = checked_scaling(scaling, head.num_targets)
        self.past_covariate_scaling = checked_covariate_scaling(
            "past_covariate_scaling", past_covariate_scaling, num_past_covariates
        )
        self.future_covariate_scaling = checked_covariate_scaling(
            "future_covariate_scaling", future_covariate_scaling, num_future_covariates
        )
        self.bridge = bridge
        self.dropout = dropout
        self.sampling_probability = sampling_probability
        self.seed = seed
        self.state_bridge = StateBridge(
            state_sizes(self.cell.cell), bridge, dtype=self.dtype_policy
        )
        self.output_dropout = Dropout(dropout, seed=seed, dtype=self.dtype_policy)
        self.seed_generator = keras.random.SeedGenerator(seed)

    @property
    def num_targets(self) -> int:
        """Int, number D of target variables."""
        return self.head.num_targets

    @property
    def num_step_features(self) -> int:
        """Int, size of the input of the cell."""
        num_known_inputs = 1 + 2 * self.num_targets * len(self.lags) + self.num_future_covariates
        return 2 * self.num_targets + num_known_inputs

    def build(
        self,
        past_targets_shape: StaticShape,
        future_targets_shape: StaticShape | None = None,
        past_covariates_shape: StaticShape | None = None,
        future_covariates_shape: StaticShape | None = None,
        past_mask_shape: StaticShape | None = None,
    ) -> None:
        batch, window = past_targets_shape[:2]
        features = 2 * self.num_targets + self.num_past_covariates
        ensure_built(self.encoder, (batch, window, features))
        encoded = self.encoder.compute_output_spec(
            keras.KerasTensor((batch, window, features), dtype="float32")
        )
        if not isinstance(encoded, dict) or "encoder_outputs" not in encoded:
            raise ValueError(
                "Expected an encoder that returns a dict with encoder_outputs, such as RNNEncoder. "
                f"Received: encoder={type(self.encoder).__name__}."
            )
        shapes = {
            name: tree.map_structure(lambda tensor: tuple(tensor.shape), value)
            for name, value in encoded.items()
            if value is not None
        }
        step_shape = (batch, self.horizon, self.num_step_features)
        ensure_built(self.rnn, step_shape, shapes["encoder_outputs"])
        names = ("encoder_outputs", "encoder_mask", "encoder_state")
        ensure_built(self.state_bridge, *(shapes.get(name) for name in names))
        size = self.cell.output_size + self.num_step_features
        ensure_built(self.head, (batch, self.horizon, size))
        if callable(self.sampling_probability):
            self.num_steps = self.add_weight(
                shape=(),
                initializer="zeros",
                dtype="int32",
                trainable=False,
                aggregation="only_first_replica",
                name="num_steps",
            )

    def call(
        self,
        past_targets: Tensor,
        future_targets: Tensor | None = None,
        past_covariates: Tensor | None = None,
        future_covariates: Tensor | None = None,
        past_mask: Mask | None = None,
        return_attention_scores: bool = False,
        training: bool = False,
    ) -> Any:
        advice = " To predict unknown values, call a PathSampler."
        future = check_second_input(self, "future_targets", future_targets, advice)
        future = self._future_values("future_targets", future, self.num_targets)
        memory = self.prepare_memory(past_targets, past_covariates, future_covariates, past_mask)
        first = self.first_values(memory)[:, None]  # (B, 1, D)
        values = ops.concatenate([first, future[:, :-1]], axis=1)  # (B, H, D)
        if training and self.sampling_probability != 0:
            values = self._replace_values(values, memory)
        parameters, weights = self._decode(values, memory, return_attention_scores, training)
        return (parameters, weights) if return_attention_scores else parameters

    def prepare_memory(
        self,
        past_targets: Tensor,
        past_covariates: Tensor | None = None,
        future_covariates: Tensor | None = None,
        past_mask: Mask | None = None,
    ) -> TensorDict:
        """Encodes the past, and computes all values that are constant over time.

        Args:
            past_targets: See the call arguments.
            past_covariates: See the call arguments.
            future_covariates: See the call arguments.
            past_mask: See the call arguments.

        Returns:
            Nested dict of tensors with shape `(batch, ...)`.
        """
        self._check_shape("past_targets", past_targets, None, self.num_targets)
        window = past_targets.shape[1]
        if isinstance(window, int) and window < max(self.lags, default=1):
            raise ValueError(
                f"Expected past_targets with at least {max(self.lags, default=1)} time steps, the "
                f"largest lag. Received: past_targets with shape {tuple(past_targets.shape)}."
            )
        targets = ops.cast(past_targets, "float32")
        observed = ops.logical_not(ops.isnan(targets))  # (B, S, D)
        if past_mask is not None:
            mask = ops.cast(past_mask, "bool")
            observed = observed & (mask if len(mask.shape) == 3 else mask[..., None])
        values = ops.where(observed, targets, 0.0)
        indicators = ops.cast(observed, "float32")
        shift, scale = series_scale(values, indicators, self.scaling)  # (B, D)
        scaled = (values - shift[:, None]) / scale[:, None] * indicators
        features = [scaled, indicators]
        if self.num_past_covariates:
            covariates = check_second_input(self, "past_covariates", past_covariates)
            self._check_shape("past_covariates", covariates, None, self.num_past_covariates)
            features.append(scale_covariates(covariates, self.past_covariate_scaling))
        encoded = self.encoder(ops.concatenate(features, axis=-1))
        is_usable = ops.any(observed, axis=-1)  # (B, S)
        outputs, state = encoded["encoder_outputs"], encoded.get("encoder_state")
        mask = join(outputs, encoder_mask=encoded.get("encoder_mask"), past_mask=is_usable)
        memory = {
            "cell": self.state_bridge(outputs, mask, state),
            "inputs": self._known_inputs(scaled, indicators, future_covariates),
            "last": ops.where(observed[:, -1], targets[:, -1], float("nan")),  # (B, D)
            "shift": shift,
            "scale": scale,
        }
        if self.cell.attention is not None:
            memory["attention"] = self.cell.prepare_memory(outputs, mask)
        return memory

    def initial_state(
        self, memory: TensorDict, num_paths: int = 1, alignments: bool = False
    ) -> TensorDict:
        """Creates the state before the first step.

        Args:
            memory: Result from `prepare_memory`.
            num_paths: Int, number K of paths per series. Defaults to `1`.
            alignments: Bool, whether each step stores its attention weights `(B * K, S)`, for B
                series and S past time steps, in `state["cell"]["alignments"]`. Defaults to `False`.

        Returns:
            Nested dict of tensors with shape `(B * K, ...)`. Tensors in `shared` are scalars.
        """
        cell_state = tree.map_structure(
            lambda leaf: ops.repeat(leaf, num_paths, axis=0), memory["cell"]
        )
        rows = ops.shape(tree.flatten(cell_state)[0])[0]
        state = self.cell.get_initial_state(
            rows, cell_state, memory.get("attention"), alignments, self.horizon
        )
        return {"cell": state, "shared": {"step": ops.zeros((), dtype="int32")}}

    def first_values(self, memory: TensorDict) -> Tensor:
        """Returns the values that the first step reads, `(B, D)`: the last past values."""
        return memory["last"]

    def step(
        self, values: Tensor, state: TensorDict, memory: TensorDict
    ) -> tuple[Tensor, TensorDict]:
        """Predicts the next value.

        Args:
            values: Float32 tensor of shape `(B * K, D)`, the previous values, in the series' units.
                NaN marks missing values.
            state: Result from `initial_state` or the previous step.
            memory: Result from `prepare_memory`.

        Returns:
            Tuple of the head parameters `(B * K, D, parameters)` and the new state.
        """
        step = state["shared"]["step"]
        batch = ops.shape(memory["shift"])[0]
        known_inputs = ops.take(memory["inputs"], step, axis=1)[:, None]  # (B, 1, F)
        values = ops.reshape(values, (batch, -1, self.num_targets))  # (B, K, D)
        inputs = self._step_inputs(values, known_inputs, memory)  # (B, K, I)
        rows = ops.reshape(inputs, (-1, self.num_step_features))  # (B*K, I)
        outputs, cell_state = self.cell(rows, state["cell"], memory.get("attention"))
        outputs = ops.reshape(outputs, (batch, -1, self.cell.output_size))  # (B, K, O)
        parameters = self._project(outputs, inputs, memory)  # (B, K, D, P)
        parameters = ops.reshape(parameters, (-1, *parameters.shape[2:]))  # (B*K, D, P)
        return parameters, {"cell": cell_state, "shared": {"step": step + 1}}

    def _decode(self, values, memory, return_attention_scores=False, training=False):
        """Predicts all steps. `values`, `(B, H, D)`, contains each step's previous value."""
        inputs = self._step_inputs(values, memory["inputs"], memory)
        outputs, weights, _ = self.rnn.run(
            inputs,
            memory.get("attention"),
            memory["cell"],
            return_attention_scores=return_attention_scores,
            training=training,
        )
        outputs = self.output_dropout(outputs, training=training)
        return self._project(outputs, inputs, memory), weights

    def _step_inputs(self, values, known_inputs, memory):
        """Returns the inputs of the cell.

        Args:
            values: Float32 tensor of shape `(B, T, D)`, each step's previous values.
            known: Float32 tensor of shape `(B, T, F)` or `(B, 1, F)`, all other inputs.
            memory: Result from `prepare_memory`.

        Returns:
            Float32 tensor of shape `(B, T, num_step_features)`.
        """
        missing = ops.isnan(values)
        scaled = (values - memory["shift"][:, None]) / memory["scale"][:, None]
        scaled = ops.where(missing, 0.0, scaled)
        indicators = 1.0 - ops.cast(missing, "float32")
        known_inputs = ops.zeros_like(scaled[..., :1]) + known_inputs  # (B, T, F)
        return ops.concatenate([scaled, indicators, known_inputs], axis=-1)

    def _known_inputs(self, scaled, indicators, future_covariates):
        """Returns all steps' inputs that do not depend on predictions, `(B, H, F)`."""
        positions = (ops.arange(self.horizon, dtype="float32") + 1.0) / self.horizon
        parts = [ops.zeros_like(scaled[:, :1, :1]) + positions[None, :, None]]  # (B, H, 1)
        for lag in self.lags:
            # Use indices instead of a slice: JAX then infers H steps even if the number of past
            # steps is unknown.
            steps = ops.arange(-lag, self.horizon - lag, dtype="int32")
            parts += [ops.take(item, steps, axis=1) for item in (scaled, indicators)]  # (B, H, D)
        if self.num_future_covariates:
            values = check_second_input(self, "future_covariates", future_covariates)
            number = self.num_future_covariates
            values = self._future_values("future_covariates", values, number)
            parts.append(scale_covariates(values, self.future_covariate_scaling))
        return ops.concatenate(parts, axis=-1)

    def _project(self, outputs, inputs, memory):
        features = ops.concatenate([outputs, ops.cast(inputs, outputs.dtype)], axis=-1)
        return self.head(features, memory["shift"][:, None], memory["scale"][:, None])

    def _replace_values(self, values, memory):
        """Replaces some values `(B, H, D)`, chosen at random, by sampled predictions."""
        probability = self.sampling_probability
        if callable(probability):
            probability = ops.clip(ops.cast(probability(self.num_steps), "float32"), 0.0, 1.0)
            self.num_steps.assign_add(1)
        parameters, _ = self._decode(values, memory)
        shape = ops.shape(values)
        uniforms = keras.random.uniform((*shape, 2), seed=self.seed_generator)
        samples = ops.stop_gradient(self.head.sample(parameters, uniforms))  # (B, H, D)
        draws = keras.random.uniform((*shape[:2], 1), seed=self.seed_generator)  # (B, H, 1)
        is_replaced = (draws < probability)[:, 1:] & ops.logical_not(ops.isnan(values[:, 1:]))
        return ops.concatenate(
            [values[:, :1], ops.where(is_replaced, samples[:, :-1], values[:, 1:])], axis=1
        )

    def _future_values(self, name, values, number):
        """Returns values `(B, H, number)` in float32, with a static H."""
        self._check_shape(name, values, self.horizon, number)
        if not isinstance(values.shape[1], int):
            values = ops.take(values, ops.arange(self.horizon, dtype="int32"), axis=1)
        return ops.cast(values, "float32")

    def _check_shape(self, name, tensor, steps, features):
        """Raises a `ValueError` unless a tensor has the shape `(batch, steps, features)`."""
        shape = tuple(tensor.shape)
        check_sequence_shape(name, shape)
        is_wrong = steps is not None and isinstance(shape[1], int) and shape[1] != steps
        if shape[2] != features or is_wrong:
            expected = ("batch", "time" if steps is None else steps, features)
            raise ValueError(
                f"Expected {name} of shape ({', '.join(map(str, expected))}). Received: {name} "
                f"with shape {shape}. The head defines the number of targets; the forecaster "
                "defines the horizon and the numbers of covariates."
            )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "cell": serialize_shared(self.cell),
            "head": serialize_shared(self.head),
            "encoder": serialize_shared(self.encoder),
            "horizon": self.horizon,
            "num_past_covariates": self.num_past_covariates,
            "num_future_covariates": self.num_future_covariates,
            "lags": self.lags,
            "scaling": self.scaling,
            "past_covariate_scaling": self.past_covariate_scaling,
            "future_covariate_scaling": self.future_covariate_scaling,
            "bridge": self.bridge,
            "dropout": self.dropout,
            "sampling_probability": keras.saving.serialize_keras_object(self.sampling_probability),
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        names = ("cell", "head", "encoder", "sampling_probability")
        parts = {name: deserialize_shared(config[name]) for name in names}
        return cls(**{**config, **parts})
