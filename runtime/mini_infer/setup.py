"""An engine out of the choices made at its start."""

from dataclasses import dataclass
from typing import Protocol

from pycore.errors import InputError
from pycore.serving.blocks import BlockPool
from pycore.serving.limits import Limits
from pycore.serving.scheduler import Scheduler
from pycore.systems.mini_infer_setup import Choices, policy
from runtime.mini_infer.cache import Cache
from runtime.mini_infer.engine import Engine
from runtime.mini_infer.kv_formats import KvFormat, kv_format, plain_name
from runtime.mini_infer.model import Model
from runtime.mini_infer.room import Room, free_bytes, pool


class Source(Protocol):
    """What an engine needs of an opened model (`source.open_source`)."""

    model: Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup(Choices):
    """The choices, and the engine that they make. `Setup(**fields)` takes values of each field's type;
    `Setup.of(choices)` the choices as a command line read them."""

    @classmethod
    def of(cls, choices: Choices) -> "Setup":
        """The same choices, able to make an engine."""
        return cls(**{name: getattr(choices, name) for name in Choices.__dataclass_fields__})

    def length(self, model: Model) -> int:
        """Tokens of the longest text. Raises InputError for one beyond the model's context."""
        context = model.configuration.context
        if self.max_model_length > context:
            raise InputError("max_model_length", self.max_model_length, f"at most the model's context, {context}")
        return self.max_model_length or context

    def kept(self, model: Model) -> KvFormat:
        """The format of keys and values."""
        name = plain_name(model.dtype) if self.kv_format == "auto" else self.kv_format
        return kv_format(name, model.configuration.head_width)

    def room(self, model: Model) -> Room:
        """The pool that there is memory for. Raises InputError."""
        return pool(model.configuration, self.kept(model), block_size=self.block_size, length=self.length(model),
                    sequences=self.max_sequences, blocks=self.kv_blocks, memory_bytes=self.kv_memory_bytes,
                    free=free_bytes(model.device))

    def engine(self, source: Source) -> Engine:
        """The engine for a model that is open. Raises InputError for what does not fit together, the model or the memory."""
        self.checked()
        model, limits = source.model, Limits(max_sequences=self.max_sequences, max_batched_tokens=self.max_batched_tokens,
                                             max_model_length=self.length(source.model))
        room, kept = self.room(model), self.kept(model)
        blocks = BlockPool(room.blocks, self.block_size, prefix_caching=self.prefix_caching)
        scheduler = Scheduler(policy(self.policy), blocks, limits, preemption=self.preemption, host_blocks=self.host_blocks,
                              block_bytes=room.block_bytes)
        cache = Cache(model.configuration, room.blocks, self.block_size, host_blocks=self.host_blocks,
                      dtype=model.dtype, device=model.device, kept=kept)
        return Engine(model, scheduler, cache=cache)
