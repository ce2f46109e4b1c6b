"""How many blocks of keys and values there is room for, before any memory is taken: by the formulas of infersize.

What does not fit is refused at start, with what would.
"""

from dataclasses import dataclass
from pathlib import Path

import torch

from pycore.errors import InputError
from pycore.units import binary_bytes
from pycore.vram.kv import per_token
from runtime.memory import physical_bytes
from runtime.mini_infer.arithmetic import native
from runtime.mini_infer.kv_formats import BITS, KvFormat, kv_format, plain_name
from runtime.models.configuration import Configuration

MEMORY, LIMITS = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
SHARE = 4  # of the free memory, blocks take at most one part in so many where nobody said how many


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A pool as it was decided: blocks on the device and what one of them takes."""

    blocks: int
    block_bytes: int

    @property
    def bytes(self) -> int:
        return self.blocks * self.block_bytes


def weight_bytes(one: Configuration, dtype: torch.dtype) -> int:
    """Bytes that the weights take in these numbers."""
    return one.parameters * dtype.itemsize


def token_bytes(one: Configuration, kept: KvFormat) -> int:
    """Bytes that one token's keys and values take in all layers."""
    return int(per_token(one.shape(), kept.format, kept.format).value)


def free_bytes(device: torch.device | str) -> int | None:
    """Bytes that can still be had on a device; None where nothing says so."""
    kind = torch.device(device).type
    if kind == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if kind == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.current_allocated_memory()
    there = _available() or physical_bytes()  # where the kernel does not say what is free (macOS), no more can be had
    return min((found for found in (there, _below_limit()) if found is not None), default=None)


def _available() -> int | None:
    """What the kernel says that programs can still have."""
    try:
        lines = dict(line.split(":", 1) for line in MEMORY.read_text(encoding="ascii").splitlines())
        return int(lines["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return None


def _below_limit() -> int | None:
    """What a container's limit leaves."""
    try:
        most = int((LIMITS / "memory.max").read_text(encoding="ascii"))  # "max" where there is none
        return max(0, most - int((LIMITS / "memory.current").read_text(encoding="ascii")))
    except (OSError, ValueError):
        return None


def refuse_weights(one: Configuration, dtype: torch.dtype, device: torch.device | str) -> None:
    """Raise InputError where a model's weights do not fit what is free, with the numbers that would."""
    need, free = weight_bytes(one, dtype), free_bytes(device)
    if free is None or need <= free:
        return
    half = need * 2 // dtype.itemsize
    sixteen = any(native(numbers, device) for numbers in (torch.bfloat16, torch.float16))
    way = ("in 16 bits they take " + binary_bytes(half) if sixteen and dtype.itemsize > 2 and half <= free
           else "a smaller model, or a device with more memory")
    raise InputError("model", f"weights of {binary_bytes(need)} in {plain_name(dtype)}",
                     f"{binary_bytes(free)} are free on {device}; {way}")


def refuse_host(blocks: int, room: Room, device: torch.device | str) -> None:
    """Raise InputError where so many blocks of main memory do not fit beside the pool, with how many would."""
    free = free_bytes("cpu")
    if not blocks or free is None:
        return
    left = max(0, free - room.bytes) if torch.device(device).type == "cpu" else free
    if blocks * room.block_bytes > left:
        raise InputError("host_blocks", blocks, f"{binary_bytes(left)} of main memory are free: room for "
                                                f"{left // room.block_bytes:,} blocks of {room.block_bytes:,} bytes")


def pool(one: Configuration, kept: KvFormat, *, block_size: int, length: int, sequences: int, blocks: int = 0,
         memory_bytes: int = 0, free: int | None = None, beside: int = 0) -> Room:
    """The pool for texts of up to `length` tokens: so many blocks, or what fits into so many bytes, or (both 0) what the
    sequences can fill, within the free memory's share. `beside`: bytes that a token takes in a draft model's cache.

    Raises InputError where that is more than is free (None: not known), or holds not even one text.
    """
    each = (token_bytes(one, kept) + beside) * block_size
    whole = -(-length // block_size)  # blocks of one text
    if blocks or memory_bytes:
        found, field = (blocks, "kv_blocks") if blocks else (memory_bytes // each, "kv_memory_bytes")
        if free is not None and found * each > free:
            raise InputError(field, blocks or memory_bytes, _fitting(one, kept, found * each, block_size, free, beside))
        if not found:
            raise InputError(field, memory_bytes, f"one block of {block_size} tokens takes {each:,} bytes")
        return Room(blocks=found, block_bytes=each)
    most = whole * sequences
    found = most if free is None else min(most, free // SHARE // each)
    if found < min(whole, most):  # rather all that is free than a pool that holds no whole text
        found = min(whole, (free or 0) * 9 // 10 // each)
        if found < whole:
            raise InputError("max_model_length", length, _fitting(one, kept, whole * each, block_size, free or 0, beside))
    return Room(blocks=found, block_bytes=each)


def _fitting(one: Configuration, kept: KvFormat, need: int, block_size: int, free: int, beside: int) -> str:
    """What is free holds how many tokens, in this format and in smaller ones."""
    def tokens(name: str) -> int:
        return free // ((token_bytes(one, kv_format(name, kept.head_width)) + beside) * block_size) * block_size

    smaller = [name for name in ("float16", "int8", "int4") if BITS[name] < BITS[kept.name]]
    others = "".join(f", in {name} {tokens(name):,}" for name in smaller)
    return (f"it takes {binary_bytes(need)} for keys and values and {binary_bytes(free)} are free: room for "
            f"{tokens(kept.name) // block_size:,} blocks, {tokens(kept.name):,} tokens in {kept.name}{others}")
