"""Keys and values in physical blocks, on the device and (for preemption by swap) on the host.

Which block holds what is the control plane's business; here blocks are written, gathered, copied and moved. A block's
memory is one row of one tensor, so that copying it or moving it is one operation for all layers.
"""

import torch
from torch import Tensor

from pycore.errors import InputError
from pycore.serving.plan import StepPlan, Swap
from runtime.mini_infer.kv_formats import KvFormat, hadamard, kv_format, plain_name
from runtime.models.configuration import Configuration


class Cache:
    """`blocks` blocks of `block_size` tokens: (layers, keys or values, blocks, block size, kv heads, row of `kept`).

    `storage` is what is reserved; `host` the same for swapped blocks, None without any. `dtype` is what is read out of it,
    and, where no format says otherwise, what is kept. Raises InputError where there is no memory for it, or no such format.
    """

    def __init__(self, configuration: Configuration, blocks: int, block_size: int, *, host_blocks: int = 0,
                 dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu", kept: KvFormat | None = None):
        one = configuration
        self.block_size, self.kv_heads, self.head_width, self.dtype = block_size, one.kv_heads, one.head_width, dtype
        self.kept = kept or kv_format(plain_name(dtype), one.head_width)
        self.plain = self.kept.stored == dtype
        self.rotation = hadamard(one.head_width, dtype, device) if self.kept.turns else None
        inner = (block_size, one.kv_heads, self.kept.row)
        try:
            # Zeros, not whatever was there: what a mask hides is multiplied by 0, and 0 x NaN is NaN.
            self.storage = torch.zeros((one.layers, 2, blocks, *inner), dtype=self.kept.stored, device=device)
            self.host = torch.zeros((one.layers, 2, host_blocks, *inner), dtype=self.kept.stored) if host_blocks else None
        except (RuntimeError, MemoryError):
            size = 2 * one.layers * block_size * one.kv_heads * self.kept.row_bytes
            raise InputError("blocks", blocks, f"as many as memory holds; each of them takes {size:,} bytes") from None
        # Of each layer, blocks of keys and then blocks of values as lines of one table: torch gathers such lines with all
        # threads, and from the middle of a tensor with one.
        self.pages = self.storage.view(one.layers, 2 * blocks, -1).unbind()
        self.values_at = torch.tensor([[0], [blocks]], device=device)

    @property
    def device(self) -> torch.device:
        return self.storage.device

    @property
    def bytes_per_block(self) -> int:
        """Bytes that one block takes."""
        return self.storage[:, :, 0].numel() * self.storage.element_size()

    def turned(self, x: Tensor) -> Tensor:
        """Queries (..., head width) as the keys here are turned; and what attention found, turned back."""
        return x if self.rotation is None else x @ self.rotation

    def places(self, slots: Tensor) -> Tensor:
        """Where keys and then values of slots (n), block x block size + place, are in every layer: (2n), for `write`."""
        return (slots + self.values_at * self.block_size).flatten()

    def lines(self, tables: Tensor) -> Tensor:
        """Where keys and values of block tables (n, blocks) are in every layer: (2, n, blocks), for `read`."""
        return tables + self.values_at[:, :, None]

    def write(self, layer: int, places: Tensor, keys: Tensor, values: Tensor) -> None:
        """Put keys and values (n, kv heads, head width) of n tokens into their places (2n)."""
        new = torch.cat([keys, values])
        rows = new if self.plain else self.kept.encode(self.turned(new))
        self.pages[layer].view(-1, self.kv_heads, self.kept.row).index_copy_(0, places, rows)

    def read(self, layer: int, lines: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of lines (2, n, blocks), each (n, kv heads, blocks x block size, head width)."""
        gathered = self.pages[layer].index_select(0, lines.flatten())
        gathered = gathered.view(-1, self.kv_heads, self.kept.row)
        if not self.plain:
            gathered = self.kept.decode(gathered, self.dtype)
        shape = (2, lines.shape[1], lines.shape[2] * self.block_size, self.kv_heads, self.head_width)
        keys, values = gathered.view(shape).transpose(2, 3)
        return keys, values

    def move(self, plan: StepPlan) -> None:
        """What a plan moves before its step runs: blocks to the host, copies on write, blocks back from the host."""
        for swap in plan.swapped_out:
            device, host = self._pairs(swap)
            self.host[:, :, host] = self.storage[:, :, device.to(self.device)].to("cpu")
        for source, target in plan.copies:
            self.storage[:, :, target] = self.storage[:, :, source]
        for swap in plan.swapped_in:
            device, host = self._pairs(swap)
            self.storage[:, :, device.to(self.device)] = self.host[:, :, host].to(self.device)

    @staticmethod
    def _pairs(swap: Swap) -> tuple[Tensor, Tensor]:
        return torch.tensor(swap.device_blocks, dtype=torch.long), torch.tensor(swap.host_blocks, dtype=torch.long)

    def blank(self, blocks: list[int]) -> None:
        """Set blocks to zero."""
        self.storage[:, :, torch.tensor(blocks, dtype=torch.long, device=self.device)] = 0
