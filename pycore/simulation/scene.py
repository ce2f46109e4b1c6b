"""From names to an engine that can be simulated: the machine, its KV pool as infersize sizes it, its step times."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from pycore.errors import InputError, NotKnown
from pycore.ledger import Term, fact
from pycore.nouns import Deployment
from pycore.roofline.interconnect import joined_by
from pycore.roofline.question import question, tokens_a_step
from pycore.serving.limits import Limits
from pycore.serving.policies.contract import Policy
from pycore.serving.policies.named import BY_NAME
from pycore.serving.policies.slo_aware import SloAware
from pycore.simulation.costs.custom import read_cost
from pycore.simulation.costs.overhead import Overhead
from pycore.simulation.costs.profile import packaged
from pycore.simulation.costs.roofline import RooflineCost
from pycore.simulation.costs.tables import TableCost, largest_captured, tables_for
from pycore.simulation.costs.work import StepCost, StepWork
from pycore.simulation.server import Engine
from pycore.units import GIB
from pycore.vram.capacity import capacity
from pycore.vram.plan import MemoryPlan, memory

POLICIES: dict[str, Callable[[], Policy]] = BY_NAME | {"disaggregated": BY_NAME["chunked"]}
SWAP_GIB = 4
"""Host memory for swapped blocks, per device: vLLM's default --swap-space until it was removed in v1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A machine ready to be simulated under any policy. `cost_name` says where step times come from."""

    deployment: Deployment
    cost: StepCost
    cost_name: str
    blocks: Term
    block_bytes: int
    host_bytes_per_s: float
    link_bytes_per_s: float


def scene(deployment: Deployment, *, cost: str, custom: str, overhead_us: float, kv_blocks: int, block_size: int,
          max_sequences: int, link_gb_s: float) -> Scene:
    """Size the pool and prepare the step times. Raises InputError, NotKnown.

    A pool that holds no block is refused: the model does not fit beside it.
    """
    sized = replace(deployment, sequences=max_sequences)
    plan = memory(sized)
    token_bytes = max(1, round(plan.kv_bytes_per_token.value))
    blocks = pool_blocks(sized, plan, kv_blocks, block_size, token_bytes)
    times, name = step_times(deployment, cost, custom, max_sequences)
    if overhead_us:
        times = Overhead(cost=times, per_step_ns=round(overhead_us * 1000))
    card = deployment.accelerator
    return Scene(deployment=deployment, cost=times, cost_name=name, blocks=blocks, block_bytes=token_bytes * block_size,
                 host_bytes_per_s=card.pcie_bytes_per_s_one_way or 0.0,
                 link_bytes_per_s=link_gb_s * 1e9 or joined(deployment))


def pool_blocks(deployment: Deployment, plan: MemoryPlan, given: int, block_size: int, token_bytes: int) -> Term:
    """Blocks of one replica's pool: given, or what the engine would resolve. Raises InputError where there is none."""
    if given:
        return fact("KV blocks", given, "blocks", basis="given", source="the question")
    found = capacity(deployment, plan).kv_tokens
    if found.value < block_size:
        refuse_large_steps(deployment, plan, block_size)
        raise InputError("hardware", deployment.accelerator.name,
                         f"accepted: a machine that holds {deployment.model.name} in {deployment.weights.name} with room "
                         "for a KV block; infersize plan shows what would make it fit, or give kv_blocks")
    return replace(found, name="KV blocks", value=int(found.value) // block_size, unit="blocks", low=None, high=None,
                   formula=f"floor(({found.formula}) / {block_size})")


def refuse_large_steps(deployment: Deployment, plan: MemoryPlan, block_size: int) -> None:
    """Where steps of the engine's own size would leave a block, it is the tokens a step that fill the card. Raises
    InputError then."""
    usual = replace(deployment, max_batched_tokens=0)
    if deployment.max_batched_tokens and capacity(usual, memory(usual)).kv_tokens.value >= block_size:
        raise InputError("max_batched_tokens", deployment.max_batched_tokens,
                         f"accepted on {deployment.accelerator.name}: fewer, what such a step computes with takes "
                         f"{plan.activations.text} and leaves no KV block; 0 is the engine's own {tokens_a_step(usual):,}")


def step_times(deployment: Deployment, cost: str, custom: str, max_sequences: int) -> tuple[StepCost, str]:
    """(the cost model, where it is from). auto: measured tables where they exist for this card, model and 16-bit weights."""
    if cost == "custom":
        return read_cost(custom), "your own table"
    if cost in ("auto", "tables"):
        try:
            found = tables_for(packaged(), deployment.accelerator.id, deployment.model.id)
            if deployment.weights.bits_per_weight == 16 and deployment.parallel.devices == 1:
                return TableCost(found, largest_captured(max_sequences)), f"measured kernels: {found.source}"
            raise InputError("cost", "tables", "measured kernels are of 16-bit weights on one device")
        except InputError:
            if cost == "tables":
                raise
    return RooflineCost(question(deployment).step), "roofline with fitted efficiencies (infersize's)"


def joined(deployment: Deployment) -> float:
    """Bytes/s one way between two devices of the card; 0 where no source says how they are joined."""
    try:
        return joined_by(deployment.accelerator, 2)[1]
    except NotKnown:
        return 0.0


def engine(found: Scene, policy: str, *, limits: Limits, prefix_caching: bool, preemption: str, block_size: int) -> Engine:
    """One replica under a policy. Raises InputError for swap on a machine whose host link no source gives."""
    if preemption == "swap" and not found.host_bytes_per_s:
        raise InputError("preemption", "swap", "no source gives this card's host link; accepted here: recompute")
    devices = found.deployment.parallel.devices
    return Engine(
        policy=made(policy, found.cost, limits), limits=limits, cost=found.cost, blocks=int(found.blocks.value),
        block_size=block_size,
        prefix_caching=prefix_caching, preemption=preemption, block_bytes=found.block_bytes, devices=devices,
        host_blocks=SWAP_GIB * GIB // found.block_bytes if preemption == "swap" else 0,
        swap_bytes_per_s=found.host_bytes_per_s)



def made(policy: str, cost: StepCost, limits: Limits) -> Policy:
    """A policy by name. Deadline slack needs to know what a prompt token takes: here its share of a step full of them."""
    found = POLICIES[policy]()
    if isinstance(found, SloAware):
        whole = StepWork(0, 0, 0, ((limits.step_tokens, 0),), 1)
        return replace(found, prefill_ns_per_token=cost.step_ns(whole) // limits.step_tokens)
    return found
