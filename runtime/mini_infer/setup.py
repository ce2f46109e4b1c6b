"""An engine out of the choices made at its start."""

from collections.abc import Callable
from dataclasses import dataclass

from pycore.errors import InputError, UnknownName
from pycore.serving.blocks import BlockPool
from pycore.serving.limits import Limits
from pycore.serving.scheduler import Scheduler
from pycore.systems.mini_infer_setup import N_GRAM, Choices, policy
from runtime.mini_infer import autotune, projections
from runtime.mini_infer.cache import Cache
from runtime.mini_infer.engine import Engine
from runtime.mini_infer.kv_formats import KvFormat, kv_format, plain_name
from runtime.mini_infer.model import Model
from runtime.mini_infer.room import Room, free_bytes, pool, refuse_host, token_bytes
from runtime.mini_infer.speculation import Speculation

Say = Callable[[str], None]


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
        """The format of keys and values. Raises InputError where the device has no such numbers."""
        name = plain_name(model.dtype) if self.kv_format == "auto" else self.kv_format
        if name == "fp8" and model.device.type == "mps":
            raise InputError("kv_format", name, "accepted on mps, which has no 8-bit floats: int8, int4, or 16 and 32 bits")
        return kv_format(name, model.configuration.head_width)

    def room(self, model: Model, draft: Model | None = None) -> Room:
        """The pool that there is memory for, with the same tokens in the cache of a draft model. Raises InputError."""
        beside = token_bytes(draft.configuration, self._plain(draft)) if draft else 0
        return pool(model.configuration, self.kept(model), block_size=self.block_size, length=self.length(model),
                    sequences=self.max_sequences, blocks=self.kv_blocks, memory_bytes=self.kv_memory_bytes,
                    free=free_bytes(model.device), beside=beside)

    def speculation(self, model: Model, say: Say) -> Speculation | None:
        """How tokens are drafted; None where they are not. A draft model is opened here. Raises StudioError."""
        if not self.draft:
            return None
        if self.draft == N_GRAM:
            return Speculation(tokens=self.draft_tokens)
        draft = self._draft(model, say)
        prepare(draft, "auto", say)
        return Speculation(tokens=self.draft_tokens, draft=draft)

    def engine(self, model: Model, say: Say = lambda text: None) -> Engine:
        """The engine for an opened model. `say` is told what was decided for this machine.

        The model's projections are replaced by faster ones, in place. Raises InputError for what does not fit together,
        the model or the memory; StudioError where a draft model cannot be opened.
        """
        self.checked()
        speculation = self.speculation(model, say)
        limits = Limits(max_sequences=self.max_sequences, max_batched_tokens=self.max_batched_tokens,
                        max_model_length=self.length(model), draft_tokens=speculation.tokens if speculation else 0)
        room, kept = self.room(model, speculation.draft if speculation else None), self.kept(model)
        refuse_host(self.host_blocks, room, model.device)
        prepare(model, self.linear, say)
        blocks = BlockPool(room.blocks, self.block_size, prefix_caching=self.prefix_caching)
        scheduler = Scheduler(policy(self.policy), blocks, limits, preemption=self.preemption, host_blocks=self.host_blocks,
                              block_bytes=room.block_bytes)
        cache = Cache(model.configuration, room.blocks, self.block_size, host_blocks=self.host_blocks,
                      dtype=model.dtype, device=model.device, kept=kept)
        return Engine(model, scheduler, cache=cache, speculation=speculation)

    def _draft(self, model: Model, say: Say) -> Model:
        """The draft model, opened once its words are as many as the model's."""
        from runtime.mini_infer import files, source
        try:
            path = source.find(self.draft, say)
        except UnknownName as error:
            raise InputError("draft", self.draft, f"{error.accepted}, or {N_GRAM}") from None
        theirs = files.configuration_of(path).vocabulary
        if theirs != model.configuration.vocabulary:
            raise InputError("draft", f"{self.draft}, of {theirs:,} tokens",
                             f"accepted: a model with the same {model.configuration.vocabulary:,} tokens")
        return source.open_source(str(path), dtype=plain_name(model.dtype), device=str(model.device), say=say).model

    @staticmethod
    def _plain(model: Model) -> KvFormat:
        return kv_format(plain_name(model.dtype), model.configuration.head_width)


def prepare(model: Model, linear: str, say: Say) -> None:
    """Make a model's projections fast, in place: once, whatever else is asked of it later.

    Where 8 bits are asked for and this machine has no kernel for them, float32 stands in, and that is said.
    Raises InputError for a model that was put into 8 bits before and is asked for in float32.
    """
    eight = linear.startswith("int8")
    if isinstance(model.head, projections.Eight):
        if not eight or (linear == "int8-fine") != model.head.fine:
            raise InputError("linear", linear, "this model was put into 8 bits before; open it anew")
        return
    if eight:
        if projections.eight(model, fine=linear == "int8-fine"):
            say(f"projections in 8 bits ({linear})")
            return
        say(f"this machine has no 8-bit kernel for this model: {plain_name(model.dtype)} stands in")
    if linear != "float32" and not isinstance(model.head, projections.Tuned):
        say("projections: " + autotune.tune(model))
