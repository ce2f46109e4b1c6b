"""What the planned deployment can serve, in the words the engine will use in its own log."""

from dataclasses import dataclass

from pycore.ledger import Term, term
from pycore.nouns import Deployment
from pycore.units import GIB, MIB
from pycore.vram import quick
from pycore.vram.engines import Engine, engine
from pycore.vram.plan import MemoryPlan
from pycore.vram.reservation import Reservation, capacity_tokens, concurrency


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Per replica, except `max_sequences`, which counts all replicas together."""

    kv_tokens: Term  # as the engine counts them
    blocks: Term
    max_context: Term  # one sequence alone
    max_sequences: Term  # at the asked context
    concurrency: Term  # of the asked context, as a fraction
    log_lines: tuple[str, ...]


@term("KV tokens", "tokens", source="vllm kv_cache_utils _report_kv_cache_config (from 0.21)")
def tokens_by_concurrency(blocks, blocks_per_sequence, context):
    """floor(blocks / blocks_per_sequence × context)"""
    return int(blocks / blocks_per_sequence * context)


@term("KV tokens", "tokens", source="vllm until 0.20: blocks over page groups")
def tokens_by_groups(blocks, page_groups, block_tokens):
    """floor(blocks / page_groups) × block_tokens"""
    return blocks // page_groups * block_tokens


@term("KV tokens", "tokens", source="tokens of the pool after the state slots")
def tokens_of_pool(pool, states, block_bytes, block_tokens):
    """floor(max(0, pool - states) / block_bytes) × block_tokens"""
    return max(0, pool - states) // block_bytes * block_tokens


@term("KV tokens", "tokens", source="whole sequences of the asked context")
def tokens_of_sequences(pool, bytes_per_sequence, context):
    """floor(pool / bytes_per_sequence) × context"""
    return pool // bytes_per_sequence * context


@term("Blocks", "blocks")
def block_count(pool, block_bytes):
    """floor(pool / block_bytes)"""
    return pool // block_bytes


@term("Longest context at one sequence", "tokens", source="bisection on what one sequence reserves")
def longest(pool, limit, answer):
    """the longest sequence, up to limit, that the pool holds alone"""
    return answer


@term("Most sequences at this context", "sequences", source="bisection: each more also costs logits and graphs")
def most(context, replicas, answer):
    """the most sequences of that context that fit on replicas together"""
    return answer


@term("Concurrency", "x")
def times(blocks, blocks_per_sequence):
    """blocks / blocks_per_sequence"""
    return blocks / blocks_per_sequence


def capacity(deployment: Deployment, plan: MemoryPlan) -> Capacity:
    """What the pool holds. The longest context is bounded by the model's own (`max_context`)."""
    profile, reservation, pool = engine(deployment.engine), plan.reservation, plan.pool.value
    prepared = quick.prepare_deployment(deployment)
    asked = quick.card(prepared, deployment.accelerator, deployment.context, **quick.settings(deployment))
    sequences = quick.most(prepared, asked) * deployment.parallel.data
    context = reservation.longest(pool, deployment.model.max_context)
    blocks = block_count(pool=plan.pool, block_bytes=reservation.block_bytes)
    per_sequence = max(1, reservation.sequence_blocks(deployment.context))
    return Capacity(
        kv_tokens=tokens_term(deployment, profile, plan), blocks=blocks,
        max_context=longest(pool=plan.pool, limit=deployment.model.max_context, answer=context),
        max_sequences=most(context=deployment.context, replicas=deployment.parallel.data, answer=sequences),
        concurrency=times(blocks=blocks.value, blocks_per_sequence=per_sequence),
        log_lines=log_lines(deployment, profile, plan, reservation, pool))


def tokens_term(deployment: Deployment, profile: Engine, plan: MemoryPlan) -> Term:
    """Tokens as this engine counts them, explained."""
    reservation, pool = plan.reservation, plan.pool
    blocks = block_count(pool=pool, block_bytes=reservation.block_bytes)
    if profile.hybrid == "by window":
        each = max(1, reservation.sequence_blocks(deployment.context))
        return tokens_by_concurrency(blocks=blocks, blocks_per_sequence=each, context=deployment.context)
    if profile.hybrid == "as full":
        return tokens_by_groups(blocks=blocks, page_groups=reservation.page_groups,
                                block_tokens=reservation.block_tokens)
    if profile.hybrid == "pools":
        states = plan.sequences * sum(share.unit_bytes * share.fixed for share in reservation.shares)
        return tokens_of_pool(pool=pool, states=states, block_bytes=reservation.block_bytes,
                              block_tokens=reservation.block_tokens)
    return tokens_of_sequences(pool=pool, bytes_per_sequence=max(1, reservation.sequence_bytes(deployment.context)),
                               context=deployment.context)


def log_lines(deployment: Deployment, profile: Engine, plan: MemoryPlan, reservation: Reservation,
              pool: int) -> tuple[str, ...]:
    """The lines that the engine prints at start-up, with our figures."""
    tokens = capacity_tokens(reservation, profile, pool, deployment.context, plan.sequences)
    if profile.memory_rule == "total":
        return (f"Model loading took {plan.weights.value / GIB:.2f} GiB memory",
                f"Available KV cache memory: {pool / GIB:.2f} GiB",
                f"GPU KV cache size: {tokens:,} tokens",
                f"Maximum concurrency for {deployment.context:,} tokens per request: "
                f"{concurrency(reservation, pool, deployment.context):.2f}x")
    if profile.memory_rule == "static":
        return (f"max_total_num_tokens={tokens}, max_running_requests={plan.sequences}, "
                f"context_len={deployment.context}",)
    if profile.id == "llama.cpp":
        return (f"llama_kv_cache: size = {plan.kv.value / MIB:.2f} MiB ({deployment.context} cells)",
                f"compute buffer size = {plan.activations.value / MIB:.2f} MiB",
                f"model buffer size = {plan.weights.value / MIB:.2f} MiB")
    return ()
