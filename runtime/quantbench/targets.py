"""The projections of a model: which modules, in which layer, and what they do.

Found by where they stand (the longest list of equal blocks) and what they are called, so that models of `transformers`
(Llama, Qwen2, Qwen3, GPT-2) and our own are treated alike, without importing anything of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from pycore.errors import InputError
from runtime.quantbench.linear import QuantLinear

PROJECTIONS = {"q_proj": "q", "k_proj": "k", "v_proj": "v", "o_proj": "o", "gate_proj": "gate", "up_proj": "up",
               "down_proj": "down", "c_attn": "qkv", "c_fc": "up", "qkv_proj": "qkv", "gate_up_proj": "gate-up"}
BY_PARENT = {("attn", "c_proj"): "o", ("mlp", "c_proj"): "down"}  # GPT-2 calls both the same


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Target:
    """A projection: its name in the model, layer and role, and the module that holds it."""

    name: str
    layer: int
    projection: str
    parent: nn.Module
    attribute: str

    @property
    def module(self) -> nn.Module:
        """What stands there now."""
        return getattr(self.parent, self.attribute)

    @property
    def transposed(self) -> bool:
        """Whether the weight is (inputs, outputs), as GPT-2's Conv1D has it."""
        return type(self.module).__name__ == "Conv1D"

    @property
    def quantised(self) -> bool:
        """Whether it is packed already."""
        return isinstance(self.module, QuantLinear)

    def weight(self) -> Tensor:
        """Its weight as (outputs, inputs), float32."""
        if self.quantised:
            return self.module.weight()
        weight = self.module.weight.detach().float()
        return weight.T.contiguous() if self.transposed else weight

    def bias(self) -> Tensor | None:
        """Its bias, if it has one."""
        return getattr(self.module, "bias", None)

    def replace(self, module: nn.Module) -> None:
        """Put another module in its place."""
        setattr(self.parent, self.attribute, module)


def blocks(model: nn.Module) -> tuple[str, nn.ModuleList]:
    """(name, list) of the model's blocks. Raises InputError where there is none."""
    found = [(name, module) for name, module in model.named_modules() if isinstance(module, nn.ModuleList) and len(module)]
    if not found:
        raise InputError("model", type(model).__name__, "it needs a list of blocks (nn.ModuleList)")
    return max(found, key=lambda pair: (len(pair[1]), -len(pair[0])))


def targets(model: nn.Module) -> tuple[Target, ...]:
    """Every projection, in the order of the model. Raises InputError where there is none."""
    name, found = blocks(model)
    every = tuple(target for layer, block in enumerate(found) for target in within(block, f"{name}.{layer}", layer))
    if not every:
        raise InputError("model", type(model).__name__, "none of its linear layers is called " + ", ".join(PROJECTIONS))
    return every


def within(block: nn.Module, prefix: str, layer: int) -> Iterator[Target]:
    """The projections of one block."""
    for path, module in block.named_modules():
        parent_path, _, attribute = path.rpartition(".")
        role = PROJECTIONS.get(attribute) or BY_PARENT.get((parent_path.rpartition(".")[2], attribute))
        if role and (isinstance(module, nn.Linear | QuantLinear) or type(module).__name__ == "Conv1D"):
            yield Target(name=f"{prefix}.{path}", layer=layer, projection=role, attribute=attribute,
                         parent=block.get_submodule(parent_path))
