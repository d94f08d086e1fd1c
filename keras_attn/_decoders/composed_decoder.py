import functools
from collections.abc import Iterable
from typing import Any

from keras import ops

from keras_attn import _masks as masks
from keras_attn._decoders.step_decoder import StepDecoder
from keras_attn._decoding_state import growing_buffer
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.get_vocabulary_size import get_vocabulary_size
from keras_attn._types import Masks, StaticShape, Tensor, TensorDict


class ComposedDecoder(StepDecoder):
    """Base class for decoders that combine the predictions of several decoders, the members.

    The memory is a dict from member names to memories. The first member determines the first token
    and the length limit for the source. A subclass overrides `members`, `combine_logits` and
    `combine_alignments`, and `member_arguments` if the members have different sources.

    Args:
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.
    """

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("autocast", False)  # each member casts to its own precision
        super().__init__(**kwargs)

    @property
    def members(self) -> dict[str, StepDecoder]:
        """Dict from names to the members."""
        raise NotImplementedError(f"{type(self).__name__} must override `members`.")

    def combine_logits(self, logits: dict[str, Tensor]) -> Tensor:
        """Combines all members' logits `(..., V)`."""
        raise NotImplementedError(f"{type(self).__name__} must override `combine_logits`.")

    def combine_alignments(self, alignments: dict[str, Tensor]) -> Tensor | None:
        """Combines the alignments `(B * K, S)` of members with attention, or returns `None`."""
        raise NotImplementedError(f"{type(self).__name__} must override `combine_alignments`.")

    def member_arguments(
        self,
        name: str,
        encoder_outputs: Any = None,
        encoder_mask: Any = None,
        encoder_state: Any = None,
        query_features: Any = None,
    ) -> dict[str, Any]:
        """Returns one member's arguments for `call`, `prepare_memory` and `build`.

        By default, all members have the same source.

        Args:
            name: String, member name.
            encoder_outputs, encoder_mask, encoder_state, query_features: Call arguments, or their
                shapes.

        Returns:
            Dict from argument names to the member's values.
        """
        arguments = {
            "encoder_outputs": encoder_outputs,
            "encoder_mask": encoder_mask,
            "encoder_state": encoder_state,
        }
        return arguments | ({} if query_features is None else {"query_features": query_features})

    def build(
        self,
        token_ids_shape: StaticShape,
        encoder_outputs_shape: StaticShape | None = None,
        encoder_mask_shape: StaticShape | None = None,
        encoder_state_shape: StaticShape | None = None,
        query_features_shape: StaticShape | None = None,
    ) -> None:
        shapes = encoder_outputs_shape, encoder_mask_shape, encoder_state_shape
        for name, member in self.members.items():
            own_shapes = self.member_arguments(name, *shapes, query_features_shape)
            ensure_built(member, token_ids_shape, *own_shapes.values())

    def call(
        self,
        token_ids: Tensor,
        encoder_outputs: Any = None,
        encoder_mask: Masks | None = None,
        encoder_state: Any = None,
        query_features: Any = None,
        encoder_outputs_mask: Masks | None = None,
    ) -> Any:
        encoder_mask = masks.join(
            encoder_outputs, encoder_mask=encoder_mask, encoder_outputs_mask=encoder_outputs_mask
        )
        sources = encoder_outputs, encoder_mask, encoder_state, query_features
        return self.combine_logits(
            {
                name: member(token_ids, **self.member_arguments(name, *sources))
                for name, member in self.members.items()
            }
        )

    def prepare_memory(
        self,
        encoder_outputs: Any,
        encoder_mask: Masks | None = None,
        encoder_state: Any = None,
        query_features: Any = None,
    ) -> TensorDict:
        sources = encoder_outputs, encoder_mask, encoder_state, query_features
        return {
            name: member.prepare_memory(**self.member_arguments(name, *sources))
            for name, member in self.members.items()
        }

    def initial_state(
        self,
        memory: TensorDict,
        beam_width: int | Tensor = 1,
        alignments: bool = False,
        max_length: int | None = None,
    ) -> TensorDict:
        return self._joined_state(
            {
                name: member.initial_state(memory[name], beam_width, alignments, max_length)
                for name, member in self.members.items()
            }
        )

    def step(
        self, token_ids: Tensor, state: TensorDict, memory: TensorDict
    ) -> tuple[Tensor, TensorDict]:
        logits, states = {}, {}
        for name, member in self.members.items():
            own_state = self._member_state(name, state)
            logits[name], states[name] = member.step(token_ids, own_state, memory[name])
        return self.combine_logits(logits), self._joined_state(states)  # (B*K, V)

    def select(self, memory: TensorDict, rows: Tensor) -> TensorDict:
        return {name: member.select(memory[name], rows) for name, member in self.members.items()}

    @property
    def _first(self):
        """Tuple of the first member's name and the member."""
        return next(iter(self.members.items()))

    def first_token_ids(self, memory: TensorDict, start_token_id: int) -> Tensor:
        name, member = self._first
        return member.first_token_ids(memory[name], start_token_id)

    def primary_source(self, values: Any) -> Any:
        name, member = self._first
        return member.primary_source(self.member_arguments(name, values)["encoder_outputs"])

    def max_tokens(self, memory: TensorDict) -> int | Tensor | None:
        limits = [member.max_tokens(memory[name]) for name, member in self.members.items()]
        limits = [limit for limit in limits if limit is not None]
        return functools.reduce(ops.minimum, limits) if limits else None

    @property
    def max_prompt_length(self) -> int | None:
        return _least(member.max_prompt_length for member in self.members.values())

    @property
    def can_exceed_max_length(self) -> bool:
        # On backends where tensors cannot grow, the default of each decoder is `False`, so a single
        # `True` was set explicitly.
        of_these = all if growing_buffer.supports_growth() else any
        return of_these(member.can_exceed_max_length for member in self.members.values())

    @property
    def reads_prompts(self) -> bool:
        return all(member.reads_prompts for member in self.members.values())

    @property
    def forbids_tokens(self) -> bool:
        return any(member.forbids_tokens for member in self.members.values())

    @property
    def cache_block_size(self) -> int | None:
        return _least(member.cache_block_size for member in self.members.values())

    @cache_block_size.setter
    def cache_block_size(  # pyright: ignore[reportIncompatibleVariableOverride] - of all members
        self, steps: int | None
    ) -> None:
        for member in self.members.values():
            member.cache_block_size = steps

    def archive(self, state: TensorDict) -> TensorDict:
        states = {name: self._member_state(name, state) for name in self.members}
        for name, member in self.members.items():
            if member.cache_block_size is not None:
                states[name] = member.archive(states[name])
        return self._joined_state(states)

    @property
    def can_widen(self) -> bool:
        return all(member.can_widen for member in self.members.values())

    def widen(self, state: TensorDict, steps: int) -> TensorDict:
        return self._joined_state(
            {
                name: member.widen(self._member_state(name, state), steps)
                for name, member in self.members.items()
            }
        )

    def _joined_state(self, states):
        """Combines all members' states into one state."""
        state = {"members": {}, "shared": {}}
        for name, own_state in states.items():
            state["members"][name] = {
                part: value for part, value in own_state.items() if part != "shared"
            }
            if "shared" in own_state:
                state["shared"][name] = own_state["shared"]
        alignments = self.combine_alignments(
            {name: own["alignments"] for name, own in states.items() if "alignments" in own}
        )
        return state if alignments is None else {**state, "alignments": alignments}

    def _member_state(self, name, state):
        """Returns the state of one member."""
        own_state, shared = state["members"][name], state["shared"]
        return {**own_state, "shared": shared[name]} if name in shared else own_state


def common_vocabulary_size(decoders: Iterable[StepDecoder]) -> int | None:
    """Returns the decoders' vocabulary size, or `None` if all sizes are unknown.

    Raises:
        ValueError: If the sizes differ.
    """
    sizes = [get_vocabulary_size(decoder) for decoder in decoders]
    known = set(sizes) - {None}
    if len(known) > 1:
        raise ValueError(
            f"Expected decoders with the same target vocabulary. Received: vocabulary sizes {sizes}"
            ". Train all models with the same target tokenizer."
        )
    return next(iter(known), None)


def _least(numbers):
    """Returns the minimum of the numbers that are not `None`, or `None`."""
    return min((number for number in numbers if number is not None), default=None)
